-- TCP sockets: every method of `lio.socket` objects, transfers of all sizes, the end of a stream, failures.

local t = require "tests.kit"
local lio = require "lio"
local socket = require "lio.socket"
local loopback = require "tests.kit.loopback"

local READ <const>, WRITE <const> = lio.SELECT_READ, lio.SELECT_WRITE

t.test("connect, accept, send and recv transfer bytes in both directions", function()
  local listener <close> = loopback.listener()
  local client <close> = socket.create "tcp"
  local host, port = listener:info "socket":value()
  local connected = client:connect(host, port)
  t.ok(connected == false or connected == true)
  loopback.await(client, WRITE)
  t.eq({ client:status() }, { true })
  loopback.await(listener)
  local server <close> = listener:accept()
  t.eq(client:send "ping", 4)
  loopback.await(server)
  t.eq(server:recv(), "ping")
  t.eq(server:send "pong", 4)
  loopback.await(client)
  t.eq(client:recv(), "pong")
end)

t.test("a call that would block returns false and no message", function()
  local listener <close> = loopback.listener()
  t.eq({ listener:accept() }, { false })
  local a, b = loopback.tcp()
  t.eq({ a:recv() }, { false })
  t.eq({ a:recv(10) }, { false })
  t.eq({ a:recvfrom(10) }, { false })
  loopback.fill(a)
  t.eq({ a:send "more" }, { false })
  t.eq({ a:sendv("more", "still") }, { false })
  a:close() b:close()
end)

t.test("info returns both addresses, and both sides agree on them", function()
  local a, b = loopback.tcp()
  t.ok(a:info "peer" == b:info "socket")
  t.ok(a:info "socket" == b:info "peer")
  local ip, port, family = a:info "peer":value()
  t.eq({ ip, math.type(port), family }, { "127.0.0.1", "integer", "inet" })
  local fresh <close> = socket.create "tcp"
  t.eq({ fresh:info "peer" },
    { nil, "info: Transport endpoint is not connected (os error 107)", "closed" })
  t.eq(tostring(fresh:info "socket"), "0.0.0.0:0")
  t.raises("'peer' or 'socket' expected", fresh.info, fresh, "both")
  a:close() b:close()
end)

t.test("recv returns at most the requested number of bytes, and later calls return the rest", function()
  local a, b = loopback.tcp()
  a:send "0123456789"
  loopback.await(b)
  t.eq(b:recv(0), "")
  t.eq(b:recv(3), "012")
  t.eq(b:recv(1), "3")
  t.eq(b:recv(100), "456789")
  t.eq(b:recv(100), false)
  t.eq(b:recv(0), "", "recv(0) never blocks")
  t.raises("size must be 0 to", b.recv, b, -1)
  t.raises("number expected", b.recv, b, "all")
  t.raises("no integer representation", b.recv, b, 1.5)
  a:close() b:close()
end)

t.test("send can send a part of a string, between positions as in string.sub", function()
  local a, b = loopback.tcp()
  local data = "0123456789"
  for _, range in ipairs {
    { 1 }, { 3 }, { 3, 5 }, { -3 }, { -5, -2 }, { 0 }, { 5, 100 }, { -100, 2 }, { 10, 10 },
    { math.mininteger }, { 1, math.maxinteger },
  } do
    local want = data:sub(range[1], range[2] or -1)
    t.eq(a:send(data, range[1], range[2]), #want)
    t.eq(loopback.receive(b, #want), want)
  end
  for _, range in ipairs { { 11 }, { 5, 4 }, { 1, 0 }, { 1, -11 }, { math.maxinteger } } do
    t.eq(a:send(data, range[1], range[2]), 0)
  end
  t.eq(b:recv(), false)
  a:close() b:close()
end)

t.test("send of an empty string returns 0", function()
  local a, b = loopback.tcp()
  t.eq({ a:send "" }, { 0 })
  t.eq({ a:sendv() }, { 0 })
  t.eq({ a:sendv("", "") }, { 0 })
  t.eq(b:recv(), false)
  a:close() b:close()
end)

t.test("sendv writes its pieces in order", function()
  local a, b = loopback.tcp()
  t.eq(a:sendv("one ", "", "two ", "three"), 13)
  t.eq(loopback.receive(b, 13), "one two three")
  local pieces = {}
  for i = 1, 100 do pieces[i] = string.format("%03d", i) end
  local sent = a:sendv(table.unpack(pieces))
  t.ok(sent > 0 and sent <= 300)
  t.eq(loopback.receive(b, sent), table.concat(pieces):sub(1, sent))
  t.raises("string expected, got table", a.sendv, a, "x", {})
  a:close() b:close()
end)

t.test("a partial sendv returns the number of sent bytes", function()
  local a, b = loopback.tcp()
  local big = ("v"):rep(4 * 1024 * 1024)
  local sent = a:sendv(big, big, big)
  t.ok(sent > 0 and sent < 3 * #big)
  t.eq(#loopback.receive(b, sent), sent)
  a:close() b:close()
end)

t.test("every byte value is transferred, including NUL", function()
  local a, b = loopback.tcp()
  local all = {}
  for i = 0, 255 do all[#all + 1] = string.char(i) end
  local data = table.concat(all):rep(10)
  loopback.send(a, data)
  t.ok(loopback.receive(b, #data) == data)
  a:close() b:close()
end)

t.test("10 MB are transferred unchanged", function()
  local a, b = loopback.tcp()
  local unit = {}
  for i = 0, 999 do unit[#unit + 1] = string.format("%05d\0\255", i) end
  local data = table.concat(unit):rep(1500)
  t.ok(#data > 10000000)
  local sel <close> = lio.create()
  sel:event_add(a, WRITE, "out")
  sel:event_add(b, READ, "in")
  local from, pieces, length = 1, {}, 0
  while length < #data do
    local progress = false
    for what in sel:wait(10) do
      progress = true
      if what == "out" then
        from = from + (t.ok(a:send(data, from) or 0))
        if from > #data then sel:event_mod(a, 0) end
      else
        local piece = b:recv(1 << 20)
        if piece then
          pieces[#pieces + 1] = piece
          length = length + #piece
        end
      end
    end
    t.ok(progress, "10 s without progress")
  end
  t.ok(table.concat(pieces) == data)
  a:close() b:close()
end)

t.test("recv never returns more than 1 MiB at once", function()
  local a, b = socket.pair()
  a:option("sndbuf", 4 << 20)
  a:send(("x"):rep(3 << 20))
  loopback.await(b)
  local piece = b:recv(1 << 40)
  t.ok(#piece > 0 and #piece <= 1 << 20)
  a:close() b:close()
end)

t.test("after a half-close the other direction continues", function()
  for _, make in ipairs { loopback.tcp, socket.pair } do
    local a, b = make()
    a:send "last words"
    t.eq({ a:shutdown "w" }, { true })
    t.eq(loopback.receive(b), "last words")
    t.eq({ b:recv() }, { nil }, "the end of the stream has no message")
    t.eq(select("#", b:recv()), 1)
    t.eq(b:send "answer", 6)
    t.eq(loopback.receive(a, 6), "answer")
    t.eq({ b:shutdown "w" }, { true })
    loopback.await(a)
    t.eq({ a:recv() }, { nil })
    t.eq(select(3, a:send "more"), "closed")
    a:close() b:close()
  end
end)

t.test("after a shutdown of reading, recv returns the end of the stream, and writing works", function()
  local a, b = loopback.tcp()
  t.eq({ a:shutdown "r" }, { true })
  t.eq({ a:recv() }, { nil })
  t.eq(a:send "still", 5)
  t.eq(loopback.receive(b, 5), "still")
  t.raises("'r', 'w' or 'rw' expected", a.shutdown, a, "x")
  t.eq({ a:shutdown() }, { true })
  a:close() b:close()
end)

t.test("shutdown of a socket that is not connected returns nil and a message", function()
  local s <close> = socket.create "tcp"
  t.eq({ s:shutdown() },
    { nil, "shutdown: Transport endpoint is not connected (os error 107)", "closed" })
end)

t.test("after a connect to a closed port, an event is reported and status returns the error", function()
  local listener, port = loopback.listener()
  listener:close()
  local s <close> = socket.create "tcp"
  local sel <close> = lio.create()
  sel:event_add(s, WRITE, "s")
  local done, message, code = s:connect("127.0.0.1", port)
  if done == false then
    t.eq(loopback.events(sel, 10), { s = WRITE })
    done, message, code = s:status()
  end
  t.eq({ done, message, code },
    { nil, "connect: Connection refused (os error 111)", "refused" })
end)

t.test("after a reset by the peer, recv and send return an error", function()
  local a, b = loopback.tcp()
  a:send(("x"):rep(1000))
  b:option("linger", 0)
  b:close()
  loopback.await(a)
  t.eq({ a:recv() }, { nil, "recv: Connection reset by peer (os error 104)", "reset" })
  t.eq({ a:send "x" }, { nil, "send: Broken pipe (os error 32)", "closed" })
  a:close()
end)

t.test("a write to a peer that has closed returns nil and a message, and raises no SIGPIPE", function()
  local script = t.write(t.tmp() .. "/pipe.lua", [[
    local socket = require "lio.socket"
    local a, b = socket.pair()
    b:close()
    print(a:send "x")
    print(a:sendv("x", "y"))
    local u = socket.create "udp"
    u:bind("127.0.0.1", 0)
    print(u:shutdown() or "not connected")
    print "alive"
  ]])
  local result = t.run(t.lio() .. " " .. script)
  t.eq(result.code, 0)
  t.eq(result.out, "nil\tsend: Broken pipe (os error 32)\tclosed\n"
    .. "nil\tsendv: Broken pipe (os error 32)\tclosed\nnot connected\nalive\n")
end)

t.test("the error from a bind to a port in use has the call's name and the system's message", function()
  local listener <close>, port = loopback.listener()
  local s <close> = socket.create "tcp"
  t.eq({ s:bind("127.0.0.1", port) },
    { nil, "bind: Address already in use (os error 98)", "in use" })
  t.ok(listener)
  local other <close> = socket.create "tcp"
  t.eq({ other:bind("192.0.2.1", 0) },
    { nil, "bind: Cannot assign requested address (os error 99)", "not available" })
end)

t.test("listen queues 1024 connections by default, or the requested number", function()
  local s <close> = socket.create "tcp"
  s:bind("127.0.0.1", 0)
  t.eq({ s:listen() }, { true })
  t.eq({ s:listen(5) }, { true }, "may be changed")
  t.raises("backlog must be 0 to", s.listen, s, -1)
  local u <close> = socket.create "udp"
  t.eq({ u:listen() },
    { nil, "listen: Operation not supported (os error 95)", "EOPNOTSUPP" })
  t.eq(select(3, u:accept()), "EOPNOTSUPP")
end)

t.test("detach releases the descriptor and leaves it open", function()
  local a, b = socket.pair()
  local handle = a:detach()
  t.eq(type(handle), "userdata")
  t.raises("socket is already closed", a.send, a, "x")
  t.eq(a:close(), true, "close leaves the detached descriptor open")
  local again = socket.fd(handle)
  t.eq(again:send "x", 1)
  t.eq(b:recv(), "x")
  again:close()
  t.is_nil(b:recv())
  b:close()
end)

t.test("fd takes over or borrows a descriptor, which is a lightuserdata or an integer", function()
  local a, b = socket.pair()
  local borrowed = socket.fd(a:handle(), true)
  t.eq(borrowed:send "1", 1)
  borrowed:close()
  t.eq(a:send "2", 1, "closing a borrowed socket leaves the descriptor open")
  t.eq(b:recv(), "12")
  local number = loopback.number(a:detach())
  local owner = socket.fd(number)
  owner:close()
  t.is_nil(b:recv())
  t.eq({ socket.fd(number) }, { nil, "fd: Bad file descriptor (os error 9)", "EBADF" })
  t.raises("not a descriptor", socket.fd, -1)
  t.raises("number expected", socket.fd, "one")
  b:close()
end)

t.test("fd refuses a descriptor that is not a socket and leaves it open", function()
  local p = io.popen("cat", "w")
  local number
  local _, before = t.descriptors()
  for fd in pairs((t.descriptors())) do
    local s, _, code = socket.fd(fd, true)
    if not s and code == "ENOTSOCK" then number = fd end
    if s then s:close() end
  end
  t.ok(number)
  t.eq({ socket.fd(number) },
    { nil, "fd: Socket operation on non-socket (os error 88)", "ENOTSOCK" })
  t.eq(select(2, t.descriptors()), before)
  p:close()
end)

t.test("fd detects whether a socket is listening or connected", function()
  local listener <close> = loopback.listener()
  local a, b = loopback.connect(listener)
  for s, phase in pairs { [listener] = "listening", [a] = "connected" } do
    local copy <close> = socket.fd(s:handle(), true)
    t.ok(tostring(copy):find(phase, 1, true), tostring(copy))
  end
  a:close() b:close()
end)

t.test("tostring shows the descriptor, the protocol and the state", function()
  local s = socket.create "tcp"
  local number = loopback.number(s:handle())
  t.eq(tostring(s), "socket (" .. number .. ", tcp, open)")
  s:bind("127.0.0.1", 0)
  s:listen()
  t.eq(tostring(s), "socket (" .. number .. ", tcp, listening)")
  s:close()
  t.eq(tostring(s), "socket (tcp, closed)")
  for _, protocol in ipairs { "udp", "tcp6", "udp6", "unix" } do
    local other <close> = t.ok(socket.create(protocol))
    t.ok(tostring(other):find(protocol .. ", open", 1, true), tostring(other))
  end
end)

t.test("close may be called twice; every other method of a closed socket raises", function()
  local s = socket.create "tcp"
  t.eq({ s:close() }, { true })
  t.eq({ s:close() }, { true })
  for _, call in ipairs {
    "connect", "bind", "listen", "accept", "recv", "send", "sendv", "recvfrom", "sendto", "shutdown",
    "status", "info", "option", "handle", "detach",
  } do
    t.raises("socket is already closed", s[call], s, "127.0.0.1", 1)
  end
end)

t.test("a <close> variable and the garbage collector close a socket", function()
  local a, b = socket.pair()
  do
    local scoped <close> = a
    t.ok(scoped)
  end
  t.is_nil(b:recv())
  b:close()
  local other = select(2, socket.pair())
  collectgarbage()
  collectgarbage()
  t.is_nil(other:recv())
  other:close()
end)

t.test("misuse raises an error that names the argument", function()
  t.raises("'tcp', 'udp', 'tcp6', 'udp6' or 'unix' expected", socket.create, "sctp")
  t.raises("string expected, got no value", socket.create)
  local s <close> = socket.create "tcp"
  t.raises("string expected, got nil", s.send, s, nil)
  t.raises("string expected, got boolean", s.connect, s, true)
  t.raises("number expected", s.connect, s, "127.0.0.1")
  for _, port in ipairs { -1, 65536, 1 << 40 } do
    local message = "port must be 0 to 65535, not " .. tostring(port):gsub("-", "%%-")
    t.raises(message, s.connect, s, "127.0.0.1", port)
    t.raises("port must be 0 to 65535", s.bind, s, "127.0.0.1", port)
    t.raises("port must be 0 to 65535", socket.endpoint, "inet", "127.0.0.1", port)
  end
  t.raises("lio.socket expected, got table", s.recv, {})
  t.raises("lio.socket expected, got lio.selector", s.recv, lio.create())
end)

t.test("gethostname returns the system's name", function()
  local p = io.popen "uname -n"
  t.eq(socket.gethostname(), p:read "l")
  p:close()
end)

t.finish()
