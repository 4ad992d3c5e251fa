-- How a system of Skynet services starts and ends: `require "skynet.start"`, a script under `lio --service`, and the
-- errors outside services.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local paths <const> = "config.lua_path, config.lua_cpath = package.path, package.cpath\n"

-- Boots a system with a configuration (Lua code) and services (sources by name). Returns the result of t.run.
local function boot(config, services, folder)
  local dir = folder or t.tmp()
  for name, source in pairs(services) do t.write(dir .. "/" .. name .. ".lua", source) end
  return kit.program("local config = " .. config .. "\n" .. paths
    .. "io.write('code ', require 'skynet.start' (config), '\\n')", dir)
end

t.test("the first service is main, its file gets args, and the call returns the exit code", function()
  local r = boot("{ args = { 1, 'x', n = 3 } }", { main = [[
    local skynet = require "skynet"
    io.write(select("#", ...), " ", SERVICE_NAME, " ", math.type((...)), "\n")
    skynet.start(function()
      io.write "started\n"
      require "ltask".call(1, "exit_code", 7)
      skynet.exit()
    end)
  ]] })
  t.eq({ r.out, r.err }, { "3 main integer\nstarted\ncode 7\n", "" })
end)

t.test("getenv returns every field of the configuration, as a string", function()
  local dir = t.tmp()
  t.write(dir .. "/before.lua", "BEFORE = 'preloaded'")
  local r = boot("{ start = 'first', thread = 2, luaservice = '" .. dir .. "/?.lua;./none/?.lua', preload = '" .. dir
    .. "/before.lua', answer = 42, flag = false, text = 'a \"b\"\\n', ltask = { watchdog = 0, logger = false } }", {
    first = [[
      local skynet = require "skynet"
      skynet.start(function()
        for _, key in ipairs { "start", "thread", "answer", "flag", "text", "ltask", "none" } do
          io.write(("%s %q %s\n"):format(key, skynet.getenv(key), type(skynet.getenv(key))))
        end
        io.write(BEFORE, "\n")
        skynet.newservice "second"
        skynet.abort()
      end)
    ]],
    second = [[
      local skynet = require "skynet"
      skynet.start(function() io.write("second ", skynet.getenv "answer", "\n") end)
    ]],
  }, dir)
  t.eq(r.err, "")
  t.eq(r.out, [[
start "first" string
thread "2" string
answer "42" string
flag "false" string
text "a \"b\"\
" string
ltask nil nil
none nil nil
preloaded
second 42
code 0
]])
end)

t.test("an invalid configuration raises before the system boots", function()
  local r = kit.program [[
    local start = require "skynet.start"
    for _, config in ipairs {
      true, {}, { start = 1 }, { thread = "2" }, { thread = 0 }, { luaservice = {} }, { 1 }, { args = 1 },
      { start = "program", preload = "./none.lua" }, { start = "program", ltask = { unknown = 1 } },
    } do
      print((select(2, pcall(start, config)):gsub("\n.*", ""):gsub("^program.lua:6: ", "")))
    end
    print((select(2, pcall(start, "no_such_service")):gsub("\n.*", ""):gsub("^program.lua:8: ", "")))
    print(pcall(start))
  ]]
  local lines = kit.lines(r.out)
  t.eq(r.err, "")
  for i, pattern in ipairs {
    "^skynet%.start: a table or a service's name expected, got boolean$",
    "^skynet%.start: the service 'main' was not found",
    "^skynet%.start: field 'start' must be a string, got 1$",
    "^skynet%.start: field 'thread' must be an integer from 1 to 256, got \"2\"$",
    "^skynet%.start: field 'thread' must be an integer from 1 to 256, got 0$",
    "^skynet%.start: field 'luaservice' must be a string, got a table$",
    "^skynet%.start: a field's name is not a string: 1$", "^skynet%.start: field 'args' must be a table, got 1$",
    "^skynet%.start: preload: .*none%.lua", "^ltask%.start: field 'unknown' is unknown %(known: bootstrap, ",
    "^skynet%.start: the service 'no_such_service' was not found",
    "^false\tprogram%.lua:9: skynet%.start: a table or .* got nil$",
  } do
    t.ok((lines[i] or ""):find(pattern), t.show(lines[i]) .. " does not match " .. pattern)
  end
end)

t.test("if the first service fails, the call raises, and the exit code is 1", function()
  local r = boot("{}", { main = "require 'skynet'.start(function() error 'no start' end)" })
  t.eq(r.out, "")
  t.eq(r.code, 1)
  t.ok(r.err:find "the system cannot start: the bootstrap service 'main': .*main%.lua:1: no start", r.err)
end)

t.test("the system continues after its first service has ended, and ends when only unique services are left", function()
  local r = boot("{}", {
    main = [[
      local skynet = require "skynet"
      skynet.start(function()
        skynet.uniqueservice "unique"
        skynet.newservice("last", "x")
        skynet.exit()
      end)
    ]],
    unique = "local skynet = require 'skynet' skynet.start(function() end)",
    last = [[
      local skynet = require "skynet"
      skynet.start(function()
        skynet.timeout(2, function()
          io.write "the last one ends\n"
          skynet.exit()
        end)
      end)
    ]],
  })
  t.eq({ r.out, r.err }, { "the last one ends\ncode 0\n", "" })
end)

t.test("outside services skynet can be loaded, but start raises an error", function()
  local r = kit.program [[
    local skynet = require "skynet"
    print(pcall(skynet.start, print))
    print(skynet.unpack(skynet.packstring(1, 2)))
    print(require "skynet.manager" == skynet, type(require "skynet.queue"))
  ]]
  t.eq({ r.out, r.err }, {
    "false\tskynet.start: called outside of a service; to boot a system, use require 'skynet.start'\n"
      .. "1\t2\ntrue\ttable\n",
    "",
  })
end)

-- Regression: the error named no call, or was about a nil value in the library.
t.test("outside services, a function that needs a service raises an error that names it", function()
  local r = kit.program [[
    local skynet = require "skynet"
    for _, name in ipairs { "self", "call", "send", "sleep", "getenv", "newservice", "exit", "ret", "stat" } do
      print(select(2, pcall(load("local f = ... local x = f." .. name .. "() return x", "=program"), skynet)))
    end
  ]]
  local wanted = {}
  for _, name in ipairs { "self", "call", "send", "sleep", "getenv", "newservice", "exit", "ret", "stat" } do
    wanted[#wanted + 1] = ("program:1: %s: works only inside a service\n"):format(name)
  end
  t.eq({ r.out, r.err }, { table.concat(wanted), "" })
end)

t.test("a script under lio --service is a Skynet service until it exits", function()
  local dir = t.tmp()
  t.write(dir .. "/script.lua", [[
    local skynet = require "skynet"
    local loop = require "lio.loop"
    print("file", ...)
    skynet.start(function()
      print "start"
      skynet.dispatch("lua", function(_, _, ...) skynet.retpack(...) end)
      local other = skynet.newservice("other", skynet.self())
      skynet.timeout(1, function()
        loop.sleep(0.01)
        print(skynet.call(other, "lua"))
        skynet.abort()
      end)
    end)
    print "not reached"
  ]])
  t.write(dir .. "/other.lua", [[
    local skynet = require "skynet"
    local main = ...
    skynet.start(function()
      skynet.dispatch("lua", function() skynet.retpack(skynet.call(main, "lua", "there and back")) end)
    end)
  ]])
  local r = t.run(("timeout -k 1 60 %s --service %s/script.lua argument"):format(t.quote(t.bin()), t.quote(dir)))
  t.eq({ r.out, r.err, r.code }, { "file\targument\nstart\nthere and back\n", "", 0 })
end)

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
  for _, workers in ipairs(kit.workers) do
    local r = kit.program(([[
      os.exit(require "skynet.start" {
        preload = "before.lua", thread = %d, luaservice = "./?.lua", lua_path = package.path, lua_cpath = package.cpath,
      }, true)
    ]]):format(workers), dir)
    t.eq({ r.out, r.err, r.code }, { "true hello of 3 42\ntrue hello of 4\n", "", 0 })
  end
end)

t.finish()
