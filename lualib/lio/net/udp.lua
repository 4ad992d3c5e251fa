-- Datagrams: `udp`, `recvfrom`, `sendto`. Part of `lio.net`.

local stream = require "lio.stream"
local lio_socket = require "lio.socket"
local resolver = require "lio.resolver"
local misuse = require "lio.misuse"
-- Under `lio --watch`: where sockets outlive the program; else false.
local watched <const> = require "lio.watched"

local READ <const>, WRITE <const> = 1, 2
-- So many datagrams in a row without a wait; then others get their turn.
local BURST <const> = 64

return function(api, host)
  local selector, turns = host.selector, host.turns
  local reads <const>, writes <const> = turns.reads, turns.writes

  local Udp = {}
  Udp.__index = Udp
  Udp.__name = "lio.udp"

  -- `udp([addr = "0.0.0.0" [, port = 0]])` → a datagram socket bound there, or `false, message, code`.
  function api.udp(addr, port)
    addr, port = addr or "0.0.0.0", port or 0
    misuse.check("udp", 1, addr, "string")
    misuse.check_port("udp", 2, port)
    local ip, family = resolver.is_numeric(addr)
    if not ip then return false, "udp: not an address: " .. addr, "EINVAL" end
    local key = watched and port ~= 0 and ("udp %s %d"):format(ip, port)
    local s, message, code = key and watched.wants(key), nil, nil
    local ok = s and true
    if not s then
      s, message, code = lio_socket.create(family == "inet6" and "udp6" or "udp")
      if not s then return false, message, code end
      repeat
        ok, message, code = s:bind(ip, port)
      until ok or not key or code ~= "in use" or not watched.is_taken(key)
      if ok and key then watched.made(key, s) end
    end
    if ok then ok, message, code = stream.watch(selector, s) end
    if not ok then
      s:close()
      return false, message, code
    end
    return setmetatable({ socket = s, family = family, burst = 0, key = key }, Udp)
  end

  -- Waits until the socket is ready for `bit`, with the turn. → true, or nil, message, code.
  local function wait_for(u, dir, bit)
    u.burst = 0
    local armed, message, code = selector:arm(u.socket, bit)
    if not armed then return nil, message, code end
    local reason = turns.await(dir, u.socket)
    if reason == "timeout" or reason == "closed" then return nil, reason, reason end
    return true
  end

  -- One turn: `f` tries, and returns false when it would block. → what it returned, or nil, message, code.
  local function in_turn(u, dir, bit, f, ...)
    local s = u.socket
    if dir.turn[s] then
      local problem = turns.queue_up(dir, s)
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
        local ready, message, code = wait_for(u, dir, bit)
        if not ready then a, b, c = nil, message, code end
      end
    until a ~= false
    turns.pass_on(dir, s)
    return a, b, c
  end

  -- An ICMP answer to what was sent before is not this call's failure: it tries again.
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

  -- `recvfrom(u)` → data, ip, port of one datagram; `nil, message, code` on failure. `""` is a datagram
  -- of length 0.
  function api.recvfrom(u)
    misuse.check_kind("recvfrom", u, "datagram socket")
    u.burst = u.burst + 1
    if u.burst > BURST and not u.closed and not reads.turn[u.socket] then
      -- Due at once, if there is more.
      local ready, message, code = wait_for(u, reads, READ)
      turns.pass_on(reads, u.socket)
      if not ready then return nil, message, code end
    end
    local data, from, code = in_turn(u, reads, READ, receive)
    if not data then return nil, from, code end
    local ip, port = from:value()
    return data, ip, port
  end

  -- The address to send to: the name's first of the socket's own family.
  local function find_address(u, addr)
    if resolver.is_numeric(addr) then return addr end
    local list, message, code = api.resolve(addr)
    if not list then return nil, message, code end
    for _, ip in ipairs(list) do
      local _, family = resolver.is_numeric(ip)
      if family == u.family then return ip end
    end
    return nil, "sendto: " .. addr .. " has no address of the socket's family", "unresolved"
  end

  -- `sendto(u, data, addr, port)` → true, or `nil, message, code`. A host name is resolved.
  function api.sendto(u, data, addr, port)
    misuse.check_kind("sendto", u, "datagram socket")
    if type(data) ~= "string" then misuse.argument("sendto", 2, "string", data) end
    if type(addr) ~= "string" then misuse.argument("sendto", 3, "address", addr) end
    misuse.check_port("sendto", 4, port)
    local ip, message, code = find_address(u, addr)
    if not ip then return nil, message, code end
    local sent
    sent, message, code = in_turn(u, writes, WRITE, transmit, data, ip, port)
    if sent then return true end
    return nil, message, code
  end

  -- `u:address()` → ip, port, family it is bound to.
  function Udp:address()
    misuse.check_kind("address", self, "datagram socket")
    if self.closed then return nil, "closed", "closed" end
    local here, message, code = self.socket:info("socket")
    if not here then return nil, message, code end
    return here:value()
  end

  function Udp:is_closed()
    misuse.check_kind("is_closed", self, "datagram socket")
    return self.closed == true
  end

  function Udp:__tostring()
    return "udp (" .. (self.closed and "closed" or tostring(self.socket:info("socket"))) .. ")"
  end

  -- `u:close()` → true. Idempotent; who waits on it gets `nil, "closed"`.
  function Udp:close()
    misuse.check_kind("close", self, "datagram socket")
    if self.closed then return true end
    self.closed = true
    if self.key then
      -- Others have it open as well, so that the system would go on with events.
      selector:event_del(self.socket)
      watched.closed(self.key)
    end
    self.socket:close()
    turns.forget(self.socket)
    return true
  end

  Udp.__close = Udp.close
  Udp.recvfrom, Udp.sendto = api.recvfrom, api.sendto
  -- `u:timeout(read_seconds, write_seconds)`, `u:option(name [, value])`: as for connections.
  Udp.timeout, Udp.option = api.timeout, api.option
end
