-- Each call of bee.epoll returns what it returns in bee.lua: on open, closed and unknown descriptors, and on a closed
-- epoll object.

local t = require "tests.kit"
local lio = require "lio"
local signal = require "lio.signal"
local epoll = require "bee.epoll"
local socket = require "bee.socket"
local loopback = require "tests.kit.loopback"

local events = loopback.events
local IN <const>, OUT <const> = epoll.EPOLLIN, epoll.EPOLLOUT

t.test("create takes a positive number and returns a userdata", function()
  for _, bad in ipairs { 0, -1 } do
    t.eq({ epoll.create(bad) }, { nil, "maxevents is less than or equal to zero.", "EINVAL" })
  end
  local e = epoll.create(16)
  t.eq(type(e), "userdata")
  t.eq({ e:close() }, { true })
  t.raises("bad argument #1 to 'create' %(number expected, got no value%)", function() epoll.create() end)
  t.raises("bad argument #1 to 'create' %(number expected, got table%)", function() epoll.create {} end)
  t.raises("bee_epoll_test", function() epoll.create(1.5) end)
end)

t.test("every call on a closed epoll object returns nil, a message and a code", function()
  local a, b = socket.pair()
  local e = epoll.create(16)
  t.eq({ e:event_add(b, IN) }, { true })
  t.eq({ e:close() }, { true })
  local function refused(call) return { nil, call .. ": Bad file descriptor (os error 9)", "EBADF" } end
  for _ = 1, 2 do
    t.eq({ e:close() }, refused "close")
    t.eq({ e:event_add(b, IN) }, refused "event_add")
    t.eq({ e:event_mod(b, IN) }, refused "event_mod")
    t.eq({ e:event_del(b) }, refused "event_del")
    t.eq({ e:wait(0) }, refused "wait")
    t.eq({ e:wait() }, refused "wait")
  end
  a:close() b:close()
end)

t.test("an epoll object that is already closed may go out of scope", function()
  local e <close> = epoll.create(16)
  t.eq({ e:close() }, { true })
end)

t.test("event_add refuses registered descriptors, event_mod and event_del refuse unregistered ones", function()
  local e <close> = epoll.create(16)
  local a, b = socket.pair()
  t.eq({ e:event_mod(b, IN) }, { nil, "event_mod: descriptor is not registered", "not found" })
  t.eq({ e:event_del(b) }, { nil, "event_del: descriptor is not registered", "not found" })
  t.eq({ e:event_add(b, IN) }, { true })
  t.eq({ e:event_add(b, IN) }, { nil, "event_add: already registered", "exists" })
  t.eq({ e:event_mod(b, OUT) }, { true })
  t.eq(events(e, 5000), { [b] = OUT }, "udata defaults to the socket")
  t.eq({ e:event_del(b) }, { true })
  t.eq({ e:event_del(b) }, { nil, "event_del: descriptor is not registered", "not found" })
  b:close()
  t.eq({ e:event_add(b, IN) }, { nil, "event_add: descriptor is closed", "closed" })
  a:close()
end)

t.test("a handle and a borrowed socket refer to the same registration", function()
  local e <close> = epoll.create(16)
  local a, b = socket.pair()
  t.eq({ e:event_add(b:handle(), IN, "b") }, { true })
  t.eq({ e:event_add(b, IN) }, { nil, "event_add: already registered", "exists" })
  a:send "x"
  t.eq(events(e, 5000), { b = IN })
  t.eq({ e:event_del(socket.fd(b:handle(), true)) }, { true })
  a:close() b:close()
end)

t.test("wait returns udata of every type unchanged", function()
  local e <close> = epoll.create(16)
  local a, b = socket.pair()
  a:send "x"
  e:event_add(b, IN)
  for _, udata in ipairs { a, e, io.stdout, events, {}, "text", 7, 1.5, true, a:handle() } do
    t.eq({ e:event_mod(b, IN, udata) }, { true })
    local got, bits = e:wait(5000)()
    t.ok(got == udata)
    t.eq(bits, IN)
  end
  e:event_mod(b, IN)
  t.eq(e:wait(5000)(), a:handle(), "event_mod without a udata keeps the old one")
  a:close() b:close()
end)

t.test("events report a new connection, a writable socket, data, and the end of a stream", function()
  local e <close> = epoll.create(16)
  local listener <close> = socket.create "tcp"
  t.eq({ listener:bind("127.0.0.1", 0) }, { true })
  t.eq({ listener:listen() }, { true })
  t.eq({ e:event_add(listener, IN, "listener") }, { true })
  t.eq(events(e, 0), {})
  local client <close> = socket.create "tcp"
  t.ok(client:connect(listener:info "socket") ~= nil)
  t.eq(events(e, 5000), { listener = IN })
  local server <close> = listener:accept()
  t.eq(events(e, 0), {})
  t.eq({ e:event_add(client, OUT, "client") }, { true })
  t.eq(events(e, 5000), { client = OUT })
  t.eq({ client:status() }, { true })
  t.eq({ e:event_mod(client, IN) }, { true })
  t.eq(events(e, 0), {})
  server:send "hello"
  t.eq(events(e, 5000), { client = IN })
  t.eq(client:recv(), "hello")
  t.eq(events(e, 0), {})
  server:close()
  t.eq(events(e, 5000), { client = IN })
  t.eq({ client:recv() }, {})
  t.eq({ e:event_del(client) }, { true })
end)

t.test("no event is lost if max_events is 1", function()
  local e <close> = epoll.create(1)
  local ends, seen = {}, {}
  for i = 1, 5 do
    local a, b = socket.pair()
    a:send "x"
    e:event_add(b, IN, i)
    ends[i] = { a, b }
  end
  for _ = 1, 50 do
    for i in e:wait(5000) do
      ends[i][2]:recv()
      seen[#seen + 1] = i
    end
    if #seen == 5 then break end
  end
  table.sort(seen)
  t.eq(seen, { 1, 2, 3, 4, 5 })
  for _, it in ipairs(ends) do it[1]:close() it[2]:close() end
end)

-- bee.lua: a signal makes the wait raise an error.
t.test("a signal during a wait does not end the wait", function()
  local watcher = signal.open("SIGCHLD", "SIGUSR1")
  local e <close> = epoll.create(16)
  local a, b = socket.pair()
  e:event_add(b, epoll.EPOLLIN, "b")
  local p = io.popen(string.format("for i in 1 2 3; do kill -USR1 %d; sleep 0.04; done", loopback.pid()))
  local begin, got = lio.now(), {}
  -- Waits until the three signals have arrived, and then SIGCHLD, which reports the end of the shell. The first wait
  -- begins before the last signal.
  repeat
    t.eq(events(e, 250), {})
    for _, name in ipairs { watcher:take() } do got[name] = true end
  until got.SIGCHLD
  t.ok(lio.now() - begin >= 0.25)
  p:close()
  a:send "x"
  t.eq(events(e, 5000), { b = epoll.EPOLLIN })
  t.eq(got, { SIGUSR1 = true, SIGCHLD = true })
  watcher:close()
  a:close() b:close()
end)

t.finish()
