-- The protocol "debug" of the Skynet compatibility API.

local t = require "tests.kit"
local kit = require "tests.kit.skynet_system"

kit.test("debug commands inspect and control a service", {
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
    skynet.fork(function() say("hangs", pcall(skynet.call, server, "lua", "hang")) end)
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

kit.test("the debug command TERM ends calls, and RUN runs code with the handlers' upvalues", {
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

kit.test("reg_debugcmd adds a command, and TRACELOG traces a protocol", {
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

t.finish()
