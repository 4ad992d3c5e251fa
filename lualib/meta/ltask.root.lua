---@meta ltask.root
-- Definitions of `ltask.root` for the Lua language server. docs/build.lua generates docs/api/ltask.root.md from them.

---Functions that only root may call, for authors of root services. In any other service, `require` of this module
---raises. The schedule message NEW (`ltask.send_message(0, 0, 0)`) returns a new number; DEL (`ltask.send_message(0,
---id, 1)`) frees it.
---@class ltask.root
local root = {}

---Creates the service `id`. Without a chunk name (G1), a source that begins with `@` names a file, and a failure
---raises.
---@param id ltask.Address
---@param label string
---@param source string Lua code or a precompiled chunk
---@param chunkname? string
---@param worker? integer the worker to which the service is bound, counted from 0; default: any
---@return boolean ok
---@return string? message
function root.init_service(id, label, source, chunkname, worker) end

---Closes a service that has died, or kills a service. A service that is running dies at the end of its slice; root then
---gets a signal. Raises for root itself.
---@param id ltask.Address
---@return integer[] unanswered from, session, from, session, … of the requests that the service has not answered
function root.close_service(id) end

---Sets the exit code of the system.
---@param code integer -2^31 to 2^31-1
function root.set_exit_code(code) end

return root
