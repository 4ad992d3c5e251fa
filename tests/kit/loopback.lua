--- Sockets on 127.0.0.1, and the events of a wait as a table, for the suites of the selector and of sockets. Used by
-- tests/selector_*_test.lua, socket_*_test.lua and bee_*_test.lua.
-- Invariant: every wait has a deadline of 10 s and raises an error when the deadline passes.

local lio = require "lio"
local socket = require "lio.socket"

local loopback = {}

local READ <const>, WRITE <const> = lio.SELECT_READ, lio.SELECT_WRITE

--- Waits once. Returns the events as a table { [udata] = events }, and the number of entries in the table.
function loopback.events(sel, timeout)
  local found, count = {}, 0
  for udata, events in sel:wait(timeout) do
    assert(found[udata] == nil, "one wait returned a registration twice")
    found[udata] = events
    count = count + 1
  end
  return found, count
end

--- Waits until `fd` is ready for `events` (default: reading) and returns the events; raises after 10 s.
function loopback.await(fd, events)
  local sel <close> = lio.create()
  assert(sel:event_add(fd, events or READ))
  local _, got = sel:wait(10)()
  return got or error("nothing happened within 10 s", 2)
end

--- Returns a listener (default: TCP on 127.0.0.1) on a port that the system chooses, and the port.
function loopback.listener(protocol, address)
  local s = assert(socket.create(protocol or "tcp"))
  assert(s:option("reuseaddr", true))
  assert(s:bind(address or "127.0.0.1", 0))
  assert(s:listen())
  local _, port = s:info "socket":value()
  return s, port
end

--- Connects a client to `listener`. Returns the client and the accepted socket.
function loopback.connect(listener)
  local client = assert(socket.create "tcp")
  local done, message = client:connect(listener:info "socket")
  assert(done ~= nil, message)
  loopback.await(listener)
  local server = assert(listener:accept())
  loopback.await(client, WRITE)
  assert(client:status())
  return client, server
end

--- Returns two connected TCP sockets.
function loopback.tcp()
  local listener <close> = loopback.listener()
  return loopback.connect(listener)
end

--- Sends all of `data`. Waits while the socket's buffer is full.
function loopback.send(s, data)
  local from = 1
  while from <= #data do
    local n, message = s:send(data, from)
    assert(n ~= nil, message)
    if not n then loopback.await(s, WRITE) else from = from + n end
  end
end

--- Receives `count` bytes, or fewer if the stream ends first. If `count` is nil, receives all bytes up to its end.
function loopback.receive(s, count)
  local pieces, length = {}, 0
  while not count or length < count do
    local data, message = s:recv(count and count - length)
    assert(data ~= nil or message == nil, message)
    if data == nil then break end
    if not data then
      loopback.await(s)
    else
      pieces[#pieces + 1] = data
      length = length + #data
    end
  end
  return table.concat(pieces)
end

--- Sends to a socket until its buffers are full. Returns the number of sent bytes.
function loopback.fill(s)
  local chunk, total = ("x"):rep(65536), 0
  while true do
    local n, message = s:send(chunk)
    assert(n ~= nil, message)
    if not n then return total end
    total = total + n
  end
end

--- Creates a pair of sockets and detaches the first one, which had the lowest free number. Returns the raw descriptor
-- of the detached socket, which lio no longer manages, and the other socket.
function loopback.foreign()
  local theirs, mine = socket.pair()
  return theirs:detach(), mine
end

--- Runs `f(s, ...)` with a temporary socket `s` on the raw descriptor `handle`, which stays open.
function loopback.borrow(handle, f, ...)
  local s <close> = socket.fd(handle, true)
  return f(s, ...)
end

--- Closes a raw descriptor.
function loopback.close(handle)
  socket.fd(handle):close()
end

--- Returns the descriptor number of a handle.
function loopback.number(handle)
  return tonumber((string.format("%p", handle):gsub("^0x", "")), 16) or 0
end

--- Returns the id of this process.
function loopback.pid()
  local f <close> = assert(io.open "/proc/self/stat")
  return tonumber(f:read "a":match "^%d+")
end

return loopback
