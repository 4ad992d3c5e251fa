---@meta lio.task
-- Definitions of `lio.task` for the Lua language server. docs/build.lua generates docs/api/lio.task.md from them.

---The task core: coroutines that wait on tokens and are woken. `lio.loop` drives it and offers the calls that programs
---need; use this module to build a scheduler. A wakeup only appends the task to the ready queue: the task does not run
---inside the caller, and tasks run in the order of their wakeups. A task may wait inside coroutines that it created
---(`lio.coroutine`). For tasks that other tasks can wait for, see `lio.thread`.
---@class lio.task
local task = {}

---Creates a task and appends it to the ready queue.
---@param f function anything that can be called
---@param ... any the arguments of `f`
---@return thread co the task's own coroutine
function task.fork(f, ...) end

---Outside of tasks, runs `f` as a task until its first wait; loops use this for events. Inside a task, works like
---`fork`.
---@param f function
---@param ... any the arguments of `f`
---@return thread? co nil outside of tasks
function task.start(f, ...) end

---Runs `f` as a task until its first wait, even inside a task; then the caller continues. If 32 of these calls are
---nested, the next call works like `fork`.
---@param f function anything that can be called
---@param ... any the arguments of `f`
---@return thread co the task's own coroutine
function task.spawn(f, ...) end

---Suspends the running task until another task calls `wakeup` with the token. Raises outside a task, where Lua cannot
---yield, and inside a coroutine that the plain coroutine library resumed. Also raises if another task already waits on
---the token. If the token is an object that only the waiting task refers to, the task is lost: after a few cycles of
---the collector it is reported to `on_error` and killed.
---@param token? any any value except nil and NaN; default: the running coroutine
---@return any ... the values passed to `wakeup`
function task.wait(token) end

---Wakes the task that waits on the token.
---@param token any
---@param ... any the results of its `wait`
---@return true? woken nil if no task waits on the token
function task.wakeup(token, ...) end

---Makes the wait on the token raise an error.
---@param token any
---@param err any the error
---@return true? interrupted nil if no task waits on the token
function task.interrupt(token, err) end

---Reports whether a task waits on the token.
---@param token any
---@return boolean
function task.is_waiting(token) end

---Reports whether `co` is a task's own coroutine and the task has not ended.
---@param co thread
---@return boolean
function task.is_alive(co) end

---Kills a task that is waiting or ready. Its `<close>` variables are closed, starting with those of the innermost
---coroutine. A wait in a `__close` metamethod raises; an error in it is written to standard error. Raises if the task
---is running: it is the caller, or it is in the middle of a call such as `spawn`.
---@param co thread the task's own coroutine
---@return true? killed nil if `co` is not a task's own coroutine, or if the task has ended
function task.kill(co) end

---Kills every task that is not running, and every task that the killed tasks fork while they end.
function task.kill_all() end

---Returns the running coroutine: in nested coroutines, the innermost one. `wait` without a token waits on it.
---@return thread co
function task.running() end

---Returns the running task's own coroutine.
---@return thread? co nil outside of tasks
function task.current() end

---Reports whether a task can be killed now: it is not running and not in the middle of a call.
---@param co thread
---@return boolean idle also false if `co` is not the coroutine of a task, or if its task has ended
function task.is_idle(co) end

---Describes a task, for `lio.tasks`.
---@param co thread the task's own coroutine
---@return number? age seconds since the task was created; nil if `co` belongs to no task, or if the task has ended
---@return "running"|"ready"|"waiting" status
---@return thread[] members the task's nested coroutines, the innermost first
---@return "token"|"answer"|"timer"|"session"|nil kind what a waiting task waits for
---@return any value the token; for an answer the number of the service that was called
---@return integer? session the session, if the kind is `"answer"`, `"timer"` or `"session"`
function task.look(co) end

---Returns the CPU time of the running task. Only the difference between two readings is meaningful. After the first
---call, each resume of a task is measured.
---@return number? seconds nil outside of tasks
function task.busy() end

---Returns the number of tasks that have not ended.
---@return integer count
function task.count() end

---Returns the own coroutine of each task that has not ended.
---@return thread[] list
function task.list() end

---Reports whether a task is in the ready queue.
---@return boolean
function task.has_ready() end

---Runs the tasks that are in the ready queue now. Tasks that become ready meanwhile stay for the next call, so that the
---caller can do I/O in between. Raises inside a task.
---@return boolean more whether a task is in the ready queue
function task.run_ready() end

---Sets the callback for waits that end without their wakeup: because of an interrupt or a kill, or because the caller
---cannot wait. For code that keeps queues of waiting tasks. Replaces the previous callback.
---@param f fun(token: any)
function task.on_abandon(f) end

---Sets the callback for tasks that fail, and for tasks that end after they have called `watch_end`. Replaces the
---previous callback.
---@param f fun(co: thread) receives the task's own coroutine; must not wait
function task.on_end(f) end

---Makes lio call the callback of `on_end` when the running task ends: by a return, an error or a kill. Outside of
---tasks, does nothing.
function task.watch_end() end

---Called with the error of a task that raised or was lost; the coroutine still has its stack. The default function
---writes to standard error; assign another function to log elsewhere. For a failure in `lio.thread`, `co` is absent,
---and the message contains the traceback. In services, errors go to the host's log instead.
---@param message any
---@param co? thread
function task.on_error(message, co) end

return task
