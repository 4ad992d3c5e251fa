-- A client for the echo servers of other projects: `lio websocket_client.lua URL`. Prints the events of the connection,
-- one a line. Used by tests/long/websocket_peers.sh.

local loop = require "lio.loop"
local websocket = require "lio.websocket"

local url = ...

loop.run(function()
  local ws = assert(websocket.connect(url, { protocols = { "x", "echo" }, compress_from = 0 }))
  print(("open %s %s"):format(ws.protocol, ws.is_compressed and "permessage-deflate" or "plain"))
  for _, one in ipairs { { "h\u{e9}llo", "text" }, { ("\7"):rep(300000), "binary" } } do
    ws:send(one[1], one[2])
    local message, kind = ws:receive(10)
    print(("message %s %d%s"):format(kind, #message, message == one[1] and "" or " changed"))
  end
  ws:close(4001, "bye")
  print(("close %d"):format(ws.code))
end)
