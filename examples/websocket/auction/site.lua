-- The web service of main.lua. Its connections are its own; other services reach them with the request `publish`.

local json = require "lio.json"
local ltask = require "ltask"
local web = require "lio.webserver"
local websocket = require "lio.websocket"

local port, seconds = ...

local items, topics = {}, {} -- name: the service; the connections that watch it
for _, name in ipairs { "lamp", "chair", "clock" } do
  topics[name] = websocket.topic { limit = 64 * 1024, slow = "close" }
  items[name] = ltask.spawn("auction", name, ltask.self(), tonumber(seconds))
end

local app = web.new()

app:get("/", function() return web.html "<!doctype html><title>Auctions</title><p>The items: lamp, chair, clock." end)

app:ws("/items/:name", { max_message = 100 }, function(ws, req)
  local name, bidder = req.params.name, req.query.name
  local item = items[name]
  if not item or not bidder then return ws:close(1008, "an item and a name are needed") end
  topics[name]:add(ws)
  ws:send(json.encode(ltask.call(item, "state")))
  for text in ws:messages() do
    -- Only this task waits for the service. Its next message is read after that, so a client cannot flood the service.
    local accepted, reason = ltask.call(item, "bid", bidder, math.tointeger(tonumber(text)) or 0)
    if not accepted then ws:send(json.encode { refused = reason }) end
  end
end)

-- SIGINT and SIGTERM stop the server, which closes the connections with the code 1001, and then the system.
ltask.fork(function() app:run(assert(tonumber(port)), { addr = "127.0.0.1" }) end)

local S = {}

-- Sends a message to all connections that watch an item.
function S.publish(name, text)
  topics[name]:send(text)
end

return S
