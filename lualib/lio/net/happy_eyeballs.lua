-- Connects to the addresses of a name as RFC 8305 ("Happy Eyeballs") requires: IPv6 and IPv4 addresses alternate, the
-- next attempt starts when the previous one fails or after 250 ms, and the first socket that connects is used. Part of
-- `lio.net`. Invariant: `running` contains the sockets of unfinished attempts; when the race ends, it closes them.

local lio_socket = require "lio.socket"
local resolver = require "lio.resolver"
local stream = require "lio.stream"

local now <const> = require("lio").now

local STAGGER <const> = 0.25 -- RFC 8305, section 5
local WRITE <const> = 2

local M = {}

-- A race is the token on which its task waits; the race's sockets and timer wake the task.
local Race = { stands_for = "a connect" }
Race.__index = Race

-- `race(driver, addresses, port [, seconds])` returns a race that ends after `seconds`. Closing the race (`<close>`)
-- ends it earlier.
function M.race(driver, addresses, port, seconds)
  local race = setmetatable({
    driver = driver,
    addresses = addresses,
    port = port,
    running = {},
    deadline = seconds and now() + seconds,
  }, Race)
  race.timer = driver.timers:create(race)
  return race
end

-- `alternate(addresses)` returns the addresses with IPv6 and IPv4 alternating, beginning with the family of the first
-- address (RFC 8305, section 4).
function M.alternate(addresses)
  local families, order = {}, {}
  for _, ip in ipairs(addresses) do
    local _, family = resolver.is_numeric(ip)
    if not families[family] then
      families[family] = {}
      order[#order + 1] = families[family]
    end
    table.insert(families[family], ip)
  end
  local result, index = {}, 1
  while #result < #addresses do
    for _, members in ipairs(order) do result[#result + 1] = members[index] end
    index = index + 1
  end
  return result
end

-- `race:run([attempt])`: waits for the first socket that connects, and returns it; or nil, message, code. Another task
-- may close the attempt (net/connect.lua) meanwhile.
function Race:run(attempt)
  local s = self:start_next()
  while not s do
    if #self.running == 0 then return nil, self.message, self.code end
    self:set_timer()
    if attempt then attempt.token = self end
    local reason = self.driver.scheduler.wait(self)
    if reason == "closed" then return nil, reason, reason end
    local failed
    s, failed = self:take_connected()
    if not s then
      if self.deadline and now() >= self.deadline then return nil, "connect: timeout", "timeout" end
      if reason == "tick" or failed then s = self:start_next() end
    end
  end
  return s
end

-- `race:start(protocol, endpoint)`: starts an attempt. Returns the attempt's socket if the socket connects at once. If
-- the attempt fails, stores its message and code in the race.
function Race:start(protocol, endpoint)
  local s, message, code = lio_socket.create(protocol)
  if not s then return self:fail(message, code) end
  if protocol ~= "unix" then s:option("nodelay", true) end
  local done
  done, message, code = s:connect(endpoint)
  if done then return s end
  if done == nil then
    s:close()
    return self:fail(message, code)
  end
  -- A registered socket stays open until it is closed. If an error follows, the end of the race closes it.
  self.running[#self.running + 1] = s
  self.driver.write_queue.tokens[s] = self
  local ok
  ok, message, code = stream.register_socket(self.driver.selector, s)
  if ok then ok, message, code = self.driver.selector:arm(s, WRITE) end
  if not ok then
    self:drop(#self.running)
    return self:fail(message, code)
  end
end

function Race:fail(message, code)
  self.message, self.code = message, code
end

-- Starts attempts until one does not fail at once. Returns the attempt's socket if it is already connected.
function Race:start_next()
  local under_way = #self.running
  repeat
    local ip = table.remove(self.addresses, 1)
    if not ip then return end
    local s = self:start_address(ip)
    if s then return s end
  until #self.running > under_way
end

function Race:start_address(ip)
  local _, family = resolver.is_numeric(ip)
  local endpoint, message, code = lio_socket.endpoint(family, ip, self.port)
  if not endpoint then return self:fail(message, code) end
  self.next_at = now() + STAGGER
  return self:start(family == "inet6" and "tcp6" or "tcp", endpoint)
end

-- Returns true if an attempt's socket is connected, false if the socket is not connected yet, and nil, message, code if
-- the attempt has failed.
local function connected(self, s)
  local ok, message, code = s:status()
  if not ok then return nil, message, code end
  local peer = s:info("peer")
  if not peer then
    ok, message, code = self.driver.selector:arm(s, WRITE)
    if ok then return false end
    return nil, message, code
  end
  -- The system chose the requested port as the local port too, so the socket is connected to itself: no process listens
  -- on the port.
  if peer == s:info("socket") then return nil, "connect: Connection refused", "refused" end
  return true
end

-- Checks every attempt. Returns a socket that is connected, or nil and whether an attempt has failed.
function Race:take_connected()
  local failed = false
  for index = #self.running, 1, -1 do
    local s = self.running[index]
    local is_connected, message, code = connected(self, s)
    if is_connected then
      table.remove(self.running, index)
      self.driver.write_queue.tokens[s] = nil
      self.driver.selector:event_del(s)
      return s
    end
    if is_connected == nil then
      self:fail(message, code)
      failed = true
      self:drop(index)
    end
  end
  return nil, failed
end

function Race:drop(index)
  local s = table.remove(self.running, index)
  self.driver.write_queue.tokens[s] = nil
  s:close()
end

function Race:set_timer()
  local timers = self.driver.timers
  local left = self.deadline and self.deadline - now()
  if #self.addresses > 0 then
    local stagger = self.next_at - now()
    left = math.min(left or stagger, stagger)
  end
  if left then timers:set(self.timer, math.max(left, 0)) else timers:clear(self.timer) end
end

-- Called when the timer has fired.
function Race:expired()
  self.driver.scheduler.wakeup(self, "tick")
end

function Race:__close()
  for index = #self.running, 1, -1 do self:drop(index) end
  self.driver.timers:free(self.timer)
end

return M
