---@meta lio.task
-- Definitions of `lio.task` for the Lua language server; docs/build.lua makes docs/api/lio.task.md of them.

---The task core: coroutines that wait on tokens and are woken. `lio.loop` drives it; a program takes
---these calls from there, and uses this module to build a scheduler of its own. A wakeup queues and never
---runs inside the waker; the order of wakeups is the order of runs. A task may wait inside coroutines of its
---own making (`lio.coroutine`); `lio.thread` has tasks that can be waited for.
---@class lio.task
local task = {}

---Makes a task, which runs after what is queued already.
---@param f function anything that can be called
---@param ... any its arguments
---@return thread co
function task.fork(f, ...) end

---Runs `f` as a task now, up to its first wait; inside a task it is as `fork`. For loops, on events.
---@param f function
---@param ... any its arguments
---@return thread? co only inside a task
function task.start(f, ...) end

---Runs `f` as a task now, up to its first wait, also inside a task, which then goes on. With 32 of these inside
---each other it is as `fork`.
---@param f function anything that can be called
---@param ... any its arguments
---@return thread co
function task.spawn(f, ...) end

---Waits until somebody wakes the token. Raises outside a task, where Lua cannot yield, inside a coroutine that the
---plain library resumed, and when somebody waits on the token already. One who waits on an object that nothing
---else refers to is lost: after a few cycles of the collector the task is reported to `on_error`, and killed.
---@param token? any default: the running coroutine
---@return any ... what `wakeup` was given
function task.wait(token) end

---Wakes who waits on the token.
---@param token any
---@param ... any what its `wait` returns
---@return true? woken nil when nobody waits
function task.wakeup(token, ...) end

---Makes the wait on the token raise.
---@param token any
---@param err any the error
---@return true? interrupted nil when nobody waits
function task.interrupt(token, err) end

---Tells whether somebody waits on the token.
---@param token any
---@return boolean
function task.is_waiting(token) end

---Tells whether the coroutine runs a task that has not ended.
---@param co thread
---@return boolean
function task.is_alive(co) end

---Ends a task at its wait, or before it began; its `<close>` variables run, those of the innermost coroutine
---first, and cannot wait. Raises for a task that runs, be it the caller or one that is in the middle of a call
---such as `spawn`. An error of a `<close>` variable goes to standard error.
---@param co thread the task's own coroutine
---@return true? killed nil when it is no living task's own
function task.kill(co) end

---Ends every task but those that run, and those that they fork while they end.
function task.kill_all() end

---Tells the running coroutine, the innermost: what `wait` without a token waits on.
---@return thread co
function task.running() end

---Tells the running task's own coroutine.
---@return thread? co nil outside of tasks
function task.current() end

---Tells whether a task can be killed now: it neither runs nor is in the middle of a call.
---@param co thread
---@return boolean idle false too when it is no living task's own coroutine
function task.is_idle(co) end

---Looks at a task, for `lio.tasks`.
---@param co thread the task's own coroutine
---@return number? age seconds since it was made; nil when it is no living task's own
---@return "running"|"ready"|"waiting" status
---@return thread[] members the coroutines that are resuming each other, from the innermost outwards
---@return "token"|"answer"|"timer"|"session"|nil kind what a waiting one waits on
---@return any value the token; the number of the service that is to answer
---@return integer? session of an answer, a timer or a session
function task.look(co) end

---Measures the running task's CPU time; differences between two calls are what counts. After the first call each resume
---of a task is measured.
---@return number? seconds nil outside of tasks
function task.busy() end

---Counts the tasks that have not ended.
---@return integer count
function task.count() end

---Lists the coroutines of the living tasks.
---@return thread[] list
function task.list() end

---Tells whether a task can run.
---@return boolean
function task.has_ready() end

---Runs what is queued now; what that queues is left for the next call, so that the caller can look after
---I/O in between. Raises inside a task.
---@return boolean more whether something is queued
function task.run_ready() end

---Sets who hears of waits that end without what they waited for: by an interrupt, a kill, or because the
---caller cannot wait. For those who hand turns round; one at a time.
---@param f fun(token: any)
function task.on_abandon(f) end

---Sets who hears of the ends of tasks that asked for it by `watch_end`; one at a time.
---@param f fun(co: thread) gets the task's own coroutine; must not wait
function task.on_end(f) end

---Makes `on_end`'s function hear of the end of the running task, however it ends. Nothing outside of tasks.
function task.watch_end() end

---Called with the error of a task that raised, or was lost; the coroutine still has its stack. Assign another
---function to log elsewhere than on standard error. What `lio.thread` reports comes without a coroutine, with
---the traceback in the message; in services the host's log is told in the place of this.
---@param message any
---@param co? thread
function task.on_error(message, co) end

return task
