---@meta skynet.profile
-- Definitions of `skynet.profile` for the Lua language server; docs/build.lua makes docs/api/skynet.profile.md of
-- them.

---CPU time of coroutines, without their waits. Where `resume` and `wrap` resume a coroutine, its time stands while it
---is suspended.
---@class skynet.profile
local profile = {}

---Measures a coroutine from now on. Raises when it is measured already.
---@param co? thread default: the running one
function profile.start(co) end

---Ends the measuring. Raises when the coroutine is not measured.
---@param co? thread default: the running one
---@return number seconds
function profile.stop(co) end

---Starts or continues a coroutine, as `coroutine.resume`.
---@param co thread
---@param ... any
---@return boolean ok
---@return any ...
function profile.resume(co, ...) end

---The same as `resume`.
---@param co thread
---@param ... any
---@return boolean ok
---@return any ...
function profile.resume_co(co, ...) end

---Makes a function that resumes a coroutine and raises its errors.
---@param f function
---@return function resume
function profile.wrap(f) end

---Suspends the running coroutine, as `coroutine.yield`.
---@param ... any
---@return any ...
function profile.yield(...) end

---The same as `yield`.
---@param ... any
---@return any ...
function profile.yield_co(...) end

return profile
