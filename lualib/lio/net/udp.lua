-- Datagrams: `udp`, `recvfrom`, `sendto`. Part of `lio.net`.

local lio_socket = require "lio.socket"
local resolver = require "lio.resolver"

local Udp = {}
Udp.__index = Udp
Udp.__name = "lio.udp"

return function(api, host)
  local selector, sched = host.selector, host.sched

  -- `udp([addr = "0.0.0.0" [, port = 0]])` → a datagram socket bound there, or `false, message, code`.
  function api.udp(addr, port)
    local ip, family = resolver.is_numeric(addr or "0.0.0.0")
    if not ip then return false, "udp: not an address: " .. addr, "EINVAL" end
    local s, message, code = lio_socket.create(family == "inet6" and "udp6" or "udp")
    if not s then return false, message, code end
    local ok
    ok, message, code = s:bind(ip, port or 0)
    if ok then ok, message, code = selector:event_add(s, 0) end
    if not ok then
      s:close()
      return false, message, code
    end
    return setmetatable({ socket = s }, Udp)
  end

  -- Waits for one direction; several tasks may: each is woken in turn.
  local function wait_for(u, list, bit, seconds)
    local s = u.socket
    while list[s] and list[s] ~= sched.running() do
      local token = sched.running()
      local queue = u[list] or {}
      u[list] = queue
      queue[#queue + 1] = token
      if sched.wait(token) == "closed" or u.closed then return "closed" end
    end
    selector:arm(s, bit)
    return host.wait_ready(list, s, seconds)
  end

  local function pass_on(u, list)
    local queue = u[list]
    if queue and queue[1] then sched.wakeup(table.remove(queue, 1), true) end
  end

  -- `recvfrom(u)` → data, ip, port of one datagram; `nil, message, code` on failure. `""` is a datagram
  -- of length 0.
  function api.recvfrom(u)
    while true do
      if u.closed then return nil, "closed", "closed" end
      local data, from, code = u.socket:recvfrom()
      if data then
        pass_on(u, host.readers)
        local ip, port = from:value()
        return data, ip, port
      end
      -- An ICMP answer to what was sent before is not this call's failure.
      if data == nil and code ~= "refused" then return nil, from, code end
      if data == false then
        local reason = wait_for(u, host.readers, 1, u.read_seconds)
        if reason == "timeout" or reason == "closed" then
          pass_on(u, host.readers)
          return nil, reason, reason
        end
      end
    end
  end

  -- `sendto(u, data, addr, port)` → true, or `nil, message, code`. A host name is resolved.
  function api.sendto(u, data, addr, port)
    if not resolver.is_numeric(addr) then
      local list, message, code = api.resolve(addr)
      if not list then return nil, message, code end
      addr = list[1]
    end
    while true do
      if u.closed then return nil, "closed", "closed" end
      local sent, message, code = u.socket:sendto(data, addr, port)
      if sent then
        pass_on(u, host.writers)
        return true
      end
      if sent == nil and code ~= "refused" then return nil, message, code end
      if sent == false then
        local reason = wait_for(u, host.writers, 2, u.write_seconds)
        if reason == "timeout" or reason == "closed" then return nil, reason, reason end
      end
    end
  end

  -- `u:timeout(read_seconds, write_seconds)`: as for connections.
  function Udp:timeout(read_seconds, write_seconds)
    self.read_seconds, self.write_seconds = read_seconds, write_seconds
    return true
  end

  -- `u:address()` → ip, port, family it is bound to.
  function Udp:address()
    local here, message, code = self.socket:info("socket")
    if not here then return nil, message, code end
    return here:value()
  end

  function Udp:option(...)
    return self.socket:option(...)
  end

  -- `u:close()` → true. Idempotent; who waits on it gets `nil, "closed"`.
  function Udp:close()
    if self.closed then return true end
    self.closed = true
    self.socket:close()
    host.forget(self.socket)
    for _, list in ipairs { host.readers, host.writers } do
      for _, token in ipairs(self[list] or {}) do sched.wakeup(token, "closed") end
    end
    return true
  end

  Udp.__close = Udp.close
  Udp.recvfrom, Udp.sendto = api.recvfrom, api.sendto
end
