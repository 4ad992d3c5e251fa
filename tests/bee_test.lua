-- bee.select, bee.socket and bee.epoll: their results and constants, times in milliseconds, and epoll's flags.

local t = require "tests.kit"
local lio = require "lio"
local select_ = require "bee.select"
local socket = require "bee.socket"
local epoll = require "bee.epoll"
local loopback = require "tests.kit.loopback"

local READ <const>, WRITE <const> = select_.SELECT_READ, select_.SELECT_WRITE

local function seconds(f, ...)
  local begin = lio.now()
  f(...)
  return lio.now() - begin
end

local function events(sel, milliseconds)
  local found = {}
  for udata, bits in sel:wait(milliseconds) do found[udata] = bits end
  return found
end

t.test("bee.select waits in milliseconds", function()
  local s <close> = select_.create()
  local took = seconds(events, s, 60)
  t.ok(took >= 0.06 and took < 5, took)
  t.ok(seconds(events, s, 0) < 1)
  local a, b = socket.pair()
  s:event_add(b, READ)
  a:send "x"
  t.ok(seconds(events, s, -1) < 5)
  t.ok(seconds(events, s) < 5)
  a:close() b:close()
end)

t.test("bee.select has bee's calls, results and constants", function()
  t.eq({ READ, WRITE }, { 1, 2 })
  local a, b = socket.pair()
  local s = select_.create()
  t.eq({ s:event_add(b, READ, "b") }, { true })
  t.eq({ s:event_mod(b, READ | WRITE) }, { true })
  t.eq(events(s, 1000), { b = WRITE })
  a:send "x"
  t.eq(events(s, 1000), { b = READ | WRITE })
  t.eq({ s:event_del(b) }, { true })
  t.eq({ s:event_del(b) }, { true }, "it is no longer registered")
  t.is_nil(s:event_mod(b, READ))
  s:event_add(b, READ)
  t.eq(events(s, 1000), { [b] = READ }, "udata defaults to the socket")
  s:event_mod(b, READ, "later")
  t.eq(events(s, 1000), { later = READ })
  s:event_del(b)
  t.raises("no open sockets to check and no timeout set", function() s:wait() end)
  s:close()
  s:close()
  a:close() b:close()
end)

t.test("bee.socket has the functions of lio.socket, and can be called as in older versions of bee", function()
  local s, message = socket "tcp"
  t.ok(s, message)
  s:close()
  for name, value in pairs(require "lio.socket") do
    if name ~= "create" and name ~= "fd" then t.ok(socket[name] == value, name) end
  end
  local c <close> = socket.create "tcp"
  t.eq(c:bind("127.0.0.1", 0), true)
  t.eq(c:option("reuseaddr", 1), true)
end)

t.test("bee.epoll is level-triggered, and its timeouts are in milliseconds", function()
  local e <close> = epoll.create(16)
  local took = seconds(events, e, 60)
  t.ok(took >= 0.06 and took < 5, took)
  for _, make in ipairs { socket.pair, loopback.tcp } do
    local a, b = make()
    t.eq({ e:event_add(b, epoll.EPOLLIN, "b") }, { true })
    a:send "xy"
    for _ = 1, 2 do
      t.eq(events(e, 5000), { b = epoll.EPOLLIN })
      t.eq(#b:recv(1), 1)
    end
    t.eq(events(e, 0), {})
    t.eq({ e:event_mod(b, epoll.EPOLLOUT, "out") }, { true })
    t.eq(events(e, 5000), { out = epoll.EPOLLOUT })
    t.eq({ e:event_del(b) }, { true })
    t.is_nil(e:event_del(b))
    a:close() b:close()
  end
end)

-- Returns two tables, each with a descriptor `fd` and its connected `peer`: the first descriptor is from another
-- library, the second is a socket of lio.
local function ends()
  local handle, a = loopback.foreign()
  local c, d = socket.pair()
  return {
    { fd = handle, peer = a, close = function() loopback.close(handle) end },
    { fd = d, peer = c, close = function() d:close() end },
  }
end

t.test("with EPOLLET each readiness is reported once", function()
  for _, it in ipairs(ends()) do
    local e <close> = epoll.create(16)
    e:event_add(it.fd, epoll.EPOLLIN | epoll.EPOLLET, "b")
    it.peer:send "x"
    t.eq(events(e, 5000), { b = epoll.EPOLLIN })
    t.eq(events(e, 10), {})
    it.peer:send "y"
    t.eq(events(e, 5000), { b = epoll.EPOLLIN })
    t.eq(events(e, 10), {})
    e:event_del(it.fd)
    it.peer:close()
    it.close()
  end
end)

t.test("with EPOLLONESHOT one event is reported, and one more after each event_mod", function()
  for _, it in ipairs(ends()) do
    local e <close> = epoll.create(16)
    e:event_add(it.fd, epoll.EPOLLIN | epoll.EPOLLONESHOT, "b")
    it.peer:send "x"
    for _ = 1, 3 do
      t.eq(events(e, 5000), { b = epoll.EPOLLIN })
      t.eq(events(e, 10), {})
      it.peer:send "y"
      t.eq(events(e, 10), {})
      t.ok(e:event_mod(it.fd, epoll.EPOLLIN | epoll.EPOLLONESHOT))
    end
    e:event_del(it.fd)
    it.peer:close()
    it.close()
  end
end)

t.test("a half-close is reported as EPOLLRDHUP on request, a hang-up always as EPOLLHUP", function()
  for _, it in ipairs(ends()) do
    local e <close> = epoll.create(16)
    e:event_add(it.fd, epoll.EPOLLRDHUP, "b")
    it.peer:send "data nobody asked for"
    t.eq(events(e, 10), {})
    it.peer:shutdown "w"
    for _ = 1, 2 do t.eq(events(e, 5000), { b = epoll.EPOLLRDHUP }) end
    e:event_mod(it.fd, 0)
    t.eq(events(e, 10), {})
    it.peer:close()
    for _ = 1, 2 do
      t.ok(events(e, 5000).b & epoll.EPOLLHUP ~= 0)
    end
    e:event_del(it.fd)
    it.close()
  end
end)

t.test("an error is reported as EPOLLERR even if no events are requested", function()
  local p = io.popen("exec <&-", "w")
  local e <close> = epoll.create(16)
  e:event_add(p, 0, "p")
  for _ = 1, 2 do
    t.ok(events(e, 10000).p & epoll.EPOLLERR ~= 0, "the reader of the pipe is closed")
  end
  e:event_del(p)
  p:close()
end)

t.test("bee.epoll checks its arguments as epoll does", function()
  t.is_nil(epoll.create(0))
  t.raises("number expected, got no value", epoll.create)
  t.eq({ epoll.EPOLLIN, epoll.EPOLLOUT, epoll.EPOLLERR, epoll.EPOLLHUP }, { 1, 4, 8, 16 })
  t.eq({ epoll.EPOLLPRI, epoll.EPOLLRDHUP }, { 2, 0x2000 })
  t.eq({ epoll.EPOLLONESHOT, epoll.EPOLLET }, { 1 << 30, 1 << 31 })
  local e = epoll.create "1"
  e:close()
end)

t.finish()
