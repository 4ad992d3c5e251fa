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
      { logger = { name = "x" } }, { start = "program", logger = "none/log" }, { logservice = "snlua" },
      { start = "program", preload = "./none.lua" }, { start = "program", ltask = { unknown = 1 } },
    } do
      print((select(2, pcall(start, config)):gsub("\n.*", ""):gsub("^program.lua:7: ", "")))
    end
    print((select(2, pcall(start, "no_such_service")):gsub("\n.*", ""):gsub("^program.lua:9: ", "")))
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
    "^skynet%.start: field 'logger' must be the name of a log file %(a service is `logservice`%), got a table$",
    "^skynet%.start: logger: none/log: No such file or directory$",
    "^skynet%.start: logservice is \"snlua\", so 'logger' must be the name of a service$",
    "^skynet%.start: preload: .*none%.lua", "^ltask%.start: field 'unknown' is unknown %(known: bootstrap, ",
    "^skynet%.start: the service 'no_such_service' was not found",
    "^false\tprogram%.lua:10: skynet%.start: a table or .* got nil$",
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

-- Configuration files --------------------------------------------------------------------------------

local function write_lines(path, lines) t.write(path, table.concat(lines, "\n") .. "\n") end

-- Returns a folder with a configuration in two files, in the form of skynet's examples, and a service.
local function configured()
  local dir = t.tmp()
  os.execute("mkdir -p " .. t.quote(dir .. "/examples") .. " " .. t.quote(dir .. "/service"))
  write_lines(dir .. "/examples/config.path", {
    'root = "./"', 'luaservice = root.."service/?.lua;"..root.."examples/?.lua"',
    'lualoader = root .. "lualib/loader.lua"', 'lua_path = root.."lualib/?.lua;"..root.."lualib/?/init.lua"',
    'snax = root.."examples/?.lua;"..root.."test/?.lua"',
  })
  write_lines(dir .. "/examples/config", {
    'include "config.path"', "", '-- preload = "./examples/preload.lua"', "thread = 2", "logger = nil", 'logpath = "."',
    "harbor = 1", 'address = "127.0.0.1:2526"', 'master = "127.0.0.1:2013"', 'start = "main"\t-- main script',
    ("%s = %q"):format("bootstrap", "snlua bootstrap"), 'standalone = "0.0.0.0:2013"', "max_client = 64",
    "is_test = true", 'home = "$TEST_HOME/data"', '-- daemon = "./skynet.pid"',
  })
  t.write(dir .. "/examples/main.lua", [[
    local skynet = require "skynet"
    skynet.start(function()
      for _, key in ipairs { "thread", "max_client", "is_test", "home", "logger", "snax", "root" } do
        print(key, skynet.getenv(key))
      end
      skynet.exit()
    end)
  ]])
  return dir
end

-- Runs `code`, which may use `start`, in the folder, with TEST_HOME set. Returns the result of t.run.
local function run_configured(dir, code, environment)
  t.write(dir .. "/run.lua", "local start = require 'skynet.start'\n" .. code)
  return t.run(("cd %s && env %s timeout -k 1 60 %s run.lua"):format(t.quote(dir), environment or "TEST_HOME=/home/x",
    kit.host()))
end

-- Returns the lines of a log, without their times.
local function log_lines(text)
  local lines = {}
  for i, line in ipairs(kit.lines(text)) do lines[i] = line:gsub("^%[.-%]", "") end
  return lines
end

t.test("a configuration file of skynet may include files and use variables of the environment", function()
  local r = run_configured(configured(), "os.exit(start(start.config 'examples/config'), true)")
  t.eq({ r.err, r.code }, { "", 0 })
  t.eq(log_lines(r.out), {
    "[INFO](3 main) skynet.start: these fields have no effect here: harbor, standalone (docs/migrate-skynet.md)",
    "[INFO](3 main) thread\t2", "[INFO](3 main) max_client\t64", "[INFO](3 main) is_test\ttrue",
    "[INFO](3 main) home\t/home/x/data", "[INFO](3 main) logger\tnil",
    "[INFO](3 main) snax\t./examples/?.lua;./test/?.lua", "[INFO](3 main) root\t./",
  })
end)

t.test("logger is the name of a log file, to which all lines are appended", function()
  local dir = configured()
  t.write(dir .. "/game.log", "before\n")
  -- The program's service of that name does not become the logger.
  t.write(dir .. "/service/logger.lua", "error 'not the logger'")
  t.write(dir .. "/examples/main.lua", [[
    local skynet = require "skynet"
    skynet.start(function()
      print "one"
      skynet.fork(error, "two", 0)
      skynet.yield()
      skynet.exit()
    end)
  ]])
  local r = run_configured(dir, [[
    local config = start.config "examples/config"
    config.logger, config.harbor, config.standalone = "game.log", 0, nil
    os.exit(start(config), true)
  ]])
  t.eq({ r.out, r.err, r.code }, { "", "", 0 })
  local lines = log_lines(io.open(dir .. "/game.log"):read "a")
  t.eq({ table.unpack(lines, 1, 3) }, { "before", "[INFO](3 main) one", "[ERROR](3 main) two" })
end)

t.test("logservice is a service that takes the log", function()
  local dir = configured()
  t.write(dir .. "/service/mylog.lua", [[
    local ltask = require "ltask"
    local S = {}
    function S.quit()
      for _, id, entry, size in ltask.poplog do
        local level, text = ltask.unpack_remove(entry, size)
        io.write("mylog ", id, " ", level, " ", text, "\n")
      end
    end
    return S
  ]])
  t.write(dir .. "/examples/main.lua", [[
    local skynet = require "skynet"
    print "text"
    skynet.start(skynet.exit)
  ]])
  for _, fields in ipairs { "logservice = 'mylog'", "logger, config.logservice = 'mylog', 'snlua'" } do
    local r = run_configured(dir, "local config = start.config 'examples/config' "
      .. "config.standalone, config.harbor = nil, 0 "
      .. "config." .. fields .. " os.exit(start(config), true)")
    t.eq({ r.out, r.err, r.code }, { "mylog 3 info text\n", "", 0 }, fields)
  end
end)

t.test("errors in a configuration file name the file, and the line of the program or of the file", function()
  local dir = configured()
  for name, text in pairs {
    syntax = "thread = = 2", variable = "home = '$NO_SUCH_VARIABLE'", value = "x = { 1 }", code = "x = root .. 'y'",
    missing = "include 'none.path'", include = "x = 1\ninclude(5)", inner = "x = 1\ninclude 'examples/deep'",
    ["examples/deep"] = "include 'syntax.path'", ["examples/syntax.path"] = "x = = 1",
  } do
    t.write(dir .. "/" .. name, text)
  end
  local r = run_configured(dir, [[
    for _, name in ipairs { "syntax", "variable", "value", "code", "missing", "include", "inner", "none", 5 } do
      print((select(2, pcall(function() start.config(name) end))))
    end
  ]])
  t.eq({ r.err, kit.lines(r.out) }, { "", {
    "run.lua:3: skynet.start.config: syntax:1: unexpected symbol near '='",
    "run.lua:3: skynet.start.config: variable: the environment variable 'NO_SUCH_VARIABLE' is not set",
    "run.lua:3: skynet.start.config: value: the value of 'x' must be a string, a number or a boolean, got a table",
    "code:1: attempt to concatenate a nil value (global 'root')",
    "missing:1: skynet.start.config: none.path: No such file or directory",
    "include:2: skynet.start.config: include: the name of a file expected, got 5",
    "examples/deep:1: skynet.start.config: examples/syntax.path:1: unexpected symbol near '='",
    "run.lua:3: skynet.start.config: none: No such file or directory",
    "run.lua:3: bad argument #1 to 'config' (string expected, got number)",
  } })
end)

t.test("the log names similar fields and fields without an effect, and the error a template without '?'", function()
  local dir = t.tmp()
  t.write(dir .. "/main.lua", "require 'skynet'.start(require 'skynet'.exit)")
  local function run(config)
    t.write(dir .. "/run.lua", "os.exit(require 'skynet.start' " .. config .. ", true)")
    return t.run(("cd %s && timeout -k 1 60 %s run.lua"):format(t.quote(dir), kit.host()))
  end
  local r = run "{ threads = 2, lua_service = './?.lua', cpath = 'x', daemon = 'y', harbor = 0, port = 1 }"
  t.eq({ r.err, log_lines(r.out) }, { "", {
    "[INFO](3 main) skynet.start: these fields have no effect here: cpath, daemon (docs/migrate-skynet.md)",
    "[INFO](3 main) skynet.start: field 'lua_service': did you mean 'luaservice'?",
    "[INFO](3 main) skynet.start: field 'threads': did you mean 'thread'?",
  } })
  r = run "{ luaservice = 'service/' }"
  t.ok(r.err:find("luaservice: the template 'service/' has no '?' for the service's name; "
    .. "an example is 'service/?.lua'", 1, true), r.err)
end)

t.finish()
