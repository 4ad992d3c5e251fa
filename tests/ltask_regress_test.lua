-- Regressions of the scheduler, about its end and about services that do not cooperate: a kill or the end of the system
-- hung. One test per fault, whose comment describes it. Memory, messages and the log are in ltask_regress2_test.lua,
-- starts and the loop in a service in ltask_regress3_test.lua.

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
local kit = require "tests.ltaskkit"
local lio = require "lio"

-- Each handler sends `begun` to `who` and never returns, in its own way.
local looper <const> = [[
  local S = {}
  function S.loop(who)
    ltask.send(who, "begun")
    while true do end
  end
  function S.catch(who)
    ltask.send(who, "begun")
    while true do pcall(function() for _ = 1, 1e5 do end end) end
  end
  function S.nested(who)
    ltask.send(who, "begun")
    coroutine.wrap(function() while true do end end)()
  end
  function S.main_thread(who)
    ltask.mainthread_run(function()
      ltask.send(who, "begun")
      while true do end
    end)
  end
  return S
]]

-- `spin(how)`: returns a looper that is in its loop.
local spin <const> = [[
  function S.begun() ltask.wakeup "begun" end
  local function spin(how)
    local id = ltask.spawn "looper"
    ltask.send(id, how, ltask.self())
    ltask.wait "begun"
    return id
  end
]]

local polite <const> = [[
  local S, name = {}, ...
  function S.ping(...) return ... end
  function S.quit() say("quit", name) end
  return S
]]

-- Returns the lines that services have printed, sorted, without those of the log and of its tracebacks.
local function said(out)
  local list = {}
  for _, line in ipairs(kit.lines(out)) do
    if not line:find "^[%[%s]" and not line:find "^stack traceback" then list[#list + 1] = line end
  end
  table.sort(list)
  return list
end

-- ---------------------------------------------------------------------------------------------
-- Services that loop

-- The end asked one service after another to quit and waited for each without a limit: with a service that read no
-- messages the system did not end, and the quit handlers of the others did not run.
kit.both("quit_ltask with a service in an endless loop ends within the grace; the others' quit handlers run", {
  services = { looper = looper, polite = polite },
  config = { grace = 3 },
  main = spin .. [[
    for i = 1, 3 do ltask.spawn("polite", i) end
    spin "loop"
    for i = 4, 6 do ltask.spawn("polite", i) end
  ]],
  err = false,
  out = function(out)
    t.eq(said(out), { "quit\t1", "quit\t2", "quit\t3", "quit\t4", "quit\t5", "quit\t6" })
  end,
})

t.test("the boot table's grace is the limit of the end, not the default of 10 s", function()
  -- On a busy machine one end may take longer, but not each of three.
  local least = math.huge
  for _ = 1, 3 do
    local before = lio.now()
    kit.system({
      services = { looper = looper },
      config = { grace = 0.2, watchdog = 0 },
      main = spin .. [[ spin "loop" ]],
    }, 1)
    least = math.min(least, lio.now() - before)
    if least < 9 then break end
  end
  t.ok(least < 9, least)
end)

-- Root waited for the service, and the caller of `kill` hung.
kit.both("kill of a service in an endless loop returns, and the system ends", {
  services = { looper = looper },
  config = { grace = 0.2 },
  main = spin .. [[
    local id = spin "loop"
    ltask.fork(function() ltask.wakeup("killed", type(ltask.kill(id))) end)
    ltask.timeout(3000, function() ltask.wakeup("killed", "no answer") end)
    say(ltask.wait "killed")
  ]],
  err = false,
  out = function(out) t.eq(said(out), { "boolean" }) end,
})

-- The error that ends a loop was raised once: a pcall in the loop caught it, and the loop continued for ever.
kit.both("a service that catches every error in an endless loop is ended with the system", {
  services = { looper = looper },
  config = { grace = 0.2, watchdog = 0 },
  main = spin .. [[
    spin "catch"
    say "leaving"
  ]],
  err = false,
  out = function(out) t.eq(said(out), { "leaving" }) end,
})

-- Hooks belong to one coroutine: a loop in a coroutine that the library does not manage got no error, and start never
-- returned.
t.test("a service that loops in a coroutine of its own does not keep start from returning", function()
  local out = kit.system({
    services = { looper = looper },
    config = { grace = 0.2, watchdog = 0 },
    main = spin .. [[
      spin "nested"
      say "leaving"
    ]],
  }, 1)
  t.eq(said(out), { "leaving" })
end)

-- The watchdog did not check the main thread: a loop in mainthread_run could not be interrupted.
kit.both("an endless loop in mainthread_run is ended with the system", {
  services = { looper = looper },
  config = { grace = 0.2, watchdog = 0 },
  main = spin .. [[
    spin "main_thread"
    say "leaving"
  ]],
  err = false,
  out = function(out) t.eq(said(out), { "leaving" }) end,
})

-- Up to a thousand rounds of yielding coroutines ran before a message was handled, however long each took.
kit.both("a task that works and yields in a loop does not delay requests", {
  services = { yielding = [[
    local S, rounds, stop = {}, 0, false
    function S.work()
      while not stop do
        local till = ltask.counter() + 0.001
        while ltask.counter() < till do end
        rounds = rounds + 1
        coroutine.yield()
      end
    end
    function S.rounds() return rounds end
    function S.stop() stop = true end
    return S
  ]] },
  main = [[
    local id = ltask.spawn "yielding"
    ltask.send(id, "work")
    while ltask.call(id, "rounds") == 0 do end
    local before = ltask.call(id, "rounds")
    for _ = 1, 20 do ltask.call(id, "rounds") end
    local meanwhile = ltask.call(id, "rounds") - before
    ltask.call(id, "stop")
    say(meanwhile < 10000 or meanwhile)
  ]],
  err = false,
  out = { "true" },
})

-- Root's main loop ended at once, and the system with it.
kit.both("a quit of root runs the quit handlers of all services", {
  services = { polite = polite },
  main = [[
    for i = 1, 3 do ltask.spawn("polite", i) end
    pcall(ltask.syscall, 1, "quit")
    ltask.wait "for ever"
  ]],
  err = false,
  out = function(out) t.eq(said(out), { "quit\t1", "quit\t2", "quit\t3" }) end,
})

-- It was 0.
t.test("the exit code is 1 if root ends by an error", function()
  for _, worker in ipairs(kit.workers) do
    local out, err, code = kit.raw_system({
      root = "raw.next() error 'no good end'",
      run = "print('code', boot.run(), boot.deinit())",
    }, worker)
    t.eq({ out, code }, { "code\t1\n", 0 }, err)
    t.ok(err:find "no good end", err)
  end
end)

-- ---------------------------------------------------------------------------------------------
-- The main thread

-- The error was replaced by "deinit: the system runs", and the services ran on.
t.test("an error in the boot table's mainthread function is raised by start, and the system has ended", function()
  for _, worker in ipairs(kit.workers) do
    local dir, program = kit.write({ main = [[
      CLOSED = setmetatable({}, { __gc = function() say "closed" end })
      say "runs"
      io.open(... .. "/runs", "w"):close()
      ltask.wait "for ever"
    ]] }, worker)
    program = program:gsub("local code = .*", "local dir = " .. kit.literal(dir):gsub("%%", "%%%%") .. "\n")
    local r = kit.program(program .. [[
      function config.mainthread()
        repeat local f = io.open(dir .. "/runs") until f
        error "raised on the main thread"
      end
      local start = require "ltask.start"
      local ok, e = pcall(start, config)
      print(ok, tostring(e):match "raised on the main thread" or e)
      local stat <close> = io.open "/proc/self/stat"
      local threads <close> = io.popen(("ls /proc/%d/task | wc -l"):format(stat:read "n"))
      print("threads", threads:read "n")
      config.mainthread = nil
      config.bootstrap = { { name = "second" } }
      local file <close> = io.open(dir .. "/second.lua", "w")
      file:write "local ltask = require 'ltask' io.stdout:write 'second' ltask.quit() return {}"
      file:flush()
      print("", start(config))
    ]], dir)
    t.eq({ r.err, r.code }, { "", 0 }, r.out)
    t.eq(kit.lines(r.out), {
      "runs", "closed", "false\traised on the main thread", "threads\t1", "second\t0",
    })
  end
end)

-- The function ran on the service's own thread, without an error.
kit.both("mainthread_run in a service with a thread of its own raises an error", {
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

-- ---------------------------------------------------------------------------------------------
-- Threads of their own

-- The service got IDLE messages without a pause, and used a whole processor.
kit.both("a service with an event descriptor and no idle handler uses no CPU while it waits", {
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

-- The watchdog checked only slices of workers.
t.test("the watchdog reports a loop in a service with a thread of its own, and not a wait", function()
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

-- The system ended at once, with exit code 0 and without quit handlers.
kit.both("a service for which no thread can start dies with a line in the log; the system continues", {
  services = { polite = polite, own = [[
    ltask.eventinit()
    return { ping = function(...) return ... end }
  ]] },
  main = [[
    local stat <close> = io.open "/proc/self/stat"
    local me = stat:read "n"
    -- The thread that the system starts last is running.
    while not os.execute(("grep -qs lio-timer /proc/%d/task/*/comm"):format(me)) do ltask.sleep(0) end
    -- Room for the stacks of some threads beyond the memory in use: while a command runs, the system may start threads.
    -- Only the soft limit, so that it can be lifted again, by a process that runs already: under the limit none can be
    -- started.
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
    t.eq(said(out), { "1\tpong", "one more", "quit\tother" }, out .. err)
  end,
  -- AddressSanitizer maps more memory than any limit.
  resident = true,
})

t.finish()
