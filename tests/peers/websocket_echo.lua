-- A WebSocket server that returns each message: the peer of tests/long/websocket_autobahn.sh and
-- tests/peers_websocket_test.lua. Argument: "true", "false" or "context", the option `compress`.

local web = require "lio.webserver"

local COMPRESS <const> = { ["true"] = true, ["false"] = false, context = "context" }

local app = web.new()

app:ws("/*rest", {
  compress = COMPRESS[arg[1] or "true"],
  origins = "any",
  protocols = { "echo" },
  max_message = 32 * 1024 * 1024,
  max_ratio = 2000,
  compress_from = 0,
}, function(ws)
  for message, kind in ws:messages() do ws:send(message, kind) end
end)

app:run "127.0.0.1:0"
