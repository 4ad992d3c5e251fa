---@meta lio.task
-- Definitions of `lio.task` for the Lua language server; docs/build.lua makes docs/api/lio.task.md of them.

---The task core: coroutines that wait on tokens and are woken. `lio.loop` drives it; a program takes
---these calls from there, and uses this module to build a scheduler of its own. A wakeup queues and never
---runs inside the waker; the order of wakeups is the order of runs.
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
function task.start(f, ...) end

---Waits until somebody wakes the token. Raises outside a task, where Lua cannot yield, and when somebody
---waits on the token already.
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

---Ends a task at its wait; its `<close>` variables run. A task that kills itself raises.
---@param co thread
---@return true? killed nil when it is no living task
function task.kill(co) end

---Ends every task but the running one, and those that they fork while they end.
function task.kill_all() end

---Tells the running coroutine: what `wait` without a token waits on.
---@return thread co
function task.running() end

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

---Called with the error of a task that raised; the coroutine still has its stack. Assign another function
---to log elsewhere than on standard error.
---@param message any
---@param co thread
function task.on_error(message, co) end

return task
