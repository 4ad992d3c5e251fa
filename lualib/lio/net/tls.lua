-- TLS on connections: `start_tls`, which connects and protocol code use, and the handshakes of listeners. Part of
-- `lio.net`. A handshake with a client that a listener has accepted needs no task: the loop's events drive it.

local defer = require "lio.defer"
local misuse = require "lio.misuse"
local options = require "lio.options"
local refresh <const> = require "lio.tls.refresh"
local stream = require "lio.stream"
local tls = require "lio.tls"
local wait_queue = require "lio.net.wait_queue"

local now <const> = require("lio").now
local Connection <const> = stream.methods
local is_closed <const>, try_handshake <const> = Connection.is_closed, Connection.handshake

-- The time limit of a handshake, in seconds.
local TIMEOUT <const> = 10

local M = {}

-- Handshakes of tasks --------------------------------------------------------------------------------

-- Waits for the handshake of a connection until the time `deadline`. Returns true, or nil, message, code.
local function wait_for_handshake(driver, c, deadline)
  while true do
    local state, message, code = try_handshake(c)
    if state == true then return true end
    if not state then return nil, message, code end
    local queue = state == "read" and driver.read_queue or driver.write_queue
    local reason = queue:wait_ready(c, math.max(deadline - now(), 0))
    queue:release(c)
    if reason == "closed" then return nil, "closed", "closed" end
    if reason == "timeout" then return nil, "handshake: timeout", "timeout" end
  end
end

-- `shake_hands(driver, c, object, host, seconds)`: puts TLS on a connection and waits for the handshake. `object` is a
-- result of `tls.server`, or of `tls.client` that connects to `host`. Returns true; or nil, message, code, and then the
-- connection is closed.
function M.shake_hands(driver, c, object, host, seconds)
  local deadline = now() + (seconds or TIMEOUT)
  local ok, message, code
  -- Also closes the connection if the task is killed.
  local _ <close> = defer(function()
    if not ok then driver.net.close(c) end
  end)
  local begun
  begun, message, code = c:start_tls_now(object, host)
  if begun then ok, message, code = wait_for_handshake(driver, c, deadline) end
  if ok then return true end
  return nil, message, code
end

local OPTIONS <const> = { server_name = options.string, timeout = options.seconds, server = options.boolean }

-- `install(driver, calls)`: adds the function of this file to `calls`.
function M.install(driver, calls)
  -- `start_tls(c [, settings [, opts]])`: puts TLS on a connection, and waits for the handshake. No other task may use
  -- the connection meanwhile. `settings` is `true` (default), the options of `tls.client` or its result; for the side
  -- of the server, a result of `tls.server`, or its options with `opts.server = true`. `opts`: `server_name` (the name
  -- to verify, which a client needs), `timeout` (10 seconds), `server`. Returns true; or nil, message, code, and then
  -- the connection is closed.
  function calls.start_tls(c, settings, opts)
    misuse.check_kind("start_tls", c, "connection")
    opts = options.check("net.start_tls", 3, opts, OPTIONS)
    if settings == nil then settings = true end
    local of = (opts.server or tls.is_server(settings)) and tls.server_of or tls.client_of
    local object, message, code = of("net.start_tls", settings)
    if not object then return nil, message, code end
    if is_closed(c) then return nil, "closed", "closed" end
    if wait_queue.holder_of(driver.read_queue, c) or driver.write_queue.holders[c] then
      misuse.raise "net.start_tls: another task uses the connection"
    end
    return M.shake_hands(driver, c, object, opts.server_name, opts.timeout)
  end
end

-- Handshakes of listeners ----------------------------------------------------------------------------

-- The handshakes of one listener. `first` and `last` are the ends of a list of handshakes, the oldest first; `count` is
-- their number; `ready` are connections whose handshakes are complete, from `ready_first` to `ready_last`.
local Handshakes = {}
Handshakes.__index = Handshakes

-- One handshake: the event handler of its connection, and the value of its timer.
local Handshake = {}
Handshake.__index = Handshake

-- `new(driver, object, on_ready)` returns the handshakes of a listener. `object` is a result of `tls.server`.
-- `on_ready()` is called when a connection is ready.
function M.new(driver, object, on_ready)
  local settings = tls.settings_of(object)
  return setmetatable({
    driver = driver,
    object = object,
    timeout = settings.handshake_timeout,
    limit = settings.max_handshakes,
    on_ready = on_ready,
    count = 0,
    ready = {},
    ready_first = 1,
    ready_last = 0,
  }, Handshakes)
end

local function unlink(handshake)
  local all, before, after = handshake.all, handshake.before, handshake.after
  if before then before.after = after else all.first = after end
  if after then after.before = before else all.last = before end
  all.count = all.count - 1
  all.driver.timers:cancel(handshake.timer)
end

function Handshake:fail()
  unlink(self)
  self.c:close_now()
end

-- Called when the time limit has passed.
function Handshake:expired()
  self:fail()
end

-- Called for the events of the connection.
function Handshake:on_events()
  local state = try_handshake(self.c)
  if not state then return self:fail() end
  if state ~= true then return end
  unlink(self)
  local all <const>, c <const> = self.all, self.c
  all.driver:set_event_handler(c, nil)
  all.ready_last = all.ready_last + 1
  all.ready[all.ready_last] = c
  all.on_ready()
end

-- `handshakes:begin(c)`: begins the handshake of an accepted connection. If there are too many, ends the oldest.
function Handshakes:begin(c)
  refresh(self.object)
  if not c:start_tls_now(self.object) then
    c:close_now()
    return
  end
  if self.count >= self.limit then self.first:fail() end
  local handshake = setmetatable({ all = self, c = c, before = self.last }, Handshake)
  if self.last then self.last.after = handshake else self.first = handshake end
  self.last = handshake
  self.count = self.count + 1
  handshake.timer = self.driver.timers:add(self.timeout, handshake)
  self.driver:set_event_handler(c, handshake)
  handshake:on_events()
end

-- `handshakes:take()` returns a connection whose handshake is complete; nil if there is none.
function Handshakes:take()
  local c = self.ready[self.ready_first]
  if not c then return nil end
  self.ready[self.ready_first] = nil
  self.ready_first = self.ready_first + 1
  return c
end

-- `handshakes:close()`: closes all connections.
function Handshakes:close()
  while self.first do self.first:fail() end
  for c in self.take, self do c:close_now() end
end

return M
