---@meta lio.loop
-- Definitions of `lio.loop` for the Lua language server; docs/build.lua makes docs/api/lio.loop.md of them.

---Tasks, timers and signals in one VM, without a scheduler. `loop.run(f)` runs `f` as a task, and what
---it forks; inside, `lio.net` waits without blocking the thread. Times are seconds, fractions allowed.
---@class lio.loop
---@field grace number seconds a graceful stop waits for the handlers of servers; 10, may be set
---@field net lio.NetInstance the networking calls of this loop, which `require "lio.net"` stands for
local loop = {}

---Runs until every task has ended, `stop` is called, or SIGINT or SIGTERM asks for an end. An error in
---`f` ends the loop and is raised here with its traceback; one in another task is logged. Raises when the
---loop runs already, and when every task waits and nothing is left that could wake one: the message tells what
---each waits for, and where.
---@param f function
---@param ... any its arguments
---@return any ... what `f` returned
function loop.run(f, ...) end

---Tells whether `run` is active in this VM.
---@return boolean
function loop.is_running() end

---Tells whether a graceful stop has begun and not ended yet.
---@return boolean
function loop.is_stopping() end

---Tells whether waits on this loop come to an end: `run` is active, or a service owns the loop.
---@return boolean
function loop.drives() end

---Ends the loop gracefully: the stop hooks run, then what is left is cancelled (`<close>` variables
---run), and `run` returns. A second call ends it at once; without a running loop nothing happens.
---@param grace? number seconds for the hooks; default `loop.grace`
function loop.stop(grace) end

---Adds a hook that runs as a task when a graceful stop begins; the loop ends when all hooks have returned.
---@param f fun(grace: number) gets the seconds it may take
---@param waits_for? fun(): string? what `f` waits for, for the line of a slow stop by a signal; nil: not worth a line
---@return fun() forget takes the hook back
function loop.on_stop(f, waits_for) end

---Makes a task, which runs after what is queued already.
---@param f function
---@param ... any its arguments
---@return thread co
function loop.fork(f, ...) end

---Waits until somebody wakes the token. Raises outside a task, where Lua cannot yield, inside a coroutine that the
---plain library resumed, and when somebody waits on the token already.
---@param token? any default: the running coroutine
---@return any ... what `wakeup` was given
function loop.wait(token) end

---Wakes who waits on the token; a coroutine is the token of its own `wait()` and `sleep`.
---@param token any
---@param ... any what its `wait` returns
---@return true? woken nil when nobody waits
function loop.wakeup(token, ...) end

---Makes the wait on the token raise.
---@param token any
---@param err any the error
---@return true? interrupted nil when nobody waits
function loop.interrupt(token, err) end

---Tells the running coroutine.
---@return thread co
function loop.running() end

---Ends a task at its wait; its `<close>` variables run, and cannot wait. A task that kills itself raises.
---@param co thread
---@return true? killed nil when it is no living task
function loop.kill(co) end

---Waits. 0 lets other tasks and I/O go first.
---@param seconds number negative counts as 0
---@return any ... nothing when the time is over; the values of `wakeup(co, …)` when that came first
function loop.sleep(seconds) end

---Forks `f` when the time is over; `run` waits for that.
---@param seconds number
---@param f fun()
---@return integer id for `cancel`
function loop.timeout(seconds, f) end

---Takes a `timeout` back.
---@param id integer
---@return boolean cancelled false when it has fired, or there is none
function loop.cancel(id) end

---Runs `f(name)` as a task whenever the signal comes; nil puts back what was there before: for SIGINT
---and SIGTERM, while the loop runs, a graceful stop.
---@param name lio.SignalName
---@param f? fun(name: lio.SignalName)
function loop.signal(name, f) end

---Reads the monotonic clock, as `lio.now`.
---@return number seconds
function loop.now() end

---Says that this service owns the loop, for `lio.service`: calls that wait are no longer refused.
---@private
function loop.own() end

---Lets the main loop of a service drive this VM, as `lio.service` does.
---@private
function loop.attach(descriptor, take, service) end

---What a token stands for, for `lio.tasks`.
---@private
---@return string? text
function loop.describe(token) end

---Whether SIGINT or SIGTERM has ended a `run`, for `lio.service`.
---@private
---@return boolean
function loop.was_signalled() end

return loop
