---@meta skynet.service
-- Definitions of `skynet.service` for the Lua language server; docs/build.lua makes docs/api/skynet.service.md of them.

---Unique services that are made of a function instead of a file.
---@class skynet.service
local service = {}

---Finds the one service of that name, or makes it. Raises what its main function raised. The function runs in a VM of
---its own, so it must not refer to local variables around it.
---@param name string
---@param f function|string the service's main function, or its source
---@param ... any its arguments, if it is made
---@return integer addr
function service.new(name, f, ...) end

---Finds the one service of that name; waits until there is one.
---@param name string
---@return integer addr
function service.query(name) end

---Ends the service of that name and waits for its end; the name is free at once.
---@param name string
---@return boolean found
function service.close(name) end

return service
