-- The service gate, snax.gateserver, skynet.netpack and skynet.redirect; snax.loginserver and snax.msgserver.
-- The programs may use: skynet, socket, netpack, client, serve

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"
local skynet_kit = require "tests.kit.skynet_system"

-- One line of source: `socket`, `netpack`, and `client(port)`, which returns a socket, a function that sends messages
-- with their lengths in one write, and a function that receives a message.
local use <const> = ([[
  local socket, netpack = require 'skynet.socket', require 'skynet.netpack'
  local function client(port)
    local id = socket.open('127.0.0.1', port)
    local function write(...)
      local list = {}
      for i, text in ipairs { ... } do list[i] = (netpack.pack(text)) end
      return socket.write(id, table.concat(list))
    end
    local function read()
      local head = socket.read(id, 2)
      return head and socket.read(id, socket.header(head))
    end
    return id, write, read
  end ]]):gsub("\n", " ")

local function test(name, spec)
  spec.seconds = spec.seconds or 30
  spec.main = use .. spec.main
  for service, source in pairs(spec.services or {}) do spec.services[service] = use .. source end
  local wanted = spec.out
  -- The gate logs its address.
  spec.out = function(out)
    local lines = kit.said(out)
    if type(wanted) == "function" then return wanted(lines, out) end
    t.eq(lines, wanted)
  end
  skynet_kit.test(name, spec)
end

-- A watchdog that prints the events of its gate. `open(conf)` opens the gate, and returns its port.
local watchdog <const> = [[
  local gate
  local SOCKET, CMD = {}, {}
  function SOCKET.open(fd, address)
    say("open", address:match "^127%.0%.0%.1:%d+$" ~= nil)
    if mode == "accept" then skynet.call(gate, "lua", "accept", fd) end
    if mode == "agent" then
      local agent = skynet.newservice "agent"
      skynet.call(agent, "lua", "start", gate, fd, skynet.self())
    end
  end
  function SOCKET.close() say "close" end
  function SOCKET.error(_, problem) say("error", type(problem)) end
  function SOCKET.warning(_, kibibytes) say("warning", kibibytes > 0) end
  function SOCKET.data(fd, text)
    say("data", text)
    if text == "kick me" then skynet.call(gate, "lua", "kick", fd) end
  end
  function CMD.open(conf, how)
    mode = how
    return select(2, skynet.call(gate, "lua", "open", conf))
  end
  function CMD.gate(...) return skynet.call(gate, "lua", ...) end
  skynet.start(function()
    skynet.dispatch("lua", function(_, _, name, ...)
      if name == "socket" then
        local event = (...)
        return SOCKET[event](select(2, ...))
      end
      skynet.retpack(CMD[name](...))
    end)
    gate = skynet.newservice "gate"
  end)
]]

local agent <const> = [[
  local client, watchdog
  skynet.register_protocol {
    name = "client", id = skynet.PTYPE_CLIENT, unpack = skynet.tostring,
    dispatch = function(fd, source, text)
      skynet.ignoreret()
      assert(fd == client and source == 0)
      if text == "wait" then skynet.sleep(5) end
      socket.write(fd, (netpack.pack("agent: " .. text)))
    end,
  }
  local CMD = {}
  function CMD.start(gate, fd, from)
    client, watchdog = fd, from
    skynet.call(gate, "lua", "forward", fd)
  end
  skynet.start(function()
    skynet.dispatch("lua", function(_, _, name, ...) skynet.retpack(CMD[name](...)) end)
  end)
]]

test("the gate reports the events of a connection that it accepts to its watchdog", {
  services = { watchdog = "local mode " .. watchdog },
  main = [[
    local dog = skynet.newservice "watchdog"
    local port = skynet.call(dog, "lua", "open", { address = "127.0.0.1", port = 0, nodelay = true }, "accept")
    local id, write = client(port)
    write "one"
    write("two", "", "three")
    for _, piece in ipairs { "\0", "\4fo", "ur\0\4fi", "ve" } do
      socket.write(id, piece)
      skynet.sleep(2)
    end
    socket.close(id)
    skynet.sleep(5)
  ]],
  out = { "open\ttrue", "data\tone", "data\ttwo", "data\t", "data\tthree", "data\tfour", "data\tfive", "close" },
})

-- Regression: the connection was closed, so the answer was lost.
test("a connection of a gate whose client has ended its half stays open for writing, until kick", {
  services = {
    dog = [[
      local gate
      skynet.start(function()
        skynet.dispatch("lua", function(_, _, name, event, fd)
          if name == "open" then
            gate = skynet.newservice "gate"
            return skynet.retpack(skynet.call(gate, "lua", "open", event))
          end
          if event == "open" then skynet.call(gate, "lua", "accept", fd) end
          if event == "close" then
            say("close", socket.write(fd, "answer"))
            skynet.call(gate, "lua", "kick", fd)
          end
        end)
      end)
    ]],
  },
  main = [[
    local dog = skynet.newservice "dog"
    local _, port = skynet.call(dog, "lua", "open", { address = "127.0.0.1", port = 0 })
    local c = require "lio.net".connect("127.0.0.1", port)
    c:send "\0\3end"
    c:shutdown "w"
    say(c:recv "all")
  ]],
  out = { "close\ttrue", "answer" },
})

-- In skynet, mailboxes are unbounded. The agent below receives nothing until `flag` is closed.
test("an agent with a full mailbox gets all messages, in their order, and the client has to wait", {
  config = { core = { queue = 64 } },
  services = {
    slow_agent = [[
      local count, bad = 0, 0
      skynet.register_protocol {
        name = "client", id = skynet.PTYPE_CLIENT, unpack = skynet.tostring,
        dispatch = function(_, _, text)
          skynet.ignoreret()
          if tonumber(text:sub(1, 5)) ~= count then bad = bad + 1 end
          count = count + 1
          if count == 600 then skynet.wakeup "all" end
        end,
      }
      function CMD.start(gate, fd, flag)
        skynet.call(gate, "lua", "forward", fd)
        skynet.fork(function()
          local is_open
          repeat
            is_open = false
            for _, one in ipairs(socket.netstat()) do is_open = is_open or one.id == flag end
          until not is_open
        end)
      end
      function CMD.result()
        if count < 600 then skynet.wait "all" end
        return count, bad
      end
      serve()
    ]],
    dog = [[
      local gate, flag, agent
      skynet.start(function()
        skynet.dispatch("lua", function(_, _, name, event, fd)
          if name == "open" then
            gate, flag = skynet.newservice "gate", fd
            return skynet.retpack(skynet.call(gate, "lua", "open", event))
          end
          if name == "agent" then return skynet.retpack(agent) end
          if event ~= "open" then return end
          local new = skynet.newservice "slow_agent"
          skynet.call(new, "lua", "start", gate, fd, flag)
          agent = new
        end)
      end)
    ]],
  },
  main = [[
    local _, workers = ...
    local flag = socket.listen("127.0.0.1", 0)
    local dog = skynet.newservice "dog"
    local _, port = skynet.call(dog, "lua", "open", { address = "127.0.0.1", port = 0 }, flag)
    local id = socket.open("127.0.0.1", port)
    local list = {}
    for i = 0, 599 do list[#list + 1] = (netpack.pack(("%05d"):format(i) .. ("x"):rep(60000))) end
    socket.warning(id, function() end)
    socket.write(id, table.concat(list))
    local agent
    repeat
      skynet.yield()
      agent = skynet.call(dog, "lua", "agent")
    until agent
    local function queued()
      for _, one in ipairs(socket.netstat()) do if one.id == id then return one.wbuffer end end
    end
    -- While the gate reads, the queue becomes shorter.
    local unchanged, last = 0, queued()
    repeat
      skynet.sleep(20)
      unchanged = queued() == last and unchanged + 1 or 0
      last = queued()
    until unchanged == 5 or last == 0
    -- The agent occupies a worker.
    say(workers == 1 or last > 0)
    socket.shutdown(flag)
    local ok, count, bad
    repeat
      skynet.yield()
      ok, count, bad = pcall(skynet.call, agent, "lua", "result")
    until ok
    say(count, bad)
  ]],
  err = false,
  out = { "true", "600\t0" },
})

test("kick closes a connection", {
  services = { watchdog = "local mode " .. watchdog },
  main = [[
    local dog = skynet.newservice "watchdog"
    local port = skynet.call(dog, "lua", "open", { address = "127.0.0.1", port = 0 }, "accept")
    local id, write = client(port)
    write "kick me"
    say("client", socket.read(id))
    skynet.sleep(5)
  ]],
  out = function(lines)
    table.sort(lines)
    t.eq(lines, { "client\tfalse\t", "close", "data\tkick me", "open\ttrue" })
  end,
})

test("forward passes the messages of a connection to an agent, which answers the client", {
  services = { watchdog = "local mode " .. watchdog, agent = agent },
  main = [[
    local dog = skynet.newservice "watchdog"
    local port = skynet.call(dog, "lua", "open", { address = "127.0.0.1", port = 0 }, "agent")
    local id, write, read = client(port)
    write "hello"
    say(read())
    write("wait", "a", "b")
    say(read(), read(), read())
    write(("x"):rep(65528))
    say(#read())
    socket.close(id)
    skynet.sleep(5)
  ]],
  out = { "open\ttrue", "agent: hello", "agent: a\tagent: b\tagent: wait", "65535", "close" },
})

test("clients beyond maxclient are closed, and a place becomes free when a client leaves", {
  services = { watchdog = "local mode " .. watchdog },
  main = [[
    local dog = skynet.newservice "watchdog"
    local port = skynet.call(dog, "lua", "open", { address = "127.0.0.1", port = 0, maxclient = 1 }, "accept")
    local first = client(port)
    skynet.sleep(5)
    local second = client(port)
    say("second", socket.read(second))
    socket.close(first)
    skynet.sleep(5)
    local third, write = client(port)
    write "from third"
    skynet.sleep(5)
    say(socket.disconnected(third))
  ]],
  out = function(lines)
    table.sort(lines, function(a, b) return a > b end)
    t.eq(lines, { "second\tfalse\t", "open\ttrue", "open\ttrue", "false", "data\tfrom third", "close", "close" })
  end,
})

test("invalid commands of the gate raise in the caller, and close ends the listener", {
  services = { watchdog = "local mode " .. watchdog },
  main = [[
    local dog = skynet.newservice "watchdog"
    local function try(...)
      local ok, problem = pcall(skynet.call, dog, "lua", "gate", ...)
      say(ok, ok and "" or problem.message:match "gate: .*" or problem.message)
    end
    try("kick", 1)
    try("forward", 1)
    try("unknown")
    try("close")
    try("open", {})
    local port = skynet.call(dog, "lua", "open", { address = "127.0.0.1", port = 0 }, "accept")
    try("open", { port = 0 })
    try("close")
    skynet.sleep(5)
    say(socket.open("127.0.0.1", port) == nil)
  ]],
  err = false,
  out = {
    "true\t", "false\tgate: there is no connection 1", "false\tgate: there is no command 'unknown'",
    "false\tclose: the gate is not open", "false\topen: the port is missing", "false\topen: the gate is open", "true\t",
    "true",
  },
})

test("a program's own gate on gateserver gets every event", {
  services = {
    mygate = [[
      local gateserver = require "snax.gateserver"
      local handler = {}
      function handler.open(source, conf) say("opened", math.type(source), conf.tag) return conf.port end
      function handler.connect(fd) say "connect" gateserver.openclient(fd) end
      function handler.message(fd, msg, sz)
        say("message", netpack.tostring(msg, sz), sz)
        if sz == 4 then skynet.trash(msg, sz) gateserver.closeclient(fd) end
      end
      function handler.disconnect() say "disconnect" end
      function handler.command(name, source, ...) return name, math.type(source), ... end
      gateserver.start(handler)
    ]],
  },
  main = [[
    local gate = skynet.newservice "mygate"
    local port = skynet.call(gate, "lua", "open", { address = "127.0.0.1", port = 0, tag = "x" })
    local id, write = client(port)
    write "abc"
    skynet.sleep(5)
    write "quit"
    say("end", socket.read(id))
    skynet.sleep(5)
    say(skynet.call(gate, "lua", "other", 1, 2))
  ]],
  out = function(lines)
    t.eq({ table.unpack(lines, 1, 4) }, { "opened\tinteger\tx", "connect", "message\tabc\t3", "message\tquit\t4" })
    t.eq(lines[7], "other\tinteger\t1\t2")
    table.sort(lines)
    t.eq({ lines[2], lines[3] }, { "disconnect", "end\tfalse\t" })
  end,
})

test("netpack packs and refuses messages that are too long", {
  main = [[
    local bytes, size = netpack.pack "hi"
    say(bytes == "\0\2hi", size)
    say(#netpack.pack(("x"):rep(65535)))
    say(select(2, pcall(netpack.pack, ("x"):rep(65536))):match "the message.*")
    say(netpack.tostring("abc", 3), netpack.tostring(nil) == "")
    netpack.clear(nil)
    assert(netpack.pop(nil) == nil)
    say(require "netpack" == netpack)
  ]],
  out = {
    "true\t4", "65537", "the message has 65536 bytes; at most 65535 are possible)", "abc\ttrue", "true",
  },
})

-- redirect -------------------------------------------------------------------------------------------

test("redirect sends a message in the name of another service", {
  services = {
    receiver = [[
      skynet.register_protocol {
        name = "text", id = skynet.PTYPE_TEXT, unpack = skynet.tostring,
        dispatch = function(session, source, text) say("text", session, source, text, skynet.ret("answer")) end,
      }
      skynet.start(function()
        skynet.dispatch("lua", function(session, source, ...) say("lua", session, source, ...) end)
      end)
    ]],
  },
  main = [[
    skynet.register_protocol { name = "text", id = skynet.PTYPE_TEXT }
    local to = skynet.newservice "receiver"
    say(skynet.redirect(to, 99, "text", 7, "hello", 5))
    say(skynet.redirect(to, ":0000000a", "lua", 8, skynet.pack(1, nil, "x")))
    skynet.redirect(to, 1, "lua", 9, skynet.packstring("y"))
    say(skynet.redirect(".nobody", 1, "lua", 0, skynet.pack(1)))
    say((pcall(skynet.redirect, to, 1, "unknown", 0, "x")))
    skynet.sleep(5)
  ]],
  out = function(lines)
    table.sort(lines)
    t.eq(lines, {
      "false", "false\tthere is no service '.nobody'", "lua\t8\t10\t1\tnil\tx", "lua\t9\t1\ty",
      "text\t7\t99\thello\tfalse", "true", "true",
    })
  end,
})

test("a redirected message without a handler goes to the handler of unknown requests", {
  services = {
    receiver = [[
      skynet.start(function()
        skynet.dispatch_unknown_request(say)
      end)
    ]],
  },
  main = [[
    local to = skynet.newservice "receiver"
    skynet.register_protocol { name = "client", id = skynet.PTYPE_CLIENT }
    skynet.redirect(to, 5, "client", 6, "text")
    skynet.sleep(5)
  ]],
  out = { "6\t5\ttext\t4\tclient" },
})

-- Login and messages ---------------------------------------------------------------------------------

local login <const> = [[
  local login = require "snax.loginserver"
  local servers = {}
  local conf = { host = "127.0.0.1", port = PORT, instance = 2 }
  function conf.auth_handler(token)
    local user, server, password = token:match "(.+)@(.+):(.+)"
    assert(password == "right", "the password is wrong")
    return server, user
  end
  function conf.login_handler(server, uid, secret)
    local gate = assert(servers[server], "there is no such server")
    return skynet.call(gate, "lua", "login", uid, secret)
  end
  local CMD = {}
  function CMD.register_gate(server, gate) servers[server] = gate end
  function conf.command_handler(name, ...) return CMD[name](...) end
  login(conf)
]]

local game <const> = [[
  local msgserver = require "snax.msgserver"
  local server = {}
  local agent
  function server.register_handler(...)
    local name = ...
    say("register", select("#", ...), name)
    agent = skynet.newservice "game_agent"
    skynet.call(".login", "lua", "register_gate", name, skynet.self())
    server.name = name
  end
  function server.login_handler(...)
    local uid, secret = ...
    say("login", select("#", ...), uid, #secret)
    msgserver.login(msgserver.username(uid, 1, server.name), secret)
    return 1
  end
  function server.kick_handler(...) say("kick", ...) end
  function server.logout_handler(...)
    local uid = ...
    say("logout", ...)
    msgserver.logout(msgserver.username(uid, 1, server.name))
  end
  local count = 0
  function server.request_handler(username, message)
    count = count + 1
    if message == "fail" then error("failed", 0) end
    if message == "agent" then return skynet.tostring(skynet.rawcall(agent, "client", message)) end
    return count .. ":" .. msgserver.userid(username) .. ":" .. message
  end
  function server.auth_handler(username) say("auth", (msgserver.userid(username)), msgserver.ip(username) ~= nil) end
  function server.disconnect_handler(username) say("left", (msgserver.userid(username))) end
  msgserver.start(server)
]]

-- The game server passes it requests with `rawcall`, as a string.
local game_agent <const> = [[
  skynet.register_protocol { name = "client", id = skynet.PTYPE_CLIENT, unpack = skynet.tostring }
  skynet.start(function()
    skynet.dispatch("client", function(_, _, message) skynet.ret(message .. " answers") end)
  end)
]]

-- The side of the client: `log_in(port, token, wrong)` returns the answer and the secret; `enter(port, text, secret)`
-- connects to the game server, and returns the answer, a function for requests, and the socket.
local player <const> = [[
  local crypt = require "skynet.crypt"
  local function log_in(port, token, wrong)
    local id = assert(socket.open("127.0.0.1", port))
    local function send(bytes) socket.write(id, crypt.base64encode(bytes) .. "\n") end
    local function receive() return crypt.base64decode((assert(socket.readline(id)))) end
    local challenge, key = receive(), crypt.randomkey()
    send(crypt.dhexchange(key))
    local secret = crypt.dhsecret(receive(), key)
    send(wrong and "12345678" or crypt.hmac64(challenge, secret))
    if not wrong then send(crypt.desencode(secret, token)) end
    local line = socket.readline(id)
    return line, secret, socket.readall(id)
  end
  local function enter(port, text, secret)
    local id, write, read = client(port)
    write(text .. ":" .. crypt.base64encode(crypt.hmac_hash(secret, text)))
    return read(), function(session, message)
      write(message .. string.pack(">I4", session))
      local answer = read()
      return answer:sub(1, -6), answer:byte(-5), (string.unpack(">I4", answer, -4))
    end, id
  end
]]

-- The pattern took a time that grows with the square of the length: 20 s for such a message, before any proof.
test("a long first message of a game's client is refused at once", {
  services = {
    game = [[
      local msgserver = require "snax.msgserver"
      say((pcall(msgserver.userid, ("a"):rep(1 << 20))))
      say(msgserver.userid(msgserver.username("a", "b", "c")))
      msgserver.login("ann", "12345678")
      msgserver.start { request_handler = function() end }
    ]],
  },
  main = [[
    local gate = skynet.newservice "game"
    skynet.call(gate, "lua", "open", { address = "127.0.0.1", port = 0 })
    local port
    for _, one in ipairs(socket.netstat()) do
      if one.type == "LISTEN" then port = tonumber(one.name:match "%d+$") end
    end
    local long = ("a"):rep(65000)
    for _, text in ipairs { long, long .. ":", "ann:" .. long, "ann:1", "ann:1:AAAA", "x:ann:1", "::" } do
      local id, write, read = client(port)
      write(text)
      say(read())
      socket.close(id)
    end
  ]],
  out = {
    "false", "a\tb\tc", "404 User Not Found", "404 User Not Found", "404 User Not Found", "404 User Not Found",
    "401 Unauthorized", "404 User Not Found", "404 User Not Found",
  },
})

local port <const> = skynet_kit.free_ports(1)

test("a client logs in, enters the game server, and gets its answers again after a new connection", {
  services = { login = login:gsub("PORT", port), game = game, game_agent = game_agent },
  main = ("local PORT <const> = %d\n"):format(port) .. player .. [[
    skynet.newservice "login"
    local gate = skynet.newservice "game"
    local conf = { address = "127.0.0.1", port = 0, servername = "one" }
    skynet.call(gate, "lua", "open", conf)
    local game_port
    for _, one in ipairs(socket.netstat()) do
      local number = tonumber(one.name:match "%d+$")
      if one.type == "LISTEN" and number ~= PORT then game_port = number end
    end
    say((log_in(PORT, "ann@one:wrong")))
    say((log_in(PORT, "ann@two:right")))
    say((log_in(PORT, "ann@one:right", true)))
    local line, secret = log_in(PORT, "ann@one:right")
    say(line)
    local name = crypt.base64encode "ann" .. "@" .. crypt.base64encode "one" .. "#" .. crypt.base64encode "1"
    say((enter(game_port, "nobody:1", secret)))
    say((enter(game_port, name .. ":1", "8 bytes!")))
    local answer, request, id = enter(game_port, name .. ":1", secret)
    say(answer)
    say(request(7, "hello"))
    say("failed", request(8, "fail"))
    say(request(9, "agent"))
    socket.close(id)
    skynet.sleep(5)
    say((enter(game_port, name .. ":1", secret)))
    answer, request, id = enter(game_port, name .. ":2", secret)
    say(answer)
    say(request(7, "hello"))
    say(request(7, "hello"))
    skynet.call(gate, "lua", "kick", "ann", 1)
    skynet.call(gate, "lua", "logout", "ann", 1)
    say(socket.read(id))
    skynet.sleep(5)
  ]],
  out = function(lines)
    -- The lines of the game server and those of the client come in any order.
    local of_server, of_client = {}, {}
    local of_server_events <const> = { register = 1, login = 1, auth = 1, left = 1, kick = 1, logout = 1 }
    for _, line in ipairs(lines) do
      local list = of_server_events[line:match "^%a+"] and of_server or of_client
      list[#list + 1] = line
    end
    t.eq(of_server, {
      "register\t1\tone", "login\t2\tann\t8", "auth\tann\ttrue", "left\tann", "auth\tann\ttrue", "kick\tann\t1",
      "logout\tann\t1",
    })
    t.eq(of_client, {
      "401 Unauthorized", "403 Forbidden", "400 Bad Request", "200 MQ==",
      "404 User Not Found", "401 Unauthorized", "200 OK", "1:ann:hello\t1\t7", "failed\t\t0\t8",
      "agent answers\t1\t9",
      "403 Index Expired", "200 OK", "1:ann:hello\t1\t7", "4:ann:hello\t1\t7", "false\t",
    })
  end,
})

t.finish()
