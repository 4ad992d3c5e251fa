-- udp, recvfrom, sendto: datagrams over 127.0.0.1 and ::1.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local loop = require "lio.loop"
local net = require "lio.net"

local function pack(...) return table.pack(...) end

local function test(name, f)
  netkit.test(name, function()
    local a, b = t.ok(net.udp("127.0.0.1", 0)), t.ok(net.udp("127.0.0.1", 0))
    local _ <close> = netkit.closing(a, b)
    f(a, b, select(2, a:address()), select(2, b:address()))
  end)
end

test("a datagram arrives with its sender's address, and can be answered", function(a, b, a_port, b_port)
  t.eq(net.sendto(a, "question", "127.0.0.1", b_port), true)
  local data, ip, port = net.recvfrom(b)
  t.eq({ data, ip, port }, { "question", "127.0.0.1", a_port })
  t.eq(b:sendto("answer", ip, port), true)
  t.eq((a:recvfrom()), "answer")
end)

test("datagrams are not merged or split; an empty datagram is an empty string", function(a, b, _, b_port)
  for _, data in ipairs { "one", "", "\0three", ("x"):rep(60000) } do
    t.eq(a:sendto(data, "127.0.0.1", b_port), true)
  end
  t.eq((b:recvfrom()), "one")
  t.eq((b:recvfrom()), "")
  t.eq((b:recvfrom()), "\0three")
  t.eq(#b:recvfrom(), 60000)
end)

test("a receiver that waits is woken; several receivers get datagrams in order", function(a, b, _, b_port)
  local order, waits = {}, {}
  for i = 1, 3 do
    waits[i] = netkit.promise(function()
      local data = b:recvfrom()
      order[#order + 1] = i .. data
    end)
  end
  netkit.settle()
  for _, data in ipairs { "x", "y", "z" } do a:sendto(data, "127.0.0.1", b_port) end
  for i = 1, 3 do waits[i]() end
  t.eq(order, { "1x", "2y", "3z" })
end)

test("if the first receiver is killed, the next one continues", function(a, b, _, b_port)
  local first = loop.fork(function() b:recvfrom() end)
  local second = netkit.promise(function() return (b:recvfrom()) end)
  netkit.settle()
  loop.kill(first)
  a:sendto("for the second", "127.0.0.1", b_port)
  t.eq(second(), "for the second")
end)

test("recvfrom fails after the timeout of the socket", function(a, b, _, b_port)
  t.eq(b:timeout(0.02), true)
  t.eq(pack(b:recvfrom()), { nil, "timeout", "timeout", n = 3 })
  b:timeout()
  a:sendto("late", "127.0.0.1", b_port)
  t.eq((b:recvfrom()), "late")
end)

test("a datagram to a closed port does not break the socket", function(a, b, _, b_port)
  local nobody = t.ok(net.udp("127.0.0.1", 0))
  local _, port = nobody:address()
  nobody:close()
  for _ = 1, 3 do t.eq(a:sendto("lost", "127.0.0.1", port), true) end
  netkit.settle()
  t.eq(a:sendto("through", "127.0.0.1", b_port), true)
  t.eq((b:recvfrom()), "through")
  a:timeout(0.02)
  t.eq(select(3, a:recvfrom()), "timeout")
end)

test("close wakes all tasks that wait", function(_, b)
  local waits = {}
  for i = 1, 2 do waits[i] = netkit.promise(function() return pack(b:recvfrom()) end) end
  netkit.settle()
  t.eq(b:close(), true)
  for i = 1, 2 do t.eq(waits[i](), { nil, "closed", "closed", n = 3 }) end
  t.eq(pack(b:recvfrom()), { nil, "closed", "closed", n = 3 })
  t.eq(pack(b:sendto("x", "127.0.0.1", 9)), { nil, "closed", "closed", n = 3 })
  t.eq({ b:close(), b:is_closed() }, { true, true })
  t.eq(pack(b:address()), { nil, "closed", "closed", n = 3 })
  t.eq(tostring(b), "udp (closed)")
end)

test("sendto resolves a host name to an address of the socket's family", function(a, b, _, b_port)
  t.eq(a:sendto("by name", "localhost", b_port), true)
  t.eq((b:recvfrom()), "by name")
  t.eq(select(3, a:sendto("x", "no.such.host.invalid", 9)), "unresolved")
end)

netkit.test("IPv6 datagrams", function()
  local a <close> = t.ok(net.udp("::1", 0))
  local _, port, family = a:address()
  t.eq(family, "inet6")
  t.eq(a:sendto("to myself", "::1", port), true)
  t.eq({ a:recvfrom() }, { "to myself", "::1", port })
end)

test("failures are returned, and misuse raises", function(a)
  local ok, message, code = net.udp("no address", 0)
  t.eq({ ok, code }, { false, "EINVAL" })
  t.ok(message:find "not an address", message)
  local _, port = a:address()
  t.eq(select(3, net.udp("127.0.0.1", port)), "in use")
  t.eq(select(3, a:sendto(("x"):rep(70000), "127.0.0.1", 9)), "too long")
  t.raises("bad argument #2 to 'udp'", net.udp, "127.0.0.1", -1)
  t.raises("bad argument #2 to 'sendto'", net.sendto, a, nil, "127.0.0.1", 9)
  t.raises("bad argument #4 to 'sendto'", net.sendto, a, "x", "127.0.0.1", "9")
end)

test("datagram sockets have the options of lio.socket", function(a)
  t.eq(a:option("broadcast", true), true)
  t.eq(a:option "broadcast", true)
end)

test("a flood of datagrams does not starve other tasks", function(a, b, _, b_port)
  local stop, ticks = false, 0
  loop.fork(function() while not stop do a:sendto("flood", "127.0.0.1", b_port) loop.sleep(0) end end)
  local reader = netkit.promise(function()
    local count = 0
    while not stop do
      if not b:recvfrom() then break end
      -- Each received datagram is sent again, so that the queue is never empty.
      a:sendto("flood", "127.0.0.1", b_port)
      count = count + 1
    end
    return count
  end)
  for _ = 1, 50 do
    loop.sleep(0)
    ticks = ticks + 1
  end
  stop = true
  t.ok(reader() > 100)
  t.eq(ticks, 50)
end)

-- Regression: UDP, IPv6 and nodelay did not exist.
netkit.test("TCP and UDP work over IPv6, and connections have nodelay set", function()
  local l <close> = t.ok(net.listen("::1", 0))
  local _, port = l:address()
  local c <close> = t.ok(net.connect("::1", port))
  t.eq(c:option "nodelay", true)
  local u <close> = t.ok(net.udp("::1", 0))
  local _, u_port = u:address()
  t.eq(u:sendto("x", "::1", u_port), true)
  t.eq((u:recvfrom()), "x")
end)

t.finish()
