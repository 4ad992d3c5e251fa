---@meta lio.coroutine
-- Definitions of `lio.coroutine` for the Lua language server; docs/build.lua makes docs/api/lio.coroutine.md of
-- them.

---Lua's coroutine library, with whose coroutines a function inside may wait, at any depth: then all coroutines
---that are resuming each other are suspended, the other tasks run, and later the innermost goes on. In services
---and in scripts of the `lio` executable this is the global `coroutine`. docs/coroutines.md is the guide.
---@class lio.coroutine
local coroutine = {}

---Makes a coroutine that has yet to run `f` (Lua manual 6.2).
---@param f function
---@return thread co
function coroutine.create(f) end

---Starts a coroutine or goes on with it. One that is waiting is refused: `false, "cannot resume a coroutine
---that is waiting"`; who is resuming one that somebody closes while it waits gets `false, "coroutine was closed"`.
---@param co thread
---@param ... any at first the arguments of its function, then what its `yield` returns
---@return boolean ok
---@return any ... what it yielded or returned; the error when `ok` is false
function coroutine.resume(co, ...) end

---Suspends the running coroutine and hands the values to who resumed it. In a task's own coroutine: lets the
---other tasks go first, and returns nothing.
---@param ... any what its `resume` returns
---@return any ... the arguments of the next `resume`
function coroutine.yield(...) end

---Makes a coroutine and gives a function that resumes it, to be used in `for` loops for instance. That
---raises what `resume` would have returned as an error; a coroutine that failed is closed first.
---@param f function
---@return fun(...: any): any resume
function coroutine.wrap(f) end

---Tells the state of a coroutine: that of the Lua manual, or `"waiting"`: it is in a wait, or is resuming one that
---is, or is a task that is queued. It can be closed and not resumed.
---@param co thread
---@return "running"|"suspended"|"normal"|"dead"|"waiting" status
function coroutine.status(co) end

---Closes a coroutine: its `<close>` variables run, and it is dead. The wait of a waiting one is cancelled, what it
---was resuming is closed first, and who was resuming it gets `false, "coroutine was closed"`. A task's own
---coroutine: the task is killed. Raises for one that is running (but see Lua 5.5's manual) or normal.
---@param co thread
---@return boolean ok
---@return any err what a `<close>` variable raised, when `ok` is false
function coroutine.close(co) end

---Tells whether a coroutine may yield: it is not the main one, and not inside a C function that cannot.
---@param co? thread default: the running one
---@return boolean
function coroutine.isyieldable(co) end

---Tells the running coroutine, which inside of a task may be the task's own or one that it made.
---@return thread co
---@return boolean main whether it is the VM's main one
function coroutine.running() end

return coroutine
