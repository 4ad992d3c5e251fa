-- A client's connections. For each host: the number of connections, the idle connections, and a queue of waiting tasks.
-- Part of `lio.http.client`.
--
-- Invariant: a host's `count` is the number of its connections that are open or being opened, at most `max_per_host`; a
-- task waits only while all these connections are in use. A connection that is released, or the place of a connection
-- that is closed, is given to the task that has waited longest.

local connection = require "lio.http.client.connection"
local default_net = require "lio.net"
local defer = require "lio.defer"
local drivers = require "lio.net.driver"
local now <const> = require("lio").now

local READ <const> = 1

local Pool = {}
Pool.__index = Pool

local M = {}

-- `new(options)` returns a pool. `options`: `net` (a value that `drivers.of` accepts, or nil), `max_idle`,
-- `max_idle_per_host`, `max_per_host`, `idle_timeout` (seconds), `headers` and `fields` (limits for a response's head).
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

-- `pool:driver()` returns the driver whose loop runs the pool's connections.
function Pool:driver()
  local instance = (self.options.net or default_net).instance
  if instance ~= self.instance then self.instance, self.known_driver = instance, drivers.of(instance) end
  return self.known_driver
end

-- Returns a host's record; creates it if necessary. `waiting[first]` to `waiting[last]` are the tokens of the waiting
-- tasks, in order.
local function host_of(pool, key)
  local host = pool.hosts[key]
  if not host then
    host = { key = key, count = 0, idle = {}, waiting = {}, first = 1, last = 0 }
    pool.hosts[key] = host
  end
  return host
end

-- Gives `what` to the task that has waited longest. Returns whether a task was waiting. `what`: a connection, or true
-- for the place of a new connection.
local function grant(pool, host, what)
  while host.first <= host.last do
    local token = host.waiting[host.first]
    host.waiting[host.first] = nil
    host.first = host.first + 1
    token.granted = what
    if pool:driver():wake(token, what) then return true end
    token.granted = nil
  end
  host.first, host.last = 1, 0
  return false
end

local function free_place(pool, host)
  if grant(pool, host, true) then return end
  host.count = host.count - 1
  if host.count == 0 then pool.hosts[host.key] = nil end
end

local function remove_idle(pool, conn)
  conn.idle = false
  pool.idle_count = pool.idle_count - 1
  local idle = conn.host.idle
  for at = #idle, 1, -1 do
    if idle[at] == conn then return table.remove(idle, at) end
  end
end

local function add(pool, host, conn)
  pool.opened = pool.opened + 1
  pool.all[conn] = true
  conn.host, conn.pool = host, pool
  function conn.on_close()
    pool.all[conn] = nil
    if conn.idle then remove_idle(pool, conn) end
    if not conn.keeps_place then free_place(pool, host) end
  end
  return conn
end

-- Returns the most recently used idle connection, or nil. Closes idle connections that the server has closed or on
-- which it has sent data.
local function take_idle(pool, host)
  while true do
    local conn = host.idle[#host.idle]
    if not conn then return nil end
    if conn.responses:is_quiet() then
      remove_idle(pool, conn)
      conn.driver.timers:clear(conn.timer)
      pool.reused = pool.reused + 1
      return conn
    end
    conn:close()
  end
end

-- Waits for a connection or a place. Returns the connection, or true for a place; or nil, message, code.
local function wait_for_grant(pool, host, seconds)
  local driver = pool:driver()
  local token = driver:new_token()
  local _ <close> = defer(function()
    -- If `granted` is set, the task was killed after the grant, before it ran.
    local granted = token.granted
    if granted == true then
      free_place(pool, host)
    elseif granted then
      pool:release(granted)
    end
  end)
  host.last = host.last + 1
  host.waiting[host.last] = token
  local granted = driver:wait(token, seconds)
  token.granted = nil
  if granted == "timeout" then return nil, "waiting for a connection: timeout", "timeout" end
  if granted == "closed" then return nil, "closed", "closed" end
  return granted
end

-- Opens a connection, which the caller has already counted in `host.count`. Returns the connection; or nil, message,
-- code.
local function open(pool, host, endpoint, seconds)
  local driver, opened = pool:driver(), false
  local _ <close> = defer(function()
    if not opened then free_place(pool, host) end
  end)
  local c, message, code = endpoint:connect(driver, pool.options.net or driver.net, seconds)
  if not c then return nil, message, code end
  if pool.closed then
    c:close()
    return nil, "closed", "closed"
  end
  opened = true
  return add(pool, host, connection.new(driver, c, pool.options))
end

-- Returns the number of seconds until the earlier of `deadline` and the request's deadline; nil if there is no limit.
local function seconds_left(timeouts, deadline)
  if timeouts.deadline then deadline = math.min(deadline, timeouts.deadline) end
  if deadline == math.huge then return nil end
  return math.max(deadline - now(), 0)
end

-- `pool:acquire(endpoint, timeouts [, is_new])` returns a connection that the caller owns until it is released or
-- closed; or nil, message, code. `endpoint`: a result of `endpoints.of`; `timeouts`: `connect` (seconds for the whole
-- call) and `deadline`; `is_new`: whether the connection must be new.
function Pool:acquire(endpoint, timeouts, is_new)
  if self.closed then return nil, "closed", "closed" end
  local host = host_of(self, endpoint.key)
  local deadline = now() + (timeouts.connect or math.huge)
  if is_new then
    while host.idle[1] do host.idle[1]:close() end
  else
    local conn = take_idle(self, host)
    if conn then return conn end
  end
  -- Closing the idle connections may have removed the host.
  host = host_of(self, endpoint.key)
  if host.count < self.options.max_per_host then
    host.count = host.count + 1
  else
    local granted, message, code = wait_for_grant(self, host, seconds_left(timeouts, deadline))
    if not granted then return nil, message, code end
    if granted ~= true then
      if not is_new then
        self.reused = self.reused + 1
        return granted
      end
      -- The new connection takes the place of the granted one.
      granted.keeps_place = true
      granted:close()
    end
  end
  return open(self, host, endpoint, seconds_left(timeouts, deadline))
end

-- `pool:release(conn)`: takes back a connection that its owner no longer uses.
function Pool:release(conn)
  if conn.closed then return end
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
  -- The loop then reports when the server closes the connection.
  conn.c:arm(READ)
end

-- `pool:close_idle()`: closes the idle connections.
function Pool:close_idle()
  local list = {}
  for conn in pairs(self.all) do
    if conn.idle then list[#list + 1] = conn end
  end
  for _, conn in ipairs(list) do conn:close() end
end

-- `pool:close()`: closes all connections. Tasks that use a connection or wait for one get "closed".
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

-- `pool:counts()` returns a table with `open`, `idle`, `opened` and `reused`.
function Pool:counts()
  local open_count = 0
  for _ in pairs(self.all) do open_count = open_count + 1 end
  return { open = open_count, idle = self.idle_count, opened = self.opened, reused = self.reused }
end

return M
