-- Each call of bee.socket returns what it returns in bee.lua.

local t = require "tests.kit"
local lio = require "lio"
local select_ = require "bee.select"
local socket = require "bee.socket"
local loopback = require "tests.kit.loopback"

local READ <const> = select_.SELECT_READ
local events = loopback.events

t.test("create takes five protocols", function()
  for _, protocol in ipairs { "tcp", "udp", "tcp6", "udp6", "unix" } do
    local s = t.ok(socket.create(protocol))
    t.eq(type(s), "userdata")
    t.eq({ s:close() }, { true })
    t.eq({ socket(protocol):close() }, { true })
  end
end)

t.test("an unknown protocol is an invalid option, with the same message in every run", function()
  local expected = "bad argument #1 to 'bee.socket.create' (invalid option 'icmp')"
  t.eq({ pcall(socket.create, "icmp") }, { false, expected })
  local ok, message = pcall(function() socket.create "icmp" end)
  t.eq(ok, false)
  t.ok(message:find "^[^:]*bee_socket_test.lua:%d+: bad argument #1 to 'create' %(invalid option 'icmp'%)$", message)
  t.raises("string expected, got no value", socket.create)
  t.raises("string expected, got table", socket.create, {})
  t.raises("invalid option 'icmp'", socket, "icmp")
  -- Lua finds the function's name in package.loaded, whose order differs between processes.
  local path = t.write(t.tmp() .. "/icmp.lua", [[
    require "lio"
    print(select(2, pcall(require "bee.socket".create, "icmp")))
  ]])
  for _ = 1, 8 do t.eq(t.run(t.lio() .. " " .. path).out, expected .. "\n") end
end)

t.test("bind removes a stale unix socket's file", function()
  local path = t.tmp() .. "/stale"
  for _, where in ipairs { path, socket.endpoint("unix", path) } do
    for _ = 1, 3 do
      local s = socket.create "unix"
      t.eq({ s:bind(where) }, { true })
      t.eq({ s:listen() }, { true })
      local c <close> = socket.create "unix"
      t.eq({ c:connect(path) }, { true })
      s:close()
    end
  end
  os.remove(path)
end)

t.test("bind does not replace a file that is not a socket, nor the socket of a listener", function()
  local path = t.write(t.tmp() .. "/text", "precious")
  local s <close> = socket.create "unix"
  t.eq({ s:bind(path) }, { nil, "bind: Address already in use (os error 98)", "in use" })
  t.eq(io.open(path):read "a", "precious")
  local taken = t.tmp() .. "/taken"
  local listener <close> = socket.create "unix"
  t.eq({ listener:bind(taken) }, { true })
  t.eq({ listener:listen() }, { true })
  t.eq({ s:bind(taken) }, { nil, "bind: Address already in use (os error 98)", "in use" })
  t.eq({ s:bind(t.tmp() .. "/none/s") }, { nil, "bind: No such file or directory (os error 2)", "not found" })
  t.eq({ s:bind("\0bee-socket-" .. loopback.pid()) }, { true }, "the socket can still be bound")
  t.raises("string expected, got no value", s.bind, s)
end, { leaks = true })

t.test("a unix socket of bee is a socket of lio", function()
  local path = t.tmp() .. "/s"
  local listener <close> = socket.create "unix"
  listener:bind(path)
  listener:listen()
  local client <close> = socket.create "unix"
  t.eq({ client:connect(path) }, { true })
  local s <close> = select_.create()
  t.eq({ s:event_add(listener, READ, "listener") }, { true })
  t.eq(events(s, 5000), { listener = READ })
  local server <close> = listener:accept()
  t.eq({ client:send "hello" }, { 5 })
  loopback.await(server)
  t.eq({ server:recv() }, { "hello" })
  t.eq((client:info "peer":value()), path)
  t.ok(tostring(client):find("unix, connected", 1, true))
end)

t.test("each call of a client and of a server returns bee's results", function()
  local listener = t.ok(socket.create "tcp")
  t.eq({ listener:option("reuseaddr", 1) }, { true })
  t.eq({ listener:bind("127.0.0.1", 0) }, { true })
  t.eq({ listener:listen() }, { true })
  t.eq({ listener:accept() }, { false })
  local ip, port = listener:info "socket":value()
  t.eq(ip, "127.0.0.1")
  local client = t.ok(socket.create "tcp")
  t.ok(client:connect("127.0.0.1", port) ~= nil)
  loopback.await(listener)
  local server = t.ok(listener:accept())
  loopback.await(client, select_.SELECT_WRITE)
  t.eq({ client:status() }, { true })
  t.eq({ client:info "peer":value() }, { "127.0.0.1", port, "inet" })
  t.eq({ server:recv() }, { false })
  t.eq({ client:send "ping" }, { 4 })
  t.eq({ client:send "" }, { 0 })
  loopback.await(server)
  t.eq({ server:recv(2) }, { "pi" })
  t.eq({ server:recv() }, { "ng" })
  t.eq({ client:shutdown "w" }, { true })
  loopback.await(server)
  t.eq({ server:recv() }, {}, "at the end recv returns only nil")
  t.eq(select("#", server:recv()), 1)
  t.eq({ server:close() }, { true })
  t.eq({ client:close() }, { true })
  t.eq({ listener:close() }, { true })
  t.raises("socket is already closed", client.send, client, "x")
end)

t.test("sending an empty string fails if sending another string fails", function()
  for _, make in ipairs { socket.pair, loopback.tcp } do
    local a, b = make()
    t.eq({ a:send "" }, { 0 })
    t.eq({ a:send("abc", 4) }, { 0 })
    a:shutdown "w"
    t.eq({ a:send "" }, { nil, "send: Broken pipe (os error 32)", "closed" })
    t.eq({ a:send "x" }, { nil, "send: Broken pipe (os error 32)", "closed" })
    loopback.await(b)
    t.eq({ b:recv() }, {})
    t.eq({ b:send "" }, { 0 }, "the other direction is open")
    a:close() b:close()
  end
end)

t.test("after connect to a closed port, status returns nil and a message", function()
  local listener = loopback.listener()
  local where = listener:info "socket"
  listener:close()
  local c <close> = socket.create "tcp"
  local done, message = c:connect(where)
  if done == false then
    loopback.await(c, select_.SELECT_WRITE)
    done, message = c:status()
  end
  t.eq({ done, message }, { nil, "connect: Connection refused (os error 111)" })
end)

t.test("sendto and recvfrom transfer a datagram", function()
  local a <close> = socket.create "udp"
  local b <close> = socket.create "udp"
  t.eq({ a:bind("127.0.0.1", 0) }, { true })
  t.eq({ b:bind("127.0.0.1", 0) }, { true })
  t.eq({ b:recvfrom() }, { false })
  t.eq({ a:sendto("hello", b:info "socket") }, { 5 })
  loopback.await(b)
  local data, from = b:recvfrom()
  t.eq(data, "hello")
  t.ok(from == a:info "socket")
end)

-- Opens a pipe and calls `f` with the number of its write end, a descriptor that lio has not opened, and with the file
-- that owns it.
local function pipe_end(f)
  local known = t.descriptors()
  local p <close> = io.popen("cat >/dev/null; exec sleep 0", "w")
  for number in pairs((t.descriptors())) do
    if not known[number] then return f(number, p) end
  end
  error "no descriptor"
end

t.test("fd takes a descriptor that is not a socket", function()
  pipe_end(function(number)
    local borrowed = t.ok(socket.fd(number, true))
    t.eq(loopback.number(borrowed:handle()), number)
    t.eq(tostring(borrowed), "socket (" .. number .. ", no socket, open)")
    local s <close> = select_.create()
    t.eq({ s:event_add(borrowed, select_.SELECT_WRITE, "pipe") }, { true })
    for _ = 1, 3 do t.eq(events(s, 5000), { pipe = select_.SELECT_WRITE }) end
    t.eq({ s:event_add(borrowed, READ, "quiet") }, { true })
    t.eq(events(s, 10), {})
    t.eq({ s:event_del(borrowed) }, { true })
    t.eq(select(3, borrowed:recv()), "ENOTSOCK")
    t.eq(select(3, borrowed:send "x"), "ENOTSOCK")
    t.eq({ borrowed:close() }, { true })
    t.raises("socket is already closed", borrowed.handle, borrowed)
    local again = t.ok(socket.fd(number, true), "it was left open")
    t.eq(loopback.number(again:detach()), number)
    again:close()
  end)
end)

t.test("fd owns the descriptor unless no_ownership is set", function()
  local program = t.write(t.tmp() .. "/owner.lua", [[
    require "lio"
    local socket, select_ = require "bee.socket", require "bee.select"
    local s = select_.create()
    local fd = assert(socket.fd(0))
    assert(s:event_add(fd, select_.SELECT_READ, "in"))
    for udata, bits in s:wait(10000) do print(udata, bits) end
    fd:close()
    print(socket.fd(0))
    print(pcall(s.wait, s))
  ]])
  local r = t.run("echo hello | " .. t.lio() .. " " .. program)
  t.eq(r.out, "in\t1\nnil\tfd: Bad file descriptor (os error 9)\tEBADF\n"
    .. "false\tno open sockets to check and no timeout set\n", r.err)
end)

t.test("fd of a socket's handle returns an object for the same socket", function()
  local a, b = socket.pair()
  local copy = socket.fd(a:handle(), true)
  t.eq({ copy:send "x" }, { 1 })
  t.eq({ b:recv() }, { "x" })
  copy:close()
  local owner = socket.fd(a:detach())
  t.eq({ owner:send "y" }, { 1 })
  owner:close()
  t.eq({ b:recv() }, { "y" })
  t.eq({ b:recv() }, {})
  b:close()
end)

t.test("fd refuses a number that is not an open descriptor", function()
  t.eq({ socket.fd(900) }, { nil, "fd: Bad file descriptor (os error 9)", "EBADF" })
  t.raises("not a descriptor", socket.fd, -1)
  t.raises("number expected", socket.fd, "one")
end)

-- In bee.lua, whose backlog is 5, some clients waited three seconds until their SYN was sent again.
t.test("forty clients that connect at once do not wait for a retransmitted SYN", function()
  -- The system sends a SYN again after a second. A busy machine may make one round slow, but not every round.
  local fastest = math.huge
  for _ = 1, 10 do
    local listener <close> = socket.create "tcp"
    listener:bind("127.0.0.1", 0)
    listener:listen()
    local where = listener:info "socket"
    local s <close> = select_.create()
    local clients = {}
    local begin = lio.now()
    for i = 1, 40 do
      clients[i] = socket.create "tcp"
      clients[i]:connect(where)
      s:event_add(clients[i], select_.SELECT_WRITE, clients[i])
    end
    local connected = 0
    while connected < 40 do
      for c in s:wait(5000) do
        t.eq({ c:status() }, { true })
        s:event_del(c)
        connected = connected + 1
      end
    end
    fastest = math.min(fastest, lio.now() - begin)
    for _, c in ipairs(clients) do c:close() end
    if fastest < 0.9 then break end
  end
  t.ok(fastest < 0.9, "each round waited for a retransmitted SYN")
end)

t.finish()
