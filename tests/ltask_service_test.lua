-- Starting and naming services: spawn, unique services, names, the service path, and `require` of modules that wait.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local plain <const> = [[
  local args = table.pack(...)
  local S = {}
  function S.args() return table.unpack(args, 1, args.n) end
  function S.who() return ltask.self(), ltask.label() end
  return S
]]

kit.test("spawn runs the file with its arguments and returns the new service's id", {
  services = { plain = plain },
  main = [[
    local a = ltask.spawn("plain", 1, nil, { "x" }, false)
    say(math.type(a), a > 1)
    local n, none, list, no = ltask.call(a, "args")
    say(n, none, list[1], no)
    local id, label = ltask.call(a, "who")
    say(id == a, label:find "plain" ~= nil)
    local b = ltask.spawn "plain"
    say(a ~= b, select("#", ltask.call(b, "args")))
  ]],
  out = { "integer\ttrue", "1\tnil\tx\tfalse", "true\ttrue", "true\t0" },
})

kit.test("a service's file may wait while it runs; its handlers run when it has returned", {
  services = {
    plain = plain,
    slow = [[
      local other = ...
      ltask.sleep(2)
      local id = ltask.call(other, "who")
      local S = {}
      function S.other() return id end
      return S
    ]],
  },
  main = [[
    local a = ltask.spawn "plain"
    local b = ltask.spawn("slow", a)
    say(ltask.call(b, "other") == a)
  ]],
  out = { "true" },
})

kit.test("spawn raises if the file is missing, does not compile or raises, and leaves no service", {
  services = {
    plain = plain,
    raises = [[
      local S = {}
      error "not today"
      return S
    ]],
    waits_and_raises = [[
      ltask.sleep(1)
      error "not later"
    ]],
    object = "error { 'an object' }",
  },
  modules = { syntax = "this is not Lua" },
  main = [[
    local before = 0
    for _ in pairs(ltask.call(1, "stat")) do before = before + 1 end
    local expect = { missing = "missing", syntax = "syntax.lua:1", raises = "raises.lua:2: not today",
      waits_and_raises = "not later", object = "object" }
    for _, name in ipairs { "missing", "syntax", "raises", "waits_and_raises", "object" } do
      local ok, e = pcall(ltask.spawn, name)
      say(name, ok, tostring(e):find(expect[name], 1, true) ~= nil)
    end
    local left
    repeat
      ltask.sleep(1)
      left = -before
      for _ in pairs(ltask.call(1, "stat")) do left = left + 1 end
    until left == 0
    say("left behind", left)
    say(ltask.spawn "plain" > 1)
  ]],
  err = false,
  out = function(out)
    local said = {}
    for _, line in ipairs(kit.lines(out)) do
      if not line:find "^[%[%s]" and line:find "\t" or line == "true" then said[#said + 1] = line end
    end
    t.eq(said, {
      "missing\tfalse\ttrue", "syntax\tfalse\ttrue", "raises\tfalse\ttrue", "waits_and_raises\tfalse\ttrue",
      "object\tfalse\ttrue", "left behind\t0", "true",
    })
  end,
})

kit.test("spawn_service accepts a table with name, args and worker_id", {
  services = { placed = [[
    local args = table.pack(...)
    local S = {}
    function S.args() return table.unpack(args, 1, args.n) end
    function S.worker() return ltask.worker_id() end
    return S
  ]] },
  main = [[
    local a = ltask.spawn_service { name = "placed", args = { 1, "two" }, worker_id = 0 }
    say(ltask.call(a, "args"))
    local there = true
    for _ = 1, 100 do there = there and ltask.call(a, "worker") == 0 end
    say(there)
  ]],
  out = { "1\ttwo", "true" },
})

kit.test("a unique service is started once, even if many services request it at the same time", {
  services = {
    only = [[
      say "started"
      ltask.sleep(2)
      local S = {}
      local got = ...
      function S.got() return got end
      return S
    ]],
    asker = [[
      local S = {}
      function S.ask(i) return ltask.uniqueservice("only", i) end
      return S
    ]],
  },
  main = [[
    local first, same, n = nil, true, 0
    for i = 1, 10 do
      local a = ltask.spawn "asker"
      for k = 1, 3 do
        ltask.fork(function()
          local id = ltask.call(a, "ask", i * 10 + k)
          first = first or id
          same = same and id == first
          n = n + 1
          if n == 30 then ltask.wakeup "done" end
        end)
      end
    end
    ltask.wait "done"
    say(same, ltask.queryservice "only" == first, math.type(ltask.call(first, "got")))
  ]],
  out = { "started", "true\ttrue\tinteger" },
})

kit.test("if a unique service cannot start, all callers get an error", {
  services = { broken = [[
    ltask.sleep(1)
    error "cannot be"
  ]] },
  main = [[
    local n, right = 0, 0
    for _ = 1, 5 do
      ltask.fork(function()
        local ok, e = pcall(ltask.uniqueservice, "broken")
        if not ok and tostring(e):find "cannot be" then right = right + 1 end
        n = n + 1
        if n == 5 then ltask.wakeup "done" end
      end)
    end
    ltask.wait "done"
    say(right)
  ]],
  err = false,
  out = function(out) t.ok(out:find "5\n$", out) end,
})

kit.test("queryservice waits until the name is registered", {
  services = { named = [[
    ltask.sleep(2)
    say "registering"
    ltask.register(...)
    return {}
  ]], only = "return {}" },
  main = [[
    local first, second, n = nil, nil, 0
    local function ask(f) ltask.fork(function() f() n = n + 1 if n == 2 then ltask.wakeup "done" end end) end
    ask(function() first = ltask.queryservice "the name" end)
    ask(function() second = ltask.queryservice "only" end)
    ltask.sleep(0)
    -- After this call, root has received both requests.
    ltask.call(1, "stat")
    say(first, second)
    local a, b = ltask.spawn("named", "the name"), ltask.uniqueservice "only"
    ltask.wait "done"
    say(first == a, second == b, ltask.queryservice "the name" == a)
  ]],
  out = { "nil\tnil", "registering", "true\ttrue\ttrue" },
})

kit.test("servicepath sets where service files are found", {
  services = { plain = plain },
  main = [[
    local dir = ...
    os.execute("mkdir " .. dir .. "/sub")
    local f = io.open(dir .. "/sub/other.lua", "w")
    f:write "local S = {} function S.here() return 'in sub' end return S"
    f:close()
    say((pcall(ltask.spawn, "other")))
    ltask.servicepath(dir .. "/sub/?.lua;" .. dir .. "/?.lua")
    say(ltask.call(ltask.spawn "other", "here"))
    say(ltask.spawn "plain" > 1)
  ]],
  err = false,
  out = function(out)
    t.eq(kit.said(out), { "false", "in sub", "true" })
  end,
})

kit.test("a module that waits while it loads is loaded once, even if two coroutines require it", {
  modules = {
    shared = [[
      local ltask = require "ltask"
      LOADS = (LOADS or 0) + 1
      ltask.sleep(3)
      return { name = ..., file = select(2, ...) }
    ]],
    broken = [[
      local ltask = require "ltask"
      ltask.sleep(1)
      error "the module is broken"
    ]],
    first = "require 'ltask'.sleep(1) return { other = require 'second' }",
    second = "return { other = require 'first' }",
    nothing = "require 'ltask'.sleep(1)",
  },
  main = [[
    local got, n = {}, 0
    for i = 1, 4 do
      ltask.fork(function()
        got[i] = require "shared"
        n = n + 1
        if n == 4 then ltask.wakeup "done" end
      end)
    end
    ltask.wait "done"
    say(LOADS, got[1] == got[2] and got[2] == got[3] and got[3] == got[4])
    say(got[1].name, got[1].file:find "shared%.lua$" ~= nil, package.loaded.shared == got[1])
    say(require "nothing", package.loaded.nothing)
    local failed = 0
    n = 0
    for _ = 1, 3 do
      ltask.fork(function()
        local ok, e = pcall(require, "broken")
        if not ok and tostring(e):find "the module is broken" then failed = failed + 1 end
        n = n + 1
        if n == 3 then ltask.wakeup "done" end
      end)
    end
    ltask.wait "done"
    say("failed", failed)
    -- Regression: the message did not name the modules.
    local ok, problem = pcall(require, "first")
    say("cycle", ok, problem:match "[^\n]*":gsub("^.*/", ""))
    -- Regression: the searched places were on one line. The standard `require` lists one place per line.
    ok, problem = pcall(function() local m = require "no.such.module" return m end)
    say("missing", ok, problem:match "[^\n]*":gsub("^.*/", ""))
    say(problem:find "not found:\n\tno field package%.preload%['no%.such%.module'%]\n\tno file '" ~= nil)
    say(problem:find "'no " == nil, problem:find "\n\n" == nil)
  ]],
  out = {
    "1\ttrue", "shared\ttrue\ttrue", "true\ttrue", "failed\t3",
    "cycle\tfalse\tsecond.lua:1: circular require of 'first' (first → second → first)\t1",
    "missing\tfalse\tmain.lua:29: module 'no.such.module' not found:\t1", "true", "true\ttrue",
  },
})

kit.test("bootstrap services start in order, with their arguments; unique services can be queried", {
  services = {
    helper = [[
      say("helper", ...)
      local S = {}
      function S.ping() return "pong" end
      return S
    ]],
  },
  config = { bootstrap = {
    { name = "helper", unique = true, args = { "a", 2 } },
    { name = "main", args = { "m" } },
  } },
  main = [[
    say("main", ...)
    say(ltask.call(ltask.queryservice "helper", "ping"))
  ]],
  out = { "helper\ta\t2", "main\tm", "pong" },
})

kit.test("a thousand services can be spawned, called and killed in sequence", {
  services = { plain = plain },
  main = [[
    for i = 1, 1000 do
      local a = ltask.spawn("plain", i)
      assert(ltask.call(a, "args") == i)
      assert(ltask.kill(a))
    end
    say "done"
  ]],
  out = { "done" },
})

-- Regression: only the name and the arguments of the service's table were used.
kit.test("a unique service has the worker, the label and the source that its table sets", {
  config = { bootstrap = {
    { name = "main" },
    { name = "one", unique = true, worker_id = 0, label = "first",
      source = "local l = require 'ltask' return { who = function() return l.label(), l.worker_id() end }" },
  } },
  main = [[
    say(ltask.call(ltask.queryservice "one", "who"))
    local two = ltask.spawn_service { name = "two", unique = true, label = "second", worker_id = 0,
      source = "local l, a = require 'ltask', ... return { who = function() return a, l.label(), l.worker_id() end }",
      args = { "argument" } }
    say(ltask.call(two, "who"))
    say(two == ltask.queryservice "two", two == ltask.uniqueservice "two")
  ]],
  out = { "first\t0", "argument\tsecond\t0", "true\ttrue" },
})

-- Regression: the module remained marked as being loaded, so each later `require` of the module waited forever.
kit.test("if the coroutine that loads a module is killed, the module can be required again", {
  main = [[
    local task = require "lio.task"
    local loads = 0
    package.preload.slow = function()
      loads = loads + 1
      if loads == 1 then ltask.wait "never" end
      return "loaded"
    end
    local first = ltask.fork(function() require "slow" end)
    ltask.sleep(0)
    ltask.fork(function() ltask.wakeup("waited", pcall(require, "slow")) end)
    ltask.sleep(0)
    task.kill(first)
    ltask.timeout(3000, function() ltask.wakeup("waited", true, "waits for ever") end)
    -- The coroutine that waited for the module gets an error, or loads the module.
    local ok, what = ltask.wait "waited"
    say(ok and what == "loaded" or not ok and what:find "closed" ~= nil or what)
    say((require "slow"))
  ]],
  out = { "true", "loaded" },
})

t.finish()
