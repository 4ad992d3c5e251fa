---@meta lio.webservice
-- Definitions of `lio.webservice` for the Lua language server; docs/build.lua makes docs/api/lio.webservice.md of
-- them.

---The service `lio.webservice`, with the interface of ant.webserver: what it does for each request. Programs spawn
---it, `ltask.spawn "lio.webservice"`, and call these as its requests; docs/webservice.md tells about CGI
---modules and tunnels.
---@class lio.webservice
local webservice = {}

---What `start` is given. Unknown fields and wrong types raise.
---@class lio.WebServiceConf
---@field addr? string address, or `unix:/path`; default `127.0.0.1`
---@field port? integer 0 to 65535; may be absent with a unix address alone
---@field mode? "direct"|"redirect" default `"direct"`; `"redirect"`: a tunnel has the sockets
---@field home? string folder served at `/`, as a route's
---@field route? table<string, string> folders by path: `"localfs:path"`, or a path
---@field cgi? table<string, string> modules by path: `"module|name"`, or `"module"`
---@field tunnel? integer|string the tunnel's service, by address or name; default: who asks
---@field options? lio.WebOptions limits of the server

---The request `start`: begins to serve. Raises for a wrong configuration, for an address that cannot be had,
---and while the service serves already. In redirect mode it returns what the tunnel's `tunnel_open` returned.
---@param conf lio.WebServiceConf
---@return string url
---@return integer? port
function webservice.start(conf) end

---The request `quit`: stops gracefully, within the `grace` of the options; then the service ends.
function webservice.quit() end

---The request `tunnel_data`, of a tunnel: bytes of a client. An unknown session begins one. Answered when the
---server has taken them.
---@param session integer|string
---@param data string
---@return boolean taken
---@return string? message when the session is over
function webservice.tunnel_data(session, data) end

---The request `tunnel_shutdown`, of a tunnel: the client sends no more, but reads on.
---@param session integer|string
---@return boolean known whether there was such a session
function webservice.tunnel_shutdown(session) end

---The request `tunnel_close`, of a tunnel: the client is gone.
---@param session integer|string
---@return boolean known whether there was such a session
function webservice.tunnel_close(session) end

---Makes the app that `start` serves, for programs that listen themselves.
---@param conf lio.WebServiceConf
---@return lio.App app
function webservice.app(conf) end

return webservice
