-- Readiness is level-triggered and never spurious, for lio's sockets and for foreign descriptors.

local t = require "tests.kit"
local lio = require "lio"
local socket = require "lio.socket"
local loopback = require "tests.kit.loopback"

local events, READ, WRITE = loopback.events, lio.SELECT_READ, lio.SELECT_WRITE

t.test("a listener is reported again while connections wait, and not afterwards", function()
  local listener <close> = loopback.listener()
  local sel <close> = lio.create()
  sel:event_add(listener, READ, "listener")
  local clients = {}
  for i = 1, 5 do
    clients[i] = socket.create "tcp"
    clients[i]:connect(listener:info "socket")
  end
  for i = 1, 5 do
    t.eq(events(sel, 5), { listener = READ }, "connection " .. i)
    t.ok(listener:accept(), "accept " .. i):close()
  end
  t.eq(events(sel, 0), {}, "no connection is left")
  t.eq(listener:accept(), false)
  for _, c in ipairs(clients) do c:close() end
end)

t.test("100 bytes that are read one at a time cause 100 events, not 101", function()
  for _, make in ipairs { socket.pair, loopback.tcp } do
    local a, b = make()
    local sel <close> = lio.create()
    sel:event_add(b, READ, "b")
    a:send(("z"):rep(100))
    for i = 1, 100 do
      t.eq(events(sel, 5), { b = READ }, "byte " .. i)
      t.eq(b:recv(1), "z")
    end
    t.eq(events(sel, 0), {})
    a:close()
    b:close()
  end
end)

t.test("a foreign descriptor that is read one byte at a time is reported for each byte", function()
  local handle, a = loopback.foreign()
  local sel <close> = lio.create()
  sel:event_add(handle, READ, "b")
  a:send(("z"):rep(20))
  for i = 1, 20 do
    t.eq(events(sel, 5), { b = READ }, "byte " .. i)
    t.eq(loopback.borrow(handle, function(s) return s:recv(1) end), "z")
  end
  t.eq(events(sel, 0), {})
  sel:event_del(handle)
  loopback.close(handle)
  a:close()
end)

t.test("if nothing is read, a lio socket and a foreign descriptor are reported again", function()
  local handle, a = loopback.foreign()
  local c, d = socket.pair()
  local sel <close> = lio.create()
  sel:event_add(handle, READ, "foreign")
  sel:event_add(d, READ, "own")
  a:send "1"
  c:send "1"
  for _ = 1, 10 do t.eq(events(sel, 5), { foreign = READ, own = READ }) end
  sel:event_del(handle)
  loopback.close(handle)
  a:close() c:close() d:close()
end)

t.test("an event is delivered after event_mod removed its bit and set it again", function()
  local handle, a = loopback.foreign()
  local c, d = loopback.tcp()
  local sel <close> = lio.create()
  sel:event_add(handle, READ, "foreign")
  sel:event_add(d, READ, "own")
  a:send "1"
  c:send "1"
  t.eq(events(sel, 5).own, READ)
  for _ = 1, 3 do
    t.ok(sel:event_mod(handle, 0))
    t.ok(sel:event_mod(d, 0))
    t.eq(events(sel, 0.02), {}, "no interest is set")
    t.ok(sel:event_mod(handle, READ))
    t.ok(sel:event_mod(d, READ))
    t.eq(events(sel, 5), { foreign = READ, own = READ })
  end
  sel:event_del(handle)
  loopback.close(handle)
  a:close() c:close() d:close()
end)

t.test("data that arrived without interest is reported when the interest is set", function()
  for _, make in ipairs { socket.pair, loopback.tcp } do
    local a, b = make()
    local sel <close> = lio.create()
    sel:event_add(b, 0, "b")
    a:send "x"
    t.eq(events(sel, 0.02), {})
    sel:event_mod(b, READ)
    t.eq(events(sel, 5), { b = READ })
    sel:event_mod(b, READ | WRITE)
    t.eq(events(sel, 5), { b = READ | WRITE })
    sel:event_mod(b, WRITE)
    t.eq(events(sel, 5), { b = WRITE })
    a:close() b:close()
  end
end)

t.test("the end of a stream that arrived with the last bytes is reported after a short read", function()
  for _, make in ipairs { socket.pair, loopback.tcp } do
    local a, b = make()
    local sel <close> = lio.create()
    sel:event_add(b, READ, "b")
    a:send "last"
    a:close()
    loopback.await(b)
    t.eq(events(sel, 5), { b = READ })
    t.eq(b:recv(100), "last")
    t.eq(events(sel, 5), { b = READ })
    t.is_nil(b:recv(100))
    t.eq(events(sel, 5), { b = READ }, "the end is reported again")
    b:close()
  end
end)

t.test("the end of a stream that arrives after the last bytes is a separate event", function()
  local a, b = loopback.tcp()
  local sel <close> = lio.create()
  sel:event_add(b, READ, "b")
  a:send "x"
  t.eq(events(sel, 5), { b = READ })
  t.eq(b:recv(), "x")
  t.eq(events(sel, 0), {})
  a:shutdown "w"
  t.eq(events(sel, 5), { b = READ })
  t.is_nil(b:recv())
  a:close() b:close()
end)

t.test("a full socket is not reported for writing until it has space, and then at each wait", function()
  for _, make in ipairs { socket.pair, loopback.tcp } do
    local a, b = make()
    local sel <close> = lio.create()
    sel:event_add(a, WRITE, "a")
    t.eq(events(sel, 5), { a = WRITE })
    t.eq(events(sel, 5), { a = WRITE }, "still writable")
    local total = loopback.fill(a)
    t.eq(events(sel, 0.02), {}, "full")
    t.eq(#loopback.receive(b, total), total)
    t.eq(events(sel, 5), { a = WRITE })
    t.eq(events(sel, 5), { a = WRITE })
    a:close() b:close()
  end
end)

t.test("a writable socket is not reported if only reading is requested", function()
  local a, b = loopback.tcp()
  local handle, c = loopback.foreign()
  local sel <close> = lio.create()
  sel:event_add(a, READ)
  sel:event_add(c, READ)
  sel:event_add(handle, READ)
  t.eq(events(sel, 0.03), {})
  sel:event_del(handle)
  loopback.close(handle)
  a:close() b:close() c:close()
end)

t.test("if a socket is registered in two selectors, both report it", function()
  local a, b = socket.pair()
  local one <close> = lio.create()
  local two <close> = lio.create()
  one:event_add(b, READ, "one")
  two:event_add(b, READ, "two")
  a:send "xy"
  for _ = 1, 2 do
    t.eq(events(one, 5), { one = READ })
    t.eq(events(two, 5), { two = READ })
  end
  t.eq(b:recv(), "xy")
  t.eq(events(one, 0), {})
  t.eq(events(two, 0), {})
  a:close() b:close()
end)

t.test("a hang-up is reported as the requested bits", function()
  for asked = 1, 3 do
    for _, make in ipairs { socket.pair, loopback.tcp } do
      local a, b = make()
      local sel <close> = lio.create()
      sel:event_add(b, asked, "b")
      b:shutdown()
      a:close()
      local deadline = lio.now() + 5
      repeat
        local found = events(sel, 1)
        t.ok(lio.now() < deadline, "not all requested bits within 5 s")
      until found.b == asked
      t.eq(events(sel, 1), { b = asked }, "the hang-up is reported again")
      b:close()
    end
  end
end)

t.test("a hang-up on a foreign descriptor is reported as the requested bits", function()
  for asked = 1, 3 do
    local handle, a = loopback.foreign()
    local sel <close> = lio.create()
    sel:event_add(handle, asked, "b")
    a:close()
    for _ = 1, 3 do t.eq(events(sel, 5), { b = asked }) end
    sel:event_del(handle)
    loopback.close(handle)
  end
end)

t.test("a reset by the peer is reported for reading and for writing", function()
  for asked = 1, 2 do
    local a, b = loopback.tcp()
    local sel <close> = lio.create()
    if asked == WRITE then loopback.fill(b) end
    sel:event_add(b, asked, "b")
    t.eq(events(sel, 0.02), {})
    a:option("linger", 0)
    a:close()
    t.eq(events(sel, 5), { b = asked })
    b:close()
  end
end)

t.test("a hang-up is not reported without interest", function()
  local handle, a = loopback.foreign()
  local b, c = loopback.tcp()
  local sel <close> = lio.create()
  sel:event_add(handle, 0)
  sel:event_add(c, 0)
  a:close()
  b:close()
  t.eq(events(sel, 0.03), {})
  sel:event_del(handle)
  loopback.close(handle)
  c:close()
end)

t.test("with one event per wait every descriptor is reported in turn", function()
  local sel <close> = lio.create(1)
  local ends = {}
  for i = 1, 8 do
    local a, b = socket.pair()
    ends[i] = { a, b }
    sel:event_add(b, READ, i)
    a:send "x"
  end
  local seen, deadline = {}, lio.now() + 5
  repeat
    for i in sel:wait(1) do
      seen[i] = true
      ends[i][2]:recv()
    end
    local missing = 0
    for i = 1, 8 do if not seen[i] then missing = missing + 1 end end
    t.ok(lio.now() < deadline)
  until missing == 0
  for _, pair in ipairs(ends) do pair[1]:close() pair[2]:close() end
end)

t.finish()
