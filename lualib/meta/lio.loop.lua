---@meta lio.loop
-- Definitions of `lio.loop` for the Lua language server. docs/build.lua generates docs/api/lio.loop.md from them.

---Tasks, timers and signals in one VM, without a scheduler. `loop.run(f)` runs `f` and the tasks that it forks. Inside
---these tasks, the calls of `lio.net` wait without blocking the thread. Times are in seconds and may have a fractional
---part; NaN raises. In a service of the scheduler, `sleep`, `timeout` and the calls of `lio.net` need no `run`: an I/O
---thread wakes the service. There `run` makes the service the owner of a loop, with a separate thread.
---@class lio.loop
---@field grace number seconds that a graceful stop waits for the handlers of servers; default 10; may be assigned
---@field watchdog number CPU seconds without a wait after which `run` reports a task; default 5; 0: never
---@field max_run_time number CPU seconds without a wait after which a task gets an error; default 0: never
---@field net lio.NetInstance the networking calls of this loop, to which `require "lio.net"` refers
local loop = {}

---Runs `f` as a task, and returns when every task has ended, when `stop` has ended the loop, or after SIGINT or
---SIGTERM, which start a graceful stop. A second SIGINT ends the loop at once. An error in `f` ends the loop, and `run`
---raises it with its traceback. An error in another task is logged. Raises if the loop is already running. Also raises
---if every task waits and nothing can wake one: the message lists what each task waits for, and where.
---@param f function
---@param ... any the arguments of `f`
---@return any ... the results of `f`
function loop.run(f, ...) end

---Reports whether `run` is active in this VM.
---@return boolean
function loop.is_running() end

---Reports whether a graceful stop is in progress.
---@return boolean
function loop.is_stopping() end

---Reports whether a wait on this loop can end: `run` is active, or a service owns the loop.
---@return boolean
function loop.drives() end

---Stops the loop gracefully: runs the stop hooks as tasks; when they have returned, kills the remaining tasks (their
---`<close>` variables are closed), and `run` returns. A second call ends the loop at once. If the loop is not running,
---does nothing.
---@param grace? number seconds for the hooks; default `loop.grace`
function loop.stop(grace) end

---Adds a stop hook. When a graceful stop begins, `f` runs as a task. The loop ends when all hooks have returned.
---@param f fun(grace: number) receives the number of seconds that it may take
---@param waits_for? fun(): string? returns what `f` is waiting for; printed if a stop by a signal takes over 1 s
---@return fun() forget removes the hook
function loop.on_stop(f, waits_for) end

---Creates a task and appends it to the ready queue.
---@param f function
---@param ... any the arguments of `f`
---@return thread co
function loop.fork(f, ...) end

---Suspends the running task until another task calls `wakeup` with the token. Raises outside a task, where Lua cannot
---yield, and inside a coroutine that the plain coroutine library resumed. Also raises if another task already waits on
---the token.
---@param token? any any value except nil and NaN; default: the running coroutine
---@return any ... the values passed to `wakeup`
function loop.wait(token) end

---Wakes the task that waits on the token. `wait()` and `sleep` wait on the running coroutine.
---@param token any
---@param ... any the results of its `wait`
---@return true? woken nil if no task waits on the token
function loop.wakeup(token, ...) end

---Makes the wait on the token raise an error.
---@param token any
---@param err any the error
---@return true? interrupted nil if no task waits on the token
function loop.interrupt(token, err) end

---Returns the running coroutine.
---@return thread co
function loop.running() end

---Kills a task that is waiting or ready. Its `<close>` variables are closed; a wait in a `__close` metamethod raises.
---Raises if the task is running: it is the caller, or it is in the middle of a call such as `thread.spawn`.
---@param co thread the task's own coroutine
---@return true? killed nil if `co` is not a task's own coroutine, or if the task has ended
function loop.kill(co) end

---Suspends the running task. 0 lets other ready tasks and I/O run first.
---@param seconds number a negative number counts as 0
---@return any ... nothing when the time has passed; the values of `wakeup(co, …)` if another task woke the task earlier
function loop.sleep(seconds) end

---Runs `f` in a new task when the time has passed. `run` does not return before then, unless the loop is stopped.
---@param seconds number a negative number counts as 0
---@param f fun()
---@return integer id for `cancel`
function loop.timeout(seconds, f) end

---Cancels a `timeout`.
---@param id integer
---@return boolean cancelled false if the timeout has fired or been cancelled, or the id is unknown
function loop.cancel(id) end

---Runs `f(name)` as a task each time the signal arrives. If `f` is nil, restores the previous behaviour: while the loop
---runs, SIGINT and SIGTERM start a graceful stop. `f` does not keep the loop or its service running. Raises for an
---unknown name.
---@param name lio.SignalName
---@param f? fun(name: lio.SignalName)
function loop.signal(name, f) end

---Reads the monotonic clock, as `lio.now` does.
---@return number seconds
function loop.now() end

---Records that this service owns the loop, so that calls that wait no longer raise. For `lio.service`.
---@private
function loop.own() end

---Lets the main loop of a service drive this VM, as `lio.service` does.
---@private
function loop.attach(descriptor, take, service) end

---Returns the text that `lio.tasks` shows for a token.
---@private
---@return string? text nil if the token does not belong to this loop
function loop.describe(token) end

---Reports whether SIGINT or SIGTERM has ended a `run`, for `lio.service`.
---@private
---@return boolean
function loop.was_signalled() end

return loop
