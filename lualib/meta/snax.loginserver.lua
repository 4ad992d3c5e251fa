---@meta snax.loginserver
-- Definitions of `snax.loginserver` for the Lua language server. docs/build.lua generates docs/api/snax.loginserver.md
-- from them.

---A server for logins. The module is a function: `require "snax.loginserver"(conf)` makes this service a login server.
---The service accepts connections, and starts itself again as slaves, which talk with the clients.
---@class snax.loginserver
---@overload fun(conf: snax.LoginConf)
local loginserver = {}

---The configuration of a login server. A handler raises to refuse a client.
---@class snax.LoginConf
---@field port integer
---@field host? string default `"0.0.0.0"`
---@field name? string the name that the service registers, without the dot before it; default `"login"`
---@field instance? integer the number of slaves; default 8
---@field multilogin? boolean true: a user may log in several times at once
---@field auth_handler fun(token: string): string, string checks a client's token in a slave; returns server and user
---@field login_handler fun(server: string, uid: string, secret: string): any returns what the client gets after "200"
---@field command_handler fun(command: string, ...: any): any, ... answers the messages of other services

return loginserver
