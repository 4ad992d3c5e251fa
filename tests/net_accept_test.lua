-- listen and accept: addresses, unix sockets and their files, several acceptors, exhausted descriptors, close.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local socket = require "lio.socket"

local function pack(...) return table.pack(...) end

-- Connects to `listener` at the address `...`, and checks that data arrives in both directions.
local function exchange(listener, ...)
  local c = assert(net.connect(...))
  local s = assert(listener:accept())
  local _ <close> = netkit.closing(c, s)
  c:send "ping"
  t.eq(s:recv(), "ping")
  s:send "pong"
  t.eq(c:recv(), "pong")
end

local function mode_of(path)
  local p <close> = io.popen("stat -c %a " .. t.quote(path))
  return p:read "l"
end

local function exists(path)
  return os.execute("test -e " .. t.quote(path)) == true
end

netkit.test("address returns a listener's address; with port 0 the system chooses", function()
  local l <close> = t.ok(net.listen("127.0.0.1", 0))
  local ip, port, family = l:address()
  t.eq({ ip, family }, { "127.0.0.1", "inet" })
  t.ok(port > 0)
  t.eq(tostring(l), "listener (127.0.0.1:" .. port .. ")")
  exchange(l, "127.0.0.1", port)
end)

netkit.test("IPv6 works as IPv4 does, and :: accepts both unless v6only is set", function()
  local l <close> = t.ok(net.listen("::1", 0))
  local ip, port, family = l:address()
  t.eq({ ip, family }, { "::1", "inet6" })
  exchange(l, "::1", port)
  local both <close> = t.ok(net.listen("::", 0))
  local _, second = both:address()
  exchange(both, "127.0.0.1", second)
  exchange(both, "::1", second)
  local only <close> = t.ok(net.listen("::", 0, { v6only = true }))
  local _, third = only:address()
  exchange(only, "::1", third)
  t.eq(select(3, net.connect("127.0.0.1", third)), "refused")
end)

netkit.test("accepted and connected sockets have TCP_NODELAY, and return both addresses", function()
  local l <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = l:address()
  local c <close> = t.ok(net.connect("127.0.0.1", port))
  local s <close> = t.ok(l:accept())
  t.eq({ c:option "nodelay", s:option "nodelay" }, { true, true })
  t.eq({ c:peer() }, { "127.0.0.1", port, "inet" })
  t.eq({ c:peer() }, { s:sock() })
  t.eq({ s:peer() }, { c:sock() })
end)

netkit.test("listen on a port in use returns false and a message; with reuseport two listeners share it", function()
  local l <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = l:address()
  local ok, message, code = net.listen("127.0.0.1", port)
  t.eq({ ok, code }, { false, "in use" })
  t.ok(message:find "^bind: ", message)
  local one <close> = t.ok(net.listen("127.0.0.1", 0, { reuseport = true }))
  local _, shared = one:address()
  local two <close> = t.ok(net.listen("127.0.0.1", shared, { reuseport = true }))
  t.ok(two)
end)

netkit.test("listen resolves a host name, or returns false and a message if this fails", function()
  local l <close> = t.ok(net.listen("localhost", 0))
  local _, port = l:address()
  exchange(l, "localhost", port)
  local ok, message, code = net.listen("no.such.host.invalid", 0)
  t.eq({ ok, code }, { false, "unresolved" })
  t.ok(message:find("no.such.host.invalid", 1, true), message)
end)

t.test("listen works before the loop runs, even with a host name", function()
  local l <close> = t.ok(net.listen("localhost", 0))
  t.eq((net.listen("no.such.host.invalid", 0)), false)
  loop.run(function()
    local ip, port = l:address()
    exchange(l, ip, port)
  end)
end)

netkit.test("the file of a unix listener has the requested mode, and is removed when the listener closes", function()
  local path = t.tmp() .. "/socket"
  local l = t.ok(net.listen("unix:" .. path, nil, { mode = tonumber("600", 8) }))
  t.eq(mode_of(path), "600")
  t.eq({ l:address() }, { path, "path", "unix" })
  exchange(l, "unix:" .. path)
  t.eq(select(3, net.listen("unix:" .. path)), "in use", "a listener uses the path")
  exchange(l, "unix:" .. path)
  l:close()
  t.eq(exists(path), false)
end)

netkit.test("a socket file left by a dead process is replaced, any other file is not", function()
  local dir = t.tmp()
  local stale <close> = t.ok(socket.create "unix")
  t.ok(stale:bind(dir .. "/stale"))
  stale:close()
  t.eq(exists(dir .. "/stale"), true)
  local l <close> = t.ok(net.listen("unix:" .. dir .. "/stale"))
  exchange(l, "unix:" .. dir .. "/stale")
  local file = t.write(dir .. "/notes.txt", "precious")
  t.eq(select(3, net.listen("unix:" .. file)), "in use")
  t.eq(io.open(file):read "a", "precious")
  os.execute("ln -s notes.txt " .. dir .. "/link")
  t.eq(select(3, net.listen("unix:" .. dir .. "/link")), "in use")
  t.eq(exists(dir .. "/link"), true)
end)

netkit.test("an abstract unix socket has no file", function()
  local name = "unix:@lio-test-" .. os.time() .. math.random(1 << 30)
  local l <close> = t.ok(net.listen(name))
  local address, kind = l:address()
  t.eq({ address:sub(1, 1), kind }, { "\0", "abstract" })
  exchange(l, name)
end)

netkit.test("listen on an invalid unix path returns false and a message, and leaves no file", function()
  local dir = t.tmp()
  t.eq(select(3, net.listen("unix:" .. dir .. "/" .. ("x"):rep(120))), "too long")
  t.eq(select(3, net.listen("unix:" .. dir .. "/no/such/folder")), "not found")
  t.raises("net.listen: option 'mode' must be permission bits",
    net.listen, "unix:" .. dir .. "/s", nil, { mode = "660" })
  t.eq(exists(dir .. "/s"), false)
end)

netkit.test("listen accepts a socket that is already listening", function()
  local s = t.ok(socket.create "tcp")
  t.ok(s:bind("127.0.0.1", 0))
  t.ok(s:listen())
  local l <close> = t.ok(net.listen(s))
  local ip, port = l:address()
  exchange(l, ip, port)
end)

netkit.test("misuse raises", function()
  t.raises("bad argument #1 to 'listen'", net.listen, 80)
  t.raises("bad argument #2 to 'listen'", net.listen, "127.0.0.1", 65536)
  t.raises("bad argument #2 to 'listen'", net.listen, "127.0.0.1", "80")
  t.raises("bad argument #1 to 'accept'", net.accept, {})
end)

netkit.test("several tasks in accept get connections in the order of their calls", function()
  local l <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = l:address()
  local order, waits, clients = {}, {}, {}
  for i = 1, 3 do
    waits[i] = netkit.promise(function()
      local c = l:accept()
      order[#order + 1] = i
      return c
    end)
  end
  for i = 1, 3 do clients[i] = t.ok(net.connect("127.0.0.1", port)) end
  local _ <close> = netkit.closing(table.unpack(clients))
  for i = 1, 3 do waits[i]():close() end
  t.eq(order, { 1, 2, 3 })
end)

netkit.test("if the first of several tasks in accept is killed, the next task accepts", function()
  local l <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = l:address()
  local first = loop.fork(function() l:accept() end)
  local second = netkit.promise(function() return l:accept() end)
  netkit.settle()
  t.ok(loop.kill(first))
  local client <close> = t.ok(net.connect("127.0.0.1", port))
  local s <close> = t.ok(second())
  t.eq({ client:sock() }, { s:peer() })
end)

netkit.test("close wakes all tasks that wait in accept", function()
  local l = t.ok(net.listen("127.0.0.1", 0))
  local waits = {}
  for i = 1, 3 do waits[i] = netkit.promise(function() return pack(l:accept()) end) end
  netkit.settle()
  t.eq(l:close(), true)
  for i = 1, 3 do t.eq(waits[i](), { false, "closed", "closed", n = 3 }) end
  t.eq(pack(l:accept()), { false, "closed", "closed", n = 3 })
  t.eq({ l:close(), l:is_closed() }, { true, true })
  t.eq(tostring(l), "listener (closed)")
  t.eq(pack(l:address()), { nil, "closed", "closed", n = 3 })
end)

netkit.test("accept fails after the timeout of the listener", function()
  local l <close> = t.ok(net.listen("127.0.0.1", 0))
  l:timeout(0.02)
  t.eq(pack(l:accept()), { false, "timeout", "timeout", n = 3 })
end)

netkit.test("all connections in the backlog are accepted after one readiness event", function()
  local l <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = l:address()
  local clients = {}
  for i = 1, 100 do clients[i] = t.ok(net.connect("127.0.0.1", port)) end
  for i = 101, 200 do
    local s <close> = t.ok(l:accept())
    clients[i] = t.ok(s)
  end
  local _ <close> = netkit.closing(table.unpack(clients))
end)

-- Returns the CPU time that a child has used, in seconds, with a resolution of 0.01 s.
local function cpu_of(child)
  local f <close> = assert(io.open(("/proc/%d/stat"):format(child.pid)))
  local user, system = f:read "a":match("^.*%) %S" .. (" %S+"):rep(10) .. " (%d+) (%d+)")
  return (user + system) / 100
end

t.test("a server without free descriptors uses little CPU, logs one line, and serves all clients later", function()
  local script = t.write(t.tmp() .. "/server.lua", [[
    local loop, net = require "lio.loop", require "lio.net"
    io.stdout:setvbuf "no"
    loop.run(function()
      local listener = assert(net.listen("127.0.0.1", 0))
      net.serve(listener, function(c)
        c:send(c:recv("line"), "\n")
        c:recv()
      end)
      print("port " .. select(2, listener:address()))
      loop.wait "for ever"
    end)
  ]])
  local command = ("exec %s %s"):format(t.lio(), t.quote(script))
  local child <close> = t.spawn("sh -c " .. t.quote("ulimit -n 64; " .. command))
  local port = tonumber(child:expect "^port (%d+)$")
  netkit.run(function()
    local clients, waits = {}, {}
    for i = 1, 200 do clients[i] = t.ok(net.connect("127.0.0.1", port)) end
    local _ <close> = netkit.closing(table.unpack(clients))
    child:expect "accepting is paused"
    -- During this second the server has no free descriptor; it must use almost no CPU.
    local cpu = cpu_of(child)
    loop.sleep(1)
    cpu = cpu_of(child) - cpu
    t.ok(cpu < 0.15, "the server used " .. cpu .. " s of CPU")
    for i = 1, 200 do
      waits[i] = netkit.promise(function()
        clients[i]:send("client " .. i .. "\n")
        local answer = clients[i]:recv "line"
        clients[i]:close()
        return answer
      end)
    end
    for i = 1, 200 do t.eq(waits[i](), "client " .. i) end
  end, 30)
  child:kill "TERM"
  t.eq(child:all(), "", "the server wrote only one line about the pause")
  t.eq(child:close(), 0)
end, { descriptor_limit = true })

t.test("listen accepts a socket that bind has opened; the error for an invalid argument names it", function()
  local s = assert(net.bind("127.0.0.1", 0))
  local _, port = s:info "socket":value()
  local taken, message, code = net.bind("127.0.0.1", port)
  t.is_nil(taken)
  t.eq(code, "in use", message)
  t.raises("bad argument #2 to 'bind' %(port expected, got 70000%)", net.bind, "127.0.0.1", 70000)
  loop.run(function()
    local listener <close> = assert(net.listen(s))
    local c <close> = assert(net.connect("127.0.0.1", port))
    local other <close> = assert(listener:accept())
    c:send "x"
    t.eq(other:recv(), "x")
  end)
end)

-- Regression: EMFILE closed the listener: the task in accept was never woken, and later clients were refused.
t.test("after a lack of descriptors a listener accepts all waiting clients, and later clients", function()
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
    child:expect "accepting is paused"
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
end, { descriptor_limit = true })

-- Regression: a listener that was reported ready without a client was closed forever.
netkit.test("a spurious readiness event leaves the listener open", function()
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

-- Regression: when accept failed because of a reset connection, the listener was closed.
netkit.test("a connection that is reset in the backlog leaves the listener open", function()
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

-- Regression: with a backlog of 5, the clients waited 3 s for retransmitted SYNs.
netkit.test("forty clients that connect at once do not wait for a retransmitted SYN", function()
  -- The system retransmits a SYN after one second. A busy machine may make one round slow, but not every round.
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

t.finish()
