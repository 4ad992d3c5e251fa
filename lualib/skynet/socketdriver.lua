-- `require "skynet.socketdriver"`: sockets whose events are messages of the protocol "socket", which the program
-- registers with `id = skynet.PTYPE_SOCKET`, as gate servers do. Used by programs and by snax.gateserver.
--
-- An event is passed to the protocol's `unpack` and `dispatch`, in a separate task. While `unpack` runs, `event` has
-- the values that `M.unpack` returns.

local datagrams = require "skynet.socket.datagrams"
local ltask = require "ltask"
local message = require "skynet.message"
local misuse = require "lio.misuse"
local native = require "skynet.sockets"
local open = require "skynet.socket.open"
local pool = require "skynet.socket.pool"
local task = require "lio.task"

local sockets <const>, check_id <const> = pool.sockets, pool.check_id
local spawn <const>, fork <const> = task.spawn, task.fork
local protocols <const>, self <const> = message.protocols, ltask.self()

local M = {}

local PTYPE_SOCKET <const> = 6
-- The types of events, as in skynet.
local DATA <const>, CONNECT <const>, CLOSE <const>, ACCEPT <const>, ERROR <const>, UDP <const>, WARNING <const> =
  1, 2, 3, 4, 5, 6, 7

-- The event that the protocol's `unpack` is reading: its type, the socket, and a number and an address that depend on
-- the type.
local kind, id, number, address

-- `unpack(data, size)`: returns the values of the event that the caller's `unpack` gets: the type, the socket, a
-- number, the data, and for a datagram the address of its sender.
function M.unpack(data)
  return kind, id, number, data, address
end

-- Passes an event to the protocol. Runs as a task.
local function deliver(event, of, count, data, from)
  local p = protocols[PTYPE_SOCKET]
  if not (p and p.dispatch) then
    return pool.log("socketdriver: an event of socket %d, but the protocol 'socket' has no handler", of)
  end
  kind, id, number, address = event, of, count, from
  p.dispatch(0, self, p.unpack(data, #data))
end

-- Reports once that a socket is closed.
local function report_closed(s)
  if s.is_reported then return end
  s.is_reported = true
  fork(deliver, CLOSE, s.id, 0, "")
end

-- Waits while reading is paused.
local function wait_for_resume(s)
  while s.is_paused and not s.is_closed do pool.wait_for_change(s) end
end

-- The loop that reads. A failure of the connection is a separate event, and so is the end. After the end, the socket
-- stays open for writing, until the program closes it or a write fails.
local function read(s)
  local c <const>, of <const> = s.c, s.id
  local data, problem, partial, code = c:recv()
  while data or pool.has_stayed(s, code, partial) do
    if data then spawn(deliver, DATA, of, #data, data) end
    if s.is_paused then wait_for_resume(s) end
    data, problem, partial, code = c:recv()
  end
  -- The socket belongs to another service, or is closed, which is reported.
  if s.is_closed then return end
  if not problem then return report_closed(s) end
  if code ~= "closed" then
    s.is_reported = true
    spawn(deliver, ERROR, of, 0, problem)
  end
  pool.close(s)
end

local function accepted(listening, new, from)
  new.on_close = function() report_closed(new) end
  deliver(ACCEPT, listening.id, new.id, from)
end

local function resume(s)
  if not s.is_paused then return end
  s.is_paused = false
  pool.report_change(s)
end

local function prepare(s)
  s.on_close = function()
    resume(s)
    report_closed(s)
  end
  s.on_error = function(problem)
    -- After the event CLOSE, a failure only closes the socket.
    if not s.is_reported then
      s.is_reported = true
      fork(deliver, ERROR, s.id, 0, problem)
    end
    pool.shutdown(s)
  end
  s.on_warning = function(of, kibibytes) deliver(WARNING, of, kibibytes, "") end
end

-- `start(id)`: starts reading from a connection, or to accept from a listener. A connection that another service has
-- accepted moves to this service. Ends a pause.
function M.start(of)
  check_id("start", of)
  local s = sockets[of]
  if not s then
    local taken, problem = pool.take(of)
    if not taken then return spawn(deliver, ERROR, of, 0, problem) end
    s = taken
  end
  if s.is_started then return resume(s) end
  s.is_started = true
  prepare(s)
  if s.is_stream then
    spawn(read, s)
  else
    open.accept(s, function(new, from) accepted(s, new, from) end)
  end
end

-- `pause(id)`: pauses reading from a connection of this service, until `start`. One event of data may still follow. The
-- peer has to wait when the buffers of the system are full.
function M.pause(of)
  check_id("pause", of)
  local s = sockets[of]
  if s and s.is_started and s.is_stream then s.is_paused = true end
end

-- `listen(host, port[, backlog])`: opens a listener. Returns its id; raises if that fails.
function M.listen(host, port, backlog)
  local s, problem = open.listen("listen", host, port, backlog)
  if not s then misuse.raise("listen: " .. problem) end
  fork(deliver, CONNECT, s.id, s.port, s.host)
  return s.id, s.host, s.port
end

-- `connect(host, port)`: connects, and waits for that. Returns the id; or nil and a message.
function M.connect(host, port)
  local s, problem = open.connect("connect", host, port)
  if not s then return nil, problem end
  M.start(s.id)
  fork(deliver, CONNECT, s.id, 0, s.name)
  return s.id
end

-- `bind(descriptor)`: takes over a descriptor of a connected socket, and reads from it. Returns the id; or nil and a
-- message.
function M.bind(descriptor)
  local s, problem = open.bind("bind", descriptor)
  if not s then return nil, problem end
  M.start(s.id)
  return s.id
end

-- `send(id, data[, size])`, `lsend(id, data[, size])`: write to a socket of any service, without waiting. Return
-- whether there is such a socket.
M.send, M.lsend = pool.writer "send", pool.writer("lsend", true)

-- `close(id)`: closes a socket of any service, after the bytes that were written are sent.
function M.close(of)
  check_id("close", of)
  pool.close_id(of, "close")
end

-- `shutdown(id)`: closes a socket of any service at once.
function M.shutdown(of)
  check_id("shutdown", of)
  pool.close_id(of, "shutdown")
end

-- `nodelay(id)`: makes the system send small pieces of a connection of this service at once.
function M.nodelay(of)
  check_id("nodelay", of)
  local s = sockets[of]
  if s then open.set_nodelay(s) end
end

-- `udp(host, port)`: opens a datagram socket. Returns its id; or nil and a message.
function M.udp(host, port)
  local s, problem
  local function report(data, from) deliver(UDP, s.id, #data, data, from) end
  s, problem = datagrams.open("udp", 1, host, port, report)
  if not s then return nil, problem end
  s.is_started = true
  return s.id
end

-- `udp_connect(id, host, port)`: sets the peer of a datagram socket. Returns true; or nil and a message.
function M.udp_connect(of, host, port)
  local s = pool.find("udp_connect", of)
  if not s.send_to then misuse.bad("udp_connect", 1, "a datagram socket expected") end
  return datagrams.connect("udp_connect", 2, s, host, port)
end

-- `udp_send(id, address, data)`: sends a datagram. Returns whether there is such a socket.
function M.udp_send(of, to, data)
  check_id("udp_send", of)
  datagrams.unpack("udp_send", 2, to)
  misuse.check("udp_send", 3, data, "string")
  return pool.send_to(of, to, data)
end

-- `udp_address(address)`: returns the ip and the port of a datagram's sender.
function M.udp_address(from)
  return datagrams.unpack("udp_address", 1, from)
end

-- `info()`: returns a list that describes all sockets of the process.
M.info = native.list

return M
