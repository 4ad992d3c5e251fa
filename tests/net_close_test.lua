-- The faults of the package that this API comes from, all demonstrated there; none may come back.
-- Each test is named for what broke, and its first line tells the story.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local socket = require "lio.socket"

local function pack(...) return table.pack(...) end

netkit.pair_test("a_send_that_meets_a_full_buffer", function(a, b)
  -- A "." for a ":" made it raise: of 10 MB to a slow reader 3.9 MB arrived.
  local data = ("01234567"):rep(1310720)
  local sent = netkit.promise(function() return pack(a:send(data)) end)
  netkit.settle()
  t.eq(b:recv(#data) == data, true)
  t.eq(sent(), { true, n = 1 })
end, { seconds = 60 })

netkit.pair_test("read_and_write_ready_together", function(a, b)
  -- The reader woke and the writer hung for ever.
  local much = ("w"):rep(8 << 20)
  local writer = netkit.promise(function() return a:send(much) end)
  local reader = netkit.promise(function() return a:recv() end)
  netkit.settle()
  -- Both conditions arise before the loop looks again.
  local raw_room = #b:recv(4 << 20)
  b:send "readable"
  t.eq(reader(), "readable")
  t.eq(#b:recv(#much - raw_room), #much - raw_room)
  t.eq(writer(), true)
end, { seconds = 30 })

t.test("out_of_descriptors_in_accept", function()
  -- EMFILE closed the listener for good; its waiter never woke, and later clients were refused.
  local child <close> = t.spawn("sh -c " .. t.quote("ulimit -n 32; exec " .. t.lio() .. " "
    .. t.quote(t.write(t.tmp() .. "/server.lua", [[
      local loop, net = require "lio.loop", require "lio.net"
      io.stdout:setvbuf "no"
      loop.run(function()
        local listener = assert(net.listen("127.0.0.1", 0))
        print("port " .. select(2, listener:address()))
        while true do
          local c = assert(listener:accept())
          loop.fork(function() c:send(c:recv()) c:recv() c:close() end)
        end
      end)
    ]]))))
  local port = tonumber(child:expect "^port (%d+)$")
  netkit.run(function()
    local clients = {}
    for i = 1, 60 do clients[i] = t.ok(net.connect("127.0.0.1", port)) end
    child:expect "accepting pauses"
    for i = 1, 60 do
      clients[i]:send "x"
      clients[i]:timeout(5)
      t.eq(clients[i]:recv(), "x", "client " .. i)
      clients[i]:close()
    end
    local late <close> = t.ok(net.connect("127.0.0.1", port))
    late:send "late"
    t.eq(late:recv(), "late")
  end, 30)
end)

netkit.test("a_spurious_readiness_in_accept", function()
  -- A listener that was reported ready with nobody there was closed for good.
  local l <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = l:address()
  local accepted = netkit.promise(function() return l:accept() end)
  netkit.settle()
  t.ok(loop.wakeup(l.socket, true), "as the loop does at readiness")
  netkit.settle()
  local c <close> = t.ok(net.connect("127.0.0.1", port))
  local s <close> = t.ok(accepted())
  t.eq({ s:peer() }, { c:sock() })
end)

netkit.test("a_connection_that_dies_in_the_backlog", function()
  -- Its accept error closed the listener too.
  local l <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = l:address()
  local dead = t.ok(net.connect("127.0.0.1", port))
  dead:option("linger", 0)
  dead:close()
  local c <close> = t.ok(net.connect("127.0.0.1", port))
  local found
  repeat
    local s <close> = t.ok(l:accept())
    local ip, its_port = s:peer()
    found = ip and its_port == select(2, c:sock())
  until found
end)

netkit.test("connect_to_a_refused_port", function()
  -- It returned success.
  local ok, message, code = net.connect("127.0.0.1", netkit.dead_port())
  t.eq({ ok, code }, { false, "refused" })
  t.eq(type(message), "string")
end)

netkit.test("an_unresolvable_name", function()
  -- connect and listen raised instead of false and a message, blocked the thread and leaked the socket.
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

netkit.pair_test("close_while_others_wait", function(a)
  -- Who waited in recv or accept was never woken.
  local l = t.ok(net.listen("127.0.0.1", 0))
  local receiving = netkit.promise(function() return pack(a:recv()) end)
  local sending = netkit.promise(function() return select(2, a:send(("x"):rep(32 << 20))) end)
  local accepting = netkit.promise(function() return pack(l:accept()) end)
  netkit.settle()
  a:close()
  l:close()
  t.eq(receiving(), { nil, "closed", nil, "closed", n = 4 })
  t.eq(sending(), "closed")
  t.eq(accepting(), { false, "closed", "closed", n = 3 })
end)

netkit.pair_test("a_second_concurrent_recv_or_send", function(a, b)
  -- It died with "assertion failed!".
  local one = netkit.promise(function() return a:recv(3) end)
  local two = netkit.promise(function() return a:recv(3) end)
  netkit.settle()
  b:send "onetwo"
  t.eq({ one(), two() }, { "one", "two" })
  local much = ("m"):rep(4 << 20)
  local first = netkit.promise(function() return a:send(much) end)
  local second = netkit.promise(function() return a:send "second" end)
  t.eq(b:recv(#much) == much, true)
  t.eq(b:recv(6), "second")
  t.eq({ first(), second() }, { true, true })
end, { seconds = 30 })

netkit.pair_test("recv_on_a_closed_connection", function(a)
  -- It asserted where send returned a message.
  a:close()
  t.eq(pack(a:recv()), { nil, "closed", nil, "closed", n = 4 })
  t.eq(pack(a:send "x"), { nil, "closed", 0, "closed", n = 4 })
end)

netkit.pair_test("a_peer_that_closes_an_idle_connection", function(a, b)
  -- It was never noticed.
  local noticed = netkit.promise(function() return a:wait_closed() end)
  netkit.settle()
  b:close()
  t.eq(noticed(), true)
end)

netkit.pair_test("a_wait_without_an_end", function(a)
  -- There were no time-outs.
  a:timeout(0.02, 0.02)
  t.eq(select(2, a:recv()), "timeout")
  t.eq(select(2, a:send(("x"):rep(32 << 20))), "timeout")
end)

netkit.test("forty_clients_at_once", function()
  -- With a backlog of 5 they waited 3 s for retransmitted SYNs.
  -- A SYN is sent again after a second. A busy machine may make a round slow, not each.
  local fastest = math.huge
  for _ = 1, 10 do
    local l <close> = t.ok(net.listen("127.0.0.1", 0))
    local _, port = l:address()
    local before, clients = lio.now(), {}
    for i = 1, 40 do clients[i] = t.ok(net.connect("127.0.0.1", port)) end
    local _ <close> = netkit.closing(table.unpack(clients))
    fastest = math.min(fastest, lio.now() - before)
    if fastest < 1 then break end
  end
  t.ok(fastest < 1, "each round waited for a SYN")
end, { seconds = 60 })

netkit.test("ipv6_udp_and_nodelay", function()
  -- There were none.
  local l <close> = t.ok(net.listen("::1", 0))
  local _, port = l:address()
  local c <close> = t.ok(net.connect("::1", port))
  t.eq(c:option "nodelay", true)
  local u <close> = t.ok(net.udp("::1", 0))
  local _, u_port = u:address()
  t.eq(u:sendto("x", "::1", u_port), true)
  t.eq((u:recvfrom()), "x")
end)

netkit.pair_test("results_that_follow_one_rule", function(a, b)
  -- nil, false and "" had no rule for which means what: now nil alone is the end, "" is no result of
  -- recv() at all, and a failure has a message and a code.
  t.eq(pack(b:send "x"), { true, n = 1 })
  t.eq(pack(a:recv(0)), { "", n = 1 })
  t.eq(pack(a:recv()), { "x", n = 1 })
  b:close()
  t.eq(pack(a:recv()), { nil, n = 1 })
  t.eq(pack(a:recv(1)), { nil, "closed", "", "closed", n = 4 })
  t.eq(pack(a:recv "line"), { nil, "closed", "", "closed", n = 4 })
  t.eq(pack(a:recv "all"), { "", n = 1 })
end)

netkit.test("a_foreign_wakeup_of_the_task", function()
  -- Found in our own first version: whoever woke the coroutine of a task that waited for a socket, or
  -- for a name, made it go on with the wrong values.
  local left, right = socket.pair()
  local a, b = t.ok(net.wrap(left)), t.ok(net.wrap(right))
  local _ <close> = netkit.closing(a, b)
  local co
  local got = netkit.promise(function()
    co = loop.running()
    return b:recv()
  end)
  netkit.settle()
  t.is_nil(loop.wakeup(co, "timeout"))
  a:send "right"
  t.eq(got(), "right")
end)

t.finish()
