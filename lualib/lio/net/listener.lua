-- Listeners: what `net.listen` returns, and `net.accept`. Part of `lio.net`. Accepted connections are streams. When no
-- descriptor is left, accepting pauses. Servers (net/server.lua) accept through this file.

local connection = require "lio.net.connection"
local misuse = require "lio.misuse"
local option = require "lio.net.option"
local stream = require "lio.stream"
-- Under `lio --watch`, the functions that keep sockets open from one program to the next; else false.
local supervisor <const> = require "lio.supervisor"

local now <const> = require("lio").now
local accept_stream <const> = stream.accept
local adopt <const> = connection.adopt

-- How many seconds accepting pauses when the process is out of descriptors or the system out of memory, and how many
-- pass before the next message about it.
local PAUSE <const>, MESSAGE_INTERVAL <const> = 0.1, 60
local EXHAUSTED <const> = { EMFILE = true, ENFILE = true, ENOBUFS = true, ENOMEM = true }

local M = {}

-- `on_exhausted`, which the code that accepts may set, is called when accepting pauses. `is_duplicate` is set if
-- another worker has the same socket open.
local Listener = {}
Listener.__index = Listener
Listener.__name = "lio.listener"

-- `new(driver, socket, file, key)`: returns a listener, which owns the socket. If the selector refuses the socket,
-- closes it and returns false, a message and a code. `file` is removed at its close; `key` identifies the socket for
-- the supervisor of `lio --watch`.
function M.new(driver, socket, file, key)
  local ok, message, code = stream.register_socket(driver.selector, socket)
  if not ok then
    socket:close()
    return false, message, code
  end
  local address = socket:info("socket")
  return setmetatable({
    driver = driver,
    socket = socket,
    file = file,
    key = key,
    text = address and tostring(address) or "?",
  }, Listener)
end

function Listener:__tostring()
  return "listener (" .. (self.closed and "closed" or self.text) .. ")"
end

-- Accepting ------------------------------------------------------------------------------------------

local function pause_accepting(listener, message)
  listener.paused = true
  if not listener.last_message or now() - listener.last_message > MESSAGE_INTERVAL then
    listener.last_message = now()
    io.stderr:write("lio: ", message, "; accepting pauses until descriptors are free\n")
  end
  if listener.on_exhausted then listener.on_exhausted() end
end

-- Accepts, waiting while there is no peer. A backend accepts itself.
local function accept_or_wait(listener, queue, backend)
  local socket, selector = listener.socket, listener.driver.selector
  while not listener.closed do
    local c, message, code
    if backend then c, message, code = backend:accept() else c, message, code = accept_stream(selector, socket) end
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
    local reason = queue:wait_ready(socket, listener.paused and PAUSE)
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

-- `accept(listener)` returns a connection; `false, "closed"` when the listener is closed. If the process is out of
-- descriptors, it logs that once, and tries again after a moment.
function Listener.accept(listener)
  if getmetatable(listener) ~= Listener then misuse.argument("accept", 1, "listener", listener) end
  local c, message, code = accept(listener)
  if not c then return false, message, code end
  return adopt(listener.driver, c)
end

-- `listener:take_waiting()` returns a connection that the system has accepted already, or nil. Does not wait.
function Listener:take_waiting()
  misuse.check_kind("take_waiting", self, "listener")
  if self.closed then return nil end
  local c = accept_stream(self.driver.selector, self.socket)
  if not c then return nil end
  return adopt(self.driver, c)
end

-- State ----------------------------------------------------------------------------------------------

-- `listener:timeout(seconds)`: how long `accept` may wait; nil: no limit.
Listener.timeout = option.timeout

-- `listener:address()` returns ip, port, family; for unix: path, kind, "unix".
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

-- `listener:close()` returns true. Idempotent; tasks that wait in `accept` get `false, "closed"`.
function Listener:close()
  misuse.check_kind("close", self, "listener")
  if self.closed then return true end
  self.closed = true
  -- If the supervisor or another worker has the socket open too, the system would continue to report events.
  if supervisor or self.is_duplicate then self.driver.selector:event_del(self.socket) end
  if self.key then supervisor.report_closed(self.key) end
  self.socket:close()
  self.driver:forget(self.socket)
  if self.file then os.remove(self.file) end
  return true
end

Listener.__close = Listener.close

-- `install(driver)`: makes the call of this file, and the function that net/server.lua calls.
function M.install(driver)
  driver.net.accept = Listener.accept

  -- `accept_by(listener, backend)`: as `accept`, but the backend of a server accepts. Returns true when it has.
  driver.accept_by = accept
end

return M
