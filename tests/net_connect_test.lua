-- connect and resolve: failures as values, the race between addresses, timeouts, wrap, and attempts that are closed.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local socket = require "lio.socket"

local function pack(...) return table.pack(...) end

-- Opens a listener and fills its backlog: a further client waits, as with a host that drops packets. Returns the port
-- and an object that closes the sockets.
local function black_hole()
  local s = t.ok(socket.create "tcp")
  t.ok(s:bind("127.0.0.1", 0))
  t.ok(s:listen(0))
  local _, port = s:info "socket":value()
  local fillers = { s }
  for i = 1, 3 do
    local f = t.ok(socket.create "tcp")
    f:connect("127.0.0.1", port)
    fillers[i + 1] = f
  end
  return port, netkit.closing(table.unpack(fillers))
end

netkit.test("connect to a port that refuses returns false, a message and a code", function()
  local ok, message, code = net.connect("127.0.0.1", netkit.dead_port())
  t.eq({ ok, code }, { false, "refused" })
  t.ok(message:find "^connect: .*refused", message)
end)

netkit.test("an unresolvable name returns false and a message, and other tasks run meanwhile", function()
  local ticks, done = 0, false
  local ticker = netkit.promise(function()
    while not done do
      loop.sleep(0)
      ticks = ticks + 1
    end
  end)
  local ok, message, code = net.connect("no.such.host.invalid", 80)
  done = true
  ticker()
  t.eq({ ok, code }, { false, "unresolved" })
  t.ok(message:find("no.such.host.invalid", 1, true), message)
  t.ok(ticks > 1, "other tasks ran " .. ticks .. " times")
end)

netkit.test("for a name that the resolver refuses, connect fails and does not raise", function()
  for _, name in ipairs { "", " ", "a b", "a\0b", "\255\254", ("x"):rep(300), "1.2.3.4.5" } do
    local ok, _, code = net.connect(name, 80)
    t.eq({ ok, code }, { false, "unresolved" }, t.show(name))
  end
end)

netkit.test("connect to an address without a route or a family returns false and a message", function()
  local ok, message, code = net.connect("255.255.255.255", 80)
  t.eq(ok, false)
  t.ok(message:find "^connect: ", message)
  t.ok(code)
end)

netkit.test("localhost: if ::1 refuses and 127.0.0.1 listens, connect succeeds at once", function()
  local l <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = l:address()
  -- The attempt for the second address starts after 0.25 s, or as soon as the first attempt fails. A busy machine may
  -- make some rounds slow, but not every round.
  local fastest = math.huge
  for _ = 1, 20 do
    local before = lio.now()
    local c <close> = t.ok(net.connect("localhost", port))
    fastest = math.min(fastest, lio.now() - before)
    t.eq({ c:peer() }, { "127.0.0.1", port, "inet" })
    if fastest < 0.2 then break end
  end
  t.ok(fastest < 0.2, "each connect waited before it tried the second address")
end)

netkit.test("localhost: if 127.0.0.1 refuses and ::1 listens, connect succeeds at once", function()
  local l <close> = t.ok(net.listen("::1", 0))
  local _, port = l:address()
  local c, message = net.connect("localhost", port)
  if not c then
    -- If this machine has only an IPv4 address for localhost, the connection is refused.
    t.eq(net.resolve "localhost", { "127.0.0.1" }, message)
    return
  end
  t.eq((c:peer()), "::1")
  c:close()
end)

netkit.test("if every address refuses, the failure is 'refused'", function()
  t.eq(select(3, net.connect("localhost", netkit.dead_port())), "refused")
end)

netkit.test("opts.timeout ends a connect that is not answered, and no socket stays open", function()
  local port, _ <close> = black_hole()
  local before = lio.now()
  local ok, message, code = net.connect("127.0.0.1", port, { timeout = 0.05 })
  t.eq({ ok, code }, { false, "timeout" })
  t.eq(message, "connect: timeout")
  t.ok(lio.now() - before >= 0.05)
end)

netkit.test("a killed connect closes its socket", function()
  local port, _ <close> = black_hole()
  local before = select(2, t.descriptors())
  local co = loop.fork(function() net.connect("127.0.0.1", port) end)
  netkit.settle()
  t.eq(select(2, t.descriptors()), before + 1)
  t.ok(loop.kill(co))
  t.eq(select(2, t.descriptors()), before)
end)

netkit.test("many tasks can connect at once, each to its own listener", function()
  local l <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = l:address()
  local server = net.serve(l, function(c) c:send(c:recv "line", "\n") end)
  local waits = {}
  for i = 1, 300 do
    waits[i] = netkit.promise(function()
      local c <close> = assert(net.connect("127.0.0.1", port))
      c:send(i, "\n")
      return c:recv "line"
    end)
  end
  for i = 1, 300 do t.eq(waits[i](), tostring(i)) end
  server:stop()
end)

netkit.test("connect to a unix socket succeeds, or fails with a code for the reason", function()
  local path = t.tmp() .. "/s"
  local l = t.ok(net.listen("unix:" .. path))
  local c <close> = t.ok(net.connect("unix:" .. path))
  local s <close> = t.ok(l:accept())
  c:send "over a file"
  t.eq(s:recv(), "over a file")
  t.eq({ c:peer() }, { path, "path", "unix" })
  l:close()
  local ok, _, code = net.connect("unix:" .. path)
  t.eq({ ok, code }, { false, "not found" })
  t.eq(select(3, net.connect("unix:@lio-nobody-here")), "refused")
  t.eq(select(3, net.connect("unix:" .. ("x"):rep(200))), "too long")
end)

netkit.test("misuse raises", function()
  t.raises("bad argument #1 to 'connect'", net.connect)
  t.raises("bad argument #2 to 'connect'", net.connect, "127.0.0.1")
  t.raises("bad argument #2 to 'connect'", net.connect, "127.0.0.1", 70000)
  t.raises("net.connect: option 'timeout' must be a positive number of seconds, got \"1\"",
    net.connect, "127.0.0.1", 80, { timeout = "1" })
end)

netkit.test("resolve returns a numeric address in its usual form", function()
  t.eq(net.resolve "127.0.0.1", { "127.0.0.1" })
  t.eq(net.resolve "0:0:0:0:0:0:0:1", { "::1" })
end)

netkit.test("resolve returns a list that the caller may change, even if the list comes from the cache", function()
  local first = t.ok(net.resolve "localhost")
  t.ok(#first >= 1)
  local copy = table.move(first, 1, #first, 1, {})
  first[1] = "changed"
  local co, waited = loop.running(), true
  -- This task runs only if `resolve` waits, which it must not do.
  loop.fork(function() if waited then loop.interrupt(co, "it waited") end end)
  t.eq(net.resolve "localhost", copy)
  waited = false
end)

netkit.test("tasks that resolve one name at once share one query, even when one of them is killed", function()
  local waits = {}
  local killed = loop.fork(function() net.resolve "shared.invalid" end)
  for i = 1, 5 do
    waits[i] = netkit.promise(function() return select(3, net.resolve "shared.invalid") end)
  end
  coroutine.yield()
  loop.kill(killed)
  for i = 1, 5 do t.eq(waits[i](), "unresolved") end
end)

netkit.test("resolve has an optional time limit", function()
  local list, _, code = net.resolve("slow.invalid", 0)
  t.is_nil(list)
  t.ok(code == "timeout" or code == "unresolved", code)
end)

netkit.test("wrap turns a socket into a connection, and closes the socket object", function()
  local left, right = socket.pair()
  local a <close> = t.ok(net.wrap(left))
  local b <close> = t.ok(net.wrap(right))
  t.raises("already closed", left.send, left, "x")
  local got = netkit.promise(function() return b:recv "line" end)
  netkit.settle()
  a:send "wrapped\n"
  t.eq(got(), "wrapped")
  t.raises("bad argument #1 to 'wrap'", net.wrap, left)
end)

netkit.test("a socket that the selector refuses is closed at once", function()
  local stream = require "lio.stream"
  local sel = lio.create()
  sel:close()
  local left, right = socket.pair()
  local before = select(2, t.descriptors())
  t.eq(pack(stream.new(sel, left)), { nil, "event_add: selector is closed", "closed", n = 3 })
  t.eq(select(2, t.descriptors()), before - 1)
  t.is_nil(right:recv(), "the peer gets the end of the stream")
  right:close()
end)

netkit.pair_test("wait_closed returns when the peer closes an idle connection", function(a, b)
  local over = netkit.promise(function() return pack(a:wait_closed()) end)
  netkit.settle()
  b:close()
  t.eq(over(), { true, n = 1 })
  t.eq(pack(a:wait_closed()), { true, n = 1 })
end)

netkit.pair_test("wait_closed ends after its timeout, and may run while another task is in recv", function(a, b)
  t.eq(pack(a:wait_closed(0.02)), { nil, "timeout", "timeout", n = 3 })
  local over = netkit.promise(function() return a:wait_closed() end)
  local got = netkit.promise(function() return a:recv "all" end)
  netkit.settle()
  b:send "last words"
  b:close()
  t.eq({ over(), got() }, { true, "last words" })
end)

netkit.pair_test("wait_readable returns when bytes have arrived, and does not read them", function(a, b)
  t.eq(pack(b:wait_readable(0.02)), { nil, "timeout", "timeout", n = 3 })
  local ready = netkit.promise(function() return b:wait_readable() end)
  netkit.settle()
  a:send "here"
  t.eq(ready(), true)
  t.eq(b:recv(), "here")
end)

-- A listener whose backlog is full does not answer further connection requests.
netkit.test("closing the attempt ends a connect while it resolves the name and while it connects", function()
  local full = assert(socket.create "tcp")
  assert(full:bind("127.0.0.1", 0))
  assert(full:listen(0))
  local _, port = full:info("socket"):value()
  local fillers = {}
  for i = 1, 8 do
    fillers[i] = assert(socket.create "tcp")
    fillers[i]:connect("127.0.0.1", port)
  end
  local attempt = net.attempt()
  local result = netkit.promise(function()
    return pack(net.connect("127.0.0.1", port, { attempt = attempt, timeout = 10 }))
  end)
  netkit.settle()
  net.close(attempt)
  t.eq(result(), { false, "closed", "closed", n = 3 })

  local second = net.attempt()
  local resolving = netkit.promise(function()
    return pack(net.connect("name-to-give-up.invalid", port, { attempt = second }))
  end)
  loop.sleep(0)
  second:close()
  t.eq(resolving(), { false, "closed", "closed", n = 3 })
  t.eq(pack(net.connect("127.0.0.1", port, { attempt = second })), { false, "closed", "closed", n = 3 })

  for _, s in ipairs(fillers) do s:close() end
  full:close()
end)

-- Regression: connect returned success.
netkit.test("connecting to a port without a listener fails with code refused", function()
  local ok, message, code = net.connect("127.0.0.1", netkit.dead_port())
  t.eq({ ok, code }, { false, "refused" })
  t.eq(type(message), "string")
end)

-- Regression: connect and listen raised instead of returning false and a message, blocked the thread and leaked the
-- socket.
netkit.test("if a name cannot be resolved, the call fails, blocks no thread, and leaves no socket open", function()
  local before, ticks = select(2, t.descriptors()), 0
  local ticking = loop.fork(function() while true do loop.sleep(0) ticks = ticks + 1 end end)
  for _, call in ipairs { net.connect, net.listen } do
    local ok, message, code = call("unresolvable.invalid", 80)
    t.eq({ ok, type(message), code }, { false, "string", "unresolved" })
  end
  loop.kill(ticking)
  t.ok(ticks > 1, "the thread was blocked")
  t.eq(select(2, t.descriptors()), before)
end)

t.finish()
