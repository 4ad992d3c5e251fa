---@meta skynet.coroutine
-- Definitions of `skynet.coroutine` for the Lua language server; docs/build.lua makes docs/api/skynet.coroutine.md of
-- them.

---Coroutines that may wait by skynet's functions. Here all coroutines may: the module has skynet's names and statuses.
---@class skynet.coroutine
local library = {}

---Makes a coroutine.
---@param f function
---@return thread co
function library.create(f) end

---Starts or continues a coroutine, as `coroutine.resume`. When it waits, the caller waits as well.
---@param co thread
---@param ... any
---@return boolean ok
---@return any ...
function library.resume(co, ...) end

---Suspends the running coroutine, as `coroutine.yield`.
---@param ... any
---@return any ...
function library.yield(...) end

---Tells the status of a coroutine, as `coroutine.status`, and `"blocked"` while it waits.
---@param co thread
---@return string status
function library.status(co) end

---Makes a function that resumes a coroutine and raises its errors.
---@param f function
---@return function resume
function library.wrap(f) end

---Tells whether the running coroutine can yield.
---@param co? thread
---@return boolean yieldable
function library.isyieldable(co) end

---Tells which coroutine runs.
---@return thread co
---@return boolean is_main whether it is the VM's main one
function library.running() end

---Tells in which of the service's own coroutines this one was resumed.
---@param co? thread default: the running one
---@return thread owner
---@return boolean is_owner whether it is the service's own itself
function library.thread(co) end

---Closes a coroutine, as `coroutine.close`.
---@param co thread
---@return boolean ok
---@return any? err
function library.close(co) end

return library
