---@meta skynet.profile
-- Definitions of `skynet.profile` for the Lua language server. docs/build.lua generates docs/api/skynet.profile.md from
-- them.

---Measures the CPU time of coroutines, without their waits. If a coroutine is resumed with `resume` or `wrap` of this
---module, the time during which it is suspended does not count.
---@class skynet.profile
local profile = {}

---Starts measuring a coroutine. Raises if the coroutine is already being measured, or if the caller is not in a
---coroutine of the service.
---@param co? thread default: the running coroutine
function profile.start(co) end

---Stops measuring a coroutine. Raises if the coroutine is not being measured.
---@param co? thread default: the running coroutine
---@return number seconds
function profile.stop(co) end

---Starts or continues a coroutine, as `coroutine.resume` does.
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

---Creates a coroutine and returns a function that resumes it and raises its errors.
---@param f function
---@return function resume
function profile.wrap(f) end

---Suspends the running coroutine, as `coroutine.yield` does.
---@param ... any
---@return any ...
function profile.yield(...) end

---The same as `yield`.
---@param ... any
---@return any ...
function profile.yield_co(...) end

return profile
