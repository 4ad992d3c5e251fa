-- `lio bench/websocket/audience.lua URL COUNT SECONDS`: opens COUNT WebSocket connections, prints `ready` when all are
-- open, and keeps them. At SIGUSR1, the first one sends a message, again and again for SECONDS, each time after all
-- connections have received the message that the server sends to them. Then prints results as `name<TAB>value` lines:
-- `requests` (the number of messages that were received) and `elapsed` (seconds). Ends at SIGTERM, or with an error
-- when a connection ends.

local loop = require "lio.loop"
local websocket = require "lio.websocket"

local url, count, seconds = ...
count, seconds = math.tointeger(tonumber(count)), tonumber(seconds)

local OPTIONS <const> = {
  compress = false, ping = false, connect_timeout = 60, tls = { dangerously_skip_verification = true },
}
-- The number of connections that are opened at the same time.
local AT_ONCE <const> = 64

local connections = {}

local function open_some()
  while #connections < count do
    local place <const> = #connections + 1
    connections[place] = false
    connections[place] = assert(websocket.connect(url, OPTIONS))
  end
end

local function open_all()
  local left, token = AT_ONCE, {}
  for _ = 1, AT_ONCE do
    loop.fork(function()
      open_some()
      left = left - 1
      if left == 0 then loop.wakeup(token) end
    end)
  end
  loop.wait(token)
end

-- `missing`: how many messages have not arrived in this round.
local missing, received, token = 0, 0, {}

local function receive(ws)
  for _ in ws:messages() do
    received, missing = received + 1, missing - 1
    if missing == 0 then loop.wakeup(token) end
  end
  error("a connection has ended: " .. ws.reason)
end

local function run_rounds()
  local began <const> = loop.now()
  repeat
    missing = count
    connections[1]:send "go"
    loop.wait(token)
  until loop.now() - began >= seconds
  io.write(("requests\t%d\nelapsed\t%.6f\n"):format(received, loop.now() - began))
  io.stdout:flush()
end

loop.run(function()
  open_all()
  for _, ws in ipairs(connections) do loop.fork(receive, ws) end
  loop.signal("SIGUSR1", run_rounds)
  print "ready"
  io.stdout:flush()
end)
