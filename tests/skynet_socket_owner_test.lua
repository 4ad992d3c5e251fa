-- skynet.socket and skynet.socketdriver when the owner of a socket is busy, and when a connection moves to another
-- service or cannot move.
-- The programs may use: skynet, socket, net, driver, accept, send_all, fill, EVENT, events, serve, CMD

local kit = require "tests.kit"
local skynet_kit = require "tests.kit.skynet_system"

-- One line of source. `accept([prepare])` returns both ends of a new connection, a socket and a connection of lio.net;
-- `prepare(fd)` runs first. `fill(service)` fills the mailbox of a service. `read_all(c)` returns the number of bytes
-- up to the end.
local use <const> = ([[
  local socket, net = require 'skynet.socket', require 'lio.net'
  local function accept(prepare)
    local server
    local id, _, port = socket.listen('127.0.0.1', 0)
    socket.start(id, function(fd) (prepare or socket.start)(fd) server = fd skynet.wakeup 'accepted' end)
    local c = net.connect('127.0.0.1', port)
    c:timeout(20)
    if not server then skynet.wait 'accepted' end
    return server, c
  end
  local function fill(service)
    while pcall(ltask.send, service, 'nothing') do end
  end
  local function read_all(c)
    local count = 0
    while true do
      local data = c:recv()
      if not data then return count end
      count = count + #data
    end
  end ]]):gsub("\n", " ")

-- One line of source: prints the events of socketdriver. `await(name)` waits for the next event of this name.
local driven <const> = ([[
  local driver = require 'skynet.socketdriver'
  local names = { 'data', 'connect', 'close', 'accept', 'error', 'udp', 'warning' }
  local counts = {}
  local function await(name)
    while (counts[name] or 0) == 0 do skynet.wait(name) end
    counts[name] = counts[name] - 1
  end
  skynet.register_protocol {
    name = 'socket', id = skynet.PTYPE_SOCKET, unpack = driver.unpack,
    dispatch = function(_, _, kind, id, _, data)
      local name = names[kind]
      say(name, data)
      counts[name] = (counts[name] or 0) + 1
      skynet.wakeup(name)
    end,
  } ]]):gsub("\n", " ")

local function test(name, spec)
  spec.seconds = 30
  spec.main = use .. spec.main
  for service, source in pairs(spec.services or {}) do
    if service ~= "stranger" then spec.services[service] = use .. source end
  end
  skynet_kit.test(name, spec)
end

-- A busy owner ---------------------------------------------------------------------------------------

-- The owner of a connection. After `block`, it reads no messages until the socket `flag` is shut down.
local owner <const> = [[
  local S = {}
  local server, c, udp
  function S.open()
    server, c = accept()
    socket.warning(server, function() end)
    udp = socket.udp(function(data) say("datagram", data) end, "127.0.0.1", 0)
    return server, udp
  end
  function S.block(flag)
    local is_open
    repeat
      is_open = false
      for _, one in ipairs(socket.netstat()) do is_open = is_open or one.id == flag end
    until not is_open
  end
  function S.nothing() end
  function S.count() return read_all(c) end
  return S
]]

-- Regression: a write raised "service is busy", or the queued bytes were never sent.
test("writes do not fail while the owner's mailbox is full, and their bytes arrive", {
  services = { owner = owner },
  main = [[
    local other = ltask.spawn "owner"
    local fd, udp = ltask.call(other, "open")
    local flag = socket.listen("127.0.0.1", 0)
    ltask.send(other, "block", flag)
    fill(other)
    say(pcall(socket.write, fd, ("x"):rep(8 << 20)))
    say(pcall(socket.sendto, udp, string.pack(">BI2BBBB", 1, 9, 127, 0, 0, 1), "lost"))
    for _ = 1, 5000 do assert(socket.write(fd, "abc")) end
    socket.close_fd(fd)
    socket.shutdown(flag)
    local ok, count
    repeat
      skynet.yield()
      ok, count = pcall(ltask.call, other, "count")
    until ok
    say(count - (8 << 20))
  ]],
  out = { "true\ttrue", "true\ttrue", "15000" },
})

-- Regression: the requests of a writer that ignores backpressure filled the owner's mailbox.
test("writes while bytes are queued do not fill the owner's mailbox", {
  services = { owner = owner },
  main = [[
    local other = ltask.spawn "owner"
    local fd = ltask.call(other, "open")
    local flag = socket.listen("127.0.0.1", 0)
    ltask.send(other, "block", flag)
    socket.write(fd, ("x"):rep(8 << 20))
    for _ = 1, 10000 do socket.write(fd, "x") end
    say((pcall(ltask.send, other, "nothing")))
    socket.shutdown(flag)
    socket.close_fd(fd)
    say(ltask.call(other, "count") - (8 << 20))
  ]],
  out = { "true", "10000" },
})

test("shutdown ends a socket whose owner's mailbox is full", {
  services = { owner = owner },
  main = [[
    local other = ltask.spawn "owner"
    local fd = ltask.call(other, "open")
    local flag = socket.listen("127.0.0.1", 0)
    ltask.send(other, "block", flag)
    fill(other)
    socket.shutdown(fd)
    socket.close_fd(fd)
    socket.shutdown(flag)
    while socket.write(fd, "") do skynet.yield() end
    say(socket.start(fd))
  ]],
  out = { "nil\tthere is no such socket" },
})

-- Regression: a `close` dropped bytes whose notification the owner had not read.
test("close also sends the bytes that another service has just queued", {
  services = {
    writer = [[
      function CMD.write(fd) socket.write(fd, ("x"):rep(8 << 20)) end
      serve()
    ]],
  },
  main = [[
    local _, workers = ...
    local fd, c = accept()
    socket.warning(fd, function() end)
    local writer = skynet.newservice "writer"
    skynet.send(writer, "lua", "write", fd)
    local queued
    repeat
      if workers == 1 then skynet.yield() end
      for _, one in ipairs(socket.netstat()) do if one.id == fd then queued = one.wbuffer end end
    until queued > 0
    socket.close(fd)
    say(read_all(c) - (8 << 20))
  ]],
  out = { "0" },
})

-- Moves ----------------------------------------------------------------------------------------------

-- A service that takes connections over.
local agent <const> = [[
  function CMD.start(fd) return socket.start(fd) end
  function CMD.line(fd) return socket.readline(fd) end
  function CMD.write(fd, data) return socket.write(fd, data) end
  function CMD.ping() end
  serve()
]]

-- A service that has not loaded skynet.socket, so no connection can move to it. `take` makes an owner try it.
local stranger <const> = [[
  return { take = function(owner, fd) return ltask.call(owner, "skynet.socket", "take", fd) end }
]]

-- Regression: one of the services waited forever.
test("if two services start a socket that is sending, one gets it", {
  services = { agent = agent },
  main = [[
    local fd, c = accept()
    socket.warning(fd, function() end)
    local first, second = skynet.newservice "agent", skynet.newservice "agent"
    socket.write(fd, ("x"):rep(8 << 20))
    local waits = 2
    for _, service in ipairs { first, second } do
      skynet.fork(function()
        local id, problem = skynet.call(service, "lua", "start", fd)
        say(id == fd, problem)
        waits = waits - 1
        if waits == 0 then skynet.wakeup "ended" end
      end)
      -- The request of `start` arrives before this response.
      skynet.yield()
      skynet.call(service, "lua", "ping")
    end
    local count = 0
    while count < 8 << 20 do count = count + #c:recv() end
    if waits > 0 then skynet.wait "ended" end
  ]],
  out = function(out)
    local lines = skynet_kit.lines(out)
    table.sort(lines)
    kit.eq(lines, { "false\tthe socket was closed, or another service has taken it", "true\tnil" })
  end,
})

-- Regression: the service waited forever.
test("start ends if the owner closes the socket that is sending", {
  services = { agent = agent },
  main = [[
    for _, name in ipairs { "close", "shutdown" } do
      local fd, c = accept()
      socket.warning(fd, function() end)
      local first = skynet.newservice "agent"
      socket.write(fd, ("x"):rep(8 << 20))
      skynet.fork(function()
        say(skynet.call(first, "lua", "start", fd))
        skynet.wakeup(fd)
      end)
      skynet.yield()
      skynet.call(first, "lua", "ping")
      socket[name](fd)
      skynet.wait(fd)
      say(name, read_all(c) == 8 << 20)
    end
  ]],
  out = {
    "nil\tthe socket was closed, or another service has taken it", "close\ttrue",
    "nil\tthe socket was closed, or another service has taken it", "shutdown\tfalse",
  },
})

-- Regression: the reader of the old owner closed the connection.
test("a connection that socketdriver reads moves to another service", {
  services = { agent = agent },
  main = driven .. [[
    local fd, c = accept(driver.start)
    c:send "first\n"
    await "data"
    local other = skynet.newservice "agent"
    say(skynet.call(other, "lua", "start", fd) == fd)
    c:send "second\n"
    say(skynet.call(other, "lua", "line", fd))
    say(socket.write(fd, "third\n"), c:recv "line")
  ]],
  out = { "data\tfirst", "true", "second", "true\tthird" },
})

test("if a connection cannot move, socketdriver continues to read it", {
  services = { stranger = stranger },
  main = driven .. [[
    local fd, c = accept(driver.start)
    local other = ltask.spawn "stranger"
    for i = 1, 3 do
      say((ltask.call(other, "take", ltask.self(), fd)))
      c:send(tostring(i))
      await "data"
    end
    say(driver.send(fd, "back\n"), c:recv "line")
    c:close()
    await "close"
  ]],
  out = { "nil", "data\t1", "nil", "data\t2", "nil", "data\t3", "true\tback", "close\t" },
})

test("if a connection cannot move, reads and onclose continue to wait", {
  services = { stranger = stranger },
  main = [[
    local fd, c = accept()
    local other = ltask.spawn "stranger"
    local closed = 0
    socket.onclose(fd, function() closed = closed + 1 skynet.wakeup "closed" end)
    for _, read in ipairs { "read", "readline", "block", "readall" } do
      skynet.fork(function()
        say(read, socket[read](fd))
        skynet.wakeup "read"
      end)
      skynet.yield()
      say((ltask.call(other, "take", ltask.self(), fd)))
      c:send(read .. "\n")
      if read == "block" then
        skynet.wait "read"
        socket.readline(fd)
      elseif read == "readall" then
        c:close()
        skynet.wait "read"
      else
        skynet.wait "read"
      end
      say(socket.disconnected(fd))
    end
    if closed == 0 then skynet.wait "closed" end
    say(closed)
  ]],
  out = {
    "nil", "read\tread", "false", "nil", "readline\treadline", "false", "nil", "block\ttrue", "false", "nil",
    "readall\treadall", "true", "1",
  },
})

-- Regression: the program of the old owner got the event that the connection is closed.
test("onclose does not run in the old owner when a connection moves", {
  services = { agent = agent },
  main = [[
    local fd, c = accept()
    socket.onclose(fd, function() say "closed" end)
    local other = skynet.newservice "agent"
    say(skynet.call(other, "lua", "start", fd) == fd)
    c:send "line\n"
    say(skynet.call(other, "lua", "line", fd))
  ]],
  out = { "true", "line" },
})

-- Regression: `start` waited forever.
test("start works in a program that receives connections with net.on_transfer", {
  services = {
    agent = [[
      net.on_transfer(function(c, ...) say("on_transfer", ...) c:send "mine\n" end)
    ]] .. agent,
  },
  main = [[
    local fd, c = accept()
    local other = skynet.newservice "agent"
    say(skynet.call(other, "lua", "start", fd) == fd)
    c:send "line\n"
    say(skynet.call(other, "lua", "line", fd))
    local listener = net.listen("127.0.0.1", 0)
    local a = net.connect("127.0.0.1", select(2, listener:address()))
    say((listener:accept()):transfer(other, "an argument"))
    say(a:recv "line")
  ]],
  out = function(out)
    local lines = skynet_kit.lines(out)
    table.sort(lines)
    kit.eq(lines, { "line", "mine", "on_transfer\tan argument", "true", "true" })
  end,
})

test("a service that only starts sockets refuses other connections, which stay usable", {
  services = { agent = agent },
  main = [[
    local other = skynet.newservice "agent"
    local listener = net.listen("127.0.0.1", 0)
    local a = net.connect("127.0.0.1", select(2, listener:address()))
    local b = listener:accept()
    say(b:transfer(other, "an argument"))
    a:send "line\n"
    say(b:recv "line")
  ]],
  out = {
    "nil\ttransfer: the other service takes no connections; it must call net.on_transfer\trefused", "line",
  },
})

test("a connection keeps the bytes and the close that arrive while it moves", {
  services = {
    agent = agent,
    writer = [[
      function CMD.write(fd) for i = 1, 2000 do assert(socket.write(fd, ("%08d\n"):format(i))) end end
      function CMD.close(fd) socket.close_fd(fd) end
      serve()
    ]],
  },
  main = [[
    local fd, c = accept()
    local first, second = skynet.newservice "agent", skynet.newservice "agent"
    local writer = skynet.newservice "writer"
    skynet.fork(skynet.call, writer, "lua", "write", fd)
    for i = 1, 20 do
      say(skynet.call(i % 2 == 0 and first or second, "lua", "start", fd) == fd)
    end
    skynet.call(writer, "lua", "close", fd)
    for i = 1, 2000 do assert(c:recv "line" == ("%08d"):format(i)) end
    say(c:recv())
  ]],
  out = function(out) kit.eq(out, ("true\n"):rep(20) .. "nil\n") end,
})

-- Failures -------------------------------------------------------------------------------------------

-- Regression: the program got no event, and the connection stayed open.
test("a failed send of socketdriver is an event, and closes the connection", {
  main = driven .. [[
    local a, b = require "lio.socket".pair()
    a:shutdown "w"
    local fd = driver.bind(a:detach())
    say(driver.send(fd, "x"))
    await "error"
    say(driver.send(fd, "x"))
    say(b:recv())
  ]],
  out = { "true", "error\tsend: Broken pipe (os error 32)", "false", "nil" },
})

test("after a failed send, what has arrived can be read, and then the connection has ended", {
  main = [[
    local a, b = require "lio.socket".pair()
    a:shutdown "w"
    b:send "line\nrest"
    local fd = socket.bind(a:detach())
    say(socket.write(fd, "x"), socket.write(fd, "x"), socket.disconnected(fd))
    say(socket.readline(fd))
    say(socket.readline(fd))
    socket.close(fd)
  ]],
  out = { "true\tfalse\ttrue", "line", "false\trest" },
})

-- Regression: the end of the peer closed the connection, so an answer that was written later was lost.
test("after the event close, the connection stays open for writing until it is closed", {
  main = driven .. [[
    local fd, c = accept(driver.start)
    c:shutdown "w"
    await "close"
    say(driver.send(fd, "answer"))
    driver.close(fd)
    say(c:recv "all")
    say(driver.send(fd, "x"), #socket.netstat())
  ]],
  out = { "close\t", "true", "answer", "false\t1" },
})

test("a write that fails after the event close closes the connection without a further event", {
  main = driven .. [[
    local a, b = require "lio.socket".pair()
    local fd = driver.bind(a:detach())
    b:close()
    await "close"
    while driver.send(fd, "x") do skynet.yield() end
    skynet.yield()
    say(#socket.netstat())
  ]],
  out = { "close\t", "0" },
})

test("pause stops the reading of socketdriver until start", {
  main = driven .. [[
    local fd, c = accept(driver.start)
    driver.pause(fd)
    c:send "1"
    await "data"
    c:send "2"
    c:shutdown "w"
    for _ = 1, 100 do skynet.yield() end
    say "paused"
    driver.start(fd)
    await "data"
    await "close"
  ]],
  out = { "data\t1", "paused", "data\t2", "close\t" },
})

test("a paused connection closes, and moves to another service", {
  services = { agent = agent },
  main = driven .. [[
    local fd, c = accept(driver.start)
    driver.pause(fd)
    c:send "1"
    await "data"
    c:send "line\n"
    local other = skynet.newservice "agent"
    say(skynet.call(other, "lua", "start", fd) == fd, skynet.call(other, "lua", "line", fd))
    local second = accept(driver.start)
    driver.pause(second)
    driver.close(second)
    await "close"
  ]],
  out = { "data\t1", "true\tline", "close\t" },
})

-- Datagrams ------------------------------------------------------------------------------------------

-- One line of source: `port_of(id)` returns the port of a socket.
local ports <const> = ([[
  local function port_of(id)
    for _, one in ipairs(socket.netstat()) do
      if one.id == id then return tonumber(one.name:match ':(%d+)$') end
    end
  end ]]):gsub("\n", " ")

-- Regression: the datagrams were sent from a socket for IPv4, which failed without a message.
test("udp_dial opens a socket of the family of its peer", {
  main = ports .. [[
    for _, ip in ipairs { "::1", "127.0.0.1", "localhost" } do
      local id = socket.udp(function(data)
        say(data)
        skynet.wakeup "received"
      end, ip, 0)
      assert(socket.write(socket.udp_dial(ip, port_of(id), function() end), "to " .. ip))
      skynet.wait "received"
    end
    local ok, problem = pcall(socket.udp_connect, socket.udp(function() end), "::1", 9)
    say(ok, problem:match "udp_connect: .*")
  ]],
  out = {
    "to ::1", "to 127.0.0.1", "to localhost",
    "false\tudp_connect: '::1' has no IPv4 address, which socket 7 needs",
  },
})

-- Regression: each failure left a socket open.
test("udp_dial that fails leaves no socket", {
  main = [[
    say((pcall(socket.udp_dial, "127.0.0.1", 70000, function() end)))
    say((pcall(socket.udp_dial, "no.such.invalid", 9, function() end)))
    say(#socket.netstat())
  ]],
  out = { "false", "false", "0" },
})

-- Regression: the error was dropped.
test("the first failed send of a datagram socket is logged", {
  main = [[
    local id = socket.udp(function() end, "127.0.0.1", 0)
    socket.udp_connect(id, "127.0.0.1", 9)
    for _ = 1, 3 do socket.write(id, ("x"):rep(70000)) end
  ]],
  out = {},
  err = "^[^\n]*socket 1: send to 127.0.0.1 port 9: [^\n]*Message too long %(os error 90%); further failures[^\n]*\n$",
})

-- Regression: the loop that receives repeated the call without a pause.
test("a receive that fails always is repeated after a pause", {
  main = [[
    local calls = 0
    local u = {}
    function u.recvfrom() calls = calls + 1 return nil, "recvfrom: broken", "failed" end
    function u.address() return "127.0.0.1", 9 end
    function u.close() end
    net.udp = function() return u end
    local id = socket.udp(function() end)
    say(calls)
    socket.close(id)
  ]],
  out = { "1" },
  err = "receive: recvfrom: broken",
})

kit.finish()
