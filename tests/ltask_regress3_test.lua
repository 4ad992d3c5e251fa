-- Regressions of the scheduler, about the start of services and services with a loop (`lio.service`). One test per
-- fault, whose comment describes it. ltask_regress_test.lua and ltask_regress2_test.lua have others.

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
local kit = require "tests.ltaskkit"

-- ---------------------------------------------------------------------------------------------
-- Starts

-- A unique service got only the name and the arguments of its table.
kit.both("a unique service keeps its worker, label and source", {
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

-- It ran where calls cannot wait.
kit.both("preload may wait and call", {
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

-- It counted as being loaded for ever, and coroutines that required it hung.
kit.both("a module whose loading coroutine was killed can be required again", {
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
    -- The coroutine that waited for it gets an error, or loads it.
    local ok, what = ltask.wait "waited"
    say(ok and what == "loaded" or not ok and what:find "closed" ~= nil or what)
    say((require "slow"))
  ]],
  out = { "true", "loaded" },
})

-- It destroyed the service with that id, and its requests.
kit.both("init_service refuses an id that was not opened or has a service, which continues", {
  services = { echo = [[
    while true do
      local from, session, type, what = raw.next()
      if type == 1 and session > 0 then raw.post(from, session, 2, what) end
    end
  ]] },
  root = [[
    raw.next()
    local id = raw.spawn "echo"
    for _, source in ipairs { "this is no Lua", "return" } do
      say((root.init_service(id, "other", source, "=other")))
      say((root.init_service(4711, "other", source, "=other")))
    end
    raw.post(id, 5, 1, "lives")
    say(select(2, raw.next()))
  ]],
  out = { "false", "false", "false", "false", "5\t2\tlives" },
})

-- ---------------------------------------------------------------------------------------------
-- The loop in a service

-- Runs a script as the main task of a service that owns a loop, as `lio --service` does.
local function with_loop(name, spec)
  spec.modules = { script = spec.script }
  spec.config = { bootstrap = { { name = "host" } } }
  spec.services = spec.services or {}
  -- Only the service path has the folder of the script.
  spec.services.host = [[
    ltask.spawn("lio", (ltask.servicepath():gsub("%?", "script")))
    ltask.fork(ltask.quit)
    return {}
  ]]
  kit.both(name, spec)
end

-- `run` counted tasks: when an older one ended, its own tasks seemed to have ended, and were killed.
with_loop("loop.run in a service runs its function to the end while older tasks end", {
  script = [[
    local loop = require "lio.loop"
    local ltask = require "ltask"
    for i = 1, 3 do ltask.fork(function() ltask.sleep(i) end) end
    print("returned", loop.run(function()
      for i = 1, 5 do
        loop.sleep(0.02)
        print(i)
      end
      return "result"
    end))
  ]],
  out = { "1", "2", "3", "4", "5", "returned\tresult" },
})

-- The handler of a request that arrived later kept `run` from returning, or was killed by it.
with_loop("loop.run in a service ends while a request is handled, and leaves its handler alone", {
  services = { asker = [[
    local S = {}
    function S.ask(id)
      -- Too many for a search one by one.
      for i = 1, 100 do ltask.fork(pcall, ltask.call, id, "park", i) end
      ltask.fork(function()
        say("answer", ltask.call(id, "wait"))
        ltask.send(id, "done")
        ltask.quit()
      end)
    end
    return S
  ]] },
  script = [[
    local loop = require "lio.loop"
    local ltask = require "ltask"
    local requests = ltask.dispatch()
    function requests.park(i) ltask.wait("parked " .. i) end
    function requests.wait()
      ltask.wakeup "asked"
      ltask.wait "free"
      return "of the handler"
    end
    function requests.done() ltask.wakeup "done" end
    local asker = ltask.spawn "asker"
    loop.run(function()
      ltask.send(asker, "ask", ltask.self())
      ltask.wait "asked"
    end)
    print "run has ended"
    ltask.wakeup "free"
    ltask.wait "done"
  ]],
  out = { "run has ended", "answer\tof the handler" },
})

-- `quit` started the stop hooks, and ended the service at their first wait.
with_loop("a quit from outside stops the loop of a service gracefully", {
  script = [[
    local loop = require "lio.loop"
    local ltask = require "ltask"
    loop.on_stop(function()
      print "hook begins"
      loop.sleep(0.1)
      print "hook ends"
    end)
    loop.run(function()
      ltask.send(1, "quit_ltask")
      pcall(loop.sleep, 100)
    end)
  ]],
  out = { "hook begins", "hook ends" },
})

t.finish()
