-- A TCP echo server: `lio examples/echo.lua`, then `nc 127.0.0.1 7000`. Another port: `lio examples/echo.lua 7001`;
-- with port 0 the system chooses a port.

local loop = require "lio.loop"
local net = require "lio.net"

local port = tonumber((...) or 7000)

local function echo(c)
  for data in function() return c:recv() end do
    if not c:send(data) then return end
  end
end

loop.grace = 0 -- a stop does not wait for clients to leave
loop.run(function()
  local listener = assert(net.listen("127.0.0.1", port))
  print(("echo: listening on %s:%d"):format(listener:address()))
  io.stdout:flush()
  net.serve(listener, echo)
end)
