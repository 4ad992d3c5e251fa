-- The server of lio for the garden: responds to each request with what the handler has seen, in the field X-Seen.
-- Started by tests/peers/garden/servers.py; prints its port. With the argument `unread` the handler reads no bodies.

local loop = require "lio.loop"
local garden = require "tests.peers.garden.garden"

local app = garden.app(... == "unread")
loop.run(function()
  local server = assert(app:listen "127.0.0.1:0")
  print("port " .. server.url:match ":(%d+)/$")
  io.stdout:flush()
  loop.wait {}
end)
