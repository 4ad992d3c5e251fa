-- The server of the suite `websocket`: `lio bench/servers/websocket.lua PORT FORM [CERT KEY]` serves WebSocket
-- connections without compression, with TLS if it gets a certificate and its key. FORM is
--   function    echoes each message in a task of the connection
--   callbacks   echoes each message in a callback
--   topic       sends a message of 1 KiB to all connections for each message that arrives

local loop = require "lio.loop"
local web = require "lio.webserver"
local websocket = require "lio.websocket"

local port, form, cert, key = ...

local topic <const> = websocket.topic()
local MESSAGE <const> = ("0123456789abcdef"):rep(64)

local HANDLERS <const> = {
  ["function"] = function(ws)
    for message, kind in ws:messages() do ws:send(message, kind) end
  end,
  callbacks = { message = function(ws, message, kind) ws:send(message, kind) end },
  topic = {
    open = function(ws) topic:add(ws) end,
    message = function() topic:send(MESSAGE, "binary") end,
  },
}

local app = web.new { connections = 20000 }
app:ws("/", { compress = false }, HANDLERS[form])
loop.run(function()
  local server = assert(app:listen(tonumber(port), cert and { tls = { cert = cert, key = key } } or nil))
  print("listening on " .. port)
  io.stdout:flush()
  server:wait()
end)
