-- Sends datagrams back to their senders: `lio examples/udp_echo.lua`, then `nc -u 127.0.0.1 7300`. Another port:
-- `lio examples/udp_echo.lua 7301`; with port 0 the system chooses a port.

local loop = require "lio.loop"
local net = require "lio.net"

local port = tonumber((...) or 7300)

loop.run(function()
  local u <close> = assert(net.udp("127.0.0.1", port))
  print(("udp_echo: listening on %s:%d"):format(u:address()))
  io.stdout:flush()
  while true do
    local data, ip, from = net.recvfrom(u)
    if not data then error(ip) end
    net.sendto(u, data, ip, from)
  end
end)
