-- skynet.socket and skynet.socketdriver: listeners, connections and datagrams, in one service and across services.
-- The programs may use: skynet, socket, listen, serve

local kit = require "tests.kit.ltask_system"
local skynet_kit = require "tests.kit.skynet_system"

-- One line of source: `socket`, and `listen(f)`, which starts a listener, runs `f(fd, address)` for each connection,
-- and returns the port and the id.
local use <const> = ([[
  local socket = require 'skynet.socket'
  local function listen(f)
    local id, _, port = socket.listen('127.0.0.1', 0)
    socket.start(id, f)
    return port, id
  end ]]):gsub("\n", " ")

local function test(name, spec)
  spec.seconds = spec.seconds or 30
  if spec.main then spec.main = use .. spec.main end
  for service, source in pairs(spec.services or {}) do spec.services[service] = use .. source end
  skynet_kit.test(name, spec)
end

-- Connections ----------------------------------------------------------------------------------------

test("a listener passes each connection to its function, with the address of the peer", {
  main = [[
    local port = listen(function(fd, address)
      say(math.type(fd), address:match "^127%.0%.0%.1:%d+$" ~= nil)
      say(socket.start(fd) == fd)
      socket.write(fd, "hello " .. socket.readline(fd) .. "\n")
      socket.close(fd)
    end)
    local id = socket.open("127.0.0.1:" .. port)
    socket.write(id, "you\n")
    say(socket.readline(id))
    say(socket.read(id))
    socket.close(id)
  ]],
  out = { "integer\ttrue", "true", "hello you", "false\t" },
})

test("read returns what is available, or exactly the wanted bytes; the end returns false and the rest", {
  main = [[
    local port = listen(function(fd)
      socket.start(fd)
      socket.write(fd, "abcdefgh")
      socket.close(fd)
    end)
    local id = socket.open("127.0.0.1", port)
    say(socket.read(id, 2), socket.read(id, 3))
    say(socket.read(id, 9))
    say(socket.read(id, 1))
    say(socket.read(id))
    id = socket.open("127.0.0.1", port)
    local all = ""
    repeat
      local data, rest = socket.read(id)
      all = all .. (data or rest)
    until not data
    say(all)
  ]],
  out = { "ab\tcde", "false\tfgh", "false\t", "false\t", "abcdefgh" },
})

test("readline strips the separator, and readall returns the rest once", {
  main = [[
    local port = listen(function(fd)
      socket.start(fd)
      socket.write(fd, { "one\ntwo\r\nthree", "::four::", 5 })
      socket.close(fd)
    end)
    local id = socket.open("127.0.0.1", port)
    say(socket.readline(id))
    say(socket.readline(id, "\r\n"), socket.readline(id, "::"))
    say(socket.readall(id))
    say(socket.readall(id))
    id = socket.open("127.0.0.1", port)
    say(socket.readline(id), socket.readline(id, "!!"))
  ]],
  out = { "one", "two\tthree", "four::5", "false\t", "one\tfalse\ttwo\r", "three::four::5" },
})

test("block waits for data without taking it", {
  main = [[
    local server
    local port = listen(function(fd) server = fd socket.start(fd) skynet.wakeup "accepted" end)
    local id = socket.open("127.0.0.1", port)
    if not server then skynet.wait "accepted" end
    skynet.fork(socket.write, server, "data")
    say(socket.block(id), socket.read(id, 4))
    skynet.fork(socket.close, server)
    say(socket.block(id))
    say(socket.block(12345))
  ]],
  out = { "true\tdata", "false", "false" },
})

test("header reads an integer of one to four bytes", {
  main = [[
    say(socket.header "\1", socket.header "\1\2", socket.header "\0\1\2", socket.header "\1\0\0\0")
    say(select(2, pcall(socket.header, "")):match "bad.*")
    say(select(2, pcall(socket.header, "12345")):match "bad.*")
  ]],
  out = {
    "1\t258\t258\t16777216",
    "bad argument #1 to 'header' (one to four bytes expected)",
    "bad argument #1 to 'header' (one to four bytes expected)",
  },
})

test("a connection that fails returns nil and a message; a listener that fails raises", {
  main = [[
    local port, id = listen(function() end)
    say((pcall(socket.listen, "127.0.0.1", port)))
    socket.close(id)
    local fd, message = socket.open("127.0.0.1", port)
    say(fd, type(message))
    say(socket.start(id))
  ]],
  out = { "false", "nil\tstring", "nil\tthere is no such socket" },
})

-- Writing and closing --------------------------------------------------------------------------------

test("write does not wait, and close sends what was written", {
  main = [[
    local SIZE <const> = 8 * 1024 * 1024
    local port = listen(function(fd)
      socket.start(fd)
      say(socket.write(fd, ("x"):rep(SIZE)), socket.write(fd, "end"))
      socket.close(fd)
      say(socket.write(fd, "late"), socket.invalid(fd))
    end)
    local id = socket.open("127.0.0.1", port)
    skynet.sleep(5)
    local all = socket.readall(id)
    say(#all - SIZE, all:sub(-4))
  ]],
  err = false,
  out = { "true\ttrue", "false\ttrue", "3\txend" },
})

test("bytes of low priority are sent after the others", {
  main = [[
    local SIZE <const> = 8 * 1024 * 1024
    local port = listen(function(fd)
      socket.start(fd)
      socket.warning(fd, function() end)
      socket.write(fd, ("x"):rep(SIZE))
      socket.lwrite(fd, "low")
      socket.write(fd, "high")
      socket.close(fd)
    end)
    local id = socket.open("127.0.0.1", port)
    skynet.sleep(5)
    say(socket.readall(id):sub(-8))
  ]],
  out = { "xhighlow" },
})

test("warning reports queued bytes, and when all are sent", {
  main = [[
    local first, last, is_written
    local port = listen(function(fd)
      socket.start(fd)
      socket.warning(fd, function(id, kibibytes)
        first, last = first or id == fd and kibibytes, kibibytes
        if kibibytes == 0 then skynet.wakeup "sent" end
      end)
      for _ = 1, 64 do socket.write(fd, ("x"):rep(512 * 1024)) end
      is_written = true
      skynet.wakeup "written"
      skynet.wait "sent"
      socket.close(fd)
    end)
    local id = socket.open("127.0.0.1", port)
    if not is_written then skynet.wait "written" end
    say(first >= 1024 and first < 2048, last > first)
    local all = socket.readall(id)
    say(#all == 64 * 512 * 1024, last)
  ]],
  out = { "true\ttrue", "true\t0" },
})

test("without a function, a warning is logged", {
  main = [[
    local is_written
    local port = listen(function(fd)
      socket.start(fd)
      socket.write(fd, ("x"):rep(16 * 1024 * 1024))
      is_written = true
      skynet.wakeup "written"
    end)
    socket.open("127.0.0.1", port)
    if not is_written then skynet.wait "written" end
  ]],
  err = "socket %d+: %d+ KiB are waiting to be sent",
})

test("onclose and disconnected report the end of the peer, and onclose also the own end", {
  main = [[
    local server
    local port = listen(function(fd) server = fd socket.start(fd) skynet.wakeup "accepted" end)
    local id = socket.open("127.0.0.1", port)
    if not server then skynet.wait "accepted" end
    socket.onclose(id, function(which) say("peer", which == id) skynet.wakeup "closed" end)
    say(socket.disconnected(id), socket.invalid(id))
    socket.close(server)
    skynet.wait "closed"
    say(socket.disconnected(id), socket.invalid(id))
    socket.close(id)
    say(socket.disconnected(id), socket.invalid(id))
    id = socket.open("127.0.0.1", port)
    socket.onclose(id, function(which) say("own", which == id) end)
    socket.close(id)
  ]],
  out = { "false\tfalse", "peer\ttrue", "true\tfalse", "false\ttrue", "own\ttrue" },
})

test("close ends the read of another coroutine", {
  main = [[
    local port = listen(function(fd) socket.start(fd) end)
    local id = socket.open("127.0.0.1", port)
    skynet.fork(function() say(socket.readline(id)) skynet.wakeup "ended" end)
    skynet.sleep(1)
    socket.close(id)
    skynet.wait "ended"
    socket.close(id)
  ]],
  out = { "false\t" },
})

test("a line that exceeds the limit closes the socket", {
  main = [[
    local port = listen(function(fd)
      socket.start(fd)
      socket.write(fd, "short\n" .. ("x"):rep(5000))
      say(socket.read(fd))
    end)
    local id = socket.open("127.0.0.1", port)
    socket.limit(id, 1000)
    say(socket.readline(id))
    say(socket.readline(id))
    say(socket.invalid(id))
    skynet.sleep(5)
  ]],
  err = "the data exceeds the limit of 1000 bytes",
  out = { "short", "false\t", "true", "false\t" },
})

test("the use of a socket that is not started raises at the program's line", {
  main = [[
    say(pcall(function() socket.read(77) end))
    say(pcall(function() socket.readline "x" end))
    say(pcall(function() socket.write(1) end))
    say(pcall(function() socket.open("127.0.0.1", 70000.5) end))
    say(pcall(function() socket.open "nowhere" end))
  ]],
  out = function(out)
    local t = require "tests.kit"
    local lines = kit.lines(out)
    t.ok(lines[1]:find("main%.lua:1: read: this service has no started socket 77"), lines[1])
    t.ok(lines[2]:find("main%.lua:2: bad argument #1 to 'readline' %(socket expected, got string%)"), lines[2])
    t.ok(lines[3]:find("main%.lua:3: bad argument #2 to 'write' %(string expected, got nil%)"), lines[3])
    t.ok(lines[4]:find("main%.lua:4: bad argument #2 to 'open' %(a port from 0 to 65535 expected, got 70000.5%)"),
      lines[4])
    t.ok(lines[5]:find("main%.lua:5: bad argument #1 to 'open' %('host:port' expected, got 'nowhere'%)"), lines[5])
  end,
})

-- Several services -----------------------------------------------------------------------------------

local agent <const> = [[
  local CMD = {}
  function CMD.start(fd) return socket.start(fd) == fd end
  function CMD.echo(fd)
    skynet.fork(function()
      while true do
        local line = socket.readline(fd)
        if not line then return socket.close(fd) end
        socket.write(fd, "agent " .. line .. "\n")
      end
    end)
  end
  function CMD.write(fd, data) return socket.write(fd, data) end
  function CMD.read(fd) return socket.readline(fd) end
  function CMD.close(fd) socket.close_fd(fd) end
  function CMD.shutdown(fd) socket.shutdown(fd) end
  function CMD.abandon(fd) socket.abandon(fd) end
  function CMD.exit() skynet.exit() end
  skynet.start(function()
    skynet.dispatch("lua", function(_, _, name, ...) skynet.retpack(CMD[name](...)) end)
  end)
]]

test("start in another service moves the connection with its unread bytes", {
  services = { agent = agent },
  main = [[
    local other = skynet.newservice "agent"
    local port = listen(function(fd)
      socket.start(fd)
      say(socket.readline(fd))
      say(skynet.call(other, "lua", "start", fd), socket.invalid(fd))
      skynet.call(other, "lua", "echo", fd)
    end)
    local id = socket.open("127.0.0.1", port)
    socket.write(id, "one\ntwo\nthree\n")
    say(socket.readline(id), socket.readline(id))
    socket.write(id, "four\n")
    say(socket.readline(id))
  ]],
  out = { "one", "true\ttrue", "agent two\tagent three", "agent four" },
})

test("any service writes to a socket, in the order of its writes, and closes it", {
  services = { agent = agent },
  main = [[
    local other = skynet.newservice "agent"
    local server
    local port = listen(function(fd) server = fd socket.start(fd) skynet.wakeup "accepted" end)
    local id = socket.open("127.0.0.1", port)
    if not server then skynet.wait "accepted" end
    for i = 1, 100 do
      if i % 2 == 0 then
        socket.write(server, i .. "\n")
      else
        skynet.call(other, "lua", "write", server, i .. "\n")
      end
    end
    for i = 1, 100 do assert(socket.readline(id) == tostring(i)) end
    skynet.call(other, "lua", "close", server)
    say(socket.readline(id))
    say(skynet.call(other, "lua", "write", 987654, "x"))
  ]],
  out = { "false\t", "false" },
})

test("a socket that was abandoned can be started by another service", {
  services = { agent = agent },
  main = [[
    local first, second = skynet.newservice "agent", skynet.newservice "agent"
    local port = listen(function(fd)
      say(skynet.call(first, "lua", "start", fd), skynet.call(first, "lua", "read", fd))
      skynet.call(first, "lua", "abandon", fd)
      say((pcall(skynet.call, first, "lua", "read", fd)))
      say(skynet.call(second, "lua", "start", fd), skynet.call(second, "lua", "read", fd))
      socket.write(fd, "bye\n")
      skynet.call(first, "lua", "shutdown", fd)
    end)
    local id = socket.open("127.0.0.1", port)
    socket.write(id, "a\nb\n")
    say(socket.readline(id))
    say(socket.readline(id))
  ]],
  err = "this service has no started socket",
  out = function(out)
    require "tests.kit".eq(kit.said(out), { "true\ta", "false", "true\tb", "bye", "false\t" })
  end,
})

test("the sockets of a service end with it", {
  services = { agent = agent },
  main = [[
    local other = skynet.newservice "agent"
    local server
    local port = listen(function(fd)
      server = fd
      skynet.call(other, "lua", "start", fd)
      skynet.send(other, "lua", "exit")
    end)
    local id = socket.open("127.0.0.1", port)
    say(socket.read(id))
    while socket.write(server, "x") do skynet.sleep(1) end
    say(socket.start(server))
  ]],
  out = { "false\t", "nil\tthere is no such socket" },
})

test("netstat lists the sockets of all services", {
  services = { agent = agent },
  main = [[
    local other = skynet.newservice "agent"
    local server
    local port, listener = listen(function(fd)
      skynet.call(other, "lua", "start", fd)
      server = fd
      skynet.wakeup "started"
    end)
    local id = socket.open("127.0.0.1", port)
    if not server then skynet.wait "started" end
    socket.write(server, "12345")
    socket.read(id, 5)
    local all = {}
    for _, one in ipairs(socket.netstat()) do all[one.id] = one end
    say(all[listener].type, all[listener].name == "127.0.0.1:" .. port, all[listener].address)
    say(all[server].type, all[server].address == skynet.address(other))
    say(all[id].name == "127.0.0.1:" .. port, all[id].wbuffer)
  ]],
  out = function(out)
    local lines = kit.lines(out)
    local t = require "tests.kit"
    t.ok(lines[1]:find "^LISTEN\ttrue\t:%x+$", lines[1])
    t.eq({ lines[2], lines[3] }, { "TCP\ttrue", "true\t0" })
  end,
})

-- Datagrams and descriptors --------------------------------------------------------------------------

test("datagrams carry the address of their sender, which sendto answers", {
  main = [[
    local server
    server = socket.udp(function(data, from)
      local ip, port = socket.udp_address(from)
      say(data, ip, math.type(port))
      socket.sendto(server, from, "re: " .. data)
    end, "127.0.0.1", 0)
    local port
    for _, one in ipairs(socket.netstat()) do if one.id == server then port = one.name:match "%d+$" end end
    local client = socket.udp(function(data) say("client", data) skynet.wakeup "answered" end)
    socket.udp_connect(client, "127.0.0.1", tonumber(port))
    socket.write(client, "ping")
    skynet.wait "answered"
    say(select(2, pcall(socket.udp_address, "x")):match "bad.*")
    say(socket.write(client, ""), socket.sendto(987654, "\1\0\1\127\0\0\1", "x"))
  ]],
  out = function(out)
    local lines = kit.lines(out)
    require "tests.kit".eq({ table.unpack(lines, 1, 4) }, {
      "ping\t127.0.0.1\tinteger", "client\tre: ping",
      "bad argument #1 to 'udp_address' (the address of a datagram's sender expected)", "true\tfalse",
    })
  end,
})

test("a datagram socket with a peer receives only from the peer", {
  main = [[
    local function port_of(id)
      for _, one in ipairs(socket.netstat()) do if one.id == id then return tonumber(one.name:match "%d+$") end end
    end
    local peer = socket.udp(function() end, "127.0.0.1", 0)
    local stranger = socket.udp(function() end, "127.0.0.1", 0)
    local id = socket.udp_listen("127.0.0.1", 0, function(data) say(data) skynet.wakeup "got" end)
    socket.udp_connect(id, "127.0.0.1", port_of(peer))
    local from = string.pack(">BI2BBBB", 1, port_of(id), 127, 0, 0, 1)
    socket.sendto(stranger, from, "no")
    socket.sendto(peer, from, "yes")
    skynet.wait "got"
  ]],
  out = { "yes" },
})

test("bind takes over a descriptor", {
  main = [[
    local a, b = require "lio.socket".pair()
    local id = socket.bind(a:detach())
    socket.write(id, "hello\n")
    local data
    repeat
      skynet.sleep(1)
      data = b:recv()
    until data
    say(data)
    b:send "back\n"
    say(socket.readline(id))
    socket.close(id)
    say(socket.bind(9999))
  ]],
  out = function(out)
    local lines = kit.lines(out)
    require "tests.kit".eq({ lines[1], lines[2] }, { "hello", "back" })
    require "tests.kit".ok(lines[3]:find "^nil\tfd: ", lines[3])
  end,
})

-- socketdriver ---------------------------------------------------------------------------------------

test("socketdriver passes events to the protocol of the program", {
  main = [[
    local driver = require "skynet.socketdriver"
    local names = { "data", "connect", "close", "accept", "error", "udp", "warning" }
    local ids, client, driven = {}, nil, nil
    local EVENT = {}
    function EVENT.connect(id, _, address) if not client then say("connect", id == driven, address) end end
    function EVENT.accept(id, new, address)
      say("accept", id == driven, address:match "^127")
      ids[#ids + 1] = new
      driver.start(new)
      driver.nodelay(new)
    end
    function EVENT.data(id, size, data)
      say("data", id == ids[1], size, data)
      driver.send(id, data:upper())
    end
    function EVENT.close(id)
      say("close", id == ids[1])
      driver.close(id)
      skynet.wakeup "closed"
    end
    skynet.register_protocol {
      name = "socket", id = skynet.PTYPE_SOCKET, unpack = driver.unpack,
      dispatch = function(_, _, kind, ...) EVENT[names[kind] ](...) end,
    }
    local _, port
    driven, _, port = driver.listen("127.0.0.1", 0)
    driver.start(driven)
    skynet.sleep(1)
    client = socket.open("127.0.0.1", port)
    socket.write(client, "hello")
    say(socket.read(client))
    socket.close(client)
    skynet.wait "closed"
    say(driver.send(ids[1], "x"))
  ]],
  out = {
    "connect\ttrue\t127.0.0.1", "accept\ttrue\t127", "data\ttrue\t5\thello", "HELLO", "close\ttrue", "false",
  },
})

-- Services with a loop -------------------------------------------------------------------------------

test("the same calls work in services that own a loop, and connections move between them", {
  services = {
    looped = [[
      local CMD = {}
      function CMD.listen(other)
        return (listen(function(fd)
          socket.start(fd)
          say("first", socket.readline(fd))
          say("moved", skynet.call(other, "lua", "take", fd), socket.invalid(fd))
          socket.write(fd, "from the first\n")
        end))
      end
      function CMD.take(fd)
        assert(socket.start(fd) == fd)
        skynet.fork(function()
          while true do
            local line = socket.readline(fd)
            if not line then return socket.close(fd) end
            socket.write(fd, "second " .. line .. "\n")
          end
        end)
        return true
      end
      skynet.start(function()
        skynet.dispatch("lua", function(_, _, name, ...) skynet.retpack(CMD[name](...)) end)
      end)
    ]],
  },
  main = [[
    local folder = ...
    local function spawn() return ltask.spawn("lio", folder .. "/looped.lua") end
    local first, second = spawn(), spawn()
    skynet.sleep(5)
    local id = socket.open("127.0.0.1", skynet.call(first, "lua", "listen", second))
    socket.write(id, "one\ntwo\n")
    local lines = { socket.readline(id), socket.readline(id) }
    table.sort(lines)
    say(lines[1], lines[2])
    socket.write(id, "three\n")
    say(socket.readline(id))
    ltask.send(1, "quit_ltask")
  ]],
  out = { "first\tone", "moved\ttrue\ttrue", "from the first\tsecond two", "second three" },
})

require "tests.kit".finish()
