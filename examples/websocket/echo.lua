-- A WebSocket server that sends every message back: lio examples/websocket/echo.lua [port]
--
-- The path /echo runs a function for each connection, /callbacks a function for each message. Programs may connect from
-- any page, because nothing here belongs to a user.

local web = require "lio.webserver"

local app = web.new()

app:ws("/echo", { origins = "any", max_message = 16 * 1024 * 1024 }, function(ws)
  for message, kind in ws:messages() do
    if not ws:send(message, kind) then break end
  end
end)

app:ws("/callbacks", { origins = "any" }, {
  message = function(ws, message, kind) ws:send(message, kind) end,
})

app:run(math.tointeger(tonumber((...))) or 8080, { addr = "127.0.0.1" })
