---@meta lio.coroutine
-- Definitions of `lio.coroutine` for the Lua language server. docs/build.lua generates docs/api/lio.coroutine.md from
-- them.

---Lua's coroutine library, with coroutines in which functions can wait. If a function waits inside nested coroutines,
---at any depth, all of them are suspended, other tasks run, and later the innermost coroutine continues. In services
---and in scripts of the `lio` executable, this module is the global `coroutine`. docs/coroutines.md is the guide.
---@class lio.coroutine
local coroutine = {}

---Creates a coroutine with body `f` (Lua manual 6.2).
---@param f function
---@return thread co
function coroutine.create(f) end

---Starts or continues a coroutine (Lua manual 6.2). If the coroutine is waiting, returns `false, "cannot resume a
---coroutine that is waiting"`. If the coroutine waits and another task closes it meanwhile, returns `false, "coroutine
---was closed"`.
---@param co thread
---@param ... any at the first call, the arguments of its function; later, the results of its `yield`
---@return boolean ok
---@return any ... what the coroutine yielded or returned; the error if `ok` is false
function coroutine.resume(co, ...) end

---Suspends the running coroutine; its resumer receives the values (Lua manual 6.2). In a task's own coroutine: lets the
---other ready tasks run, and then returns nothing.
---@param ... any the results of the `resume` call
---@return any ... the arguments of the next `resume`
function coroutine.yield(...) end

---Creates a coroutine and returns a function that resumes it, for instance for a `for` loop (Lua manual 6.2). If
---`resume` would return an error, the function raises the error. If the coroutine has failed, it is closed first.
---@param f function
---@return fun(...: any): any resume
function coroutine.wrap(f) end

---Returns the status of a coroutine: a status of the Lua manual (6.2), or `"waiting"`. A coroutine is waiting if it is
---in a wait, if it is resuming a coroutine that is waiting, or if it is a task's own coroutine and the task is in the
---ready queue. A waiting coroutine cannot be resumed, but it can be closed.
---@param co thread
---@return "running"|"suspended"|"normal"|"dead"|"waiting" status
function coroutine.status(co) end

---Closes a coroutine: its `<close>` variables are closed, and its status becomes `"dead"`. If the coroutine is waiting,
---its wait is cancelled, the coroutine that it was resuming is closed first, and its resumer receives
---`false, "coroutine was closed"`. If it is a task's own coroutine, the task is killed. Raises if the coroutine's
---status is `"normal"`. In Lua 5.4, also raises if the coroutine is running; Lua 5.5 can close the running coroutine,
---see the Lua 5.5 manual.
---@param co thread
---@return boolean ok
---@return any err the error from a `<close>` variable if `ok` is false
function coroutine.close(co) end

---Reports whether a coroutine can yield: it is not the main coroutine and not inside a C function that cannot yield.
---@param co? thread default: the running coroutine
---@return boolean
function coroutine.isyieldable(co) end

---Returns the running coroutine. In a task, this is the task's own coroutine or a coroutine nested in it.
---@return thread co
---@return boolean main whether it is the main coroutine of the VM
function coroutine.running() end

return coroutine
