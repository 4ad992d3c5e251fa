-- Listeners, which `net.listen` returns, and `net.accept`. Part of `lio.net`. Accepted connections are streams. While
-- no descriptor is free, accepting is paused. Servers (net/server.lua) also use this file to accept connections.

local connection = require "lio.net.connection"
local misuse = require "lio.misuse"
local option = require "lio.net.option"
local report = require "lio.net.report"
local stream = require "lio.stream"
-- Under `lio --watch`, the functions that keep sockets open from one program to the next; otherwise false.
local supervisor <const> = require "lio.supervisor"

local now <const> = require("lio").now
local accept_stream <const> = stream.accept
local adopt <const> = connection.adopt

-- If the process has no free descriptor, or the system has no memory, accepting is paused for PAUSE seconds. A message
-- about the pause is logged at most once in MESSAGE_INTERVAL seconds.
local PAUSE <const>, MESSAGE_INTERVAL <const> = 0.1, 60
local EXHAUSTED <const> = { EMFILE = true, ENFILE = true, ENOBUFS = true, ENOMEM = true }

local M = {}

-- The code that accepts may set `on_exhausted`, which is called when accepting is paused. `is_duplicate` is true if
-- another worker has the same socket open.
local Listener = {}
Listener.__index = Listener
Listener.__name = "lio.listener"

-- `new(driver, socket, file, key, tls)` returns a listener, which owns the socket. If the selector refuses the socket,
-- closes the socket and returns false, a message and a code. `file`, if given, is removed when the listener is closed;
-- `key` identifies the socket for the supervisor of `lio --watch`. `tls`, if given, is a result of `tls.server`:
-- `accept` then returns connections whose handshakes are complete.
function M.new(driver, socket, file, key, tls)
  local address = socket:info("socket")
  local listener = setmetatable({
    driver = driver,
    socket = socket,
    file = file,
    key = key,
    text = address and tostring(address) or "?",
    -- All fields that `close` sets exist now, so that it needs no memory.
    closed = false,
  }, Listener)
  if tls then
    listener.handshakes = require("lio.net.tls").new(driver, tls, function() driver:wake_reader(socket, "ready") end)
  end
  -- A registered socket stays open until it is closed, so no memory error may follow.
  local ok, message, code = stream.register_socket(driver.selector, socket)
  if not ok then
    socket:close()
    return false, message, code
  end
  return listener
end

function Listener:__tostring()
  return "listener (" .. (self.closed and "closed" or self.text) .. ")"
end

-- Accepting ------------------------------------------------------------------------------------------

local function pause_accepting(listener, message)
  listener.paused = true
  if not listener.last_message or now() - listener.last_message > MESSAGE_INTERVAL then
    listener.last_message = now()
    report(message .. "; accepting is paused until descriptors are free")
  end
  if listener.on_exhausted then listener.on_exhausted() end
end

-- Accepts connections until a handshake is complete, and returns its connection; otherwise returns the same as
-- `stream.accept`. After a number of connections, other tasks run.
local function accept_tls(listener)
  local handshakes, selector, socket = listener.handshakes, listener.driver.selector, listener.socket
  for _ = 1, 16 do
    local c = handshakes:take()
    if c then return c end
    local message, code
    c, message, code = accept_stream(selector, socket)
    if not c then return c, message, code end
    handshakes:begin(c)
  end
  listener.driver:sleep(0)
  if listener.closed then return nil, "closed", "closed" end
  return accept_tls(listener)
end

-- Accepts a connection, and waits for one if none is pending. If `backend` is given, the backend accepts instead of
-- this file.
local function accept_or_wait(listener, queue, backend)
  local socket, selector, handshakes = listener.socket, listener.driver.selector, listener.handshakes
  -- Handshakes begin and fail while the task waits, and must not extend the wait.
  local limit = handshakes and queue.limits[socket]
  local deadline = limit and now() + limit
  while not listener.closed do
    local c, message, code
    if backend then
      c, message, code = backend:accept()
    elseif handshakes then
      c, message, code = accept_tls(listener)
    else
      c, message, code = accept_stream(selector, socket)
    end
    if c then
      listener.paused = nil
      return c
    end
    if EXHAUSTED[code] then
      pause_accepting(listener, message)
    elseif c == nil then
      return false, message, code
    else
      listener.paused = nil
    end
    local seconds = listener.paused and PAUSE or deadline and math.max(deadline - now(), 0)
    local reason = queue:wait_ready(socket, seconds)
    if reason == "timeout" and not listener.paused then return false, "timeout", "timeout" end
  end
  return false, "closed", "closed"
end

local function accept(listener, backend)
  if listener.closed then return false, "closed", "closed" end
  local queue, socket = listener.driver.read_queue, listener.socket
  if queue.holders[socket] then
    local problem = queue:acquire(socket)
    if problem then return false, problem, problem end
  end
  local c, message, code = accept_or_wait(listener, queue, backend)
  queue:release(socket)
  if not c then return false, message, code end
  return c
end

-- `accept(listener)` waits for a connection and returns it, or `false, message, code`; the code is "closed" if the
-- listener is closed. If the process has no free descriptor, logs a message, at most once a minute, and tries again.
function Listener.accept(listener)
  if getmetatable(listener) ~= Listener then misuse.argument("accept", 1, "listener", listener) end
  local c, message, code = accept(listener)
  if not c then return false, message, code end
  return adopt(listener.driver, c)
end

-- `listener:take_waiting()` returns a connection from the system's queue, or nil if the queue is empty. Does not wait.
-- With TLS, returns a connection whose handshake is complete.
function Listener:take_waiting()
  misuse.check_kind("take_waiting", self, "listener")
  if self.closed then return nil end
  local c
  if self.handshakes then c = self.handshakes:take() else c = accept_stream(self.driver.selector, self.socket) end
  if not c then return nil end
  return adopt(self.driver, c)
end

-- State ----------------------------------------------------------------------------------------------

-- `listener:reload_tls()`: reads the certificates again, for later connections. Returns true; or nil, message, "tls",
-- and then the listener keeps its certificates.
function Listener:reload_tls()
  misuse.check_kind("reload_tls", self, "listener")
  if not self.handshakes then misuse.raise "reload_tls: the listener has no TLS" end
  return self.handshakes.object:reload()
end

-- `listener:timeout(seconds)`: limits how long `accept` may wait; nil: no limit.
Listener.timeout = option.timeout

-- `listener:address()` returns the ip, the port and the family; for a unix socket, the path, the kind and "unix".
function Listener:address()
  misuse.check_kind("address", self, "listener")
  if self.closed then return nil, "closed", "closed" end
  local address, message, code = self.socket:info("socket")
  if not address then return nil, message, code end
  return address:value()
end

function Listener:is_closed()
  misuse.check_kind("is_closed", self, "listener")
  return self.closed == true
end

-- `listener:close()` closes the listener and returns true. Idempotent. Tasks that wait in `accept` get `false,
-- "closed"`.
function Listener:close()
  misuse.check_kind("close", self, "listener")
  if self.closed then return true end
  self.closed = true
  if self.handshakes then self.handshakes:close() end
  -- If the supervisor or another worker also has the socket open, the system would report the socket's events even
  -- after the close.
  if supervisor or self.is_duplicate then self.driver.selector:event_del(self.socket) end
  if self.key then supervisor.report_closed(self.key) end
  self.socket:close()
  self.driver:forget(self.socket)
  if self.file then os.remove(self.file) end
  return true
end

Listener.__close = Listener.close

-- `install(driver, calls)`: adds `accept` to `calls`, and `accept_by`, which net/server.lua calls, to the driver.
function M.install(driver, calls)
  calls.accept = Listener.accept

  -- `accept_by(listener, backend)`: like `accept`, but a server's backend accepts the connections. Returns true when
  -- the backend has accepted connections or is full.
  driver.accept_by = accept
end

return M
