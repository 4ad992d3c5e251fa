-- `net.remote`: `lio.net`'s calls and connections in services that have no loop. The same program runs with `lio.net`
-- in a service that owns a loop, and with `net.remote` in a service without a loop. Each test boots a system.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- Functions for the bodies of tests. `pair` returns two connected connections, `later` forks a task and returns a
-- function that waits for its results, `crowded` returns a port whose backlog is full. `settle` returns when the forked
-- tasks wait, including those of the loop's service, which handles requests in order.
local head <const> = ([[
  local function pair()
    local l <close> = assert(net.listen("127.0.0.1", 0))
    local _, port = l:address()
    local a = assert(net.connect("127.0.0.1", port))
    return a, assert(net.accept(l))
  end
  local function later(f, ...)
    local token, done = {}, nil
    ltask.fork(function(...)
      done = table.pack(f(...))
      ltask.wakeup(token)
    end, ...)
    return function()
      while not done do ltask.wait(token) end
      return table.unpack(done, 1, done.n)
    end
  end
  local function settle()
    later(function() end)()
    net.resolve "127.0.0.1"
  end
  local function crowded(net)
    local l = assert(net.listen("127.0.0.1", 0, { backlog = 0 }))
    local _, port = l:address()
    local list = { l }
    for _ = 1, 8 do
      local filler = assert(require "lio.socket".create "tcp")
      filler:connect("127.0.0.1", port)
      list[#list + 1] = filler
    end
    return port, list
  end
  local function raises(f, ...)
    local ok, e = pcall(f, ...)
    say(ok, type(e), (tostring(e):gsub("^[^:]*:%d+: ", "")))
  end
]]):gsub("\n", " ")

local remote <const> = "local io = ltask.spawn 'lio' local net = require 'lio.net'.remote(io) "

-- Runs the body with `net.remote` in a service without a loop. For comparison, runs it with `lio.net` in such a
-- service, and as the script of a service that owns a loop, except under memcheck: there, other suites run its code.
local function same(name, body, out)
  kit.test(name .. ", remotely", { main = remote .. head .. body, out = out })
  kit.test(name .. ", on an I/O thread", { main = "local net = require 'lio.net' " .. head .. body, out = out })
  if os.getenv "LIO_MEMCHECK" then return end
  kit.test(name .. ", directly", {
    main = [[
      local dir = ...
      local f = require "io".open(dir .. "/script.lua", "w")
      f:write(]] .. ("%q"):format("local ltask = require 'ltask' local net = require 'lio.net' local say = print "
        .. head .. body .. " io.stdout:flush()") .. [[)
      f:close()
      local server = ltask.spawn("lio", dir .. "/script.lua")
      while pcall(ltask.call, server, "resolve", "127.0.0.1") do ltask.sleep(1) end
    ]],
    out = out,
  })
end

local function remotely(name, body, out, services)
  kit.test(name, { main = remote .. head .. body, out = out, services = services })
end

same("the program of an echo server is the same as with lio.net", [[
  local listener = assert(net.listen("127.0.0.1", 0))
  local server = net.serve(listener, function(c)
    for data in function() return c:recv() end do c:send(data) end
  end)
  local _, port = listener:address()
  for i = 1, 20 do
    local c <close> = assert(net.connect("127.0.0.1", port))
    assert(c:send("hello ", i, "\n"))
    assert(c:recv "line" == "hello " .. i)
  end
  server:stop(1)
  say(net.connect("127.0.0.1", port) == false, listener:is_closed(), server.count)
]], { "true\ttrue\t0" })

same("every form of recv has the same results, whether or not bytes were read ahead", [[
  local a, b = pair()
  a:send "one\r\ntwo\n\nthree|four||12345678rest"
  say(b:recv "line")
  say(b:recv("line", 3), b:recv "line", b:recv("until", "|"))
  say(b:recv("until", "||", 4))
  say(b:recv(3), b:recv(0) == "", b:recv(5))
  say(b:recv())
  a:send "half"
  b:timeout(0.02)
  say(b:recv "line")
  say(b:recv(5))
  b:timeout()
  a:send " a line\nand more"
  say(b:recv "line")
  say(b:recv("line", 4))
  say(b:recv("until", ";", 3))
  a:shutdown "w"
  say(b:recv "line")
  say(b:recv())
  say(b:recv(1))
  a:close() b:close()
  say(b:recv())
  local c, d = pair()
  c:send "1\nall of it" c:close()
  say(d:recv "line", d:recv("all", 100), d:recv "all", d:recv())
]], {
  "one", "two\t\tthree", "four", "123\ttrue\t45678", "rest",
  "nil\ttimeout\tnil\ttimeout", "nil\ttimeout\tnil\ttimeout", "half a line",
  "nil\ttoo long\tnil\ttoo long", "nil\ttoo long\tnil\ttoo long", "nil\tclosed\tand more\tclosed", "nil",
  "nil\tclosed\t\tclosed", "nil\tclosed\tnil\tclosed", "1\tall of it\t\tnil",
})

same("limits and line ends are as in lio.net, even for bytes that were read ahead", [[
  local a, b = pair()
  a:send "first\ntwo\r\nlong line\nfour|five\r\n"
  say(b:recv "line")
  say(b:recv("line", 3))
  say(b:recv("line", 8))
  say(b:recv("line", 9))
  say(b:recv("until", "|", 3))
  say(b:recv("until", "|", 4))
  say(b:recv "line")
]], { "first", "two", "nil\ttoo long\tnil\ttoo long", "long line", "nil\ttoo long\tnil\ttoo long", "four", "five" })

same("a message may have any number of pieces", [[
  local a, b = pair()
  local pieces = {}
  for i = 1, 200 do pieces[i] = i % 2 == 0 and i or tostring(i) end
  a:send(table.unpack(pieces))
  a:send "\n"
  say(b:recv "line" == table.concat(pieces))
]], { "true" })

same("if several sends are pending, only the sends whose bytes were sent succeed", [[
  local a, b = pair()
  a:timeout(nil, 0.1)
  local first, second = later(a.send, a, "small"), later(a.send, a, ("x"):rep(50000000))
  local third = later(a.send, a, ("y"):rep(50000000))
  say(first())
  local ok, message, sent, code = second()
  say(ok, message, sent > 0 and sent < 50000000, code)
  ok = third()
  say(ok, b:recv(5))
]], { "true", "nil\ttimeout\ttrue\ttimeout", "nil\tsmall" })

remotely("a close ends the sends that are queued behind another send", [[
  local a, b = pair()
  local first = later(a.send, a, ("x"):rep(50000000))
  settle()
  local second = later(a.send, a, "x")
  settle()
  a:close()
  say(second())
  say((first()), b:is_closed())
]], { "nil\tclosed\t0\tclosed", "nil\tfalse" })

remotely("shutdown and sendfile wait for earlier sends", [[
  local io = require "io"
  local path = os.tmpname()
  local f <close> = io.open(path, "w+b")
  f:write "0123456789"
  f:flush()
  local a, b = pair()
  later(a.send, a, ("x"):rep(20000000))
  settle()
  later(a.send, a, "second,")
  local sent = later(a.sendfile, a, path, 2, 3)
  local down = later(function()
    assert(sent())
    a:send ","
    a:sendfile(f, 7, 2)
    a:sendfile(f, 0)
    return a:shutdown "w"
  end)
  local all = b:recv "all"
  os.remove(path)
  say(#all, all:sub(20000001), down())
]], { "20000023\tsecond,234,780123456789\ttrue" })

remotely("shutdown waits for queued sends", [[
  local a, b = pair()
  later(a.send, a, ("x"):rep(20000000))
  settle()
  later(a.send, a, "the end")
  local down = later(a.shutdown, a, "w")
  local all = b:recv "all"
  say(#all, all:sub(-7), down())
]], { "20000007\tthe end\ttrue" })

same("a mebibyte in pieces arrives in order, in both directions at once", [[
  local a, b = pair()
  local function stream(from, to, seed)
    local sent = later(function()
      for i = 1, 1024 do assert(from:send((("%d:%04d;"):format(seed, i)):rep(146), "xx")) end
    end)
    return function()
      for i = 1, 1024 do
        local piece = assert(to:recv(1024))
        assert(piece == (("%d:%04d;"):format(seed, i)):rep(146) .. "xx", "piece " .. i)
      end
      sent()
      return true
    end
  end
  local one, two = later(stream(a, b, 1)), later(stream(b, a, 2))
  say(one(), two())
]], { "true\ttrue" })

same("messages of concurrent senders are complete and in order", [[
  local a, b = pair()
  local waits = {}
  for i = 1, 200 do waits[i] = later(function() return a:send(("%03d"):format(i), ":", ("x"):rep(i), "\n") end) end
  for i = 1, 200 do assert(b:recv "line" == ("%03d:"):format(i) .. ("x"):rep(i)) end
  for i = 1, 200 do assert(waits[i]() == true) end
  say "whole"
]], { "whole" })

same("close wakes the tasks that wait, in both services", [[
  local a, b = pair()
  local first, second = later(b.recv, b), later(b.recv, b, "line")
  local listener = assert(net.listen("127.0.0.1", 0))
  local accepting = later(net.accept, listener)
  settle()
  b:close() listener:close()
  say(first()) say(second()) say(accepting())
  say(b:send "x") say(a:recv()) say(b:close(), b:is_closed())
  say(net.accept(listener))
]], {
  "nil\tclosed\tnil\tclosed", "nil\tclosed\tnil\tclosed", "false\tclosed\tclosed",
  "nil\tclosed\t0\tclosed", "nil", "true\ttrue", "false\tclosed\tclosed",
})

same("addresses, options and other short calls have the same results", [[
  local a, b = pair()
  say(a:peer() == "127.0.0.1", select(2, a:sock()) == select(2, b:peer()), select(3, a:sock()))
  say(a:option "nodelay", a:option("keepalive", true), a:option "keepalive")
  say(a:wait_readable(0.01))
  b:send "two\nlines\n"
  say(a:wait_readable(5), a:recv "line", a:buffered(), a:is_over())
  say(a:wait_readable(5), a:recv "line", a:buffered())
  say(a:wait_closed(0.01))
  b:close()
  say(a:wait_closed(5), a:is_over())
  say(net.resolve "127.0.0.1"[1])
  local u <close> = assert(net.udp("127.0.0.1", 0))
  local v <close> = assert(net.udp("127.0.0.1", 0))
  local ip, port = u:address()
  say(v:sendto("datagram", ip, port), u:recvfrom() == "datagram")
  u:timeout(0.01)
  say(u:recvfrom())
  local attempt = net.attempt()
  local full, fill = crowded(net)
  local connecting = later(net.connect, "127.0.0.1", full, { attempt = attempt, timeout = 30 })
  settle()
  attempt:close()
  say(connecting())
  local l <close> = assert(net.listen("127.0.0.1", 0))
  l:timeout(0.01)
  say(l:accept())
  say(net.connect("nowhere.invalid", 80) == false)
  say(net.connect("127.0.0.1", 9, { attempt = attempt }))
  for _, c in ipairs(fill) do c:close() end
]], {
  "true\ttrue\tinet", "true\ttrue\ttrue", "nil\ttimeout\ttimeout", "true\ttwo\t6\tfalse", "true\tlines\t0",
  "nil\ttimeout\ttimeout", "true\ttrue", "127.0.0.1", "true\ttrue", "nil\ttimeout\ttimeout",
  "false\tclosed\tclosed", "false\ttimeout\ttimeout", "true", "false\tclosed\tclosed",
})

same("misuse raises a string that names the call and the argument", [[
  local a = pair()
  raises(a.recv, a, "word")
  raises(a.recv, a, -1)
  raises(a.send, a, "x", {})
  raises(a.shutdown, a, "x")
  raises(net.connect, "127.0.0.1")
  raises(net.listen, "127.0.0.1", "x")
  raises(net.serve, nil, "f")
]], {
  "false\tstring\tbad argument #2 to 'recv' (a size, 'line', 'until' or 'all' expected)",
  "false\tstring\tbad argument #2 to 'recv' (size must be 0 to 4611686018427387903, not -1)",
  "false\tstring\tbad argument #3 to 'send' (string expected, got table)",
  "false\tstring\tbad argument #2 to 'shutdown' ('r', 'w' or 'rw' expected)",
  "false\tstring\tbad argument #2 to 'connect' (port expected, got nil)",
  "false\tstring\tbad argument #2 to 'listen' (port expected, got string)",
  "false\tstring\tbad argument #2 to 'serve' (function expected, got string)",
})

remotely("misuse that the service detects is raised at the line of the call", [[
  local a = pair()
  local ok, e = pcall(function() local x = a:recv "word" return x end)
  say(ok, e:match "^[^:]*main%.lua:%d+: " ~= nil)
  ok, e = pcall(function() local x = net.connect("127.0.0.1") return x end)
  say(ok, e:match "^[^:]*main%.lua:%d+: " ~= nil)
  raises(net.recv, 7)
  raises(net.accept, a)
]], {
  "false\ttrue", "false\ttrue",
  "false\tstring\tbad argument #1 to 'recv' (connection expected, got number)",
  "false\tstring\tbad argument #1 to 'accept' (listener expected, got lio.remote connection)",
})

remotely("a burst of small messages needs few requests", [[
  local a, b = pair()
  local function messages() return ltask.call(1, "stat")[io].messages end
  local lines = {}
  for i = 1, 500 do lines[i] = i .. "\n" end
  a:send(table.concat(lines))
  b:wait_readable()
  local before = messages()
  for i = 1, 500 do assert(b:recv "line" == tostring(i)) end
  say(messages() - before < 10)
  before = messages()
  local waits = {}
  for i = 1, 500 do waits[i] = later(a.send, a, "x") end
  for i = 1, 500 do waits[i]() end
  say(messages() - before < 10)
  say(#b:recv(500))
]], { "true", "true", "500" })

remotely("a task that is killed while it reads loses no bytes, and the next reader continues", [[
  local task = require "lio.task"
  local a, b = pair()
  a:send "first\nsec"
  say(b:recv "line")
  for _, form in ipairs { { "line" }, { 10 }, { "until", "|" }, { "all" } } do
    local co = ltask.fork(function() b:recv(table.unpack(form)) end)
    settle()
    local reader = later(b.recv, b, "line")
    settle()
    task.kill(co)
    a:send "ond\nsec"
    say(form[1], reader())
  end
  local co = ltask.fork(function() b:recv(100) end)
  local queued = ltask.fork(function() b:recv() end)
  settle()
  task.kill(queued)
  a:send "end"
  a:shutdown "w"
  task.kill(co)
  say(b:recv "all")
]], {
  "first", "line\tsecond", "10\tsecond", "until\tsecond", "all\tsecond", "secend",
})

-- Regression: the error named a method of the socket and a line of the library.
remotely("wrap of a closed socket is an error at the program's line, which names the call", [[
  local socket = require "lio.socket".create "tcp"
  socket:close()
  local ok, err = pcall(load("local net, socket = ... local c = net.wrap(socket) return c", "=program"), net, socket)
  say(ok, err)
]], { "false\tprogram:1: bad argument #1 to 'wrap' (socket is already closed)" })

remotely("bytes that arrived for a killed task are received by the next reader", [[
  local task = require "lio.task"
  for _, form in ipairs { { "line" }, { 2 }, { "until", "|" } } do
    local near, far = require "lio.socket".pair()
    local c = assert(net.wrap(far))
    local co = ltask.fork(function() c:recv(table.unpack(form)) end)
    settle()
    near:send "one|two\nthree\n"
    -- The service's answer to the killed task's request arrives while this task runs.
    local over = ltask.counter() + 0.05
    repeat until ltask.counter() > over
    task.kill(co)
    say(c:recv "line")
    say(c:recv "line")
    near:close()
  end
]], { "one|two", "three", "one|two", "three", "one|two", "three" })

remotely("the next task accepts a connection that a killed task waited for", [[
  local task = require "lio.task"
  local listener = assert(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local co = ltask.fork(function() net.accept(listener) end)
  settle()
  task.kill(co)
  local c = assert(net.connect("127.0.0.1", port))
  assert(listener:accept()):send "here"
  say(c:recv())
]], { "here" })

remotely("a connection without references is closed", [[
  local a = pair()
  collectgarbage()
  collectgarbage()
  say(a:recv())
]], { "nil" })

remotely("calls whose service is dead fail without raising an error", [[
  local a, b = pair()
  local l = assert(net.listen("127.0.0.1", 0))
  local waiting = later(b.recv, b)
  settle()
  ltask.kill(io)
  local result, _, _, code = waiting()
  say(result, code == "dead" or code)
  local function check(first, ...)
    local list = table.pack(...)
    say(first, list[list.n])
  end
  while ltask.call(1, "stat")[io] do ltask.sleep(1) end
  check(a:send "x") check(a:recv()) check(l:accept()) check(net.connect("127.0.0.1", 80)) check(a:peer())
  say(a:close())
]], { "nil\ttrue", "nil\tdead", "nil\tdead", "false\tdead", "false\tdead", "nil\tdead", "true" })

remotely("a connection can be given to another service, with the bytes that were read ahead", [[
  local a, b = pair()
  a:send "mine\nyours\n"
  say(b:recv "line")
  local other = ltask.spawn "other"
  local handle = assert(b:give(other))
  say(b:is_closed(), b:recv())
  say(ltask.call(other, "line", io, handle))
  ltask.kill(other)
  say(a:recv())
]], { "mine", "true\tnil\tclosed\tnil\tclosed", "yours", "nil" }, { other = [[
  local S = {}
  function S.line(io, handle) return require "lio.net.remote"(io).connection(handle):recv "line" end
  return S
]] })

remotely("a socket of the calling service becomes a connection, or a listener", [[
  local socket = require "lio.socket"
  local near, far = socket.pair()
  local c, d = assert(net.wrap(near)), assert(net.wrap(far))
  c:send "through"
  say(d:recv())
  local s = assert(socket.create "tcp")
  assert(s:bind("127.0.0.1", 0)) assert(s:listen())
  local l = assert(net.listen(s))
  local _, port = l:address()
  local e = assert(net.connect("127.0.0.1", port))
  assert(l:accept()):send "accepted"
  say(e:recv())
]], { "through", "accepted" })

same("bytes that are put back are received before other bytes", [[
  local a, b = pair()
  a:send "one\ntwo\n"
  local line = b:recv "line"
  b:unread(line .. "\n")
  b:unread ""
  say(b:buffered() >= 4, b:wait_readable(), b:recv "line", b:recv "line")
  a:send "four"
  b:unread "three "
  say(b:recv(10))
  b:unread(5)
  say(b:recv())
  b:close()
  b:unread "x"
  say(b:recv())
]], { "true\ttrue\tone\ttwo", "three four", "5", "nil\tclosed\tnil\tclosed" })

remotely("bytes that are put back while another task receives are returned by the next recv", [[
  local a, b = pair()
  local first = later(b.recv, b)
  settle()
  b:unread "back "
  local second = later(b.recv, b, 9)
  a:send "first"
  say(first())
  a:send "next"
  say(second())
  raises(b.unread, b, {})
  raises(b.unread, net)
]], {
  "first", "back next", "false\tstring\tbad argument #2 to 'unread' (string expected, got table)",
  "false\tstring\tbad argument #1 to 'unread' (connection expected, got table)",
})

same("an open file is sent from its start, or a part of it, and keeps its position", [[
  local io, file = require "io", require "lio.file"
  local path = os.tmpname()
  local f <close> = io.open(path, "w+b")
  f:write(("0123456789"):rep(100000)) -- partly in the buffer of the file
  f:seek("set", 3)
  local a, b = pair()
  local all = later(b.recv, b, "all")
  say(a:sendfile(f), f:seek())
  local opened <close> = file.open(path)
  say(a:sendfile(opened), a:sendfile(opened, 999999), a:sendfile(opened, 5, 3), a:sendfile(f, 7, 0))
  local function failure(...)
    local ok, message, sent, code = a:sendfile(...)
    say(ok, message, sent, code)
  end
  failure(opened, 999999, 2)
  failure(file.open "/")
  opened:close()
  failure(opened)
  raises(a.sendfile, a, {})
  raises(a.sendfile, a, opened, -1)
  raises(a.sendfile, a, f, 0, 1.5)
  a:close()
  failure(f)
  local data, text = all(), ("0123456789"):rep(100000)
  say(data == text .. text .. "9" .. "567")
  os.remove(path)
]], {
  "true\t3", "true\ttrue\ttrue\ttrue", "nil\tsendfile: the file has only 1 bytes after the offset\t0\ttruncated",
  "nil\tsendfile: not a regular file\t0\tnot a file", "nil\tsendfile: the file is closed\t0\tclosed",
  "false\tstring\tbad argument #2 to 'sendfile' (path or file expected, got table)",
  "false\tstring\tbad argument #3 to 'sendfile' (offset must be an integer of at least 0, not -1)",
  "false\tstring\tbad argument #4 to 'sendfile' (length must be an integer of at least 0, not 1.5)",
  "nil\tclosed\t0\tclosed", "true",
})

remotely("sends of other tasks do not interrupt the pieces of an open file", [[
  local path = os.tmpname()
  local f <close> = require "io".open(path, "w+b")
  f:write(("f"):rep(4 * 1024 * 1024))
  local a, b = pair()
  local sent = later(a.sendfile, a, f)
  ltask.sleep(0)
  local behind = later(function() return a:send "behind" end)
  say(b:recv(4 * 1024 * 1024) == ("f"):rep(4 * 1024 * 1024), b:recv(6), sent(), behind())
  say(a:send "on", b:recv(2))
  os.remove(path)
]], { "true\tbehind\ttrue\ttrue", "true\ton" })

remotely("if sending an open file fails in the middle, sendfile returns the number of sent bytes", [[
  local path = os.tmpname()
  local f <close> = require "io".open(path, "w+b")
  f:write(("f"):rep(20 * 1024 * 1024))
  local a, b = pair()
  a:timeout(nil, 0.05)
  local ok, _, sent, code = a:sendfile(f)
  a:close()
  local got = select(1, b:recv "all")
  say(ok, code, sent > 0, sent < 20 * 1024 * 1024, sent == #got)
  os.remove(path)
]], { "nil\ttimeout\ttrue\ttrue\ttrue" })

remotely("a call or method that needs a loop raises", [[
  local a = pair()
  raises(a.handle, a)
  raises(net.broadcast, { a }, "x")
  raises(net.bind, "127.0.0.1", 0)
  raises(net.on_transfer, print)
  raises(net.step)
  local http = require "lio.http.client"
  raises(http.new, { net = net })
  for name in pairs(require "lio.net.driver".of(require "lio.loop".net).net) do
    if name ~= "instance" and not net[name] then say("missing", name) end
  end
]], {
  "false\tstring\tconnection:handle: missing in net.remote; the descriptor is in service 4",
  "false\tstring\tnet.broadcast: missing in net.remote; call it in the service that owns the loop",
  "false\tstring\tnet.bind: missing in net.remote; net.listen opens a listener, and lio.socket a socket",
  "false\tstring\tnet.on_transfer: missing in net.remote; call it in the service that owns the loop",
  "false\tstring\tnet.step: missing in net.remote; the service that owns the loop calls it",
  "false\tstring\thttp.new: option 'net' must be an instance of lio.net, got a table",
})

remotely("a server of net.serve accepts connections and listeners that other calls return", [[
  local server = net.serve(nil, function(c) c:send "served" end)
  raises(server.admit, server, {})
  raises(server.release, server, "x")
  raises(server.accept_from, server, nil)
  local listener = assert(net.listen("127.0.0.1", 0))
  server:accept_from(listener)
  local _, port = listener:address()
  local c <close> = assert(net.connect("127.0.0.1", port))
  say(c:recv "all")
  local a, b = pair()
  say(server:admit(a), b:recv "all")
  server:stop()
]], {
  "false\tstring\tbad argument #1 to 'admit' (remote connection expected, got table)",
  "false\tstring\tbad argument #1 to 'release' (remote connection expected, got string)",
  "false\tstring\tbad argument #1 to 'accept_from' (remote listener expected, got nil)",
  "served", "true\tserved",
})

t.finish()
