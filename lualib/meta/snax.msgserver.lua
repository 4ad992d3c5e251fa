---@meta snax.msgserver
-- Definitions of `snax.msgserver` for the Lua language server. docs/build.lua generates docs/api/snax.msgserver.md from
-- them.

---A gate for clients that have logged in: they prove that they know the secret of their login, send requests, and may
---connect again without losing an answer. The module registers the protocol `"client"`, without functions, for
---`skynet.rawcall` and `skynet.redirect` to agents.
---@class snax.msgserver
local msgserver = {}

---The functions of a message server. Only `request_handler` is needed.
---@class snax.MessageHandler
---@field request_handler fun(username: string, message: string): string? returns the answer; an error is the answer 0
---@field register_handler? fun(servername: string): any, ... runs after "open"; its results are the answer
---@field login_handler? fun(uid: string, secret: string): any answers the command "login", usually with a subid
---@field logout_handler? fun(uid: string, subid: any) answers the command "logout", which agents send
---@field kick_handler? fun(uid: string, subid: any) answers the command "kick", which the login server sends
---@field auth_handler? fun(username: string, fd: integer) runs when a client has proved its name
---@field disconnect_handler? fun(username: string) runs when a client has lost its connection
---@field expired_number? integer how many answers are kept for repeated requests; default 128

---Makes this service a message server. Other services open it as they open a gate; the field `servername` is needed.
---@param handler snax.MessageHandler
function msgserver.start(handler) end

---Lets a client with that secret connect under the name.
---@param username string
---@param secret string eight bytes
function msgserver.login(username, secret) end

---Forgets a name, and closes its connection.
---@param username string
function msgserver.logout(username) end

---Returns the name of a login: `base64(uid)@base64(server)#base64(subid)`.
---@param uid string
---@param subid any
---@param server string
---@return string username
function msgserver.username(uid, subid, server) end

---Returns the parts of a name.
---@param username string
---@return string uid
---@return string subid
---@return string server
function msgserver.userid(username) end

---Returns the address of a connected client.
---@param username string
---@return string? address
function msgserver.ip(username) end

return msgserver
