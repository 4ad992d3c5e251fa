-- The Skynet API for services: creating, finding, naming and ending them, and values that all services share.

local t = require "tests.kit"
local kit = require "tests.kit.skynet_system"
local plain = require "tests.kit.ltask_system"

kit.test("a service's file gets its arguments unchanged, and the start function runs after the file", {
  services = {
    args = [[
      local a, b, c, d = ...
      say(select("#", ...), math.type(a), b, c.k, d, SERVICE_NAME)
      skynet.init(function() say "init 1" end)
      skynet.start(function() say "start" skynet.init(function() say "init at once" end) end)
      skynet.init(function() say "init 2" end)
      say "file"
    ]],
  },
  main = [[
    say(math.type(skynet.newservice("args", 1, "x", { k = "v" }, nil)))
    assert(os.execute "mkdir folder")
    local file = assert(io.open("folder/deep.lua", "w"))
    file:write "io.stdout:write(SERVICE_NAME, ' ', ..., '\\n')"
    file:close()
    skynet.newservice("folder.deep", "argument")
  ]],
  out = {
    "4\tinteger\tx\tv\tnil\targs", "file", "init 1", "init 2", "start", "init at once", "integer",
    "folder.deep argument",
  },
})

kit.test("a service answers while its start function waits", {
  services = {
    one = [[
      skynet.start(function()
        skynet.dispatch("lua", function(_, _, n) skynet.retpack(n + 1) end)
        local two = skynet.newservice("two", skynet.self())
        say(skynet.call(two, "lua", 1))
      end)
    ]],
    two = [[
      local one = ...
      skynet.start(function()
        skynet.dispatch("lua", function(_, _, n) skynet.retpack(skynet.call(one, "lua", n) * 10) end)
        say(skynet.call(one, "lua", 41))
      end)
    ]],
  },
  main = [[ skynet.newservice "one" ]],
  out = { "42", "20" },
})

kit.test("newservice raises the error with which the new service failed", {
  services = {
    fails = "error 'in the file'",
    syntax = "this is no Lua",
    twice = "skynet.start(function() end) skynet.start(function() end)",
    again = "skynet.start(function() skynet.start(function() end) end)",
    nothing = "skynet.start()",
    init = "skynet.init(function() error 'in init' end) skynet.start(function() say 'not this' end)",
  },
  main = [[
    local function try(...)
      local ok, e = pcall(...)
      local text = type(e) == "table" and e.message or tostring(e)
      say(ok, (text:gsub("\n.*", ""):gsub("^/.*/", "")))
    end
    try(skynet.newservice, "no such service")
    try(skynet.newservice)
    for _, name in ipairs { "fails", "syntax", "twice", "again", "nothing", "init" } do try(skynet.newservice, name) end
    try(skynet.uniqueservice, "fails")
    try(skynet.uniqueservice)
  ]],
  err = "the service could not start: .*in init",
  out = function(out)
    local lines = kit.lines(out)
    t.eq(#lines, 10)
    for i, pattern in ipairs {
      "^false\tcannot find service 'no such service'",
      "^false\tmain%.lua:%d+: newservice: a service's name expected, got nil$",
      "^false\tfails%.lua:1: in the file$", "^false\tsyntax%.lua:1: syntax error",
      "^false\ttwice%.lua:1: skynet%.start: called a second time$",
      "^false\tagain%.lua:1: skynet%.start: called a second time$",
      "^false\tnothing%.lua:1: bad argument #1 to 'start' %(function expected, got nil%)$",
      "^false\tinit%.lua:1: in init$", "^false\tfails%.lua:1: in the file$",
      "^false\tmain%.lua:%d+: uniqueservice: a service's name expected, got nil$",
    } do
      t.ok(lines[i]:find(pattern), t.show(lines[i]) .. " does not match " .. pattern)
    end
  end,
})

kit.test("built-in services and services without skynet can be created and found", {
  services = { known = "ltask.register 'known' return { lua = function() return 'native' end }" },
  main = [[
    local addr = skynet.newservice "known"
    say(skynet.queryservice "known" == addr, skynet.queryservice(true, "known") == addr)
    say(skynet.call(addr, "lua"))
    say(math.type(skynet.newservice "timer"))
    say(ltask.uniqueservice "known" == addr, skynet.uniqueservice "known" == addr)
  ]],
  out = { "true\ttrue", "native", "integer", "true\ttrue" },
})

kit.test("start works in services that were not created by skynet", {
  services = { plain = [[
    say("file", SERVICE_NAME)
    skynet.start(function()
      skynet.dispatch("lua", function(_, _, ...) skynet.retpack(...) end)
      skynet.sleep(1)
      say "started"
    end)
    say "behind start"
  ]], exits = "skynet.start(function() skynet.exit() end)", },
  main = [[
    say(skynet.call(ltask.spawn "plain", "lua", 1, 2))
    say(math.type(ltask.spawn "exits"))
  ]],
  out = { "file\tnil", "started", "behind start", "1\t2", "integer" },
})

kit.test("exit ends every coroutine of the service at once", {
  services = { exits = [[
    local function close(name) return setmetatable({}, { __close = function() say("closed", name) end }) end
    skynet.start(function()
      skynet.dispatch("lua", function(_, _, cmd)
        if cmd == "hang" then
          local _ <close> = close "request"
          skynet.wait "for ever"
        end
        skynet.fork(function() say "not this" end)
        skynet.timeout(0, function() say "nor this" end)
        local ok = pcall(skynet.exit)
        say("nor this", ok)
      end)
      skynet.fork(function()
        local _ <close> = close "fork"
        skynet.sleep(100000)
      end)
    end)
  ]] },
  main = [[
    local addr = skynet.newservice "exits"
    local ended
    skynet.fork(function()
      say("hang", pcall(skynet.call, addr, "lua", "hang"))
      ended = true
    end)
    skynet.yield()
    local ok = pcall(skynet.call, addr, "lua", "exit")
    while not ended do skynet.sleep(1) end
    say("exit", ok)
  ]],
  out = function(out)
    local lines = kit.lines(out)
    table.sort(lines)
    t.eq(lines, {
      "closed\tfork", "closed\trequest", "exit\tfalse",
      "hang\tfalse\t{service:4} is dead",
    })
  end,
})

kit.test("if a request is closed before it is answered, the log has the line of its handler", {
  services = { closed = [[
    skynet.start(function()
      skynet.dispatch("lua", function(_, _, cmd)
        if cmd == "close" then
          local task = require "lio.task"
          for _, co in ipairs(task.list()) do
            if co ~= coroutine.running() then task.kill(co) end
          end
          return skynet.retpack "done"
        end
        skynet.wait "for ever"
      end)
    end)
  ]] },
  main = [[
    local addr = skynet.newservice "closed"
    local result
    skynet.fork(function() result = table.pack(pcall(skynet.call, addr, "lua", "wait")) end)
    skynet.yield()
    say(skynet.call(addr, "lua", "close"))
    while not result do skynet.sleep(1) end
    say(table.unpack(result))
  ]],
  err = "a request from :00000003 was closed before it was answered; the handler of 'lua' is at .*closed%.lua:2",
  out = { "done", "false\tthe request's coroutine was closed before it answered" },
})

kit.test("kill ends another service, by number and by name", {
  services = { sleeper = "skynet.start(function() end)" },
  main = [[
    local a, b = skynet.newservice "sleeper", skynet.newservice "sleeper"
    skynet.name(".b", b)
    say(skynet.kill(a), skynet.kill ".b", skynet.kill ".none", skynet.kill(4711))
  ]],
  out = { "true\ttrue\tfalse\tfalse" },
})

kit.test("abort ends the system", {
  services = { last = "skynet.start(function() skynet.timeout(0, skynet.abort) end)" },
  main = [[
    skynet.newservice "last"
    skynet.wait "for ever"
  ]],
  out = {},
})

kit.test("a name belongs to one service, and is free when the service has ended", {
  services = { named = "skynet.start(function() skynet.register '.named' end)" },
  main = [[
    for _, f in ipairs { "localname", "register", "name" } do
      for _, name in ipairs { "", ":0000000a", "12", false } do
        say((select(2, pcall(skynet[f], name, 1))))
      end
    end
    say((select(2, pcall(skynet.name, "other", "nobody"))))
    say(skynet.localname ".named")
    local addr = skynet.newservice "named"
    say(skynet.localname ".named" == addr)
    skynet.name(".named", addr)
    local ok, e = pcall(skynet.register, ".named")
    say(ok, e.message)
    skynet.kill ".named"
    while skynet.localname ".named" do skynet.sleep(1) end
    skynet.register ".named"
    say(skynet.localname ".named" == skynet.self())
  ]],
  out = function(out)
    local lines = kit.lines(out)
    for i, call in ipairs { "localname", "register", "name" } do
      for j, name in ipairs { "", ":0000000a", "12", "false" } do
        t.eq(lines[4 * (i - 1) + j],
          ("%s: a name expected, such as \".name\" or \"NAME\", got '%s'"):format(call, name))
      end
    end
    t.eq(table.move(lines, 13, #lines, 1, {}), {
      "name: there is no service 'nobody'",
      "nil", "true", "false\tthe name '.named' is taken by the service :00000005", "true",
    })
  end,
})

kit.test("a name without a point works in every call that takes an address", {
  services = { named = [[
    CMD = { echo = function(...) return ... end }
    skynet.start(function()
      skynet.register "NAMED"
      skynet.dispatch("lua", function(_, _, cmd, ...) skynet.retpack(CMD[cmd](...)) end)
    end)
  ]] },
  main = [[
    say(skynet.localname "NAMED", select(2, pcall(skynet.call, "NAMED", "lua")))
    local addr = skynet.newservice "named"
    say(skynet.localname "NAMED" == addr, skynet.call("NAMED", "lua", "echo", 1, "x"))
    skynet.name("other", "NAMED")
    skynet.name(".local", "other")
    say(skynet.localname "other" == addr, skynet.localname ".local" == addr, skynet.localname "local")
    say(skynet.unpack(skynet.rawcall("other", "lua", skynet.pack("echo", 2))))
    say(skynet.send("other", "lua", "echo"), skynet.send("nobody", "lua"))
    say(skynet.kill "NAMED")
  ]],
  out = function(out)
    t.eq(out, table.concat({
      "nil\tcall: there is no service 'NAMED'",
      "true\t1\tx", "true\ttrue\tnil", "2", "true\tfalse\tthere is no service 'nobody'", "true", "",
    }, "\n"))
  end,
})

kit.test("setenv sets a value for all services, and can set it only once", {
  services = { reads = "skynet.start(function() say(skynet.getenv 'key', skynet.getenv 'none') end)" },
  main = [[
    say(skynet.getenv "key")
    skynet.setenv("key", 12)
    skynet.newservice "reads"
    say(math.type(skynet.getenv "key"), pcall(skynet.setenv, "key", 13))
  ]],
  out = { "nil", "12\tnil", "nil\tfalse\tsetenv: the key 'key' is already set" },
})

-- The modules of a service --------------------------------------------------------------------

kit.test("functions are added to the table as they are used, and pairs lists all of them", {
  main = [[
    say(rawget(skynet, "fork"), rawget(skynet, "PTYPE_TEXT"))
    say(type(skynet.fork), skynet.PTYPE_TEXT, rawget(skynet, "fork") == skynet.fork)
    say(skynet.unknown, skynet["start init"], skynet[""], skynet[1])
    function skynet.now() return "my own" end
    local count = 0
    for word, value in pairs(skynet) do
      assert(type(word) == "string" and value ~= nil)
      count = count + 1
    end
    say(count > 50, rawget(skynet, "tracetag") == skynet.tracetag, skynet.now())
  ]],
  out = { "nil\tnil", "function\t0\ttrue", "nil\tnil\tnil\tnil", "true\ttrue\tmy own" },
})

kit.test("an error is logged as in skynet, even after the scheduler's own log was used", {
  services = { fails = [[
    local early = ...
    if early then say(type(ltask.log)) end
    skynet.start(function()
      skynet.dispatch("lua", function() error "no luck" end)
    end)
  ]] },
  main = [[
    for _, early in ipairs { true, false } do
      say(pcall(skynet.call, skynet.newservice("fails", early), "lua") == false)
    end
  ]],
  err = false,
  out = function(out, err)
    t.eq(kit.lines(out), { "table", "true", "true" })
    local count = select(2, err:gsub("error in a request from :00000003, session %d+: [^\n]*no luck", ""))
    t.eq(count, 2, err)
  end,
})

plain.test("a file skynet.lua on package.path replaces the built-in module", {
  services = { one = [[ say((require "skynet").whose, ...) ]] },
  modules = { skynet = [[ return { whose = "the program's" } ]] },
  main = [[
    say((require "skynet").whose)
    require "skynet.lifecycle".newservice("one", "made by skynet's words")
  ]],
  out = { "the program's", "the program's\tmade by skynet's words" },
})

-- Regression: the traceback showed "?: in upvalue '?'" for every function of the library.
kit.test("the traceback of a service that cannot start has the program's lines and names", {
  services = { broken = [[ skynet.start(function() error "cannot start" end) ]] },
  main = [[
    local ok, problem = pcall(skynet.newservice, "broken")
    problem = tostring(problem)
    say(ok, problem:find("?:", 1, true), problem:find("'?'", 1, true))
    say(problem:match "broken%.lua:%d+: in function", problem:find("skynet/boot", 1, true))
  ]],
  err = "could not start",
  out = { "false\tnil\tnil", "broken.lua:1: in function\tnil" },
})

kit.test("skynet.service runs a function as a single service, which other services find by its name", {
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
      -- `user` waits until the service `db` exists.
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

-- Regression: `init` accepted any value, and the start of the service failed later.
kit.test("init takes a function, memlimit a number", {
  main = [[
    local function problem(f, ...) return (select(2, pcall(f, ...))) end
    say((problem(function() skynet.init(true) end):gsub("^.*main.lua:%d+: ", "")))
    say((problem(function() skynet.memlimit "x" end):gsub("^.*main.lua:%d+: ", "")))
  ]],
  out = {
    "bad argument #1 to 'init' (function expected, got boolean)",
    "bad argument #1 to 'memlimit' (number expected, got string)",
  },
})

-- Regression: the error advised to use a service.
kit.test("a wait in a '__close' of a service that is killed raises, and says why", {
  services = {
    victim = [[
      skynet.start(function()
        skynet.fork(function()
          local meta = { __close = function() say((select(2, pcall(skynet.sleep, 1)):match "cannot wait.*")) end }
          local _ <close> = setmetatable({}, meta)
          skynet.wait()
        end)
      end)
    ]],
  },
  main = [[
    local victim = skynet.newservice "victim"
    skynet.yield()
    skynet.kill(victim)
  ]],
  out = { "cannot wait here: the service is ending" },
})

t.finish()
