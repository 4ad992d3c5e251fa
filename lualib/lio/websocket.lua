-- `lio.websocket`: WebSocket connections (RFC 6455), with compression of messages (RFC 7692): `connect` for clients,
-- `topic` and `broadcast` for messages to many connections. `app:ws` of `lio.webserver` accepts connections.

local broadcasting = require "lio.websocket.broadcast"

local M = {}

-- `connect(url [, opts])` returns a connection; or nil, message, code. See websocket/connect.lua.
function M.connect(url, opts)
  return require("lio.websocket.connect").connect(url, opts)
end

M.broadcast = broadcasting.broadcast
M.topic = broadcasting.topic

return M
