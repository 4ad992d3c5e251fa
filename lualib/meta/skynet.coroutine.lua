---@meta skynet.coroutine
-- Definitions of `skynet.coroutine` for the Lua language server. docs/build.lua generates docs/api/skynet.coroutine.md
-- from them.

---Coroutines that can wait in skynet functions. On this scheduler, all coroutines can do so; this module provides the
---names and statuses of skynet.
---@class skynet.coroutine
local library = {}

---Creates a coroutine.
---@param f function
---@return thread co
function library.create(f) end

---Starts or continues a coroutine, as `coroutine.resume` does. If the coroutine waits, the caller waits as well.
---@param co thread
---@param ... any
---@return boolean ok
---@return any ...
function library.resume(co, ...) end

---Suspends the running coroutine, as `coroutine.yield` does.
---@param ... any
---@return any ...
function library.yield(...) end

---Returns the status of a coroutine, as `coroutine.status` does; `"blocked"` while it waits.
---@param co thread
---@return string status
function library.status(co) end

---Creates a coroutine and returns a function that resumes it and raises its errors.
---@param f function
---@return function resume
function library.wrap(f) end

---Reports whether a coroutine can yield.
---@param co? thread default: the running coroutine
---@return boolean yieldable
function library.isyieldable(co) end

---Returns the running coroutine.
---@return thread co
---@return boolean is_main whether it is the main coroutine of the VM
function library.running() end

---Returns the service's coroutine (a handler or a fork) in which a coroutine was last resumed.
---@param co? thread default: the running coroutine
---@return thread owner
---@return boolean is_owner whether `co` is itself a coroutine of the service
function library.thread(co) end

---Closes a coroutine, as `coroutine.close` does.
---@param co thread
---@return boolean ok
---@return any? err
function library.close(co) end

return library
