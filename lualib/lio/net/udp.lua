-- Datagram sockets: `udp`, `recvfrom`, `sendto`. Part of `lio.net`.

local lio_socket = require "lio.socket"
local misuse = require "lio.misuse"
local option = require "lio.net.option"
local resolver = require "lio.resolver"
local stream = require "lio.stream"
-- Under `lio --watch`, the functions that keep sockets open from one program to the next; otherwise false.
local supervisor <const> = require "lio.supervisor"

local READ <const>, WRITE <const> = 1, 2
-- A task that receives this many datagrams without waiting lets other tasks run.
local BURST <const> = 64

local M = {}

local Udp = {}
Udp.__index = Udp
Udp.__name = "lio.udp"

-- Opening --------------------------------------------------------------------------------------------

-- Returns a bound socket, or nil, message, code. Under `lio --watch`, returns the previous program's socket if there is
-- one.
local function open_socket(ip, family, port, key)
  local kept = key and supervisor.request_socket(key)
  if kept then return kept end
  local s, message, code = lio_socket.create(family == "inet6" and "udp6" or "udp")
  if not s then return nil, message, code end
  local ok
  repeat
    ok, message, code = s:bind(ip, port)
  until ok or not key or code ~= "in use" or not supervisor.may_become_free(key)
  if not ok then
    s:close()
    return nil, message, code
  end
  if key then supervisor.report_socket(key, s) end
  return s
end

local function open(driver, addr, port)
  local ip, family = resolver.is_numeric(addr)
  if not ip then return false, "udp: not an address: " .. addr, "EINVAL" end
  local key = supervisor and port ~= 0 and ("udp %s %d"):format(ip, port)
  local s, message, code = open_socket(ip, family, port, key)
  if not s then return false, message, code end
  -- `closed` exists now, so that `close` needs no memory.
  local u = setmetatable({ driver = driver, socket = s, family = family, burst = 0, key = key, closed = false }, Udp)
  -- A registered socket stays open until it is closed, so no memory error may follow.
  local ok
  ok, message, code = stream.register_socket(driver.selector, s)
  if not ok then
    s:close()
    return false, message, code
  end
  return u
end

-- Waiting --------------------------------------------------------------------------------------------

-- Waits until the socket is ready. The caller then holds the socket. Returns true, or nil, message, code.
local function wait_ready(u, queue, events)
  u.burst = 0
  local armed, message, code = u.driver.selector:arm(u.socket, events)
  if not armed then return nil, message, code end
  local reason = queue:wait_ready(u.socket)
  if reason == "timeout" or reason == "closed" then return nil, reason, reason end
  return true
end

-- Waits until the caller may use the socket. Then calls `f` until it has a result; `f` returns false if it would block.
-- Returns the results of `f`, or nil, message, code.
local function call_in_order(u, queue, events, f, ...)
  local s = u.socket
  if queue.holders[s] then
    local problem = queue:acquire(s)
    if problem then return nil, problem, problem end
  end
  local a, b, c
  repeat
    if u.closed then
      a, b, c = nil, "closed", "closed"
    else
      a, b, c = f(s, ...)
    end
    if a == false then
      local ready, message, code = wait_ready(u, queue, events)
      if not ready then a, b, c = nil, message, code end
    end
  until a ~= false
  queue:release(s)
  return a, b, c
end

-- Receiving and sending ------------------------------------------------------------------------------

-- "refused" is an ICMP answer to an earlier datagram, not a failure of this call, so the call tries again.
local function receive(s)
  local data, from, code
  repeat data, from, code = s:recvfrom() until data ~= nil or code ~= "refused"
  return data, from, code
end

local function transmit(s, data, addr, port)
  local sent, message, code
  repeat sent, message, code = s:sendto(data, addr, port) until sent ~= nil or code ~= "refused"
  return sent, message, code
end

-- `recvfrom(u)` returns the data, the ip and the port of one datagram; on failure, `nil, message, code`. `""` is a
-- datagram of length 0.
function Udp.recvfrom(u)
  misuse.check_kind("recvfrom", u, "datagram socket")
  local queue <const> = u.driver.read_queue
  u.burst = u.burst + 1
  if u.burst > BURST and not u.closed and not queue.holders[u.socket] then
    -- If there are more datagrams, the wait ends in the next round of the loop.
    local ready, message, code = wait_ready(u, queue, READ)
    queue:release(u.socket)
    if not ready then return nil, message, code end
  end
  local data, from, code = call_in_order(u, queue, READ, receive)
  if not data then return nil, from, code end
  local ip, port = from:value()
  return data, ip, port
end

-- Returns the IP address to send to; or nil, message, code. For a host name, this is its first address of the socket's
-- family.
local function find_address(u, addr)
  if resolver.is_numeric(addr) then return addr end
  local list, message, code = u.driver.net.resolve(addr)
  if not list then return nil, message, code end
  for _, ip in ipairs(list) do
    local _, family = resolver.is_numeric(ip)
    if family == u.family then return ip end
  end
  return nil, "sendto: " .. addr .. " has no address of the socket's family", "unresolved"
end

-- `sendto(u, data, addr, port)` returns true, or `nil, message, code`. A host name is resolved.
function Udp.sendto(u, data, addr, port)
  misuse.check_kind("sendto", u, "datagram socket")
  if type(data) ~= "string" then misuse.argument("sendto", 2, "string", data) end
  if type(addr) ~= "string" then misuse.argument("sendto", 3, "address", addr) end
  misuse.check_port("sendto", 4, port)
  local ip, message, code = find_address(u, addr)
  if not ip then return nil, message, code end
  local sent
  sent, message, code = call_in_order(u, u.driver.write_queue, WRITE, transmit, data, ip, port)
  if sent then return true end
  return nil, message, code
end

-- State ----------------------------------------------------------------------------------------------

-- `u:timeout(read_seconds, write_seconds)`, `u:option(name [, value])`: as for connections.
Udp.timeout, Udp.option = option.timeout, option.option

-- `u:address()` returns the ip, the port and the family of the address that the socket is bound to.
function Udp:address()
  misuse.check_kind("address", self, "datagram socket")
  if self.closed then return nil, "closed", "closed" end
  local address, message, code = self.socket:info("socket")
  if not address then return nil, message, code end
  return address:value()
end

function Udp:is_closed()
  misuse.check_kind("is_closed", self, "datagram socket")
  return self.closed == true
end

function Udp:__tostring()
  return "udp (" .. (self.closed and "closed" or tostring(self.socket:info("socket"))) .. ")"
end

-- `u:close()` closes the socket and returns true. Idempotent. Tasks that wait on the socket get `nil, "closed"`.
function Udp:close()
  misuse.check_kind("close", self, "datagram socket")
  if self.closed then return true end
  self.closed = true
  if self.key then
    -- The supervisor also has the socket open, so the system would report the socket's events even after the close.
    self.driver.selector:event_del(self.socket)
    supervisor.report_closed(self.key)
  end
  self.socket:close()
  self.driver:forget(self.socket)
  return true
end

Udp.__close = Udp.close

-- `install(driver, calls)`: adds the functions of this file to `calls`.
function M.install(driver, calls)
  calls.recvfrom, calls.sendto = Udp.recvfrom, Udp.sendto

  -- `udp([addr = "0.0.0.0" [, port = 0]])` returns a datagram socket bound to that address, or `false, message, code`.
  function calls.udp(addr, port)
    addr, port = addr or "0.0.0.0", port or 0
    misuse.check("udp", 1, addr, "string")
    misuse.check_port("udp", 2, port)
    return open(driver, addr, port)
  end
end

return M
