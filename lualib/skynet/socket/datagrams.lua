-- Datagram sockets of skynet.socket and skynet.socketdriver. Used by both.
--
-- The address of a sender is a string, which only this file reads: a byte for the family, two for the port, and the
-- address, as four bytes or as text.

local misuse = require "lio.misuse"
local net = require "lio.net"
local pool = require "skynet.socket.pool"
local task = require "lio.task"

local M = {}

local INET <const>, INET6 <const> = 1, 2

-- `pack(ip, port)`: returns the string for an address.
function M.pack(ip, port)
  local a, b, c, d = ip:match "^(%d+)%.(%d+)%.(%d+)%.(%d+)$"
  if a then return string.pack(">BI2BBBB", INET, port, a, b, c, d) end
  return string.pack(">BI2", INET6, port) .. ip
end
local pack <const> = M.pack

-- `unpack(call, index, address)`: returns the ip and the port of an address; raises if it is not valid.
function M.unpack(call, index, address)
  misuse.check(call, index, address, "string")
  local family = address:byte(1)
  if family == INET and #address == 7 then
    local _, port, a, b, c, d = string.unpack(">BI2BBBB", address)
    return ("%d.%d.%d.%d"):format(a, b, c, d), port
  end
  if family ~= INET6 or #address < 5 then misuse.bad(call, index, "the address of a datagram's sender expected") end
  return address:sub(4), (string.unpack(">I2", address, 2))
end
local unpack <const> = M.unpack

-- The loop that receives: `s.on_datagram(data, address)` runs as a task for each datagram.
local function receive(s)
  while not s.is_closed do
    local data, ip, port = s.c:recvfrom()
    if data then
      local address = pack(ip, port)
      if not s.peer or s.peer == address then task.spawn(s.on_datagram, data, address) end
    elseif s.is_closed or port == "closed" then
      return
    end
  end
end

-- `open(call, host, port, f)`: opens a datagram socket, and makes `f(data, address)` run for each datagram. Returns the
-- socket; or nil and a message.
function M.open(call, host, port, f)
  if not misuse.is_callable(f) then misuse.argument(call, 1, "function", f) end
  local u, message = net.udp(host, port)
  if not u then return nil, message end
  local s = pool.add("UDP", ("%s:%s"):format(u:address()), u, { on_datagram = f })
  s.send_to = function(address, data)
    local ip, number = unpack("sendto", 2, address)
    task.spawn(u.sendto, u, data, ip, number)
  end
  task.spawn(receive, s)
  return s
end

-- `connect(s, host, port)`: makes the peer the destination of writes, and the only one whose datagrams are received.
-- Returns true; or nil and a message.
function M.connect(s, host, port)
  local list, message = net.resolve(host)
  if not list then return nil, message end
  s.peer = pack(list[1], port)
  s.send_to_peer = function(data) s.send_to(s.peer, data) end
  return true
end

return M
