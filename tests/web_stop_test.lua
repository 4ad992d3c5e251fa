-- How a server process starts and ends: signals, the printed address, a port in use.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local net = require "lio.net"

-- Starts a server with the routes of `body`. Returns the child and its port.
-- The programs may use: web, loop, app
local function start(body, where)
  local script = t.write(t.tmp() .. "/server.lua", table.concat({
    'local web, loop = require "lio.webserver", require "lio.loop"',
    "local app = web.new { keep_alive_time = 30, grace = 5 }",
    'app:get("/", function() return "hello" end)',
    body or "",
    ("app:run(%q)"):format(where or "127.0.0.1:0"),
    'print "after run"',
  }, "\n"))
  local child = t.spawn(t.lio() .. " " .. t.quote(script))
  return child, math.tointeger(tonumber(child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$"))
end

-- Reads the rest of a child's output and waits until it ends. Returns its exit code.
local function ended(child)
  child:all()
  return child:close()
end

local GET <const> = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
local SLOW <const> = "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
-- A route whose handler prints a line when it starts, and responds when the server is stopping.
local SLOW_ROUTE <const> = [[
  io.stdout:setvbuf "line"
  app:get("/slow", function()
    print "slow begins"
    repeat loop.sleep(0.001) until app.servers[1].stopping
    return "slow"
  end)]]

for _, signal in ipairs { "TERM", "INT" } do
  t.test("SIG" .. signal .. " ends a server: idle connections close, run returns, exit code 0", function()
    local child <close>, port = start()
    loop.run(function()
      local idle <close> = http.open(port)
      t.eq(idle:ask(GET).body, "hello")
      local fresh <close> = http.open(port)
      child:kill(signal)
      t.ok(idle:ended())
      t.ok(fresh:ended())
    end)
    t.eq(child:line(), "after run")
    t.eq(ended(child), 0)
  end)
end

t.test("requests whose bytes have arrived are answered before a stop, with Connection: close", function()
  local child <close>, port = start(SLOW_ROUTE)
  loop.run(function()
    local slow <close> = http.open(port)
    local quick <close> = http.open(port)
    t.eq(quick:ask(GET).body, "hello")
    slow:send(SLOW, SLOW)
    t.eq(child:line(), "slow begins")
    quick:send(GET)
    child:kill()
    t.eq(quick:response().body, "hello")
    t.ok(quick:ended())
    t.eq(slow:response().body, "slow")
    local r = slow:response()
    t.eq({ r.body, r.headers.connection }, { "slow", "close" })
    t.ok(slow:ended())
  end)
  t.eq({ child:line(), child:line() }, { "slow begins", "after run" })
  t.eq(ended(child), 0)
end)

-- Regression: the first response after a stop had Connection: close, so later pipelined requests were never answered.
t.test("pipelined requests that have arrived are answered before a stop; only the last response closes", function()
  local child <close>, port = start(SLOW_ROUTE .. [[
    app:post("/body", function(req) return req:body() end)]])
  loop.run(function()
    local c <close> = http.open(port)
    local body = ("x"):rep(100000)
    local post = "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" .. body
    c:send(SLOW, GET, post, GET, GET)
    t.eq(child:line(), "slow begins")
    child:kill()
    t.eq(c:response().body, "slow")
    t.eq(c:response().body, "hello")
    t.eq(c:response().body, body)
    t.eq(c:response().body, "hello")
    local r = c:response()
    t.eq({ r.body, r.headers.connection }, { "hello", "close" })
    t.ok(c:ended())
    local other <close>, second = start(SLOW_ROUTE .. [[
      app:post("/body", function(req) return req:body() end)]])
    local d <close> = http.open(second)
    d:send(SLOW, post)
    t.eq(other:line(), "slow begins")
    other:kill()
    t.eq(d:response().body, "slow")
    t.eq(d:response().body, body)
    t.ok(d:ended(), "the connection also closes after a last request with a body")
  end)
  t.eq(ended(child), 0)
end)

-- Returns a route whose handler connects to `port` and sends each line back. It responds when it receives "end".
local function talk_route(port)
  return ([[
    app:get("/talk", function()
      local c = assert(require("lio.net").connect("127.0.0.1", %d))
      for line in function() return c:recv "line" end do
        if line == "end" then return "talked" end
        c:send(line, "\n")
      end
    end)]]):format(port)
end

-- Starts a server, requests "/talk" and sends a signal (default: SIGTERM). When the server is stopping, calls
-- `f(child, asker, say)`: `asker` is the connection of the request, and `say(line)` sends a line to the handler and
-- returns its reply, or nil for the line "end".
local function while_it_stops(f, signal)
  loop.run(function()
    local listener <close> = assert(net.listen("127.0.0.1", 0))
    local _, talk_port = listener:address()
    local child <close>, port = start(talk_route(talk_port))
    local asker <close> = http.open(port)
    asker:send "GET /talk HTTP/1.1\r\nHost: x\r\n\r\n"
    local talk <close> = assert(listener:accept())
    child:kill(signal)
    -- When the server accepts no connections, it has received the signal. While it closes its listener, the system may
    -- reset connections.
    local other, message, code
    repeat
      other, message, code = net.connect("127.0.0.1", port)
      if other then other:close() elseif code ~= "reset" then t.eq(code, "refused", message) end
    until code == "refused"
    f(child, asker, function(line)
      talk:send(line, "\n")
      return line ~= "end" and talk:recv "line" or nil
    end)
  end)
end

t.test("while it stops, a server accepts no new connections", function()
  while_it_stops(function(child, asker, say)
    t.eq(say "one", "one")
    say "end"
    t.eq(asker:response().body, "talked")
    t.eq(ended(child), 0)
  end)
end)

-- Checks that the handler responds, and that the server then ends. The two lines take two rounds of the server's loop,
-- so that the server has received a signal that was sent before the call.
local function answers_to_the_end(child, asker, say)
  t.eq({ say "one", say "two" }, { "one", "two" })
  say "end"
  t.eq(asker:response().body, "talked")
  t.eq(child:line(), "after run")
  t.eq(ended(child), 0)
end

-- Regression: `timeout` and terminals send a signal to a process and to its group, so the server ended at once.
t.test("a signal that arrives twice within a short time counts once", function()
  -- On a busy machine the signals may be too far apart in one round, but not in all ten.
  local round, answered, problem = 0, false, nil
  repeat
    round = round + 1
    while_it_stops(function(child, asker, say)
      child:kill "INT"
      answered, problem = pcall(answers_to_the_end, child, asker, say)
    end, "INT")
  until answered or round == 10
  t.ok(answered, problem)
end)

t.test("a second SIGTERM does not end a server that still responds", function()
  while_it_stops(function(child, asker, say)
    loop.sleep(0.25) -- an earlier signal would count as the same one
    child:kill()
    answers_to_the_end(child, asker, say)
  end)
end)

t.test("a second SIGINT ends a server at once", function()
  while_it_stops(function(child, asker)
    loop.sleep(0.25) -- an earlier signal would count as the same one
    child:kill "INT"
    t.is_nil((asker.c:recv()))
    t.eq(child:line(), "after run")
    t.eq(ended(child), 0)
  end)
end)

-- Starts a server whose handler runs without a wait. It prints "busy 1", "busy 2", … when files with these names
-- appear, and responds when the file "go" appears. Returns the child, its port and the folder of the files.
local function start_busy()
  local dir = t.tmp()
  local child, port = start(([[
    app:get("/busy", function()
      local function is_there(name)
        local f = io.open(%q .. "/" .. name)
        return f and f:close()
      end
      local n = 1
      repeat
        if is_there("busy " .. n) then
          io.stdout:write("busy ", n, "\n")
          io.stdout:flush()
          n = n + 1
        end
      until is_there "go"
      return "done"
    end)]]):format(dir))
  return child, port, dir
end

-- Waits until the handler prints "busy `n`". By then, the process has received the signals that were sent before.
local function until_busy(child, dir, n)
  t.write(dir .. "/busy " .. n, "")
  t.eq(child:line(), "busy " .. n)
end

t.test("SIGTERM does not kill a server whose handler is busy, even if it is sent several times", function()
  local child <close>, port, dir = start_busy()
  loop.run(function()
    local c <close> = http.open(port)
    c:send "GET /busy HTTP/1.1\r\nHost: x\r\n\r\n"
    for n = 1, 3 do
      until_busy(child, dir, n)
      child:kill()
    end
    until_busy(child, dir, 4)
    t.write(dir .. "/go", "")
    t.eq(c:response().body, "done")
  end)
  t.eq(child:line(), "after run")
  t.eq(ended(child), 0)
end)

t.test("a short stop prints nothing", function()
  local script = t.write(t.tmp() .. "/stop.lua", [[
    local loop = require "lio.loop"
    loop.run(function()
      loop.on_stop(function() loop.sleep(1.2) end, function() end)
      print "ready"
      io.stdout:flush()
      loop.sleep(60)
    end)]])
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(script) .. " 2>&1")
  t.eq(child:line(), "ready")
  child:kill()
  t.eq(child:all(), "")
  t.eq(child:close(), 0)
end)

t.test("a second SIGINT kills a server that does not handle the first", function()
  local child <close>, port, dir = start_busy()
  loop.run(function()
    local c <close> = http.open(port)
    c:send "GET /busy HTTP/1.1\r\nHost: x\r\n\r\n"
    for n = 1, 2 do
      until_busy(child, dir, n)
      child:kill "INT"
    end
  end)
  local code, signal = ended(child)
  t.ok(code == 130 or signal == 2, ("exit code %s, signal %s"):format(code, signal))
end)

t.test("a stop that has to wait prints once which connections it waits for", function()
  local script = t.write(t.tmp() .. "/server.lua", [[
    local app = require("lio.webserver").new { grace = 1.5 }
    app:get("/", function()
      print "begun"
      io.stdout:flush()
      require("lio.loop").sleep(60)
    end)
    app:run("127.0.0.1:0")]])
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(script) .. " 2>&1")
  local port = math.tointeger(tonumber(child:expect ":(%d+)/$"))
  loop.run(function()
    local c <close> = http.open(port)
    c:send(GET)
    local other <close> = http.open(port)
    other:send(GET)
    t.eq({ child:line(), child:line() }, { "begun", "begun" })
    child:kill()
    t.eq(child:all(), ("lio: stopping: waiting up to 1.5 s for 2 connections of 127.0.0.1:%d; "
      .. "press Ctrl-C to stop at once\n"):format(port))
  end)
  t.eq(child:close(), 0)
end)

t.test("a signal right after the address was printed stops a server with several workers gracefully", function()
  for _ = 1, 3 do
    local script = t.write(t.tmp() .. "/server.lua", [[
      local app = require("lio.webserver").new()
      app:run("127.0.0.1:0", { workers = 2 })]])
    local child <close> = t.spawn(t.lio() .. " " .. t.quote(script))
    child:expect ":%d+/$"
    child:kill()
    t.eq(ended(child), 0)
  end
end)

t.test("a handler that does not end is killed after the grace period", function()
  local script = t.write(t.tmp() .. "/server.lua", [[
    local web, loop = require "lio.webserver", require "lio.loop"
    local app = web.new { grace = 0.2 }
    app:get("/", function()
      local gone <close> = setmetatable({}, { __close = function() print "cut off" end })
      print "begun"
      io.stdout:flush()
      loop.sleep(60)
      return gone
    end)
    app:run("127.0.0.1:0")]])
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(script))
  local port = math.tointeger(tonumber(child:expect ":(%d+)/$"))
  loop.run(function()
    local c <close> = http.open(port)
    c:send(GET)
    t.eq(child:line(), "begun")
    child:kill()
    t.is_nil((c.c:recv()))
  end)
  t.eq(child:line(), "cut off")
  t.eq(ended(child), 0)
end)

t.test("if the app does not set a grace period, loop.grace is used", function()
  for _, case in ipairs { { "", "0.2" }, { "{ grace = 0.2 }", "60" } } do
    local script = t.write(t.tmp() .. "/server.lua", ([[
      local web, loop = require "lio.webserver", require "lio.loop"
      local app = web.new %s
      loop.grace = %s
      io.stdout:setvbuf "line"
      app:get("/", function()
        print "handling"
        loop.sleep(60)
      end)
      loop.on_stop(function(grace) print("grace", grace) end)
      app:run(0)]]):format(case[1] == "" and "()" or case[1], case[2]))
    local child <close> = t.spawn(t.lio() .. " " .. t.quote(script))
    local port = math.tointeger(tonumber(child:expect "127%.0%.0%.1:(%d+)/$"))
    loop.run(function()
      local c <close> = http.open(port)
      c:send(GET)
      t.eq(child:line(), "handling")
      child:kill()
      t.is_nil((c.c:recv()))
    end)
    t.eq(child:line(), "grace\t0.2")
    t.eq(ended(child), 0)
  end
end)

-- Regression: a server that `app:listen` had opened used loop.grace, even if its app had set another grace period.
t.test("a server that app:listen has opened has the grace period of its app", function()
  local script = t.write(t.tmp() .. "/server.lua", [[
    local web, loop = require "lio.webserver", require "lio.loop"
    local app = web.new { grace = 0.2 }
    loop.grace = 60
    io.stdout:setvbuf "line"
    app:get("/", function()
      print "handling"
      loop.sleep(60)
    end)
    loop.run(function()
      local server = assert(app:listen(0))
      print(server.url)
      server:wait()
    end)]])
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(script))
  local port = math.tointeger(tonumber(child:expect "127%.0%.0%.1:(%d+)/$"))
  loop.run(function()
    local c <close> = http.open(port)
    c:send(GET)
    t.eq(child:line(), "handling")
    child:kill()
    local data, message = c.c:recv()
    t.is_nil(data)
    t.ok(message ~= "timeout", "the connection ends before loop.grace has passed")
  end)
  t.eq(ended(child), 0)
end)

t.test("a port without an address is bound on 127.0.0.1, and the bound address is printed", function()
  local app = require("lio.webserver").new()
  app:get("/", function() return "x" end)
  loop.run(function()
    local server = assert(app:listen(0))
    local addr, port = server.listener:address()
    t.eq({ addr, server.url }, { "127.0.0.1", ("http://127.0.0.1:%d/"):format(port) })
    local near <close> = http.open(port)
    t.eq(near:ask(GET).body, "x")
    local _, _, code = net.connect("127.0.0.2", port)
    t.eq(code, "refused")
    server:stop(0)
    server = assert(app:listen(0, { addr = "0.0.0.0" }))
    addr, port = server.listener:address()
    t.eq({ addr, server.url }, { "0.0.0.0", ("http://0.0.0.0:%d/"):format(port) })
    local far <close> = assert(net.connect("127.0.0.2", port))
    far:send(GET)
    t.eq(far:recv(15), "HTTP/1.1 200 OK")
    server:stop(0)
  end)
end)

t.test("debug causes a warning if other machines can reach the address, and otherwise none", function()
  local web = require "lio.webserver"
  local cases = {
    { "0.0.0.0:0", true, "http://0.0.0.0:%d/" }, { "127.0.0.1:0", true }, { "127.1.2.3:0", true },
    { "unix:" .. t.tmp() .. "/socket", true }, { "0.0.0.0:0", false },
  }
  for _, case in ipairs(cases) do
    local app, port = web.new { debug = case[2] }, nil
    local log = http.logged(function()
      loop.run(function()
        local server = assert(app:listen(case[1]))
        port = select(2, server.listener:address())
        server:stop(0)
      end)
    end)
    local want = case[3] and "lio: warning: debug = true shows tracebacks and source lines to every client that "
      .. "reaches " .. case[3]:format(port) .. "\n" or ""
    t.eq(log, want, case[1])
  end
end)

t.test("for a port in use, run prints a clear message and exits with code 1", function()
  local child <close>, port = start()
  local script = t.write(t.tmp() .. "/second.lua", ([[
    local app = require("lio.webserver").new()
    app:run("127.0.0.1:%d")]]):format(port))
  local r = t.run(t.lio() .. " " .. t.quote(script))
  t.eq({ r.code, r.out }, { 1, "" })
  t.ok(r.err:find(("cannot listen on 127.0.0.1:%d: "):format(port), 1, true), r.err)
  t.ok(r.err:match "[^\n]+":find "in use", "the first line says why: " .. r.err)
  child:kill()
  t.eq(ended(child), 0)
end)

t.test("if the address is in use, listen returns nil and a message", function()
  local app = require("lio.webserver").new()
  http.with(app, function(_, server)
    local second, message = app:listen(server.url:match "//(.-)/")
    t.is_nil(second)
    t.ok(message:find "^cannot listen on 127.0.0.1:%d+: ", message)
  end)
  t.raises("cannot parse the address 'nonsense'", app.listen, app, "nonsense")
  t.raises("port or address expected, got table", app.listen, app, {})
end)

t.test("one app can serve several addresses, including IPv6, which can be stopped separately", function()
  local app = require("lio.webserver").new()
  app:get("/", function(req) return req.remote_addr end)
  http.with(app, function(open)
    local v6, message = app:listen "[::1]:0"
    if not v6 then
      t.ok(message:find "address", message)
      return
    end
    t.ok(v6.url:find "^http://%[::1%]:%d+/$", v6.url)
    local port = math.tointeger(tonumber(v6.url:match ":(%d+)/$"))
    local c <close> = assert(net.connect("::1", port))
    c:send "GET / HTTP/1.0\r\n\r\n"
    t.ok(c:recv "all":find("\r\n\r\n::1", 1, true))
    v6:stop()
    t.eq(open():ask(GET).body, "127.0.0.1")
  end)
end)

t.test("app:run inside a task serves until the server is stopped", function()
  local app, served = require("lio.webserver").new(), nil
  app:get("/", function() return "x" end)
  local out = io.stdout
  local printed
  rawset(io, "stdout", { write = function(_, ...) printed = table.concat { ... } end, flush = function() end })
  local ok, problem = pcall(loop.run, function()
    loop.fork(function()
      while not printed do loop.sleep(0.001) end
      local c <close> = http.open(math.tointeger(tonumber(printed:match ":(%d+)/")))
      served = c:ask(GET).body
      app.servers[1]:stop(0)
    end)
    app:run "127.0.0.1:0"
  end)
  rawset(io, "stdout", out)
  t.eq({ ok, served }, { true, "x" }, tostring(problem))
end)

-- Regression: the app kept each server that it had started.
t.test("a server that has stopped can be collected, although its app continues", function()
  local app = require("lio.webserver").new()
  loop.run(function()
    for _ = 1, 20 do app:listen("127.0.0.1:0"):stop(0) end
    loop.sleep(0)
    collectgarbage()
    collectgarbage()
    t.eq(next(app.servers), nil)
  end)
end)

-- Regression: the server continued to serve, and no code could stop it.
t.test("a server ends when the task in app:run is killed", function()
  local script = t.write(t.tmp() .. "/killed.lua", [[
    local web, loop, net = require "lio.webserver", require "lio.loop", require "lio.net"
    loop.run(function()
      local app = web.new()
      local task = loop.fork(function() app:run "127.0.0.1:0" end)
      repeat loop.sleep(0.001) until app.servers[1]
      local server = app.servers[1]
      local port = select(2, server.listener:address())
      net.connect("127.0.0.1", port):close()
      loop.kill(task)
      print(server.ended, not net.connect("127.0.0.1", port))
    end)
  ]])
  local out = t.run(t.lio() .. " " .. t.quote(script)).out
  t.ok(out:find "\ntrue\ttrue\n$", out)
end)

t.finish()
