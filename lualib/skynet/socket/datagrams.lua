-- Datagram sockets of skynet.socket and skynet.socketdriver. Used by both.
--
-- The address of a sender is a string, which only this file reads: a byte for the family, two for the port, and the
-- address, as four bytes or as text.

local ltask = require "ltask"
local misuse = require "lio.misuse"
local net = require "lio.net"
local pool = require "skynet.socket.pool"
local task = require "lio.task"

local M = {}

local INET <const>, INET6 <const> = 1, 2

-- How long receiving pauses after a failure, in centiseconds.
local PAUSE <const> = 10

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

-- Logs the first failure of a socket.
local function log_failure(s, action, problem, code)
  if s.has_logged or s.is_closed or code == "closed" then return end
  s.has_logged = true
  pool.log("socket %d: %s: %s; further failures of this socket are not logged", s.id, action, problem)
end

-- The loop that receives: `s.on_datagram(data, address)` runs as a task for each datagram.
local function receive(s)
  while not s.is_closed do
    local data, ip, port = s.c:recvfrom()
    if data then
      local address = pack(ip, port)
      if not s.peer or s.peer == address then task.spawn(s.on_datagram, data, address) end
    elseif s.is_closed or port == "closed" then
      return
    else
      log_failure(s, "receive", ip, port)
      ltask.sleep(PAUSE)
    end
  end
end

-- Sends a datagram. Runs as a task.
local function send(s, data, address)
  local ip, port = unpack("sendto", 2, address)
  local ok, problem, code = s.c:sendto(data, ip, port)
  if not ok then log_failure(s, ("send to %s port %d"):format(ip, port), problem, code) end
end

local function is_ipv6(ip)
  return ip:find(":", 1, true) ~= nil
end

-- `any(ip)`: returns the address of all interfaces, of the same family.
function M.any(ip)
  return is_ipv6(ip) and "::" or "0.0.0.0"
end

-- `resolve(call, index, host, port[, s])`: returns the ip of a host: one of the family of the socket `s`; without a
-- socket, of IPv4 if the host has such an address. Returns nil and a message if there is none. The host is the argument
-- `index` of `call`; the next argument, the port, is checked.
function M.resolve(call, index, host, port, s)
  misuse.check(call, index, host, "string")
  misuse.check_port(call, index + 1, port)
  local list, message = net.resolve(host)
  if not list then return nil, ("%s: %s"):format(call, message) end
  local wants_ipv6 = s ~= nil and s.is_ipv6
  for _, ip in ipairs(list) do
    if is_ipv6(ip) == wants_ipv6 then return ip end
  end
  if not s then return list[1] end
  return nil, ("%s: '%s' has no %s address, which socket %d needs"):format(call, host,
    wants_ipv6 and "IPv6" or "IPv4", s.id)
end

-- `open(call, index, host, port, f)`: opens a datagram socket, and makes `f(data, address)` run for each datagram.
-- Returns the socket; or nil and a message. The host is the argument `index` of `call`, the port the next one.
function M.open(call, index, host, port, f)
  if host ~= nil then misuse.check(call, index, host, "string") end
  if port ~= nil then misuse.check_port(call, index + 1, port) end
  local ip, message = host, nil
  if host then ip, message = M.resolve(call, index, host, port or 0) end
  if host and not ip then return nil, message end
  local u, problem = net.udp(ip, port)
  if not u then return nil, problem end
  local bound, number = u:address()
  local s = pool.add("UDP", ("%s:%s"):format(bound, number), u, { on_datagram = f, is_ipv6 = is_ipv6(bound) })
  s.send_to = function(address, data) task.spawn(send, s, data, address) end
  task.spawn(receive, s)
  return s
end

-- `set_peer(s, ip, port)`: makes the peer the destination of writes, and the only one whose datagrams are received.
function M.set_peer(s, ip, port)
  s.peer = pack(ip, port)
  s.send_to_peer = function(data) s.send_to(s.peer, data) end
end

-- `connect(call, index, s, host, port)`: like `set_peer`, for a host, which is the argument `index` of `call`. Returns
-- true; or nil and a message.
function M.connect(call, index, s, host, port)
  local ip, message = M.resolve(call, index, host, port, s)
  if not ip then return nil, message end
  M.set_peer(s, ip, port)
  return true
end

return M
