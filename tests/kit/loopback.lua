--- Sockets on 127.0.0.1 for the suites of selector and sockets, and what a wait yields as a table.
-- Called by tests/selector_*_test.lua, socket_*_test.lua and bee_*_test.lua.
-- Every wait in here has a deadline of 10 s and raises when it passes.

local lio = require "lio"
local socket = require "lio.socket"

local loopback = {}

local READ <const>, WRITE <const> = lio.SELECT_READ, lio.SELECT_WRITE

--- One wait as a table { [udata] = events }, and how many there were.
function loopback.events(sel, timeout)
  local found, count = {}, 0
  for udata, events in sel:wait(timeout) do
    assert(found[udata] == nil, "one wait yielded a registration twice")
    found[udata] = events
    count = count + 1
  end
  return found, count
end

--- Waits until `events` (default: readable) hold for `fd`; raises after 10 s.
function loopback.await(fd, events)
  local sel <close> = lio.create()
  assert(sel:event_add(fd, events or READ))
  local _, got = sel:wait(10)()
  return got or error("nothing happened within 10 s", 2)
end

--- A TCP listener on a port that the system chose, and that port.
function loopback.listener(protocol, address)
  local s = assert(socket.create(protocol or "tcp"))
  assert(s:option("reuseaddr", true))
  assert(s:bind(address or "127.0.0.1", 0))
  assert(s:listen())
  local _, port = s:info "socket":value()
  return s, port
end

--- A client of `listener`, connected, and the accepted end.
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

--- Two connected TCP sockets.
function loopback.tcp()
  local listener <close> = loopback.listener()
  return loopback.connect(listener)
end

--- Sends all of `data`, waiting for room.
function loopback.send(s, data)
  local from = 1
  while from <= #data do
    local n, message = s:send(data, from)
    assert(n ~= nil, message)
    if not n then loopback.await(s, WRITE) else from = from + n end
  end
end

--- Receives `count` bytes, or all up to the end of the stream when `count` is nil.
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

--- Fills a socket's buffers until it takes no more. Returns how many bytes it took.
function loopback.fill(s)
  local chunk, total = ("x"):rep(65536), 0
  while true do
    local n, message = s:send(chunk)
    assert(n ~= nil, message)
    if not n then return total end
    total = total + n
  end
end

--- Gives the first end of a new pair away: its raw descriptor, which lio does not know (the lowest number
-- that is free), and the other end.
function loopback.foreign()
  local theirs, mine = socket.pair()
  return theirs:detach(), mine
end

--- Runs `f` with a passing socket on a descriptor that stays foreign.
function loopback.borrow(handle, f, ...)
  local s <close> = socket.fd(handle, true)
  return f(s, ...)
end

--- Closes a raw descriptor.
function loopback.close(handle)
  socket.fd(handle):close()
end

--- The number in a handle.
function loopback.number(handle)
  return tonumber((string.format("%p", handle):gsub("^0x", "")), 16) or 0
end

--- This process's id.
function loopback.pid()
  local f <close> = assert(io.open "/proc/self/stat")
  return tonumber(f:read "a":match "^%d+")
end

return loopback
