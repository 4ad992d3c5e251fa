-- A WebSocket client that runs the cases of Autobahn's server: the peer of tests/long/websocket_autobahn.sh.
-- Arguments: the port of the server, and "true", "false" or "context", the option `compress`.

local loop = require "lio.loop"
local websocket = require "lio.websocket"

local COMPRESS <const> = { ["true"] = true, ["false"] = false, context = "context" }

local base <const> = "ws://127.0.0.1:" .. arg[1]
local opts <const> = {
  compress = COMPRESS[arg[2] or "true"],
  connect_timeout = 60,
  max_message = 32 * 1024 * 1024,
  max_ratio = 2000,
  compress_from = 0,
}

loop.run(function()
  local ws = assert(websocket.connect(base .. "/getCaseCount", opts))
  local count = math.tointeger(tonumber((assert(ws:receive(60)))))
  ws:close()
  for case = 1, count do
    ws = assert(websocket.connect(("%s/runCase?case=%d&agent=lio"):format(base, case), opts))
    for message, kind in ws:messages() do ws:send(message, kind) end
    ws:close()
  end
  ws = assert(websocket.connect(base .. "/updateReports?agent=lio", opts))
  ws:close()
end)
