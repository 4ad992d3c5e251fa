---@meta lio.webservice
-- Definitions of `lio.webservice` for the Lua language server. docs/build.lua generates docs/api/lio.webservice.md from
-- them.

---The service `lio.webservice`, with the interface of ant.webserver. Programs spawn it with
---`ltask.spawn "lio.webservice"` and send it the requests below, for example `ltask.call(web, "start", conf)`.
---docs/webservice.md describes CGI modules and tunnels.
---@class lio.webservice
local webservice = {}

---The argument of `start`. Unknown fields and wrong types raise.
---@class lio.WebServiceConf
---@field addr? string address, or `unix:/path`; default `127.0.0.1`
---@field port? number 0 to 65535; required unless `addr` is a unix address
---@field mode? "direct"|"redirect" default `"direct"`; `"redirect"`: a tunnel owns the sockets of the clients
---@field home? string folder served at `/`, as in `route`
---@field route? table<string, string> folders by path: `"localfs:path"`, or a path
---@field cgi? table<string, string> modules by path: `"module|name"`, or `"module"`
---@field tunnel? integer|string address or name of the tunnel's service; default: the caller; only in redirect mode
---@field options? lio.WebOptions limits of the server

---The request `start`: starts serving. Raises if the configuration is invalid, if the address cannot be bound, if the
---tunnel refuses, or if the service is already serving. In redirect mode, returns the results of the tunnel's
---`tunnel_open`; if the tunnel returns no URL, `url` describes the tunnel.
---@param conf lio.WebServiceConf
---@return string url
---@return integer? port nil for a unix address, or if the tunnel returns no port
function webservice.start(conf) end

---The request `quit`: waits at most `options.grace` seconds for the requests in progress; then the service ends.
function webservice.quit() end

---The request `tunnel_data`, from a tunnel: passes bytes of a client to the server, and returns when the server has
---accepted them. An unknown session starts a new session. The message is `"closed"` if the session has ended or the
---service is stopping, and `"too long"` if more than 16 MiB of the session's data are pending, which ends the session.
---Another message is returned if a new session cannot be opened.
---@param session integer|string
---@param data string
---@return boolean taken
---@return string? message nil if `taken` is true
function webservice.tunnel_data(session, data) end

---The request `tunnel_shutdown`, from a tunnel: the client has shut down its sending side, but still receives.
---@param session integer|string
---@return boolean known whether the session exists
function webservice.tunnel_shutdown(session) end

---The request `tunnel_close`, from a tunnel: the client has closed its connection.
---@param session integer|string
---@return boolean known whether the session exists
function webservice.tunnel_close(session) end

---Creates the app that `start` serves, for programs that listen themselves. Raises if the configuration is invalid.
---@param conf lio.WebServiceConf
---@return lio.App app
function webservice.app(conf) end

return webservice
