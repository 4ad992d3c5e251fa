-- `watchdog` and `max_run_time`: a handler in an endless loop is reported while it loops, and is ended.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"

-- A stock interpreter with lio.so cannot interrupt its own VM, but the VMs of workers.
local IS_STOCK <const> = not t.lio():find "/lio['\"]?$"

local PROGRAM <const> = [[
local web, loop = require "lio.webserver", require "lio.loop"
local app = web.new { grace = 5 }
app:get("/", function() return "fine" end)
app:get("/loop", function()
  while true do end
end)
app:get("/long", function()
  io.stderr:write "it loops\n"
  repeat for _ = 1, 10000 do end until io.open(%q)
  return "ended by itself"
end)
local function spin() while true do end end
local function stubborn()
  while true do
    pcall(function()
      local _ <close> = setmetatable({}, { __close = function() end })
      pcall(spin)
    end)
  end
end
local closed = 0
local function counted()
  return setmetatable({}, { __close = function()
    for _ = 1, 1000 do end
    closed = closed + 1
  end })
end
app:get("/catch", function()
  -- Regression: these variables were not closed.
  local _ <close> = counted()
  while true do
    local _ <close> = counted()
    pcall(stubborn)
    for _ = 1, 200000 do end
  end
end)
app:get("/closed", function() return tostring(closed) end)
app:get("/once", function()
  local ok, message = pcall(function() while true do end end)
  return (tostring(ok) .. " " .. message)
end)
app:get("/coroutine", function()
  coroutine.wrap(function() while true do end end)()
end)
app:get("/closes", function()
  local _ <close> = setmetatable({}, { __close = function()
    for _ = 1, 1000 do end
    io.stderr:write "closed\n"
  end })
  while true do end
end)
app:get("/begun", function(_, res)
  res:write "begun"
  loop.sleep(0)
  while true do end
end)
app:get("/custom", function() while true do end end)
app:on_error(function(err, req, res)
  if req.path == "/custom" then return res.code, tostring(err) end
end)
loop.fork(function() loop.sleep(0) end)
app:run("127.0.0.1:0", { %s })
]]

-- Starts the program. `command` runs Lua programs. Returns the child, its port and the file that ends /long.
local function start(command, options)
  local dir = t.tmp()
  local script = t.write(dir .. "/server.lua", PROGRAM:format(dir .. "/go", options))
  local child = t.spawn(command .. " " .. t.quote(script) .. " 2>&1")
  local port = math.tointeger(tonumber(child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$"))
  return child, port, dir .. "/go"
end

local function get(path) return ("GET %s HTTP/1.1\r\nHost: x\r\n\r\n"):format(path) end

local function stop(child)
  child:kill()
  local rest = child:all()
  t.eq(child:close(), 0, rest)
end

local ERROR <const> = "max_run_time: the task has run for more than 0.1 s without waiting"

-- Returns the text without the folder of the program.
local function without_folder(text) return (text:gsub("/[^ ]*/", "")) end

-- The requests for a server with max_run_time = 0.1. `again` returns a connection.
local function check_requests(child, port)
  local c <close> = http.open(port)
  local response = c:ask(get "/loop")
  t.eq(response.status, 503)
  -- The position is that of the loop.
  child:expect("^lio: error in GET /loop: [^ ]*/server%.lua:5: " .. ERROR:gsub("%p", "%%%0") .. "$")
  child:expect "^stack traceback:$"
  child:expect "server%.lua:5: in "
  t.eq(c:ask(get "/").body, "fine", "the connection stays open")
  local caught_once = without_folder(c:ask(get "/once").body)
  t.eq(caught_once, "false server.lua:39: " .. ERROR, "code that catches the error continues")
  t.eq(c:ask(get "/coroutine").status, 503)
  t.eq(c:ask(get "/closes").status, 503)
  child:expect "^closed$"
  local custom = c:ask(get "/custom")
  t.eq(custom.status, 503)
  t.eq(without_folder(custom.body), "server.lua:57: " .. ERROR)
  local begun <close> = http.open(port)
  begun:send(get "/begun")
  t.eq(begun:read_head().status, 200)
  t.eq(c:ask(get "/catch").status, 503, "the error is raised again if the handler catches it twice")
  -- The place is reported, because the error may come from a later one.
  child:expect "a task has caught the error and has not waited since; the task ends now"
  child:expect "server%.lua:12: in "
  t.eq(c:ask(get "/closed").body, "2")
end

local function test(name, f)
  t.test(name, function() loop.run(f) end)
end

test("a handler in an endless loop is reported while it loops, without workers", function()
  local child <close>, port, go = start(t.bin(), "watchdog = 0.1")
  local c <close> = http.open(port)
  c:send(get "/long")
  child:expect "^it loops$"
  local seconds = child:expect "^lio: a task has run for (%d+%.%d) s without waiting$"
  t.ok(tonumber(seconds) >= 0.1)
  child:expect "^stack traceback:$"
  child:expect "server%.lua:9: in "
  t.write(go, "")
  t.eq(c:response().body, "ended by itself")
  stop(child)
end)

test("max_run_time ends a handler with status 503, without workers", function()
  local child <close>, port = start(t.bin(), "watchdog = 0, max_run_time = 0.1")
  check_requests(child, port)
  stop(child)
end)

test("max_run_time ends a handler with status 503 in a worker", function()
  local child <close>, port = start(t.lio(), "watchdog = 0, max_run_time = 0.1, workers = 2")
  check_requests(child, port)
  stop(child)
end)

test("requests that together take longer than max_run_time are not ended", function()
  local dir = t.tmp()
  local script = t.write(dir .. "/server.lua", [[
    local web = require "lio.webserver"
    local app = web.new()
    local cpu = os.clock
    app:get("/", function()
      local till = cpu() + 0.02
      while cpu() < till do end
      return "done"
    end)
    app:run("127.0.0.1:0", { max_run_time = 0.15 })
  ]])
  local child <close> = t.spawn(t.bin() .. " " .. t.quote(script) .. " 2>&1")
  local port = math.tointeger(tonumber(child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$"))
  local c <close> = http.open(port)
  c:send(get("/"):rep(15))
  for _ = 1, 15 do t.eq(c:response().status, 200) end
  stop(child)
end)

-- Runs `program` in the executable. Returns its output.
local function output(program)
  local script = t.write(t.tmp() .. "/program.lua", program)
  return t.run("timeout -s KILL 60 " .. t.bin() .. " " .. t.quote(script) .. " 2>/dev/null").out
end

-- Regression: the interrupt replaced the program's hook, so a debugger or a coverage tool stopped working.
t.test("a program keeps its debug hook while the running time is limited", function()
  t.eq(output [[
    local loop = require "lio.loop"
    loop.watchdog = 0.05
    local count = 0
    local function hook() count = count + 1 end
    local function check(what)
      local before, till = count, os.clock() + 0.3
      while os.clock() < till do end
      local now, mask, every = debug.gethook()
      print(what, now == hook, mask, every, count > before)
    end
    loop.run(function()
      debug.sethook(hook, "l", 1000)
      check "task"
      coroutine.wrap(function()
        debug.sethook(hook, "", 100)
        check "coroutine"
      end)()
      check "task"
      debug.sethook()
      local till = os.clock() + 0.2
      while os.clock() < till do end
      print((debug.gethook()))
    end)
  ]], "task\ttrue\tl\t1000\ttrue\ncoroutine\ttrue\t\t100\ttrue\ntask\ttrue\tl\t1000\ttrue\nnil\n")
end)

-- Regression: after a slice of a service on the main thread, the program's own VM could not be interrupted.
t.test("max_run_time also ends a task after a service has run on the main thread", function()
  local dir = t.tmp()
  t.write(dir .. "/uses_main.lua", [[
    local ltask = require "ltask"
    ltask.mainthread_run(function() end)
    ltask.quit()
    return {}
  ]])
  t.eq(output(([[
    require("ltask").start { service_path = %q, bootstrap = { "uses_main" }, core = { worker = 1 } }
    local loop = require "lio.loop"
    loop.max_run_time = 0.05
    local ok, message = pcall(loop.run, function() while true do end end)
    print(ok, message:match "max_run_time: [^\n]*")
  ]]):format(dir .. "/?.lua")), "false\tmax_run_time: the task has run for more than 0.05 s without waiting\n")
end)

-- Regression: while a C function ran, there was no report, and after it the time began anew.
t.test("a long call of a C function is reported while it runs, and ends with the error", function()
  local dir = t.tmp()
  local script = t.write(dir .. "/program.lua", [[
    local loop = require "lio.loop"
    loop.watchdog, loop.max_run_time = 0.1, 0.2
    loop.run(function()
      local text = ("a"):rep(100)
      print(pcall(function()
        local length, began = 1000, os.clock()
        repeat
          local started = os.clock()
          local _ = text:rep(length // 100):find ".-.-b"
          if os.clock() - started > 0.6 then break end
          length = length * 2
          loop.sleep(0)
        until os.clock() - began > 60
        return "continued"
      end))
    end)
  ]])
  local r = t.run("timeout -s KILL 100 " .. t.bin() .. " " .. t.quote(script))
  local ok, message = r.out:match "^(%a+)\t([^\n]*)\n$"
  t.eq(ok, "false", r.out .. r.err)
  t.ok(message:find "program%.lua:%d+: max_run_time: the task has run for more than 0%.2 s", message)
  -- Only the signal handler writes this text. A shorter call before may have been reported, too.
  t.ok(r.err:find("lio: a task has run for %d+%.%d s without waiting; it is in a C function, such as string%.find, "),
    r.err)
end)

-- Regression: the time of the C function ended the library's code that sends the response, and the connection closed.
t.test("a handler that ends with a long call of a C function responds", function()
  local script = t.write(t.tmp() .. "/server.lua", [[
    local app, json = require("lio.webserver").new(), require "lio.json"
    local list = {}
    for i = 1, 1000000 do list[i] = i * 1.25 end
    app:get("/tail", function() return json.encode(list) end)
    app:get("/", function() return "fine" end)
    app:run("127.0.0.1:0", { watchdog = 0, max_run_time = 0.02 })
  ]])
  local child <close> = t.spawn(t.bin() .. " " .. t.quote(script) .. " 2>&1")
  local port = math.tointeger(tonumber(child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$"))
  loop.run(function()
    local c <close> = http.open(port)
    local response = c:ask(get "/tail")
    t.eq(response.status, 200)
    t.ok(#response.body > 7000000, #response.body)
    t.eq(c:ask(get "/").body, "fine")
  end)
  stop(child)
end)

-- Regression: in a service, both options of `app:run`, and the fields of the loop, had no effect.
t.test("the limits apply to a service of `lio --service`", function()
  -- The watchdog reports a service only once until it waits. On a busy machine the service may get the request before
  -- it has waited once, so its start must not be reported.
  local child <close>, port = start(t.bin() .. " --service", "watchdog = 0.5, max_run_time = 1")
  loop.run(function()
    local c <close> = http.open(port)
    t.eq(c:ask(get "/loop").status, 503)
    t.eq(c:ask(get "/").body, "fine")
  end)
  child:expect "has not paused for %d+%.%d s; stack traceback:$"
  child:expect "server%.lua:5: in "
  child:expect("error in GET /loop: [^ ]*/server%.lua:5: " .. ERROR:gsub("0%.1 s", "1 s") .. "$")
  child:kill "KILL"
end)

-- Regression: a limit that is the default without services did not replace the limit of the system.
t.test("the limits of the system are the defaults of a service's loop, which may remove them", function()
  local dir = t.tmp()
  t.write(dir .. "/work.lua", [[
    local loop = require "lio.loop"
    print(loop.watchdog, loop.max_run_time)
    loop.max_run_time = 0
    loop.run(function()
      local till = os.clock() + 0.5
      while os.clock() < till do end
      print "ended by itself"
    end)
    require "ltask".syscall(1, "quit_ltask")
  ]])
  t.eq(output(([[
    require("ltask").start { bootstrap = { { name = "lio", args = { %q } } }, watchdog = 7, max_run_time = 0.1 }
  ]]):format(dir .. "/work.lua")), "7.0\t0.1\nended by itself\n")
end)

-- Regression: after an endless loop of the handler, the connection was closed without a response.
test("the client gets a 503 if on_error is an endless loop, too", function()
  local script = t.write(t.tmp() .. "/server.lua", [[
    local app = require("lio.webserver").new()
    local function spin() while true do end end
    app:get("/loop", spin)
    app:get("/error", function() error "an error" end)
    app:on_error(spin)
    app:run("127.0.0.1:0", { watchdog = 0, max_run_time = 0.1 })
  ]])
  local child <close> = t.spawn(t.bin() .. " " .. t.quote(script) .. " 2>&1")
  local c <close> = http.open(math.tointeger(tonumber(child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$")))
  for _, path in ipairs { "/loop", "/error" } do
    local response = c:ask(get(path))
    t.eq({ response.status, response.body }, { 503, "Service Unavailable\n" })
  end
  stop(child)
end)

-- Regression: the variables of such a function were not closed, so its connection stayed open and kept its place.
t.test("a WebSocket whose function catches the error is closed with the code 1011, and its place is free", function()
  local script = t.write(t.tmp() .. "/server.lua", [[
    local web, websocket, loop = require "lio.webserver", require "lio.websocket", require "lio.loop"
    local app = web.new { connections = 3 }
    -- The error can be raised at any depth, and between protected calls.
    local function descend(depth)
      for _ = 1, 20000 do end
      if depth > 0 then pcall(descend, depth - 1) end
      for _ = 1, 20000 do end
    end
    app:ws("/ws", function(ws)
      ws:receive()
      while true do descend(8) end
    end)
    app:get("/", function() return "fine" end)
    loop.watchdog, loop.max_run_time = 0, 0.05
    loop.run(function()
      local server = assert(app:listen "127.0.0.1:0")
      for _ = 1, 8 do
        local ws <close> = assert(websocket.connect((server.url:gsub("http", "ws") .. "ws")))
        ws:send "go"
        print(ws:receive(), ws.code)
      end
      print(require("lio.http.client").get(server.url).body)
      server:stop()
    end)
  ]])
  local r = t.run("timeout -s KILL 60 " .. t.bin() .. " " .. t.quote(script))
  t.eq(r.out, ("nil\t1011\n"):rep(8) .. "fine\n", r.err)
end)

-- Regression: such handlers kept their places in the pool of the HTTP client, which refused all further requests.
t.test("a task that catches the error gives its connection of the HTTP client back", function()
  t.eq(output [[
    local web, loop, http = require "lio.webserver", require "lio.loop", require "lio.http.client"
    local app = web.new()
    local function spin() while true do end end
    app:get("/", function() return "fine" end)
    loop.watchdog, loop.max_run_time = 0, 0.05
    loop.run(function()
      local server = assert(app:listen "127.0.0.1:0")
      local url = server.url
      local client <close> = http.new { max_per_host = 1, timeout = 5 }
      local done = {}
      loop.fork(function()
        local _ <close> = setmetatable({}, { __close = function() loop.wakeup(done) end })
        local _ <close> = assert(client:get(url, { stream = true }))
        while true do pcall(spin) end
      end)
      loop.wait(done)
      print(assert(client:get(url)).body)
      server:stop()
    end)
  ]], "fine\n")
end)

-- Regression: `scope:wait` returned true, and `thread.wait` "killed".
t.test("a thread that catches the error has failed", function()
  t.eq(output [[
    local loop, thread = require "lio.loop", require "lio.thread"
    loop.watchdog, loop.max_run_time = 0, 0.05
    local function spin() while true do end end
    local function stubborn() while true do pcall(spin) end end
    loop.run(function()
      local ok, message = thread.wait(thread.spawn(stubborn))
      print(ok, message:match "max_run_time: the task")
      local scope <close> = thread.scope()
      scope:spawn(stubborn)
      ok, message = scope:wait()
      print(ok, message:match "max_run_time: the task")
    end)
  ]], ("false\tmax_run_time: the task\n"):rep(2))
end)

-- Starts services in `lio`, with the file `work.lua` of this content as the first one. Returns the text of its log
-- entries.
local function output_of_service(work, config)
  local dir = t.tmp()
  t.write(dir .. "/work.lua", work)
  local text = output(("require('ltask').start { service_path = %q, bootstrap = { 'work' }, %s }"):format(
    dir .. "/?.lua", config or ""))
  return (text:gsub("[^\n]-%(%d+ work%) ", ""):gsub(dir:gsub("%p", "%%%0") .. "/", ""))
end

-- Regression: the limits of the system replaced these when the service took its loop, and wrong values were accepted.
t.test("the limits that a service sets before loop.run apply to its tasks", function()
  t.eq(output_of_service [[
    local loop = require "lio.loop"
    loop.watchdog = "2"
    print(pcall(loop.run, print))
    loop.watchdog, loop.max_run_time = 0, 0.05
    local ok, message = pcall(loop.run, function()
      print(loop.watchdog, loop.max_run_time)
      while true do end
    end)
    print(ok, message:match "max_run_time: [^\n]*")
    require "ltask".syscall(1, "quit_ltask")
    return {}
  ]], 'false\twork.lua:3: loop.watchdog: must be a non-negative number of seconds, got "2"\n0\t0.05\n'
    .. "false\tmax_run_time: the task has run for more than 0.05 s without waiting\n")
end)

-- Regression: `ltask.start` refused them, and so did `app:run` with workers, after it had printed the address.
t.test("the limits of a system may be infinite", function()
  t.eq(output_of_service([[
    print "started"
    require "ltask".syscall(1, "quit_ltask")
    return {}
  ]], "watchdog = math.huge, max_run_time = 1e9"), "started\n")
end)

-- Regression: `run` returned as after success.
t.test("loop.run raises if its function catches the error of max_run_time and is ended", function()
  t.eq(output [[
    local loop = require "lio.loop"
    loop.max_run_time = 0.05
    local ok, message = pcall(loop.run, function()
      while true do pcall(function() while true do end end) end
    end)
    print(ok, message:match "max_run_time: [^\n]*")
  ]], "false\tmax_run_time: the task has run for more than 0.05 s without waiting\n")
end)

-- Regression: the task that had started the other one was considered to exceed the limit, too.
t.test("a task that starts another one inside itself does not get its error", function()
  t.eq(output [[
    local loop, task, run_time = require "lio.loop", require "lio.task", require "lio.run_time"
    loop.max_run_time = 0.05
    loop.run(function()
      task.spawn(function()
        pcall(function() while true do end end)
        print(run_time.has_exceeded())
      end)
      print(run_time.has_exceeded())
    end)
  ]], "true\nfalse\n")
end)

-- Regression: a stock interpreter got the signals of a timer that had no effect.
t.test("a stock interpreter has no timer and no handler of SIGURG", function()
  if not IS_STOCK then return end
  local function catches_urgent()
    local status = assert(io.open "/proc/self/status"):read "a"
    return tonumber(status:match "SigCgt:%s*(%x+)", 16) & 1 << 22 ~= 0
  end
  t.eq(loop.run(catches_urgent), false)
end)

test("a stock interpreter refuses max_run_time without workers", function()
  if not IS_STOCK then return end
  local ok, message = pcall(function()
    loop.max_run_time = 1
    loop._limit_run_time()
  end)
  loop.max_run_time = 0
  t.eq(ok, false)
  t.ok(message:find("loop.max_run_time: tasks of this program cannot be interrupted", 1, true), message)
end)

-- Regression: the server that `app:run` had started before it raised continued to serve.
test("app:run that raises because of max_run_time leaves no server behind", function()
  if not IS_STOCK then return end
  local app = require("lio.webserver").new()
  local ok, message = pcall(app.run, app, "127.0.0.1:0", { max_run_time = 1 })
  loop.max_run_time = 0
  t.eq(ok, false)
  t.ok(message:find("tasks of this program cannot be interrupted", 1, true), message)
  local server = app.servers[1] -- nil if it has been collected
  t.ok(not server or server.ended)
end)

-- Regression: a wrong `grace` was noticed when the loop stopped, and requests were lost.
t.test("invalid limits, and an invalid grace, raise in loop.run", function()
  for _, name in ipairs { "watchdog", "max_run_time", "grace" } do
    local before = loop[name]
    loop[name] = -1
    local ok, message = pcall(loop.run, error)
    loop[name] = before
    t.eq(ok, false)
    t.ok(message:find(("loop.%s: must be a non-negative number of seconds, got -1"):format(name), 1, true), message)
  end
end)

t.finish()
