-- Servers, which `net.serve` and `driver:serve` return: an accept loop with a graceful stop.
--
-- A backend owns the connections of a server and serves them. It is an object with the methods
--   `admit(c)`        serves a connection
--   `release(c)`      removes a connection that another owner has taken over
--   `count()`         returns the number of its connections
--   `is_full()`       returns whether no connection may be accepted now
--   `notify_leave()`  makes the backend call `on_leave`, which the server sets, when the next connection is removed
--   `stop()`          is called when a stop begins
--   `close()`         closes the remaining connections at the end of a stop
-- A backend that accepts connections itself also has
--   `listen(socket)`  sets the socket from which it accepts
--   `accept()`        returns true if it has accepted a connection or is full; false if no peer is waiting (the
--                     socket is then armed); nil, message, code on failure
--   `accept_waiting()`  accepts a waiting peer even if the server is full; returns whether a peer was waiting
--
-- A server uses `net`, `scheduler`, `timers`, `sleep`, `connection_kind` and `listener_kind` of its driver, and
-- `accept_by` if the backend accepts connections itself. net/remote.lua has a driver without a loop. The field `grace`
-- of a server, if it is set, is the grace period of the server, in seconds, when the loop stops.

local defer = require "lio.defer"
local misuse = require "lio.misuse"
local report = require "lio.net.report"

-- The pause after a failed accept, in seconds, so that failures do not make the loop spin.
local PAUSE <const> = 0.1

local M = {}

local Methods = {}

-- `server.count` is the result of the backend's `count`.
local Server = { __name = "lio.server" }

function Server.__index(server, key)
  if key == "count" then return server.backend:count() end
  return Methods[key]
end

-- Accepting ------------------------------------------------------------------------------------------

local function accept_next(server)
  local backend, listener = server.backend, server.listener
  if backend.accept then return server.driver.accept_by(listener, backend) end
  local c, message, code = server.driver.net.accept(listener)
  if c then backend:admit(c) end
  return c, message, code
end

local function report_and_pause(server, message)
  report(message)
  server.driver:sleep(PAUSE)
end

local function accept_loop(server)
  local backend = server.backend
  if backend.listen then backend:listen(server.listener.socket) end
  while not server.stopping do
    if backend:is_full() then
      backend:notify_leave()
      server.driver.scheduler.wait(server)
    else
      local accepted, message, code = accept_next(server)
      if not accepted then
        if code == "closed" then return end
        report_and_pause(server, message)
      end
    end
  end
end

local function admit(server, c)
  if server.stopping or server.backend:is_full() then return false end
  server.backend:admit(c)
  return true
end

local function accept_others(server, listener)
  while not server.stopping and not listener.closed do
    if server.backend:is_full() then
      server.driver:sleep(PAUSE)
    else
      local c, message, code = server.driver.net.accept(listener)
      if c then
        if not admit(server, c) then c:close() end
      elseif code ~= "closed" then
        report_and_pause(server, message)
      end
    end
  end
end

-- `server:accept_from(listener)`: also serves the connections of another listener, until that listener is closed or the
-- server stops.
function Methods:accept_from(listener)
  misuse.check_kind("accept_from", self, "server")
  misuse.check_kind("accept_from", listener, self.driver.listener_kind)
  self.others = self.others or {}
  self.others[listener] = true
  self.driver.scheduler.fork(function()
    accept_others(self, listener)
    self.others[listener] = nil
  end)
end

-- `server:admit(c)`: serves a connection that the server has not accepted itself, and returns true. Returns false if
-- the server is stopping or full.
function Methods:admit(c)
  misuse.check_kind("admit", self, "server")
  misuse.check_kind("admit", c, self.driver.connection_kind)
  return admit(self, c)
end

-- `server:release(c)`: removes a connection that another owner has taken over, so that the server no longer counts it.
function Methods:release(c)
  misuse.check_kind("release", self, "server")
  misuse.check_kind("release", c, self.driver.connection_kind)
  self.backend:release(c)
end

-- Stopping -------------------------------------------------------------------------------------------

-- Called when a connection has been removed. Wakes the accept loop, which waits on the server while the server is full.
local function on_leave(server)
  local wakeup <const> = server.driver.scheduler.wakeup
  wakeup(server)
  if not server.drained then return end
  if server.count == 0 then wakeup(server.drained) else server.backend:notify_leave() end
end

-- Waits until no connection remains, at most `grace` seconds.
local function drain(server, grace)
  local scheduler, timers = server.driver.scheduler, server.driver.timers
  local token = {}
  server.drained = token
  server.backend:notify_leave()
  local id = timers:add(grace, { expired = function() scheduler.wakeup(token) end })
  local _ <close> = defer(function()
    timers:cancel(id)
    server.drained = false
  end)
  scheduler.wait(token)
end

-- Closes a listener. Clients that are still in the system's queue are served; otherwise their connections would be
-- reset.
local function close_listener(server, listener)
  for c in listener.take_waiting, listener do server.backend:admit(c) end
  listener:close()
end

-- Closes the remaining connections, and the listener if an error has prevented this. Wakes the tasks that wait for the
-- server to end.
local function end_stop(server)
  if server.forget_stop then server.forget_stop() end
  local listener = server.listener
  if listener and not listener.closed then listener:close() end
  server.backend:close()
  server.ended = true
  for token in pairs(server.waiters) do server.driver.scheduler.wakeup(token) end
end

-- `abandon(server)`: ends a server at once, without waiting. For code that has started a server and has then failed.
function M.abandon(server)
  server.stopping = true
  end_stop(server)
end

-- `server:stop([grace_seconds = 0])`: stops accepting, waits at most `grace_seconds` for the connections to end, then
-- closes the remaining connections, even if an error is raised or the task is killed. Must be called from a task. A
-- second call does nothing.
function Methods:stop(grace)
  misuse.check_kind("stop", self, "server")
  misuse.check_optional_seconds("stop", 1, grace)
  if self.stopping then return end
  -- If there is no memory for this, the server is not stopping, and a second call stops it.
  local _ <close> = defer(function() end_stop(self) end)
  self.stopping = true
  local listener, backend, wakeup <const> = self.listener, self.backend, self.driver.scheduler.wakeup
  if listener then
    if backend.accept_waiting then
      while not listener.closed and backend:accept_waiting() do end
    end
    close_listener(self, listener)
  end
  for other in pairs(self.others or {}) do close_listener(self, other) end
  if self.forget_stop then self.forget_stop() end
  wakeup(self)
  backend:stop()
  if self.count > 0 and (grace or 0) > 0 then drain(self, grace) end
end

-- `server:wait()`: waits until the server has been stopped. Must be called from a task.
function Methods:wait()
  misuse.check_kind("wait", self, "server")
  while not self.ended do
    local token = {}
    self.waiters[token] = true
    self.driver.scheduler.wait(token)
    self.waiters[token] = nil
  end
end

-- Returns a description of what a stop of the loop waits for; nil if no connection remains, because the server is then
-- about to end.
local function remaining(server)
  local count = server.count
  if count == 0 then return nil end
  local text = ("%d connection%s"):format(count, count == 1 and "" or "s")
  if not server.name then return text end
  return text .. " of " .. server.name
end

-- Starting -------------------------------------------------------------------------------------------

-- `start(driver, listener, backend)` returns a server. If `listener` is nil, the server gets connections only through
-- `server:admit`.
function M.start(driver, listener, backend)
  local server = setmetatable({
    driver = driver,
    listener = listener,
    backend = backend,
    waiters = {},
    -- All fields that `stop` sets exist now, so that it needs less memory.
    stopping = false,
    ended = false,
    drained = false,
    forget_stop = false,
  }, Server)
  function backend.on_leave() on_leave(server) end
  if listener then
    local address, port, family = listener:address()
    server.name = family == "unix" and "unix:" .. address or ("%s:%d"):format(address, port)
  end
  local scheduler = driver.scheduler
  if scheduler.on_stop then
    server.forget_stop = scheduler.on_stop(function(grace) server:stop(server.grace or grace) end, function()
      return remaining(server)
    end)
  end
  if listener then
    local forked, problem = pcall(scheduler.fork, accept_loop, server)
    if not forked then
      -- For lack of memory there is no task, so nothing would remove the server from the loop's list.
      if server.forget_stop then server.forget_stop() end
      error(problem, 0)
    end
  end
  return server
end

return M
