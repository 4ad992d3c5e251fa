-- `lio.net`, `lio.loop` and `lio.http.client` in services that own no loop: an I/O thread wakes the service, which runs
-- rounds of its loop between its messages. `net_remote_test.lua` runs the programs of `net.remote` in such a service as
-- well. Regression: these calls never returned; later, they raised an error.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"
local skynet_kit = require "tests.kit.skynet_system"

-- Functions for the bodies of tests. `pair` returns two connected connections; `eventually` waits until `f` returns a
-- true value, or returns "never" after 10 seconds; `descriptors` returns the number of open descriptors.
local head <const> = ([[
  local net, loop = require "lio.net", require "lio.loop"
  local function pair()
    local l <close> = assert(net.listen("127.0.0.1", 0))
    local _, port = l:address()
    local a = assert(net.connect("127.0.0.1", port))
    return a, assert(net.accept(l))
  end
  local function eventually(f)
    local deadline = ltask.counter() + 10
    repeat
      local value = f()
      if value then return value end
      ltask.sleep(1)
    until ltask.counter() > deadline
    return "never"
  end
  local function descriptors()
    local count = 0
    for fd = 0, 4095 do
      local f = io.open("/proc/self/fdinfo/" .. fd)
      if f then count = count + 1 f:close() end
    end
    return count
  end
  local function threads()
    local names = {}
    local list <close> = assert(io.popen("cat /proc/" .. tostring(io.open "/proc/self/stat":read "n")
      .. "/task/*/comm 2>/dev/null"))
    for name in list:lines() do if name:find "^lio%-io" then names[#names + 1] = name end end
    table.sort(names)
    return table.concat(names, " ")
  end
]]):gsub("\n", " ")

-- Runs the body as a task of an ordinary service. In the body, `head` is the source of these functions, for further
-- services.
-- The programs may use: head
local function service(name, body, out, spec)
  spec = spec or {}
  local before = head
  if body:find("head ..", 1, true) then
    before = before .. ("local head = %q "):format("local ltask = require 'ltask' " .. head)
  end
  kit.test(name, { main = before .. body, out = out, services = spec.services, config = spec.config, err = spec.err })
end

-- The program of the first hour: each call that waits.
local tour <const> = [[
  local before = loop.now()
  loop.sleep(0.02)
  say("slept", loop.now() - before >= 0.02)
  local listener = assert(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  loop.fork(function()
    local c <close> = assert(net.accept(listener))
    say("request", c:recv("until", "\r\n\r\n"):match "^%u+ %S+")
    c:send "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
  end)
  local answer = assert(require "lio.http.client".get(("http://127.0.0.1:%d/x"):format(port)))
  say("answer", answer.status, answer.body)
  loop.fork(function()
    local c <close> = assert(net.accept(listener))
    for line in function() return c:recv "line" end do c:send(line:upper(), "\n") end
  end)
  local c = assert(net.connect("127.0.0.1", port, { timeout = 5 }))
  c:send("one\ntwo\n")
  say(c:recv "line", c:recv "line")
  c:timeout(0.01)
  say("timeout", c:recv())
  c:shutdown "w"
  c:timeout(nil)
  say("end", c:recv())
  c:close()
  say("closed", c:recv())
  local a, b = assert(net.udp("127.0.0.1", 0)), assert(net.udp("127.0.0.1", 0))
  local _, to = b:address()
  a:sendto("datagram", "127.0.0.1", to)
  say(b:recvfrom(), (net.resolve "127.0.0.1")[1])
  listener:close()
  say("refused", (select(3, net.connect("127.0.0.1", port))))
]]
local tour_output <const> = { "slept\ttrue", "request\tGET /x", "answer\t200\thello", "ONE\tTWO",
  "timeout\tnil\ttimeout\tnil\ttimeout", "end\tnil", "closed\tnil\tclosed\tnil\tclosed", "datagram\t127.0.0.1",
  "refused\trefused" }

service("a task of an ordinary service uses every call that waits", tour, function(out)
  -- `recvfrom` also returns the sender's address.
  t.eq(kit.lines((out:gsub("datagram\t[^\n]*", "datagram\t127.0.0.1"))), tour_output)
end)

-- The rest of `say`'s line would depend on the port.
local short <const> = tour:gsub("b:recvfrom%(%)", "(b:recvfrom())")

kit.test("an ordinary service uses the calls while its file is loaded", {
  config = { bootstrap = { { name = "caller" } } },
  services = { caller = head .. short .. " ltask.send(1, 'quit_ltask')" },
  out = tour_output,
})

kit.test("an exclusive service that owns no loop uses the calls", {
  config = { bootstrap = { { name = "timer" } }, exclusive = { "caller" } },
  services = { caller = head .. "ltask.fork(function() " .. short .. " ltask.send(1, 'quit_ltask') end)" },
  out = tour_output,
})

skynet_kit.test("a function of skynet.start uses the calls", {
  services = { caller = "local ltask = require 'ltask' " .. head .. [[
    skynet.start(function()
      skynet.dispatch("lua", function()
        ]] .. short .. [[
        skynet.retpack "done"
      end)
    end)
  ]] },
  main = "say(skynet.call(skynet.newservice 'caller', 'lua'))",
  out = table.move({ "done" }, 1, 1, #tour_output + 1, table.move(tour_output, 1, #tour_output, 1, {})),
})

-- Handlers and messages -------------------------------------------------------------------------------

kit.test("a handler may wait for a connection while the service answers other requests", {
  services = { server = head .. [[
    local S = {}
    local listener = assert(net.listen("127.0.0.1", 0))
    function S.port() return (select(2, listener:address())) end
    function S.next_line()
      local c <close> = assert(net.accept(listener))
      return c:recv "line"
    end
    function S.add(a, b) return a + b end
    return S
  ]] },
  main = head .. [[
    local server = ltask.spawn "server"
    local port = ltask.call(server, "port")
    local line
    ltask.fork(function() line = ltask.call(server, "next_line") end)
    say(ltask.call(server, "add", 1, 2))
    local c <close> = assert(net.connect("127.0.0.1", port))
    c:send "to the handler\n"
    say(eventually(function() return line end))
  ]],
  out = { "3", "to the handler" },
})

-- Regression: only a service that had loaded `ltask` was attached to the I/O thread; the client waited forever.
service("a service that has not loaded ltask uses the calls, in each way to reach them", ([[
  for _, way in ipairs { "require 'lio.net'", "require 'lio.loop'.net" } do
    local server = ltask.spawn_service { name = "server", source = ([=[
      local S = {}
      function S.port()
        local net = %s
        local listener = assert(net.listen("127.0.0.1", 0))
        net.serve(listener, function(c)
          for line in function() return c:recv "line" end do c:send(line:upper(), "\n") end
        end)
        return (select(2, listener:address()))
      end
      return S
    ]=]):format(way) }
    -- A loop of another process connects, so only the server's own I/O thread can wake the server.
    local script = ([=[
      local loop, net = require "lio.loop", require "lio.net"
      loop.run(function()
        local c = assert(net.connect("127.0.0.1", %d, { timeout = 10 }))
        c:timeout(10)
        c:send "hello\n"
        io.write(tostring(c:recv "line"), "\n")
      end)
    ]=]):format(ltask.call(server, "port"))
    local name = os.tmpname()
    local file <close> = assert(io.open(name, "w"))
    file:write(script)
    file:close()
    local answer <close> = assert(io.popen(HOST .. " " .. name))
    say(answer:read "l")
    os.remove(name)
  end
]]):gsub("HOST", function() return ("%q"):format(kit.host()) end), { "HELLO", "HELLO" })

service("a flood of messages does not delay I/O, and a flood of I/O does not delay messages", [[
  local a, b = pair()
  local messages, bytes, over = 0, 0, false
  S.next = nil
  function S.count() messages = messages + 1 if not over then ltask.send(ltask.self(), "count") end end
  ltask.send(ltask.self(), "count")
  loop.fork(function() while not over do if not a:send(("x"):rep(1024)) then return end end end)
  loop.fork(function() for data in function() return b:recv() end do bytes = bytes + #data end end)
  eventually(function() return messages > 20000 and bytes > 20000 * 1024 end)
  over = true
  say(messages > 20000, bytes > 20000 * 1024)
  b:close()
  a:close()
]], { "true\ttrue" })

service("ten mebibytes in both directions through slow readers arrive in order", [[
  local a, b = pair()
  local size <const> = 10 * 1024 * 1024
  local data = {}
  for i = 1, size // 16 do data[i] = ("%015d\n"):format(i) end
  data = table.concat(data)
  local function send(c) loop.fork(function() assert(c:send(data)) c:shutdown "w" end) end
  local function receive(c)
    local token, got = {}, nil
    loop.fork(function()
      local parts = {}
      for piece in function() return c:recv() end do
        parts[#parts + 1] = piece
        if #parts % 64 == 0 then loop.sleep(0.001) end
      end
      got = table.concat(parts)
      loop.wakeup(token)
    end)
    return function() if not got then loop.wait(token) end return got == data end
  end
  send(a) send(b)
  local of_a, of_b = receive(a), receive(b)
  say(of_a(), of_b())
]], { "true\ttrue" })

service("net.broadcast reaches a peer that reads late, without another call of the service", [[
  local a, b = pair()
  local data = ("x"):rep(4 * 1024 * 1024)
  say(net.broadcast({ a }, data, #data))
  local count = 0
  while count < #data do count = count + #b:recv() end
  say(count == #data)
]], { "1", "true" })

service("a reader that never waits lets other tasks and messages run", [[
  local a, b = pair()
  local got, answered = 0, false
  function S.ask() return "answer" end
  loop.fork(function() while a:send(("y"):rep(65536)) do end end)
  loop.fork(function() while true do local s = b:recv(1) if not s then return end got = got + 1 end end)
  for _ = 1, 100 do answered = ltask.call(ltask.self(), "ask") end
  say(answered, eventually(function() return got > 100000 end))
  a:close() b:close()
]], { "answer\ttrue" })

-- Timers ----------------------------------------------------------------------------------------------

service("timers fire in order, also those that are set later and are due earlier", [[
  local order = {}
  local function at(seconds, name) loop.timeout(seconds, function() order[#order + 1] = name end) end
  at(0.06, "c") at(0.02, "a") at(0.04, "b")
  local cancelled = loop.timeout(0.03, function() order[#order + 1] = "cancelled" end)
  say(loop.cancel(cancelled), loop.cancel(cancelled))
  loop.sleep(0.08)
  say(table.concat(order, " "))
  at(0, "d")
  loop.sleep(0.005)
  say(table.concat(order, " "))
]], { "true\tfalse", "a b c", "a b c d" })

kit.test("a timeout of a thousandth of a second is not rounded up to a centisecond", {
  main = head .. [[
    local before = loop.now()
    for _ = 1, 100 do loop.sleep(0.0005) end
    say(loop.now() - before >= 0.05, loop.now() - before < 0.9)
  ]],
  out = { "true\ttrue" },
})

service("loop.sleep that is woken returns the values of the wakeup", [[
  local co
  loop.fork(function() co = loop.running() say(loop.sleep(100)) end)
  loop.sleep(0)
  loop.wakeup(co, "woken", 1)
  loop.sleep(0)
]], { "woken\t1" })

-- The life of a service -------------------------------------------------------------------------------

kit.test("a service without handlers runs until its last timeout and its last connection", {
  config = { bootstrap = { { name = "brief" } } },
  services = { brief = head .. [[
    loop.timeout(0.02, function()
      say "timeout"
      loop.timeout(0.02, function()
        local a, b = pair()
        loop.fork(function() say(b:recv "line") b:close() end)
        a:send "last\n"
      end)
    end)
  ]] },
  out = { "timeout", "last" },
})

kit.test("a cancelled timeout does not keep a service running", {
  config = { bootstrap = { { name = "brief" } } },
  services = { brief = head .. "loop.cancel(loop.timeout(1000, print)) say 'end'" },
  out = { "end" },
})

service("when a service dies, its connections and listeners are closed", [[
  local source = head .. " local S = {} function S.open() local l = assert(net.listen('127.0.0.1', 0)) S.l = l "
    .. "loop.fork(function() S.c = net.accept(l) S.c:recv() end) return (select(2, l:address())) end return S"
  loop.sleep(0)
  local a = pair()
  a:close()
  collectgarbage()
  collectgarbage()
  local before = descriptors()
  for _ = 1, 3 do
    local owner = ltask.spawn_service { name = "owner", source = source }
    local port = ltask.call(owner, "open")
    local c = assert(net.connect("127.0.0.1", port))
    c:send "x"
    ltask.sleep(1)
    ltask.kill(owner)
    c:recv()
    say(eventually(function()
      local other, _, code = net.connect("127.0.0.1", port)
      if other then other:close() end
      -- A connection that the system has accepted before the close is reset.
      return code == "refused" and code
    end))
    c:close()
  end
  say(eventually(function() return descriptors() == before end))
]], { "refused", "refused", "refused", "true" })

service("a service that has ended closes its connections", [[
  local owner = ltask.spawn_service { name = "owner", source = head .. [==[
    local S = {}
    function S.connect(port) S.c = assert(net.connect("127.0.0.1", port)) end
    function S.leave() ltask.quit() end
    return S
  ]==] }
  local l = assert(net.listen("127.0.0.1", 0))
  local _, port = l:address()
  ltask.call(owner, "connect", port)
  local c = assert(net.accept(l))
  ltask.send(owner, "leave")
  say(c:recv())
]], { "nil" })

-- I/O threads -----------------------------------------------------------------------------------------

service("no I/O thread runs before the first use", [[
  say(threads(), "before")
  loop.sleep(0)
  say(eventually(function() return threads() ~= "" end), threads())
]], { "\tbefore", "true\tlio-io-0" })

service("services share the configured number of I/O threads", [[
  for _ = 1, 4 do
    ltask.spawn_service { name = "user", source = "require 'lio.loop'.sleep(0) return {}" }
  end
  say(eventually(function() return threads() == "lio-io-0 lio-io-1" end))
]], { "true" }, { config = { core = { io = 2 } } })

for _, value in ipairs { 0, 65, "'x'" } do
  local config = ("{ bootstrap = { { name = 'main' } }, core = { io = %s } }"):format(value)
  t.test("the number of I/O threads " .. value .. " is refused", function()
    local r = kit.program("print(pcall(require 'ltask.start', " .. config .. "))")
    t.ok(r.out:find("io", 1, true) and r.out:find("^false"), r.out .. r.err)
  end)
end

-- Owners of a loop ------------------------------------------------------------------------------------

service("a service with its own event descriptor uses the calls beside its own loop", [[
  local owner = ltask.spawn_service { name = "owner", source = head .. [==[
    local lio = require "lio"
    local selector = assert(lio.create())
    local take, descriptor = ltask.eventinit()
    selector:event_add(descriptor, lio.SELECT_READ, take)
    ltask.idle_handler(function() for f in selector:wait() do f() end end)
    local S = {}
    function S.echo()
      local a, b = pair()
      a:send "own\n"
      loop.sleep(0.01)
      return b:recv "line"
    end
    function S.run() return select(2, pcall(loop.run, print)) end
    return S
  ]==] }
  say(ltask.call(owner, "echo"))
  say((ltask.call(owner, "run"):gsub("^.-: ", "", 1)))
]], { "own", "loop.run: this service has an event descriptor of its own (ltask.eventinit), so it cannot own the loop "
  .. "of lio.loop; use net.new with the service's selector" })

-- Regression: the error said that the service has called `ltask.eventinit`.
service("if a service cannot own a loop, the error says why", [[
  local owner = ltask.spawn_service { name = "owner", source = head .. [==[
    function ltask.eventinit() error("eventfd: Too many open files (os error 24)", 0) end
    local S = {}
    function S.run() return select(2, pcall(loop.run, print)) end
    return S
  ]==] }
  say((ltask.call(owner, "run"):gsub("^.-: ", "", 1)))
]], { "loop.run: eventfd: Too many open files (os error 24)" })

service("app:listen and app:run serve in ordinary services, with handlers that call other services", [[
  local function server(how)
    return ltask.spawn_service { name = "web", source = [==[
      local ltask, web, loop = require "ltask", require "lio.webserver", require "lio.loop"
      local main, how = ...
      local S = {}
      local app = web.new()
      app:get("/sum/:n", function(req)
        loop.sleep(0.001)
        return { sum = ltask.call(main, "sum", tonumber(req.params.n)) }
      end)
      local server
      if how == "run" then
        local socket = assert(require "lio.socket".create "tcp")
        assert(socket:bind("127.0.0.1", 0))
        assert(socket:listen())
        S.url = "http://" .. tostring(socket:info "socket") .. "/"
        ltask.fork(function() app:run(socket) S.over = true end)
      else
        server = assert(app:listen(0))
        S.url = server.url
      end
      function S.where() return S.url end
      function S.thread() return ltask.worker_id() end
      function S.stop()
        if how == "run" then loop.stop(1) else server:stop(1) end
        while how == "run" and not S.over do ltask.sleep(1) end
        return "stopped"
      end
      return S
    ]==], args = { ltask.self(), how } }
  end
  function S.sum(n) return n * (n + 1) // 2 end
  local http = require "lio.http.client"
  for _, how in ipairs { "listen", "run" } do
    local one = server(how)
    local url = ltask.call(one, "where")
    say(how, http.get(url .. "sum/10").body, http.get(url .. "none").status)
    say(ltask.call(one, "stop"), (select(3, http.get(url .. "sum/1"))))
  end
]], function(out)
  t.eq(kit.lines((out:gsub("lio: serving [^\n]*\n", ""))), {
    'listen\t{"sum":55}\t404', "stopped\trefused", 'run\t{"sum":55}\t404', "stopped\trefused" })
end)

service("a connection that was opened before the service takes the loop works afterwards", [[
  local owner = ltask.spawn_service { name = "owner", source = head .. [==[
    local S = {}
    local a, b = pair()
    function S.before() a:send "before\n" return b:recv "line" end
    function S.after()
      local waiting
      loop.fork(function() waiting = b:recv "line" end)
      loop.sleep(0)
      local app = require "lio.webserver".new()
      local server = assert(app:listen(0))
      a:send "after\n"
      while not waiting do loop.sleep(0.001) end
      server:stop(0)
      return waiting
    end
    return S
  ]==] }
  say(ltask.call(owner, "before"))
  say(ltask.call(owner, "after"))
]], { "before", "after" })

kit.test("a service without handlers ends after loop.run", {
  config = { bootstrap = { { name = "brief" } } },
  services = { brief = head .. [[
    ltask.fork(function()
      say(loop.run(function()
        loop.sleep(0.01)
        return "result"
      end))
    end)
  ]] },
  out = { "result" },
})

service("loop.run waits for the tasks that it has started", [[
  local owner = ltask.spawn_service { name = "owner", source = head .. [==[
    local S = {}
    function S.run()
      local done = 0
      loop.run(function()
        for i = 1, 3 do loop.fork(function() loop.sleep(0.01 * i) done = done + 1 end) end
      end)
      return done
    end
    return S
  ]==] }
  say(ltask.call(owner, "run"), ltask.call(owner, "run"))
]], { "3\t3" })

-- Timers and failures ---------------------------------------------------------------------------------

-- Regression: each short sleep beside a long one left a timer of the scheduler until the long sleep was due.
service("the timers of the loop use one timer of the scheduler", [[
  loop.fork(function() loop.sleep(60) end)
  for _ = 1, 50 do loop.sleep(0) end
  for i = 1, 50 do loop.timeout(100 - i, function() end) end
  say((select(2, require "ltask.core".pending())))
]], { "1" })

-- Regression: `plan_next` did not run after the error, so the service slept until a message came.
service("an error in a round loses no timer", [[
  local timers = require "lio.loop.timers"
  local fork, fails = require "lio.task".fork, true
  local fired
  require "lio.task".fork = function(f)
    if f and fails then fails = false error "the round fails" end
    return fork(f)
  end
  loop.timeout(0.01, function() end)
  loop.timeout(0.05, function() fired = true ltask.wakeup "fired" end)
  ltask.wait "fired"
  say(fired, fails, timers.pending)
]], function(out) t.eq(kit.lines(out), { "true\tfalse\t0" }) end, { err = "the round fails" })

service("without descriptors the first call raises, and a later call attaches the service", [[
  local held = {}
  for i = 1, 1e6 do
    held[i] = io.open "/dev/null"
    if not held[i] then break end
  end
  local ok, message = pcall(function() loop.sleep(0) end)
  for _, file in pairs(held) do file:close() end
  say(ok, message:match ": (.*)$")
  say(pcall(loop.sleep, 0))
]], { "false\tloop.sleep: cannot start an I/O thread: Too many open files (os error 24)", "true" })

service("virtual time is refused", [[
  local ok, message = pcall(function() return require "lio.testing".clock() end)
  say(ok, message:match ": (.*)$")
  say(pcall(loop.sleep, 0))
]], { "false\ttesting.clock: this service owns no loop", "true" })

-- Regression: a service that only held connections took 260 KiB for the files of all calls.
service("a service loads the files of `listen`, `connect` and other calls when it uses one of these calls", [[
  local function loaded()
    local names = {}
    for name in ("broadcast connect listen sendfile serve server transfer udp"):gmatch "%a+" do
      if package.loaded["lio.net." .. name] then names[#names + 1] = name end
    end
    return table.concat(names, " ")
  end
  local listen, transfer = net.listen, net.transfer
  say(loaded())
  net.on_transfer(print)
  say(loaded())
  local l = assert(listen("127.0.0.1", 0))
  say(loaded())
  say(select(2, pcall(transfer, l, 1)):match ": (.*)$")
  net.serve(l, function(c) c:send "hello\n" end)
  local c = assert(net.connect("127.0.0.1", (select(2, l:address()))))
  say(c:recv "line")
  say(loaded())
]], { "transfer", "listen transfer", "bad argument #1 to 'transfer' (connection expected, got lio.listener)", "hello",
  "connect listen serve server transfer" })

-- Transfers -------------------------------------------------------------------------------------------

service("a connection moves between ordinary services, with its unread bytes", [[
  local receiver = ltask.spawn_service { name = "receiver", source = head .. [==[
    local S = {}
    net.on_transfer(function(c, greeting)
      c:send(greeting, "\n")
      for line in function() return c:recv "line" end do c:send(line:upper(), "\n") end
      c:send "over\n"
      c:close()
    end)
    return S
  ]==] }
  local a, b = pair()
  a:send "first\nsecond\nthi"
  say(b:recv "line")
  say(b:transfer(receiver, "welcome"), b:is_closed())
  a:send "rd\n"
  say(a:recv "line", a:recv "line", a:recv "line")
  a:shutdown "w"
  say(a:recv "line", (a:recv "line"))
]], { "first", "true\ttrue", "welcome\tSECOND\tTHIRD", "over\tnil" })

service("a transfer to a service that does not receive connections fails, and the connection stays usable", [[
  local other = ltask.spawn_service { name = "other", source = "return {}" }
  local dead = ltask.spawn_service { name = "dead", source = "return { leave = require 'ltask'.quit }" }
  ltask.send(dead, "leave")
  eventually(function() return not pcall(ltask.syscall, dead, "tasks") end)
  local a, b = pair()
  local _, message, code = b:transfer(other)
  say(code, (message:gsub("%d+", "N")))
  say((select(3, b:transfer(dead))))
  a:send "still here\n"
  say(b:recv "line")
]], { "refused\ttransfer: service N (other) has not called net.on_transfer", "dead", "still here" })

service("a handler of net.serve may transfer its connection; the server then no longer counts it", [[
  local receiver = ltask.spawn_service { name = "receiver", source = head .. [==[
    net.on_transfer(function(c) c:send(c:recv "line", "!\n") end)
    return {}
  ]==] }
  local listener = assert(net.listen("127.0.0.1", 0))
  local server = net.serve(listener, function(c) assert(net.transfer(c, receiver)) end, { max_connections = 1 })
  for i = 1, 3 do
    local a <close> = assert(net.connect("127.0.0.1", (select(2, listener:address()))))
    a:timeout(10)
    a:send("line ", tostring(i), "\n")
    say(a:recv "line")
  end
  say(eventually(function() return server.count == 0 end))
  server:stop()
]], { "line 1!", "line 2!", "line 3!", "true" })

-- Regression: these errors went to standard error without the service that had failed.
service("errors in a receiver and in a handler of net.serve are logged with the service", [[
  local receiver = ltask.spawn_service { name = "room", source = head .. [==[
    net.on_transfer(function() error "no taste" end)
    return {}
  ]==] }
  local a, b = pair()
  say(b:transfer(receiver), a:recv())
  local listener = assert(net.listen("127.0.0.1", 0))
  local server = net.serve(listener, function() error "broken handler" end)
  local c <close> = assert(net.connect("127.0.0.1", (select(2, listener:address()))))
  say(c:recv())
  server:stop()
]], function(out, err)
  t.eq(kit.lines(out), { "true\tnil", "nil" })
  t.ok(err:find "%]%[ERROR%]%(%d+ room%) error in the receiver of a connection: [^\n]*no taste\nstack traceback:", err)
  t.ok(err:find "%]%[ERROR%]%(%d+ main%) error in a connection's handler: [^\n]*broken handler\nstack traceback:", err)
end, { err = false })

service("a connection moves from an ordinary service to the service 'lio', and becomes a handle there", [[
  local owner = ltask.spawn "lio"
  local a, b = pair()
  local handle = assert(b:transfer(owner))
  a:send "to the owner\n"
  say(ltask.call(owner, "recv", handle, "line"))
]], { "to the owner" })

t.finish()
