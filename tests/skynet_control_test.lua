-- The functions of the Skynet API that inspect and control a service: concurrent requests, lists of coroutines,
-- statistics, killed coroutines, messages without a handler, and the protocol "debug".

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
package.path = t.root .. "?.lua;" .. package.path
local kit = require "tests.skynet.kit"
local plain = require "tests.ltaskkit"

-- A service that answers later: `ping` after some time, `fail` with an error, `hang` never, `later` after `go`.
local slave <const> = [[
  function CMD.later() skynet.wait "go" return "late" end
  function CMD.go() skynet.wakeup "go" end
  function CMD.ping(time, ...) skynet.sleep(time) return ... end
  function CMD.fail() error "no luck" end
  function CMD.hang() skynet.sleep(1000000) end
  serve()
]]

-- Requests ------------------------------------------------------------------------------------

kit.both("request sends several calls and returns their answers as they arrive", {
  services = { slave = slave },
  main = [[
    local slave = skynet.newservice "slave"
    for one, answer in skynet.request { slave, "lua", "ping", 6, "last" } { slave, "lua", "ping", 0, nil, "b", n = 6 }
      { slave, "lua", "ping", 3, "x", token = "T" }:select() do
      say(one[4], one.token, answer.n, table.unpack(answer, 1, answer.n))
    end
  ]],
  out = { "0\tnil\t2\tnil\tb", "3\tT\t1\tx", "6\tnil\t1\tlast" },
})

kit.both("a failed request has the answer false, also if there is no such service", {
  services = { slave = slave },
  err = "no luck",
  main = [[
    local slave = skynet.newservice "slave"
    local r = skynet.request()
    r:add { ".nobody", "lua", name = "no name" }:add { 4000, "lua", name = "no service" }
    r { slave, "lua", "fail", name = "fails" }
    r { slave, "lua", "ping", 5, "fine", name = "works" }
    local list = {}
    for one, answer in r:select() do list[#list + 1] = one.name .. " " .. tostring(answer and answer[1]) end
    table.sort(list)
    say(table.concat(list, ", "), r.timeout)
  ]],
  out = { "fails false, no name false, no service false, works fine\tnil" },
})

kit.both("at the timeout of select the loop ends, and late answers are dropped", {
  services = { slave = slave },
  main = [[
    local slave = skynet.newservice "slave"
    local waiting = skynet.task()
    local r = skynet.request { slave, "lua", "ping", 0, "in time" } { slave, "lua", "later" }
    r { slave, "lua", "hang" }
    for _, answer in r:select(50) do say(answer[1]) end
    say(r.timeout, skynet.task() - waiting)
    skynet.call(slave, "lua", "go")
    say(skynet.call(slave, "lua", "ping", 0, "behind the late one"))
    -- A request that is done has no timer.
    r = skynet.request { slave, "lua", "ping", 0, 1 }
    for _, answer in r:select(100000) do say(answer[1]) end
    say(r.timeout, skynet.task() - waiting)
  ]],
  out = { "in time", "true\t0", "behind the late one", "1", "nil\t0" },
})

kit.both("a loop that is left early, and close, drop the other calls", {
  services = { slave = slave },
  main = [[
    local slave = skynet.newservice "slave"
    local waiting = skynet.task()
    for _, answer in skynet.request { slave, "lua", "ping", 1, 1 } { slave, "lua", "hang" }:select(10000) do
      say(answer[1])
      break
    end
    say(skynet.task() - waiting)
    local r = skynet.request { slave, "lua", "hang" }
    skynet.timeout(1, function() r:close() end)
    for _ in r:select() do say "no" end
    do
      local closed <close> = skynet.request { slave, "lua", "hang" }
      closed:select()
      say(skynet.task() - waiting)
    end
    say(skynet.task() - waiting)
  ]],
  out = { "1", "0", "1", "0" },
})

kit.both("calls and other requests work inside the loop, and select takes a list", {
  services = { slave = slave },
  main = [[
    local slave = skynet.newservice "slave"
    for one, answer in skynet.select({ { slave, "lua", "ping", 2, "a" }, { slave, "lua", "ping", 0, "b" } }, 100) do
      say(answer[1], skynet.call(slave, "lua", "ping", 0, "inside"))
      for _, inner in skynet.request { slave, "lua", "ping", 0, "inner" }:select() do say(inner[1]) end
    end
    say(require "skynet.select" == skynet.select)
    for _ in skynet.select {} do say "no" end
  ]],
  out = { "b\tinside", "inner", "a\tinside", "inner", "true" },
})

kit.both("a value that is no request is refused at the caller's line", {
  main = [[
    local function try(f, ...) say((select(2, pcall(f, ...)):gsub("^.*/", ""))) end
    try(function() skynet.request {} end)
    try(function() skynet.request():add(1) end)
    try(function() skynet.select(1) end)
    try(function() skynet.request():select "x" end)
    local r = skynet.request()
    r:select()
    try(function() r:select() end)
    try(function() r { 1, "lua" } end)
  ]],
  out = {
    "main.lua:2: bad argument #1 to 'request' ({ address, protocol, … } expected)",
    "main.lua:3: bad argument #1 to 'add' ({ address, protocol, … } expected)",
    "main.lua:4: bad argument #1 to 'select' (a list of { address, protocol, … } expected, got number)",
    "main.lua:5: bad argument #1 to 'select' (a time in centiseconds expected, got x)",
    "main.lua:8: select: called a second time", "main.lua:9: add: the requests were sent already, by select",
  },
})

-- Coroutines ----------------------------------------------------------------------------------

kit.both("task counts and shows the waiting coroutines", {
  services = {
    look = [[
      skynet.start(function()
        local list = {}
        local co = skynet.fork(function() skynet.sleep(100000) end)
        skynet.fork(function() skynet.wait "token" end)
        skynet.timeout(100000, print)
        skynet.yield()
        say(skynet.task())
        skynet.task(list)
        local count = 0
        for key, text in pairs(list) do
          count = count + 1
          assert(key:find "^thread: 0x%x+ session: %d+$", key)
          assert(text:find "stack traceback:\n", text)
        end
        local session = skynet.task(co)
        say(count, math.type(session), list[tostring(co) .. " session: " .. session] == skynet.task(session))
        say(skynet.task(session):find "look.lua:3: in function" ~= nil)
        say(skynet.task(123456), skynet.task(coroutine.create(print)))
        say(skynet.task "init":find "look.lua:%d+: in function" ~= nil)
        skynet.fork(function() say(skynet.task "init") end)
      end)
    ]],
  },
  main = [[
    -- Its forks run before it answers.
    skynet.call(skynet.newservice "look", "debug", "PING")
    say(pcall(skynet.task, true))
  ]],
  out = {
    "3", "3\tinteger\ttrue", "true", "No session\tnil", "true", "nil",
    "false\tbad argument #1 to 'task' (nothing, \"init\", a table, a session or a coroutine expected, got boolean)",
  },
})

kit.both("uniqtask shows each traceback once, with sessions", {
  services = { look = [[
    skynet.start(function()
      for _ = 1, 12 do skynet.fork(function() skynet.sleep(100000) end) end
      skynet.fork(function() skynet.wait "token" end)
      skynet.yield()
      local heads = {}
      for head, text in pairs(skynet.uniqtask()) do
        heads[#heads + 1] = head:gsub("[%d]+,", "N,"):gsub("%d+([%].])", "N%1") .. (text:match "look.lua:%d+")
      end
      table.sort(heads)
      for _, head in ipairs(heads) do say((head:gsub("\n", " "))) end
    end)
  ]] },
  main = [[ skynet.newservice "look" ]],
  out = { "1\tsessions:[N] look.lua:3", "12\tsessions:[N,N,N,N,N,N,N,N,N,N...] look.lua:2" },
})

kit.both("trace_timeout keeps the place that has set a timeout, until it runs", {
  main = [[
    local function only()
      local list = {}
      skynet.task(list)
      local _, text = next(list)
      return text
    end
    skynet.trace_timeout(true)
    local co = skynet.timeout(100000, print)
    say(only():find "^TIMER %d+%+100000 : timeout\nstack traceback:\n[^\n]*main.lua:8: " ~= nil)
    skynet.killthread(co)
    skynet.timeout(0, function() skynet.wait "here" end)
    skynet.yield()
    say(only():find "main.lua:11: in function" ~= nil, only():find "TIMER")
    skynet.wakeup "here"
    skynet.yield()
    skynet.trace_timeout(false)
    skynet.timeout(100000, print)
    say(only():find "TIMER")
  ]],
  out = { "true", "true\tnil", "nil" },
})

kit.both("killthread closes a coroutine, by itself, its session or its name; its caller gets an error", {
  services = { slave = slave .. [[
    function CMD.kill() return skynet.killthread(CMD.victim) == CMD.victim end
    function CMD.busy()
      local closed <close> = setmetatable({}, { __close = function() say "closed" end })
      CMD.victim = coroutine.running()
      skynet.sleep(100000)
    end
  ]] },
  err = "closed before it was answered",
  main = [[
    local count = skynet.task()
    local function victim(what)
      return skynet.fork(function()
        local closed <close> = setmetatable({}, { __close = function() say(what) end })
        skynet.sleep(100000)
        say "not this"
      end)
    end
    local co = victim "by itself"
    skynet.yield()
    say(skynet.killthread(co) == co, skynet.killthread(co))
    co = victim "by session"
    skynet.yield()
    say(skynet.killthread(skynet.task(co)) == co)
    co = victim "by name"
    skynet.yield()
    say(skynet.killthread(tostring(co):match "0x(%x+)") == co)
    -- Not begun, a timer, itself.
    co = skynet.fork(say, "not this")
    say(skynet.killthread(co) == co)
    co = skynet.timeout(100000, print)
    say(skynet.killthread(co) == co)
    say(skynet.killthread(coroutine.running()), skynet.killthread "no such name", skynet.killthread(123456))
    say(skynet.task() - count, (select(2, pcall(skynet.killthread, {})):gsub("^.*/", "")))
    local slave = skynet.newservice "slave"
    skynet.fork(function()
      local ok, err = pcall(skynet.call, slave, "lua", "busy")
      skynet.wait "its turn"
      say(ok, err)
    end)
    skynet.yield()
    say(skynet.call(slave, "lua", "kill"))
    -- The answer to `busy` came first.
    skynet.wakeup "its turn"
    skynet.yield()
  ]],
  out = {
    "by itself", "true\tnil", "by session", "true", "by name", "true", "true", "true", "nil\tnil\tnil",
    "0\tbad argument #1 to 'killthread' (a coroutine, a session or a part of its name expected, got table)",
    "closed", "true", "false\tthe request's coroutine was closed before it answered",
  },
})

kit.both("term ends the calls that wait for a service, and drops responses to it", {
  services = { slave = [[
    local answer
    function CMD.hang() skynet.sleep(1000000) end
    function CMD.keep() answer = skynet.response() end
    function CMD.ask(addr)
      skynet.fork(function() say("asked", pcall(skynet.call, addr, "lua", "hang")) end)
      -- Calls to another service still wait.
      skynet.fork(function() say("another", pcall(skynet.call, CMD.other, "lua", "hang")) end)
      skynet.fork(function()
        for one, result in skynet.request { addr, "lua", "hang" }:select() do say("request", result) end
      end)
      skynet.yield()
    end
    function CMD.term(addr, keeps)
      say("term", answer "TEST")
      skynet.term(addr)
      skynet.yield()
      say("after it", answer "TEST")
      if not keeps then say(answer(true, "late"), pcall(answer, true)) end
    end
    function CMD.other_is(addr) CMD.other = addr end
    skynet.start(function()
      skynet.dispatch("lua", function(_, _, cmd, ...)
        local f = CMD[cmd]
        if cmd == "keep" then return f(...) end
        skynet.retpack(f(...))
      end)
    end)
  ]] },
  main = [[
    local a, b, c = skynet.newservice "slave", skynet.newservice "slave", skynet.newservice "slave"
    skynet.call(a, "lua", "other_is", c)
    skynet.call(a, "lua", "ask", b)
    skynet.fork(skynet.call, a, "lua", "keep")
    skynet.yield()
    -- The calls of `a` wait for `b`; its responses are for this service.
    skynet.call(a, "lua", "term", b, true)
    skynet.call(a, "lua", "term", skynet.self())
  ]],
  err = false,
  out = function(out)
    out = out:gsub("service:%d+", "service:N")
    t.eq(kit.lines(out), {
      "term\ttrue", "asked\tfalse\t{service:N} is dead", "request\tfalse", "after it\ttrue",
      "term\ttrue", "after it\tfalse", "false\tfalse\tresponse: this request was answered already",
    })
  end,
})

-- Messages that nothing handles ---------------------------------------------------------------

kit.both("dispatch_unknown_request gets sent messages without a handler; calls without one are refused", {
  services = { odd = kit.text_protocol .. [[
    skynet.start(function()
      local before
      before = skynet.dispatch_unknown_request(function(session, from, msg, sz, name)
        if name == "text" then return say(name, skynet.tostring(msg, sz), sz) end
        say(session, skynet.address(from), name, skynet.unpack(msg, sz))
        if name == "stop" then before(session, from, msg, sz, name) end
      end)
    end)
  ]] },
  main = kit.text_protocol .. [[
    local odd = skynet.newservice "odd"
    skynet.send(odd, "lua", "a", { 1 }, nil)
    skynet.send(odd, "text", "some text")
    ltask.send(odd, "stop", 1)
    say(pcall(skynet.call, odd, "lua", 1))
    say(select(2, pcall(skynet.dispatch_unknown_request)))
  ]],
  err = "nothing handles 'stop' here: a message of :00000003, session 0",
  out = function(out)
    out = out:gsub("table: 0x%x+", "table")
    t.eq(kit.lines(out), {
      "0\t:00000003\tlua\ta\ttable\tnil", "text\tsome text\t9", "0\t:00000003\tstop\t1",
      "false\tservice 4 (odd) has no request 'lua'",
      "bad argument #1 to 'dispatch_unknown_request' (function expected, got nil)",
    })
  end,
})

kit.both("dispatch_unknown_response gets answers to unknown sessions", {
  services = { odd = [[
    local post = require "ltask.core".post
    skynet.start(function()
      local before
      before = skynet.dispatch_unknown_response(function(session, from, msg, sz)
        say(session, from == skynet.self(), skynet.unpack(msg, sz))
        skynet.dispatch_unknown_response(function(...)
          before(...)
          skynet.wakeup "seen"
        end)
        say(post(skynet.self(), 1234567, 2))
      end)
      -- An answer that comes too late is none of these.
      local co = skynet.fork(function() skynet.call(1, "servicepath") end)
      skynet.yield()
      skynet.killthread(co)
      post(skynet.self(), 7654321, 2, "x", 1)
      skynet.wait "seen"
    end)
  ]] },
  main = [[ skynet.newservice "odd" ]],
  err = "an answer of :00000004 to session 1234567, which this service has not used",
  out = { "7654321\ttrue\tx\t1", "true" },
})

-- Figures, start ------------------------------------------------------------------------------

kit.both("stat returns the statistics of the service, and mqlen the number of unread messages", {
  services = { figures = [[
    skynet.start(function()
      skynet.dispatch("lua", function() end)
      local before = skynet.stat "message"
      for i = 1, 5 do skynet.send(skynet.self(), "lua") end
      say(skynet.mqlen(), skynet.stat "mqlen", skynet.stat "message" - before)
      -- The answer that ends the wait follows the five.
      skynet.yield()
      say(skynet.mqlen(), skynet.stat "message" - before)
      local cpu, counter = skynet.stat "cpu", ltask.counter()
      while ltask.counter() < counter + 0.02 do end
      say(skynet.stat "cpu" - cpu >= 0.02, skynet.stat "time" >= 0.02)
      say(skynet.stat "endless", skynet.endless(), skynet.stat "no such figure")
    end)
  ]] },
  main = [[ skynet.newservice "figures" ]],
  out = { "5\t5\t0", "0\t6", "true\ttrue", "0\tfalse\tnil" },
})

kit.both("endless is true once after a report of the watchdog", {
  config = { core = { watchdog = 0.05 } },
  services = { busy = [[
    skynet.start(function()
      skynet.dispatch("lua", function()
        repeat until skynet.stat "endless" == 1
        skynet.retpack(skynet.stat "endless", skynet.endless())
      end)
    end)
  ]] },
  main = [[ say(skynet.call(skynet.newservice "busy", "lua")) ]],
  err = "has not paused",
  out = function(out) t.eq(kit.lines(out)[1], "0\tfalse") end,
})

kit.both("memlimit bounds the memory", {
  services = { small = [[
    skynet.memlimit(2000000)
    skynet.start(function()
      skynet.dispatch("lua", function(_, _, size) skynet.retpack(#("x"):rep(size)) end)
    end)
  ]] },
  main = [[
    local small = skynet.newservice "small"
    say(skynet.call(small, "lua", 100000))
    say((select(2, pcall(skynet.call, small, "lua", 10000000)).message:match "not enough memory"))
    say(skynet.call(small, "lua", 100000))
  ]],
  err = "not enough memory",
  out = { "100000", "not enough memory", "100000" },
})

kit.both("pcall runs the functions of init before its function, and catches errors", {
  services = { careful = [[
    skynet.init(function() say "init" end)
    say(skynet.pcall(function(...) return "f", ... end, 1, nil))
    local ok, err = skynet.pcall(error, "wrong", 0)
    say(ok, (err:gsub("\n.*", "")), err:find "stack traceback:" ~= nil)
    skynet.start(function() say "start" end)
  ]] },
  main = [[ skynet.newservice "careful" ]],
  out = { "init", "true\tf\t1\tnil", "false\twrong\ttrue", "start" },
})

t.test("fields that the preload file sets on skynet exist in each service", function()
  local dir = t.tmp()
  t.write(dir .. "/before.lua", [[
    local skynet = require "skynet"
    PRELOADED = skynet
    function skynet.hello() return "hello of " .. skynet.self() end
    skynet.mark = 42]])
  t.write(dir .. "/main.lua", [[
    local skynet = require "skynet"
    skynet.start(function()
      io.write(tostring(skynet == PRELOADED), " ", skynet.hello(), " ", skynet.mark, "\n")
      skynet.newservice "other"
      skynet.abort()
    end)
  ]])
  t.write(dir .. "/other.lua", [[
    local skynet = require "skynet"
    io.write(tostring(skynet == PRELOADED), " ", skynet.hello(), "\n")
    skynet.start(function() end)
  ]])
  for _, workers in ipairs(plain.workers) do
    local r = plain.program(([[
      os.exit(require "skynet.start" {
        preload = "before.lua", thread = %d, luaservice = "./?.lua", lua_path = package.path, lua_cpath = package.cpath,
      }, true)
    ]]):format(workers), dir)
    t.eq({ r.out, r.err, r.code }, { "true hello of 3 42\ntrue hello of 4\n", "", 0 })
  end
end)

-- The protocol "debug" ------------------------------------------------------------------------

kit.both("debug commands inspect and control a service", {
  services = { server = [[
    skynet.info_func(function(...) return "info", ... end)
    function CMD.hang() skynet.sleep(1000000) end
    serve()
  ]], silent = "skynet.start(function() end)" },
  main = [[
    local server, silent = skynet.newservice "server", skynet.newservice "silent"
    local function ask(...) return skynet.call(server, "debug", ...) end
    say("MEM", math.type(ask "MEM"))
    say("GC", ask "GC")
    say("PING", ask "PING")
    say("INFO", ask("INFO", 1, nil))
    say("INFO", skynet.call(silent, "debug", "INFO"))
    say("SUPPORT", ask("SUPPORT", "lua"), skynet.call(silent, "debug", "SUPPORT", "lua"), ask("SUPPORT", "tea"))
    local hangs = skynet.fork(function() say("hangs", pcall(skynet.call, server, "lua", "hang")) end)
    skynet.yield()
    local stat = ask "STAT"
    say("STAT", stat.task, stat.mqlen, math.type(stat.message), math.type(stat.cpu))
    local list = ask "TASK"
    local name, text = next(list)
    say("TASK", next(list, name), text == ask("TASK", tonumber(name:match "%d+$")), ask("TASK", 123456))
    local head, unique = next(ask "UNIQTASK")
    say("UNIQTASK", head:match "^1\tsessions:%[%d+%]\n$" ~= nil, unique == text)
    say("KILLTASK", ask("KILLTASK", "0xno"))
    say("KILLTASK", ask("KILLTASK", name:match "0x%x+"))
    skynet.yield()
    local linked
    skynet.fork(function()
      linked = table.pack(pcall(ask, "LINK"))
      skynet.wakeup "linked"
    end)
    skynet.yield()
    say("unknown", select(2, pcall(ask, "no such command")).message)
    say("EXIT", pcall(ask, "EXIT"))
    if not linked then skynet.wait "linked" end
    say("LINK", table.unpack(linked))
    say("PING", pcall(ask, "PING"))
  ]],
  err = false,
  out = function(out)
    local said, logged = {}, {}
    for line in out:gmatch "[^\n]+" do
      local text = line:match "^%[.*%[INFO%]%(4 server%) (.*)$"
      table.insert(text and logged or said, text and text:gsub("%d+%.%d+", "N"):gsub("0x%x+", "0x") or line)
    end
    t.eq(said, {
      "MEM\tfloat", "GC", "PING", "INFO\tinfo\t1\tnil", "INFO\tnil", "SUPPORT\ttrue\tfalse\tfalse",
      "STAT\t1\t0\tinteger\tfloat", "TASK\tnil\ttrue\tNo session", "UNIQTASK\ttrue\ttrue", "KILLTASK\tNot found",
      "hangs\tfalse\tthe request's coroutine was closed before it answered", "KILLTASK",
      "unknown\tthere is no debug command 'no such command'",
      "EXIT\tfalse\t{service:4} is dead", "LINK\tfalse\t{service:4} is dead", "PING\tfalse\t{service:4} is dead",
    })
    t.eq(logged, {
      "GC N KiB -> N KiB in N s", "KILLTASK 0xno: not found", "KILLTASK 0x: closed thread: 0x",
    })
  end,
})

kit.both("the debug command TERM ends calls, RUN runs code with the handlers' upvalues", {
  services = { server = [[
    local values = { x = 1 }
    function CMD.get(name) return values[name] end
    function CMD.ask(addr) return pcall(skynet.call, addr, "lua", "hang") end
    function CMD.hang() skynet.sleep(1000000) end
    serve()
  ]] },
  main = [[
    local server, other = skynet.newservice "server", skynet.newservice "server"
    skynet.fork(function() say("TERM", skynet.call(server, "lua", "ask", other)) end)
    skynet.yield()
    say(skynet.call(server, "debug", "TERM", other))
    skynet.yield()
    local function run(...) return skynet.call(server, "debug", "RUN", ...) end
    say(run("print(_P.lua.CMD.get 'x', _U.CMD == _P.lua.CMD, SERVICE_NAME, ...) print 'more'", "=text", "argument"))
    say(run("_P.lua.CMD.get = function() return 'injected' end"))
    say(skynet.call(server, "lua", "get", "x"))
    say(run("no Lua", "=text"))
    local ok, text = run("print 'before' error('wrong', 0)")
    say(ok, (text:gsub("\n", " "):gsub("stack.*", "")))
  ]],
  out = function(out)
    out = out:gsub("service:%d+", "service:N")
    t.eq(kit.lines(out), {
      "TERM\tfalse\t{service:N} is dead", "true\t1\ttrue\tserver\targument", "more", "true\t", "injected",
      "false\ttext:1: syntax error near 'Lua'", "false\tbefore wrong ",
    })
  end,
})

kit.both("reg_debugcmd adds a command, and TRACELOG traces a protocol", {
  services = { server = [[
    require "skynet.debug".reg_debugcmd("HELLO", function(...) return "hello", ... end)
    function CMD.get() return skynet.tracetag() end
    serve()
  ]] },
  main = [[
    local server = skynet.newservice "server"
    say(skynet.call(server, "debug", "HELLO", 1))
    say(skynet.call(server, "lua", "get"))
    say(skynet.call(server, "debug", "TRACELOG", true))
    say(skynet.call(server, "lua", "get"))
    say(skynet.call(server, "debug", "TRACELOG", "lua", false))
    skynet.trace()
    say(skynet.call(server, "lua", "get"))
    say(skynet.call(server, "debug", "TRACELOG"))
    say(skynet.call(server, "lua", "get"))
  ]],
  out = function(out)
    local said, logged = {}, {}
    for line in out:gmatch "[^\n]+" do
      local text = line:match "^%[.*%[INFO%]%(4 server%) (.*)$"
      if text then logged[#logged + 1] = text:gsub("%d+%.%d+", "N") end
      if not line:find "^%[" then said[#said + 1] = line end
    end
    t.eq(said, { "hello\t1", "nil", ":00000004-1", "nil", ":00000003-1" })
    t.eq(logged, {
      "TRACELOG lua: true", "<TRACE :00000004-1> N trace", "<TRACE :00000004-1> N request",
      "<TRACE :00000004-1> N response", "<TRACE :00000004-1> N end", "TRACELOG lua: false", "TRACELOG lua: nil",
      "<TRACE :00000003-1> N request", "<TRACE :00000003-1> N response", "<TRACE :00000003-1> N end",
    })
  end,
})

-- Modules -------------------------------------------------------------------------------------

kit.both("skynet.coroutine has skynet's names, and the status of waiting coroutines", {
  main = [[
    local coroutine = require "skynet.coroutine"
    local own = coroutine.running()
    say(coroutine.thread() == own, select(2, coroutine.thread()), coroutine.isyieldable())
    say((coroutine.resume(own)))
    local co = coroutine.create(function(...)
      say("begin", ...)
      local owner, is_owner = coroutine.thread()
      say(owner == own, is_owner)
      skynet.sleep(2)
      local x = coroutine.yield "yielded"
      return x
    end)
    say(coroutine.status(co))
    skynet.fork(function()
      say(coroutine.status(co), coroutine.resume(co))
    end)
    say(coroutine.resume(co, 1, 2))
    say(coroutine.status(co))
    say(select(2, coroutine.resume(co, "x")))
    say(coroutine.status(co), coroutine.resume(co))
    local f = coroutine.wrap(function() coroutine.yield(1) error("wrong", 0) end)
    say(f())
    say(pcall(f))
    co = coroutine.create(coroutine.yield)
    coroutine.resume(co)
    say(coroutine.close(co), coroutine.status(co))
  ]],
  out = {
    "true\ttrue\ttrue", "false", "suspended", "begin\t1\t2", "true\tfalse",
    "blocked\tfalse\tcannot resume a coroutine that is waiting", "true\tyielded", "suspended", "x",
    "dead\tfalse\tcannot resume dead coroutine", "1", "false\twrong", "true\tdead",
  },
})

kit.both("skynet.profile measures the time of a coroutine without its waits and without other coroutines", {
  main = [[
    local profile = require "skynet.profile"
    local function work(seconds)
      local counter = ltask.counter()
      while ltask.counter() < counter + seconds do end
    end
    -- Other coroutines work while this one sleeps.
    skynet.fork(work, 2)
    profile.start()
    skynet.sleep(10)
    local slept = profile.stop()
    say(slept >= 0, slept < 1)
    profile.start()
    local counter = ltask.counter()
    for _ = 1, 2000000 do end
    local worked = profile.stop()
    say(worked > 0, worked <= ltask.counter() - counter + 0.01)
    say(pcall(profile.stop))
    profile.start()
    say(pcall(profile.start))
    profile.stop()
    -- Inside: time while it is suspended does not count.
    local spent
    local f = profile.wrap(function()
      profile.start()
      profile.yield "half"
      spent = profile.stop()
    end)
    say(f())
    work(2)
    f()
    say(spent < 1)
    say(profile.resume(coroutine.create(function(...) return ... end), 1))
  ]],
  out = {
    "true\ttrue", "true\ttrue",
    "false\tstop: this coroutine is not measured; start comes first",
    "false\tstart: this coroutine is measured already; stop comes first",
    "half", "true", "true\t1",
  },
})

kit.both("skynet.service makes one service of a function, which other services find by its name", {
  services = { user = [[
    local service = require "skynet.service"
    function CMD.set(...) return skynet.call(service.query "db", "lua", "set", ...) end
    serve()
  ]] },
  main = [[
    local service = require "skynet.service"
    local function db(first)
      local skynet = require "skynet"
      local values, CMD = { first = first }, {}
      function CMD.get(key) return values[key] end
      function CMD.set(key, value) values[key] = value end
      skynet.start(function()
        io.stdout:write("starts ", SERVICE_NAME, "\n")
        io.stdout:flush()
        skynet.sleep(1)
        skynet.dispatch("lua", function(_, _, cmd, ...) skynet.retpack(CMD[cmd](...)) end)
      end)
    end
    local user = skynet.newservice "user"
    local done
    skynet.fork(function()
      -- Waits until there is one.
      skynet.call(user, "lua", "set", "x", 1)
      done = true
      skynet.wakeup "done"
    end)
    skynet.yield()
    local addr
    skynet.fork(function() addr = service.new("db", db, "not this") end)
    local same = service.new("db", db, "value")
    skynet.yield()
    say(addr == same, service.query "db" == same)
    if not done then skynet.wait "done" end
    say(skynet.call(same, "lua", "get", "x"))
    say(service.close "db", service.close "db")
    local other = service.new("db", db, "again")
    say(other ~= same, skynet.call(other, "lua", "get", "first"), skynet.call(other, "lua", "get", "x"))
    local function try(...) say((select(2, pcall(service.new, ...)):gsub("^.-main.lua", "main.lua"))) end
    try("up", function() return addr end)
    try(1, db)
    try("up", 1)
    local ok, err = pcall(service.new, "bad", function() error("wrong", 0) end)
    say(ok, err.message)
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.eq(lines, {
      "starts db", "true\ttrue", "1", "true\tfalse", "starts db", "true\tagain\tnil",
      "bad argument #2 to 'new' (the function runs in another VM and must not refer to the local 'addr')",
      "bad argument #1 to 'new' (string expected, got number)",
      "bad argument #2 to 'new' (function expected, got number)", "false\twrong",
    })
  end,
})

t.finish()
