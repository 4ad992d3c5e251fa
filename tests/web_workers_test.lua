-- `app:run(where, { workers = n })`: the program runs in several services, whose sockets share an address.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local net = require "lio.net"

local WORKERS <const> = 3

-- Starts a server with workers and the routes of `body`. Returns the child, its port, and the address that it has
-- printed.
-- The programs may use: web, loop, app
local function start(body, where, more)
  local script = t.write(t.tmp() .. "/server.lua", table.concat({
    'local web, loop = require "lio.webserver", require "lio.loop"',
    "local app = web.new { keep_alive_time = 30, grace = 5 }",
    'app:get("/", function() return tostring(web.worker()) end)',
    body or "",
    ("app:run(%s, { workers = %d %s })"):format(where or '"127.0.0.1:0"', WORKERS, more or ""),
    'io.stderr:write("after run in " .. tostring(web.worker()) .. "\\n")',
  }, "\n"))
  local child = t.spawn(t.lio() .. " " .. t.quote(script) .. " 2>&1")
  local line = child:expect "^lio: serving (.*)$"
  return child, math.tointeger(tonumber(line:match ":(%d+)/$")), line
end

local GET <const> = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

-- Sends requests on new connections until every worker has responded; raises after 10 seconds. Returns the connections,
-- and the set of workers.
local function meet_all(port)
  local met, count, open = {}, 0, {}
  local deadline = loop.now() + 10
  while count < WORKERS do
    if loop.now() > deadline then error("met only " .. count .. " workers") end
    local c = http.open(port)
    open[#open + 1] = c
    local who = c:ask(GET).body
    if not met[who] then met[who], count = true, count + 1 end
  end
  return open, met
end

local function close_all(open)
  for _, c in ipairs(open) do c:close() end
end

-- Regression: each worker watches signals, and a process could have only 64 watchers.
t.test("forty workers start, and SIGTERM ends them", function()
  local script = t.write(t.tmp() .. "/server.lua", table.concat({
    'local web = require "lio.webserver"',
    "local app = web.new()",
    'app:get("/", function() return "served" end)',
    'app:run("127.0.0.1:0", { workers = 40 })',
  }, "\n"))
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(script) .. " 2>&1")
  local port = math.tointeger(tonumber((child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$")))
  loop.run(function()
    for _ = 1, 40 do
      local c <close> = http.open(port)
      t.eq(c:ask(GET).body, "served")
    end
  end)
  child:kill()
  t.eq({ child:all(), child:close() }, { "", 0 })
end)

t.test("debug on an address that other machines can reach causes one warning for all workers", function()
  local script = t.write(t.tmp() .. "/server.lua", table.concat({
    'local app = require("lio.webserver").new { debug = true }',
    'app:get("/", function() return tostring(require("lio.webserver").worker()) end)',
    'app:run("0.0.0.0:0", { workers = 3 })',
  }, "\n"))
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(script) .. " 2>&1")
  local port = math.tointeger(tonumber(child:expect "^lio: serving http://0%.0%.0%.0:(%d+)/$"))
  loop.run(function() close_all((meet_all(port))) end)
  child:kill()
  t.eq(child:all(), "lio: warning: debug = true shows tracebacks and source lines to every client that reaches "
    .. ("http://0.0.0.0:%d/\n"):format(port))
  t.eq(child:close(), 0)
end)

t.test("all workers serve the same address, which is printed once", function()
  local child <close>, port = start()
  loop.run(function()
    local open, met = meet_all(port)
    t.eq(met, { ["1"] = true, ["2"] = true, ["3"] = true })
    close_all(open)
  end)
  child:kill()
  local rest = child:all()
  t.eq(child:close(), 0)
  local lines = {}
  for line in rest:gmatch "[^\n]+" do lines[#lines + 1] = line end
  table.sort(lines)
  t.eq(lines, { "after run in 1", "after run in 2", "after run in 3", "after run in nil" })
end)

-- Regression: a worker's task that handled the supervisor's request waited on a token that nothing referred to. After
-- some garbage collection cycles the task was treated as orphaned, the supervisor got the error that the worker had
-- ended, and the whole system stopped under load.
t.test("workers continue after many garbage collection cycles", function()
  local child <close>, port = start('app:get("/collect", function() collectgarbage() return "done" end)')
  loop.run(function()
    local open = meet_all(port)
    for _ = 1, 10 do
      for _, c in ipairs(open) do
        t.eq(c:ask("GET /collect HTTP/1.1\r\nHost: x\r\n\r\n").body, "done")
      end
    end
    close_all(open)
    close_all(meet_all(port))
  end)
  child:kill()
  child:all()
  t.eq(child:close(), 0)
end)

t.test("a stop answers the requests in every worker, and waits for them even if other workers are idle", function()
  local child <close>, port = start [[
    app:get("/slow", function()
      io.stderr:write "slow begins\n"
      repeat loop.sleep(0.001) until app.servers[1].stopping
      loop.sleep(0.3)
      return "slow " .. web.worker()
    end)
  ]]
  loop.run(function()
    local idle = meet_all(port)
    local slow = {}
    for i = 1, 12 do
      slow[i] = http.open(port)
      slow[i]:send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    end
    for _ = 1, 12 do child:expect "slow begins" end
    child:kill()
    for _, c in ipairs(slow) do
      local r = c:response()
      t.eq(r.status, 200)
      t.ok(r.body:find "^slow %d$", r.body)
    end
    close_all(slow)
    close_all(idle)
  end)
  child:all()
  t.eq(child:close(), 0)
end)

-- Regression: the first worker that had stopped ended the system, so calls of handlers in other workers failed.
t.test("while a worker answers its last requests, the services of its handlers run", function()
  local folder = t.tmp()
  t.write(folder .. "/memory.lua", "local S = {} function S.get() return 'remembered' end return S")
  local script = t.write(folder .. "/server.lua", [[
    local web, loop, ltask = require "lio.webserver", require "lio.loop", require "ltask"
    local app = web.new { grace = 5 }
    app:get("/", function() return ltask.call(ltask.uniqueservice "memory", "get") end)
    app:get("/slow", function()
      io.stderr:write "slow begins\n"
      repeat loop.sleep(0.001) until app.servers[1].stopping
      loop.sleep(0.3)
      return ltask.call(ltask.uniqueservice "memory", "get")
    end)
    app:run("127.0.0.1:0", { workers = 3 })]])
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(script) .. " 2>&1")
  local port = math.tointeger(tonumber((child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$")))
  loop.run(function()
    do
      local c <close> = http.open(port)
      t.eq(c:ask(GET).body, "remembered")
    end
    local slow <close> = http.open(port)
    slow:send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    child:expect "slow begins"
    child:kill()
    t.eq(slow:response().body, "remembered")
  end)
  t.eq({ child:all(), child:close() }, { "", 0 })
end)

t.test("a handler in a worker calls other services", function()
  local folder = t.tmp()
  t.write(folder .. "/adder.lua", "local S = {} function S.add(a, b) return a + b end return S")
  local script = t.write(folder .. "/server.lua", [[
    local web = require "lio.webserver"
    local app = web.new()
    app:get("/sum/:a/:b", function(req)
      local ltask = require "ltask"
      local adder = ltask.uniqueservice "adder"
      return tostring(ltask.call(adder, "add", tonumber(req.params.a), tonumber(req.params.b)))
    end)
    app:run("127.0.0.1:0", { workers = 2 })
  ]])
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(script))
  local port = math.tointeger(tonumber(child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$"))
  loop.run(function()
    for i = 1, 8 do
      local c <close> = http.open(port)
      t.eq(c:ask("GET /sum/" .. i .. "/40 HTTP/1.1\r\nHost: x\r\n\r\n").body, tostring(i + 40))
    end
  end)
  child:kill()
  child:all()
  t.eq(child:close(), 0)
end)

t.test("workers accept from one unix socket, whose file is removed at the end", function()
  local path = t.tmp() .. "/web.sock"
  local child <close>, _, line = start(nil, ("%q"):format("unix:" .. path))
  t.eq(line, "unix:" .. path)
  loop.run(function()
    for _ = 1, 8 do
      local c <close> = assert(net.connect("unix:" .. path))
      c:send "GET / HTTP/1.0\r\n\r\n"
      t.ok(c:recv "all":find "\r\n\r\n[123]$")
    end
  end)
  child:kill()
  child:all()
  t.eq(child:close(), 0)
  -- io.open fails for a socket even if it exists, so the test renames the file to itself.
  t.is_nil(os.rename(path, path))
end)

t.test("a port in use causes an error before any worker starts", function()
  local listener <close> = assert(net.listen("127.0.0.1", 0, { reuseport = true }))
  local _, port = listener:address()
  local script = t.write(t.tmp() .. "/server.lua", ([[
    require("lio.webserver").new():run("127.0.0.1:%d", { workers = 2 })
  ]]):format(port))
  local r = t.run(t.lio() .. " " .. t.quote(script))
  t.eq(r.code, 1)
  t.ok(r.err:find(("cannot listen on 127.0.0.1:%d: "):format(port), 1, true), r.err)
end)

t.test("if the program fails in a worker, all workers end, and the exit code is 1", function()
  local script = t.write(t.tmp() .. "/server.lua", [[
    local web = require "lio.webserver"
    if web.worker() == 2 then error "not in this one" end
    web.new():run("127.0.0.1:0", { workers = 2 })
  ]])
  local r = t.run(t.lio() .. " " .. t.quote(script))
  t.eq(r.code, 1)
  t.ok(r.err:find "server.lua:2: not in this one", r.err)
  t.ok(r.err:find "run: a worker has failed", r.err)
end)

t.test("the workers get the arguments of the program", function()
  local script = t.write(t.tmp() .. "/server.lua", [[
    local web = require "lio.webserver"
    local app = web.new()
    local first, second = ...
    app:get("/", function() return table.concat({ arg[0]:match "[^/]*$", arg[1], arg[2], first, second }, " ") end)
    app:run("127.0.0.1:0", { workers = 2 })
  ]])
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(script) .. " one 'two words'")
  local port = math.tointeger(tonumber(child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$"))
  loop.run(function()
    local c <close> = http.open(port)
    t.eq(c:ask(GET).body, "server.lua one two words one two words")
  end)
  child:kill()
  child:all()
  t.eq(child:close(), 0)
end)

t.test("a second call of run starts its workers when the first has ended", function()
  local script = t.write(t.tmp() .. "/server.lua", [[
    local web = require "lio.webserver"
    local app = web.new()
    app:get("/", function() return arg[1] .. 1 end)
    app:run("127.0.0.1:0", { workers = 2 })
    app = web.new()
    app:get("/", function() return arg[1] .. 2 end)
    app:run("127.0.0.1:0", { workers = 2 })
  ]])
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(script) .. " x")
  for which = 1, 2 do
    local port = math.tointeger(tonumber(child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$"))
    loop.run(function()
      local c <close> = http.open(port)
      t.eq(c:ask(GET).body, "x" .. which)
    end)
    child:kill()
  end
  t.eq(child:all(), "")
  t.eq(child:close(), 0)
end)

t.test("an invalid number of workers, or several workers inside a loop, raises an error", function()
  local app = require("lio.webserver").new()
  t.raises("app:run: option 'workers' must be an integer from 1 to 1024, got 0", app.run, app, 0, { workers = 0 })
  t.raises("app:run: option 'workers' must be an integer from 1 to 1024, got \"many\"", app.run, app, 0,
    { workers = "many" })
  loop.run(function()
    t.raises("app:run: several workers can be started only in a program's main chunk", app.run, app, 0, { workers = 2 })
  end)
end)

t.test("several workers cause an error if the program has no file", function()
  local r = t.run(t.lio() .. [[ -e 'require("lio.webserver").new():run("127.0.0.1:0", { workers = 2 })' ]])
  t.eq(r.code, 1)
  t.ok(r.err:find("app:run: several workers run the program's file, but this program has no file", 1, true), r.err)
end)

-- Returns the number of sockets of a process that more than one of its selectors watches.
local function shared_sockets(pid)
  local sockets, watched, shared = {}, {}, 0
  for inode in t.run(("ls -l /proc/%d/fd"):format(pid)).out:gmatch "socket:%[(%d+)%]" do
    sockets[math.tointeger(inode)] = true
  end
  for inode in t.run(("cat /proc/%d/fdinfo/*"):format(pid)).out:gmatch "tfd:[^\n]* ino:(%x+)" do
    local number = tonumber(inode, 16)
    if watched[number] and sockets[number] then shared = shared + 1 end
    watched[number] = true
  end
  t.ok(next(sockets) and next(watched), "the process has selectors and sockets")
  return shared
end

-- Regression: the worker was reported only after its loop had ended, and the kernel continued to assign half of the
-- connections to the worker's socket.
t.test("a worker in an endless loop is reported at once, and the other worker accepts its connections", function()
  local go = t.tmp() .. "/go"
  local script = t.write(t.tmp() .. "/server.lua", ([[
    local web = require "lio.webserver"
    local app = web.new { keep_alive_time = 60 }
    app:get("/", function() return tostring(web.worker()) end)
    app:get("/spin", function()
      io.stderr:write "it loops\n"
      repeat
        local n = 0
        for i = 1, 100000 do n = n + i end
        local f = io.open(%q)
      until f
      return "spun"
    end)
    app:run("127.0.0.1:0", { workers = 2, watchdog = 1 })
  ]]):format(go))
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(script) .. " 2>&1")
  local port = math.tointeger(tonumber(child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$"))
  local function ask()
    local c <close> = http.open(port)
    return c:ask(GET).body
  end
  local function await(who)
    local deadline = loop.now() + 10
    while ask() ~= who do t.ok(loop.now() < deadline, "worker " .. who .. " does not answer") end
  end
  loop.run(function()
    -- The test runs twice, because the other worker must stop accepting the connections when the loop ends.
    for _ = 1, 2 do
      os.remove(go)
      -- After this sleep, a scheduler without work no longer checks its threads.
      loop.sleep(1)
      local stuck = http.open(port)
      while stuck:ask(GET).body ~= "1" do
        stuck:close()
        stuck = http.open(port)
      end
      stuck:send "GET /spin HTTP/1.1\r\nHost: x\r\n\r\n"
      child:expect "^it loops$"
      -- Connections that arrive before the loop is detected wait in the backlog of the worker's socket.
      local open = {}
      for i = 1, 20 do
        open[i] = http.open(port)
        open[i]:send(GET)
      end
      for i = 1, 20 do t.eq(open[i]:response().body, "2", "connection " .. i) end
      for i = 1, 20 do t.eq(ask(), "2", "later connection " .. i) end
      close_all(open)
      local line = child:expect "%(2 worker1%) (service 2 .*)$"
      t.ok(line:find "^service 2 %(worker1%) has not paused for %d+%.%d s; stack traceback:$", line)
      child:expect "server%.lua:%d+"
      t.eq(ask(), "2", "the first worker is still in the loop")
      io.open(go, "w"):close()
      t.eq(stuck:response().body, "spun")
      t.eq(stuck:ask(GET).body, "1")
      stuck:close()
      child:expect "%(2 worker1%) service 2 %(worker1%) has paused again after %d+%.%d s$"
      await "1"
      await "2"
      local deadline = loop.now() + 10
      while shared_sockets(child.pid) > 0 do
        t.ok(loop.now() < deadline, "the other worker still watches the socket")
        loop.sleep(0.02)
      end
    end
  end)
  child:kill()
  child:all()
  t.eq(child:close(), 0)
end)

t.finish()
