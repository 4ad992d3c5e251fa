-- A client's connections, by server: the idle ones, how many there are, and who waits for one. Part of
-- `lio.http.client`.
--
-- Invariant: `count` of a server is the connections that are open or being opened for it, `max_per_host` at
-- most; somebody waits only while that many are in use. A connection or place that falls free goes straight to
-- who waited longest.

local connection = require "lio.http.client.connection"
local drivers = require "lio.net.driver"
local now <const> = require("lio").now

local READ <const> = 1

local Pool = {}
Pool.__index = Pool

local M = {}

-- `new(options)` → pool. `options`: `net` (an instance of `lio.net`, or nil), `max_idle`, `max_idle_per_host`,
-- `max_per_host`, `idle_timeout` (seconds), `headers`, `fields`.
function M.new(options)
  return setmetatable({
    options = options,
    hosts = {},
    all = {},
    idle_count = 0,
    opened = 0,
    reused = 0,
  }, Pool)
end

-- `pool:driver()` → the driver of the instance of `lio.net` that its connections are made by.
function Pool:driver()
  local net = self.options.net or require("lio.net").instance
  if net ~= self.net then self.net, self.known_driver = net, drivers.of(net) end
  return self.known_driver
end

local function host_of(pool, key)
  local host = pool.hosts[key]
  if not host then
    host = { key = key, count = 0, idle = {}, waiting = {}, first = 1, last = 0 }
    pool.hosts[key] = host
  end
  return host
end

-- Hands a connection, or a place for one (true), to who waited longest. → whether somebody took it.
local function grant(pool, host, what)
  while host.first <= host.last do
    local ticket = host.waiting[host.first]
    host.waiting[host.first] = nil
    host.first = host.first + 1
    ticket.granted = what
    if pool:driver():wake(ticket, what) then return true end
    ticket.granted = nil
  end
  host.first, host.last = 1, 0
  return false
end

-- A place falls free.
local function free_place(pool, host)
  if grant(pool, host, true) then return end
  host.count = host.count - 1
  if host.count == 0 then pool.hosts[host.key] = nil end
end

local function forget_idle(pool, conn)
  conn.idle = false
  pool.idle_count = pool.idle_count - 1
  local idle = conn.host.idle
  for at = #idle, 1, -1 do
    if idle[at] == conn then return table.remove(idle, at) end
  end
end

local function adopt(pool, host, conn)
  pool.opened = pool.opened + 1
  pool.all[conn] = true
  conn.host, conn.pool = host, pool
  function conn.on_close()
    pool.all[conn] = nil
    if conn.idle then forget_idle(pool, conn) end
    if not conn.leaves_place then free_place(pool, host) end
  end
  return conn
end

-- An idle connection that the server has not ended meanwhile; the one used last first.
local function take_idle(pool, host)
  while true do
    local conn = host.idle[#host.idle]
    if not conn then return nil end
    if conn.x:is_quiet() then
      forget_idle(pool, conn)
      conn.driver.timers:clear(conn.timer)
      pool.reused = pool.reused + 1
      return conn
    end
    conn:close()
  end
end

-- Waits for a connection or a place. → connection, true for a place; nil, message, code.
local function wait_turn(pool, host, seconds)
  local driver = pool:driver()
  local ticket = driver:new_token()
  local _ <close> = setmetatable({}, { __close = function()
    local what = ticket.granted
    -- Its task was killed between the grant and its turn.
    if what == true then
      free_place(pool, host)
    elseif what then
      pool:release(what)
    end
  end })
  host.last = host.last + 1
  host.waiting[host.last] = ticket
  local what = driver:wait(ticket, seconds)
  ticket.granted = nil
  if what == "timeout" then return nil, "waiting for a connection: timeout", "timeout" end
  if what == "closed" then return nil, "closed", "closed" end
  return what
end

-- Opens a connection in a place that is taken already.
local function open(pool, host, place, seconds)
  local driver, opened = pool:driver(), false
  local _ <close> = setmetatable({}, { __close = function()
    if not opened then free_place(pool, host) end
  end })
  if seconds and seconds <= 0 then return nil, "connect: timeout", "timeout" end
  local c, message, code = driver.net.connect(place.addr, place.port, { timeout = seconds })
  if not c then return nil, message, code end
  if pool.closed then
    c:close()
    return nil, "closed", "closed"
  end
  opened = true
  return adopt(pool, host, connection.new(driver, c, pool.options))
end

local function seconds_left(timing, until_)
  if timing.deadline then until_ = math.min(until_, timing.deadline) end
  if until_ == math.huge then return nil end
  return math.max(until_ - now(), 0)
end

-- `pool:acquire(place, timing [, fresh])` → a connection that is the caller's until it is released or closed;
-- or nil, message, code. `place`: `key`, `addr`, `port`; `timing.connect`: seconds for all of this; `fresh`: not
-- one that was used before.
function Pool:acquire(place, timing, fresh)
  if self.closed then return nil, "closed", "closed" end
  local host = host_of(self, place.key)
  local until_ = now() + (timing.connect or math.huge)
  if fresh then
    while host.idle[1] do host.idle[1]:close() end
    host = host_of(self, place.key)
  else
    local conn = take_idle(self, host)
    if conn then return conn end
    host = host_of(self, place.key)
  end
  if host.count < self.options.max_per_host then
    host.count = host.count + 1
  else
    local conn, message, code = wait_turn(self, host, seconds_left(timing, until_))
    if not conn then return nil, message, code end
    if conn ~= true then
      if not fresh then
        self.reused = self.reused + 1
        return conn
      end
      -- Its place is what is wanted.
      conn.leaves_place = true
      conn:close()
    end
  end
  return open(self, host, place, seconds_left(timing, until_))
end

-- `pool:release(conn)`: the caller is done with it.
function Pool:release(conn)
  if conn.gone then return end
  if self.closed or not conn:is_reusable() then return conn:close() end
  local host, options = conn.host, self.options
  if grant(self, host, conn) then return end
  if #host.idle >= options.max_idle_per_host or self.idle_count >= options.max_idle then return conn:close() end
  conn.idle = true
  host.idle[#host.idle + 1] = conn
  self.idle_count = self.idle_count + 1
  local timers = conn.driver.timers
  conn.timer = conn.timer or timers:create(conn)
  timers:set(conn.timer, options.idle_timeout)
  -- So that the loop tells when the server ends it.
  conn.c:arm(READ)
end

-- `pool:close_idle()`: closes the connections that nobody uses.
function Pool:close_idle()
  local list = {}
  for conn in pairs(self.all) do
    if conn.idle then list[#list + 1] = conn end
  end
  for _, conn in ipairs(list) do conn:close() end
end

-- `pool:close()`: closes all of them; who uses one, or waits, gets "closed".
function Pool:close()
  self.closed = true
  for _, host in pairs(self.hosts) do
    for at = host.first, host.last do self:driver():wake(host.waiting[at], "closed") end
    host.first, host.last, host.waiting = 1, 0, {}
  end
  local list = {}
  for conn in pairs(self.all) do list[#list + 1] = conn end
  for _, conn in ipairs(list) do conn:close() end
end

-- `pool:counts()` → `open`, `idle`, `opened`, `reused` as a table.
function Pool:counts()
  local open_count = 0
  for _ in pairs(self.all) do open_count = open_count + 1 end
  return { open = open_count, idle = self.idle_count, opened = self.opened, reused = self.reused }
end

return M
