-- Auctions: services send messages to the WebSocket connections of a web service. lio
-- examples/websocket/auction/main.lua [port [seconds]]
--
-- site.lua accepts the connections, with its own loop and thread. Each item is a service of auction.lua, so items are
-- sold on all cores. A bid goes from a connection to the item's service, and the service sends the result to all
-- connections that watch the item. An item is sold when it has got no bid for `seconds` (10). Try it with any WebSocket
-- client, for example in the console of a browser that shows the printed address:
--
--   ws = new WebSocket(`ws://${location.host}/items/lamp?name=Ada`); ws.onmessage = e => console.log(e.data)
--   ws.send("50")

local folder = arg[0]:match "^(.*/)" or "./"
local port, seconds = arg[1] or "8080", arg[2] or "10"

os.exit(require "ltask.start" {
  service_path = folder .. "?.lua",
  lua_path = package.path,
  lua_cpath = package.cpath,
  bootstrap = { { name = "site", unique = true, args = { port, seconds } } },
}, true)
