-- `require "skynet.socket"`: skynet's sockets for coroutines, on `lio.net`. Used by programs; docs/skynet-network.md
-- lists the differences.
--
-- A read takes bytes from the connection when the program asks for them. So data that the program does not read stays
-- with the system, and the peer has to wait.

local datagrams = require "skynet.socket.datagrams"
local misuse = require "lio.misuse"
local native = require "skynet.sockets"
local net = require "lio.net"
local open = require "skynet.socket.open"
local pool = require "skynet.socket.pool"
local task = require "lio.task"

local sockets <const> = pool.sockets
local check_id <const>, find <const>, find_stream <const> = pool.check_id, pool.find, pool.find_stream
local math_type <const> = math.type

local M = {}

-- Opening ------------------------------------------------------------------------------------

-- `listen(host, port[, backlog])`, `listen("host:port")`: opens a listener. Returns its id, address and port. Raises if
-- that fails.
function M.listen(host, port, backlog)
  local s, message = open.listen("listen", host, port, backlog)
  if not s then misuse.raise("listen: " .. message) end
  return s.id, s.host, s.port
end

-- `open(host, port)`, `open("host:port")`: connects. Returns the id; or nil and a message.
function M.open(host, port)
  local s, message = open.connect("open", host, port)
  if not s then return nil, message end
  s.is_started = true
  return s.id
end

-- `bind(descriptor)`: takes over a descriptor of a connected socket. Returns the id; or nil and a message.
function M.bind(descriptor)
  local s, message = open.bind("bind", descriptor)
  if not s then return nil, message end
  s.is_started = true
  return s.id
end

-- `stdin()`: takes over the standard input: a socket, a pipe, a terminal or a file. Returns the id; or nil and a
-- message.
function M.stdin()
  local s = open.bind("stdin", 0)
  local message
  if not s then s, message = require "skynet.socket.stdin".open() end
  if not s then return nil, message end
  s.is_started = true
  return s.id
end

-- `start(id[, f])`: starts using a socket. For a listener, `f(id, address)` runs as a task for each connection. A
-- connection that another service has accepted moves to this service. Returns the id; or nil and a message.
function M.start(id, f)
  check_id("start", id)
  local s = sockets[id]
  if not s then
    local taken, message = pool.take(id)
    if not taken then return nil, message end
    s = taken
  end
  if f and not s.is_stream and not s.is_started then
    if not misuse.is_callable(f) then misuse.argument("start", 2, "function", f) end
    open.accept(s, function(new, address) f(new.id, address) end)
  end
  s.is_started = true
  return id
end

-- Reading ------------------------------------------------------------------------------------

local function ended(s, partial)
  s.is_over = true
  return false, partial or ""
end

-- Ends a connection whose data exceeds its limit.
local function overflow(s)
  pool.log("socket %d: the data exceeds the limit of %d bytes", s.id, s.limit)
  pool.shutdown(s)
  return false, ""
end

-- The largest size that a read can ask for.
local SIZE_MAX <const> = math.maxinteger // 2

-- Returns a size that is not an integer in the valid range as an integer; raises if that is not possible.
local function check_size(call, size)
  if type(size) ~= "number" then misuse.argument(call, 2, "number of bytes", size) end
  local integer = math.tointeger(size)
  if integer and integer >= 0 and integer <= SIZE_MAX then return integer end
  misuse.bad(call, 2, "number of bytes expected, got " .. misuse.shown(size))
end

local function check_separator(separator)
  misuse.check("readline", 2, separator, "string")
  if separator == "" then misuse.bad("readline", 2, "a separator of at least one byte expected") end
end

-- `read(id[, size])`: returns `size` bytes; without a size, the bytes that are available, at least one. Waits for them.
-- If the connection ends before, returns false and the bytes that have arrived.
function M.read(id, size)
  local s = sockets[id]
  if not (s and s.is_started and s.is_stream) then s = find_stream("read", id) end
  if size and (math_type(size) ~= "integer" or size < 0 or size > SIZE_MAX) then size = check_size("read", size) end
  if size and s.limit and size > s.limit then return overflow(s) end
  local data, _, partial, code = s.c:recv(size)
  if data then return data end
  if pool.has_stayed(s, code, partial) then return M.read(id, size) end
  return ended(s, partial)
end

-- `readline(id[, separator])`: returns the bytes before the separator, by default a newline. If the connection ends
-- before, returns false and the bytes that have arrived.
function M.readline(id, separator)
  local s = sockets[id]
  if not (s and s.is_started and s.is_stream) then s = find_stream("readline", id) end
  if separator ~= nil then check_separator(separator) end
  local data, _, partial, code = s.c:recv("until", separator or "\n", s.limit)
  if data then return data end
  if code == "too long" then return overflow(s) end
  if pool.has_stayed(s, code, partial) then return M.readline(id, separator) end
  return ended(s, partial)
end

-- `readall(id)`: waits for the end of the connection, and returns the remaining bytes. Returns false and "" if the end
-- was found before and no bytes are left.
function M.readall(id)
  local s = find_stream("readall", id)
  local data, _, partial, code = s.c:recv("all", s.limit)
  if code == "too long" then return overflow(s) end
  if pool.has_stayed(s, code, partial) then return M.readall(id) end
  data = data or partial or ""
  if data == "" and s.is_over then return false, "" end
  s.is_over = true
  return data
end

-- `block(id)`: waits until there is something to read, and returns true; false if the connection has ended.
function M.block(id)
  local s = sockets[id]
  if not (s and s.is_started) then
    check_id("block", id)
    return false
  end
  if not s.is_stream then find_stream("block", id) end
  local data, _, partial, code = s.c:recv()
  if pool.has_stayed(s, code, partial) then return M.block(id) end
  if not data then return (ended(s)) end
  s.c:unread(data)
  return true
end

-- `header(bytes)`: returns the integer in one to four bytes, most significant byte first.
function M.header(bytes)
  misuse.check("header", 1, bytes, "string")
  if #bytes < 1 or #bytes > 4 then misuse.bad("header", 1, "one to four bytes expected") end
  return (string.unpack(">I" .. #bytes, bytes))
end

-- Writing ------------------------------------------------------------------------------------

-- `write(id, data[, size])`, `lwrite(id, data[, size])`: see `writer` of the pool.
M.write, M.lwrite = pool.writer "write", pool.writer("lwrite", true)

-- `warning(id, f)`: makes `f(id, kibibytes)` run when a MiB or more is waiting to be sent, each time when that has
-- doubled, and with 0 when all is sent.
function M.warning(id, f)
  local s = find("warning", id)
  if f ~= nil then misuse.check_function("warning", 2, f) end
  s.on_warning = f
end

-- Closing ------------------------------------------------------------------------------------

-- `close(id)`: closes a socket of this service, after the bytes that were written are sent. A coroutine that reads from
-- it gets false. Does nothing if this service has no such socket.
function M.close(id)
  check_id("close", id)
  local s = sockets[id]
  if s and s.is_started then pool.close(s) end
end

-- `close_fd(id)`: closes a socket that this service has not started, for example one of another service.
function M.close_fd(id)
  check_id("close_fd", id)
  if sockets[id] and sockets[id].is_started then misuse.raise "close_fd: use close for a socket of this service" end
  pool.close_id(id, "close")
end

-- `shutdown(id)`: closes a socket at once. Bytes that are not sent yet are dropped.
function M.shutdown(id)
  check_id("shutdown", id)
  pool.close_id(id, "shutdown")
end

-- `abandon(id)`: ends the use of a socket in this service, and leaves it open for the `start` of another service.
function M.abandon(id)
  check_id("abandon", id)
  if sockets[id] then sockets[id].is_started = false end
end

-- `onclose(id, f)`: makes `f(id)` run, once, when the peer or this side ends the connection.
function M.onclose(id, f)
  local s = find("onclose", id)
  misuse.check_function("onclose", 2, f)
  local function report()
    if s.on_close ~= report then return end
    s.on_close = nil
    f(id)
  end
  local is_watched = s.is_watched
  s.on_close, s.is_watched = report, true
  if is_watched or not s.is_stream then return end
  task.spawn(function()
    local _, code
    repeat
      _, _, code = s.c:wait_closed()
    until not pool.has_stayed(s, code)
    s.is_watched = false
    if s.is_closed then return end
    s.is_over = true
    if s.on_close then s.on_close() end
  end)
end

-- State --------------------------------------------------------------------------------------

-- `invalid(id)`: returns whether this service has no such socket.
function M.invalid(id)
  local s = sockets[id]
  return not (s and s.is_started)
end

-- `disconnected(id)`: returns whether this service has such a socket and its peer has ended the connection.
function M.disconnected(id)
  local s = sockets[id]
  return s ~= nil and s.is_started == true and (s.is_over or s.is_stream and s.c:is_over()) or false
end

-- `limit(id, bytes)`: limits the bytes that one read may have to collect. A longer line or block closes the socket.
function M.limit(id, bytes)
  local s = find("limit", id)
  bytes = check_size("limit", bytes)
  if bytes < 1 then misuse.bad("limit", 2, "number of bytes expected, got 0") end
  s.limit = bytes
end

-- `pause(id)`: does nothing, because a socket is only read from when the program reads.
function M.pause(id)
  find("pause", id)
end

-- `netstat()`: returns a list that describes all sockets of the process.
function M.netstat()
  local list = native.list()
  for _, one in ipairs(list) do
    one.address = (":%08x"):format(one.owner)
    one.owner = nil
  end
  return list
end

-- `resolve(host)`: returns the list of the addresses of a host; raises if there is none.
function M.resolve(host)
  local list, message = net.resolve(host)
  if not list then misuse.raise(message) end
  return list
end

-- Datagrams ----------------------------------------------------------------------------------

-- Opens a datagram socket for `call`, whose argument `index` is the host. Raises if that fails.
local function open_udp(call, index, host, port, f)
  local s, message = datagrams.open(call, index, host, port, f)
  if not s then misuse.raise(message) end
  s.is_started = true
  return s
end

-- `udp(f[, host[, port]])`: opens a datagram socket. `f(data, address)` runs as a task for each datagram. Returns the
-- id; raises if that fails.
function M.udp(f, host, port)
  misuse.check_function("udp", 1, f)
  return open_udp("udp", 2, host, port, f).id
end

-- `udp_listen(host, port, f)`: the same as `udp(f, host, port)`.
function M.udp_listen(host, port, f)
  misuse.check_function("udp_listen", 3, f)
  return open_udp("udp_listen", 1, host, port, f).id
end

-- `udp_connect(id, host, port[, f])`: sets the peer of a datagram socket, to which `write` sends. Raises if the host is
-- not found, or has no address of the socket's family (IPv4 or IPv6).
function M.udp_connect(id, host, port, f)
  local s = find("udp_connect", id)
  if not s.send_to then misuse.bad("udp_connect", 1, "a datagram socket expected") end
  if f ~= nil then misuse.check_function("udp_connect", 4, f) end
  local ok, message = datagrams.connect("udp_connect", 2, s, host, port)
  if not ok then misuse.raise(message) end
  s.on_datagram = f or s.on_datagram
end

-- `udp_dial(host, port, f)`: opens a datagram socket with a peer, of the family of the peer's address. Returns the id;
-- raises if that fails.
function M.udp_dial(host, port, f)
  misuse.check_function("udp_dial", 3, f)
  local ip, message = datagrams.resolve("udp_dial", 1, host, port)
  if not ip then misuse.raise(message) end
  local s = open_udp("udp_dial", 1, datagrams.any(ip), 0, f)
  datagrams.set_peer(s, ip, port)
  return s.id
end

-- `sendto(id, address, data)`: sends a datagram to an address that a function of `udp` has got. Returns whether there
-- is such a socket.
function M.sendto(id, address, data)
  check_id("sendto", id)
  datagrams.unpack("sendto", 2, address)
  misuse.check("sendto", 3, data, "string")
  return pool.send_to(id, address, data)
end

-- `udp_address(address)`: returns the ip and the port of a datagram's sender.
function M.udp_address(address)
  return datagrams.unpack("udp_address", 1, address)
end

return M
