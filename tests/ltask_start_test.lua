-- ltask.start: both generations of its table, the errors for an invalid table, and the built-in services.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local main <const> = [[
  local args = table.pack(...)
  local S = {}
  ltask.fork(function()
    ltask.sleep(1)
    say("main", table.unpack(args, 1, args.n))
    ltask.send(1, "quit_ltask")
  end)
  return S
]]

-- Boots a system with the table that the string `config` contains, and with the files of `services` in the folder
-- `dir`. `entry` is a Lua expression for the boot function (default: `require 'ltask.start'`). Returns the table of
-- t.run.
local function boot(config, services, entry)
  local dir = kit.write { services = services or { main = main } }
  local r = kit.program(string.format("local dir = %q\nlocal config = %s\n%s(config)\n",
    dir, config, entry or "require 'ltask.start'"), dir)
  return r
end

for _, worker in ipairs { "", "worker = 1,", "worker = 2," } do
  t.test("a system boots from a table of the first generation: {" .. worker .. " …}", function()
    local r = boot("{" .. worker .. [[
      service_path = dir .. "/?.lua", bootstrap = { "main", "a", 2 },
    }]])
    t.eq(r.err, "")
    t.eq(r.out, "main\ta\t2\n")
    t.eq(r.code, 0)
  end)

  t.test("a system boots from a table of the second generation: {" .. worker .. " …}", function()
    local r = boot("{ core = {" .. worker .. [[}, service_path = dir .. "/?.lua",
      bootstrap = { { name = "main", args = { "b", 3 } } },
    }]])
    t.eq(r.err, "")
    t.eq(r.out, "main\tb\t3\n")
    t.eq(r.code, 0)
  end)
end

t.test("all fields of the first generation can be used together: logger, timer, exclusive, paths, limits", function()
  for _, worker in ipairs(kit.workers) do
    local r = boot("{ worker = " .. worker .. [[, queue = 128, queue_sending = 64, max_service = 1024,
      crashlog = dir .. "/crash.log",
      service_path = dir .. "/?.lua",
      lua_path = dir .. "/?.lua;" .. package.path, lua_cpath = package.cpath,
      bootstrap = { "main", "x" },
      logger = { "logger" },
      exclusive = { "timer", { "alone", "y" } },
    }]], {
      main = [[
        local S = {}
        ltask.fork(function()
          ltask.sleep(1)
          say(ltask.call(3, "ping", "hello"))
          say(require "extra")
          print "logged"
          ltask.sleep(5)
          ltask.send(1, "quit_ltask")
        end)
        return S
      ]],
      alone = [[
        local given = ...
        local S = {}
        function S.ping(x)
          ltask.sleep(1)
          return x, given, ltask.self(), ltask.is_exclusive()
        end
        return S
      ]],
      extra = "return 'a module'",
    })
    t.eq(r.err, "")
    local lines = kit.lines(r.out)
    t.eq(lines[1], "hello\ty\t3\ttrue")
    t.ok((lines[2] or ""):find "^a module", r.out)
    t.ok((lines[3] or ""):find "%[INFO%]%(%d+ main%) logged$", r.out)
    t.eq(r.code, 0)
  end
end)

t.test("an exclusive service that blocks does not stop other services", function()
  for _, worker in ipairs(kit.workers) do
    local r = boot("{ worker = " .. worker .. [[, service_path = dir .. "/?.lua",
      bootstrap = { "main" }, exclusive = { "timer", "alone", "idle" },
    }]], {
      main = [[
        ltask.fork(function()
          local other = ltask.spawn "plain"
          for i = 1, 200 do assert(ltask.call(other, "ping", i) == i) end
          say "others run"
          for i = 1, 20 do assert(ltask.call(3, "ping", i) == i) end
          say "it answers"
          for i = 1, 20 do assert(ltask.call(4, "ping", i) == i) end
          say(ltask.call(4, "idle"))
          ltask.send(1, "quit_ltask")
        end)
        return {}
      ]],
      plain = "local S = {} function S.ping(...) return ... end return S",
      idle = [[
        local exclusive = require "ltask.exclusive"
        local S, idle = {}, 0
        function ltask.on_idle()
          idle = idle + 1
          exclusive.sleep(2)
        end
        function S.ping(...) return ... end
        function S.idle()
          ltask.sleep(1)
          return idle > 0
        end
        return S
      ]],
      alone = [[
        local exclusive = require "ltask.exclusive"
        local S = {}
        ltask.fork(function()
          while true do
            exclusive.sleep(2)
            ltask.sleep(0)
          end
        end)
        function S.ping(...) return ... end
        return S
      ]],
    })
    t.eq(r.err, "")
    t.eq(r.out, "others run\nit answers\ntrue\n")
  end
end)

t.test("require 'ltask'.start is the same function", function()
  local r = boot([[{ service_path = dir .. "/?.lua", bootstrap = { { name = "main" } } }]], nil,
    "require 'ltask'.start")
  t.eq(r.err, "")
  t.eq(r.out, "main\n")
end)

t.test("bootstrap may be a table of services by name, which start in the order of their names", function()
  for _, worker in ipairs(kit.workers) do
    local r = boot("{ core = { worker = " .. worker .. [[ }, service_path = dir .. "/?.lua", bootstrap = {
      timer = { unique = true }, zeta = true, alpha = { args = { 1, nil, 3, n = 3 } }, ["in.folder"] = { 4, 5 },
      beta = { args = { 2 }, label = "b", unique = true }, made = { source = "io.write('made', string.char(10))" },
      name = { args = { "a service's name may be 'name'" } },
    } }]], {
      alpha = "say('alpha', select('#', ...), ...)",
      beta = "say('beta', ltask.label(), ...) return {}",
      zeta = "say('zeta', ltask.queryservice 'beta' > 1)",
      name = "say(...)",
    }, "os.execute('mkdir ' .. dir .. '/in'); local f = io.open(dir .. '/in/folder.lua', 'w') "
      .. "f:write [[io.write('in.folder ', table.concat({...}, ' '), '\\n')]] f:close() io.stdout:setvbuf 'no' "
      .. "require 'ltask.start'")
    t.eq(r.err, "")
    t.eq(kit.lines(r.out), {
      "alpha\t3\t1\tnil\t3", "beta\tb\t2", "in.folder 4 5", "made", "a service's name may be 'name'", "zeta\ttrue",
    })
    t.eq(r.code, 0)
  end
end)

t.test("debuglog = \"=\" writes to standard output", function()
  for _, config in ipairs { "debuglog = '='", "core = { debuglog = '=' }" } do
    local r = boot("{ service_path = dir .. '/?.lua', bootstrap = { 'main' }, " .. config .. " }", {
      main = "ltask.debuglog 'the first' say 'between' ltask.debuglog 'the second'",
    })
    t.eq(r.err, "")
    t.eq(r.out, "3 the first\nbetween\n3 the second\n")
    t.eq(t.run("ls '=' 2>/dev/null").out, "")
  end
end)

t.test("a debuglog file is emptied at the start, and gets a line with the service's id for each call", function()
  local path = t.write(t.tmp() .. "/debug.log", "of an earlier run\n")
  local r = boot(("{ service_path = dir .. '/?.lua', bootstrap = { 'main' }, debuglog = %q }"):format(path), {
    main = "ltask.debuglog 'the first' ltask.debuglog 'the second'",
  })
  t.eq(r.err, "")
  local file <close> = assert(io.open(path))
  t.eq(file:read "a", "3 the first\n3 the second\n")
end)

t.test("a built-in service needs no file", function()
  local r = boot([[{ service_path = dir .. "/?.lua",
    bootstrap = { { name = "timer", unique = true }, { name = "logger", unique = true }, { name = "main" } } }]])
  t.eq(r.err, "")
  t.eq(r.out, "main\n")
end)

t.test("an invalid table raises an error that names the mistake, before a service runs", function()
  for _, case in ipairs {
    { "5", "table" }, { "nil", "table" }, { "{}", "bootstrap" }, { "{ bootstrap = 5 }", "bootstrap" },
    { "{ bootstrap = { {} } }", "name" }, { "{ bootstrap = { { name = 5 } } }", "name" },
    { "{ bootstrap = { 'main' }, worker = 'two' }", "worker" },
    { "{ bootstrap = { { name = 'main' } }, core = 5 }", "core" },
    { "{ bootstrap = { { name = 'main' } }, core = { queue = 'x' } }", "queue" },
    { "{ bootstrap = { 'main' }, service_path = 5 }", "service_path" },
    { "{ bootstrap = { 'main' }, exclusive = 5 }", "exclusive" },
    { "{ bootstrap = { 'main' }, full = 'sometimes' }", "full" },
    { "{ bootstrap = { 'main' }, watchdog = 'often' }", "watchdog" },
    { "{ bootstrap = { 'main' }, worker = 0 }", "config.worker: must be 1 to 256, not 0" },
    { "{ bootstrap = { 'main' }, core = { worker = 257 } }", "config.worker: must be 1 to 256, not 257" },
    { "{ bootstrap = { main = 5 } }", "bootstrap['main']: true or a table such as { args = {} } expected, got number" },
    { "{ bootstrap = { main = { name = 'main' } } }", "bootstrap['main']: the key is the service's name" },
    { "{ bootstrap = { { name = 'main' }, other = true } }",
      "bootstrap: a list of services, or a table of them by name, expected; got both: [1] and 'other'" },
    { "{ bootstrap = { main = { arg = {} } } }",
      "ltask.start: bootstrap['main']: field 'arg' is unknown (did you mean 'args'?)" },
    { "{ bootstrap = { { name = 'main', lable = 'x' } } }",
      "ltask.start: bootstrap[1]: field 'lable' is unknown (did you mean 'label'?)" },
    { "{ bootstrap = { 'main' }, exclusive = { { 'main', uniqe = true } } }",
      "ltask.start: exclusive[1]: field 'uniqe' is unknown (did you mean 'unique'?)" },
    { "{ bootstrap = { [true] = { name = 'main' } } }", "bootstrap: the table contains no service" },
    { "{ bootstrap = { { name = 'main', unique = 'yes' } } }",
      "ltask.start: bootstrap[1]: field 'unique' must be true or false, got \"yes\"" },
    { "{ bootstrap = { main = { args = 'x' } } }",
      "ltask.start: bootstrap['main']: field 'args' must be a table, got \"x\"" },
    { "{ bootstrap = { 'main' }, exclusive = { { 'main', label = 5 } } }",
      "ltask.start: exclusive[1]: field 'label' must be a string, got 5" },
    { "{ bootstrap = { { name = 'main', worker_id = 'x' } } }",
      "ltask.start: bootstrap[1]: field 'worker_id' must be an integer of at least 0, got \"x\"" },
    { "{ bootstrap = { main = { source = 5 } } }",
      "ltask.start: bootstrap['main']: field 'source' must be a string, got 5" },
  } do
    local r = boot(case[1], nil, "local start = require 'ltask.start'; "
      .. "return (function(c) io.write(tostring(select(2, pcall(start, c))), '\\n') end)")
    t.eq(#kit.lines(r.out) > 0, true, case[1] .. ": " .. r.err)
    t.ok(r.out:find(case[2], 1, true), case[1] .. " raises: " .. r.out)
    t.ok(not r.out:find "main\t", case[1])
  end
end)

t.test("if a bootstrap service is missing or fails, the exit code is not 0", function()
  for _, name in ipairs { "nosuchmain", "raises" } do
    local r = boot(string.format([[{ service_path = dir .. "/?.lua", bootstrap = { { name = %q } } }]], name),
      { raises = "error 'main cannot start'" }, "local start = require 'ltask.start' "
        .. "local function boot(config) os.exit(start(config), true) end boot")
    local text = r.out .. r.err
    t.ok(text:find(name == "raises" and "main cannot start" or "nosuchmain", 1, true), text)
    t.ok(r.code ~= 0, "exit code " .. tostring(r.code))
  end
end)

-- Regression: preload ran outside a task.
kit.test("preload may wait and call", {
  config = { preload = [[
    local ltask = require "ltask"
    if ltask.self() > 2 then
      ltask.sleep(1)
      PATH = ltask.servicepath()
    end
  ]] },
  main = "say(type(PATH))",
  out = { "string" },
})

t.finish()
