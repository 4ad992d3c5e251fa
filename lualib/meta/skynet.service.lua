---@meta skynet.service
-- Definitions of `skynet.service` for the Lua language server. docs/build.lua generates docs/api/skynet.service.md from
-- them.

---Unique services that are created from a function instead of a file.
---@class skynet.service
local service = {}

---Finds the unique service with this name, or creates it. If the main function of the service raises, the call raises
---the error. The function runs in a separate VM: it must not refer to local variables outside of it, otherwise the call
---raises.
---@param name string
---@param f function|string the main function of the service, or its source
---@param ... any the arguments of `f`, if the service is created
---@return integer addr
function service.new(name, f, ...) end

---Finds the unique service with this name. Waits until the service exists.
---@param name string
---@return integer addr
function service.query(name) end

---Ends the service with this name and waits until it has ended. The name can be reused at once.
---@param name string
---@return boolean found
function service.close(name) end

return service
