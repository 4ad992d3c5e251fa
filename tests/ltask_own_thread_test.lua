-- Services with an event descriptor, which block on their own threads: the watchdog, the main thread, and a system that
-- cannot start another thread. tests/ltask_event_test.lua tests the event descriptor itself.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- Regression: the function ran on the service's own thread, without an error.
kit.test("mainthread_run raises an error in a service with its own thread", {
  services = { own = [[
    local S = {}
    local wait = ltask.eventinit()
    ltask.idle_handler(function() wait() end)
    function S.run()
      local ok, e = pcall(ltask.mainthread_run, function() return "ran" end)
      return ok, tostring(e):match "thread of its own" or e
    end
    function S.ping(...) return ... end
    return S
  ]] },
  main = [[
    local id = ltask.spawn "own"
    say(ltask.call(id, "ping", "pong"))
    say(ltask.call(id, "run"))
    say(ltask.call(id, "ping", "pong"))
  ]],
  out = { "pong", "false\tthread of its own", "pong" },
})

-- Regression: the scheduler repeatedly sent the service the message that it was idle, which used 100 % of a processor.
kit.test("a service with an event descriptor and no idle handler uses no CPU while it waits", {
  services = { own = [[
    ltask.eventinit()
    return { ping = function(...) return ... end }
  ]] },
  main = [[
    local id = ltask.spawn "own"
    say(ltask.call(id, "ping", "pong"))
    local before = os.clock()
    ltask.sleep(50)
    local used = os.clock() - before
    say(used < 0.15 or used)
    say(ltask.call(id, "ping", "pong"))
  ]],
  out = { "pong", "true", "pong" },
})

-- Regression: the watchdog checked only slices that ran on workers.
t.test("the watchdog reports a loop in a service with its own thread, but not a wait", function()
  for _, worker in ipairs(kit.workers) do
    local child <close>, dir = kit.spawn({
      services = { own = [[
        local S = {}
        local wait = ltask.eventinit()
        ltask.idle_handler(function() wait() end)
        function S.ping(...) return ... end
        function S.spin(path)
          repeat for _ = 1, 1e6 do end until io.open(path)
        end
        return S
      ]] },
      config = { watchdog = 0.2 },
      main = [[
        local waits, spins = ltask.spawn "own", ltask.spawn "own"
        ltask.call(waits, "ping")
        say("spins", spins)
        ltask.call(spins, "spin", ... .. "/go")
      ]],
    }, worker)
    local id = child:expect "^spins\t(%d+)$"
    -- The watchdog measures CPU time, so the delay depends on other processes.
    child:expect("%(" .. id .. " own%) .*not paused")
    kit.go(dir)
    local log = child:all()
    for _, line in ipairs(kit.lines(log)) do
      t.ok(not line:find "^%[" or line:find("(" .. id .. " own)", 1, true), log)
    end
    t.eq(child:close(), 0)
  end
end)

-- Regression: the system ended at once, with exit code 0 and without quit handlers.
kit.test("if no thread can be started for a service, the service dies with a line in the log; the system continues", {
  services = { polite = [[
    local S, name = {}, ...
    function S.ping(...) return ... end
    function S.quit() say("quit", name) end
    return S
  ]], own = [[
    ltask.eventinit()
    return { ping = function(...) return ... end }
  ]] },
  main = [[
    local stat <close> = io.open "/proc/self/stat"
    local me = stat:read "n"
    -- Waits until the thread that the system starts last is running.
    while not os.execute(("grep -qs lio-timer /proc/%d/task/*/comm"):format(me)) do ltask.sleep(0) end
    -- The limit leaves space for the stacks of some threads, because the system may start threads while a command runs.
    -- Under the limit no process can be started, so an existing process lifts the limit, which must be soft.
    local prlimit = ("prlimit --pid %d --as="):format(me)
    local lift = io.popen("read go && " .. prlimit .. "unlimited:", "w")
    local other = ltask.spawn("polite", "other")
    assert(os.execute(("read pages rest </proc/%d/statm && %s$((pages * 4096 + (48 << 20))):"):format(me, prlimit)))
    local list, failed = {}, 0
    repeat
      local ok, id = pcall(ltask.spawn, "own")
      if ok then
        list[#list + 1] = id
        ok = pcall(ltask.call, id, "ping")
      end
      if not ok then failed = failed + 1 end
    until failed > 0 or #list == 100
    lift:write "go\n"
    assert(lift:close())
    say(failed, ltask.call(other, "ping", "pong"))
    say(ltask.call(ltask.spawn "own", "ping", "one more"))
  ]],
  err = false,
  out = function(out, err)
    t.ok((out .. err):find "cannot start a thread", out .. err)
    t.eq(kit.said(out), { "1\tpong", "one more", "quit\tother" }, out .. err)
  end,
  -- AddressSanitizer maps more memory than the limit allows.
  resident = true,
})

t.finish()
