---@meta skynet.start
-- Definitions of `skynet.start` for the Lua language server; docs/build.lua makes docs/api/skynet.start.md of them.

---Boots a system of skynet's services from a table like skynet's configuration. The module can be called itself:
---`require "skynet.start" { … }`.
---@class skynet.start
---@overload fun(config: skynet.Config|string): integer
local start = {}

---Runs a system until it has ended. Raises what is wrong with the table before anything runs, and when the first
---service could not start.
---@param config skynet.Config|string a string: the first service's name
---@return integer code the exit code
function start.start(config) end

---What a system is made of. Any other field is a value of `skynet.getenv`, as these are.
---@class skynet.Config
---@field start? string the first service; default `"main"`
---@field args? any[] the arguments of its file
---@field thread? integer threads that run services; default one less than there are cores, at least 1
---@field luaservice? string where services are found: templates with `?`; default `"./?.lua"`
---@field lua_path? string `package.path` of each service
---@field lua_cpath? string `package.cpath` of each service
---@field preload? string a Lua file that runs in each service before its own
---@field logger? string|table|false the logger's service, as for `ltask.start`
---@field ltask? table further fields for `ltask.start`

return start
