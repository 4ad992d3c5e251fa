-- Services in an endless loop: neither `kill` nor the end of the system waits for such a service to return.
-- tests/ltask_watchdog_test.lua tests the reports of the watchdog.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"
local lio = require "lio"

-- Each handler sends `begun` to `who`, and then loops forever in a different way.
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

-- `spin(how)` spawns a looper, and returns its id when the handler `how` is in its loop.
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

-- Regression: at the end, root sent a quit request to one service after another, and waited for each without a limit.
-- If a service read no messages, the system did not end, and the quit handlers of other services did not run.
kit.test("with a service in an endless loop, the system ends within the grace and runs other quit handlers", {
  services = { looper = looper, polite = polite },
  config = { grace = 3 },
  main = spin .. [[
    for i = 1, 3 do ltask.spawn("polite", i) end
    spin "loop"
    for i = 4, 6 do ltask.spawn("polite", i) end
  ]],
  err = false,
  out = function(out)
    local said = kit.said(out)
    table.sort(said)
    t.eq(said, { "quit\t1", "quit\t2", "quit\t3", "quit\t4", "quit\t5", "quit\t6" })
  end,
})

kit.test("a service that the end of the system interrupts is logged once", {
  services = { looper = looper },
  config = { grace = 0.2, watchdog = 0 },
  main = spin .. [[
    local id = spin "loop"
    -- These tasks run, and are interrupted, after the first one.
    for _ = 1, 3 do ltask.send(id, "loop", ltask.self()) end
    say(id)
  ]],
  err = false,
  out = function(out, err)
    local id = kit.said(out)[1]
    local text = "%(" .. id .. " looper%) the service was still running when the system ended, and was interrupted"
    t.eq(select(2, err:gsub(text, "")), 1, err)
    t.ok(not err:find "the system has ended" and not err:find "repeated", err)
  end,
  signals = true,
})

t.test("the boot table's grace limits how long the end of the system takes", function()
  -- On a busy machine, one shutdown may take longer, but not all three.
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

-- Regression: root waited for the service, and the caller of `kill` hung.
kit.test("kill of a service in an endless loop returns, and the system ends", {
  services = { looper = looper },
  config = { grace = 0.2 },
  main = spin .. [[
    local id = spin "loop"
    ltask.fork(function() ltask.wakeup("killed", type(ltask.kill(id))) end)
    ltask.timeout(3000, function() ltask.wakeup("killed", "no answer") end)
    say(ltask.wait "killed")
  ]],
  err = false,
  out = function(out) t.eq(kit.said(out), { "boolean" }) end,
})

-- Regression: the error that ends a loop was raised only once: a pcall in the loop caught it, and the loop continued
-- forever.
kit.test("a service in an endless loop ends with the system, even if it catches every error", {
  services = { looper = looper },
  config = { grace = 0.2, watchdog = 0 },
  main = spin .. [[
    spin "catch"
    say "leaving"
  ]],
  err = false,
  out = function(out) t.eq(kit.said(out), { "leaving" }) end,
})

-- Regression: a debug hook belongs to one coroutine, so a loop in a coroutine that the library does not manage got no
-- error, and start never returned.
t.test("start returns even if a service loops in its own coroutine", function()
  local out = kit.system({
    services = { looper = looper },
    config = { grace = 0.2, watchdog = 0 },
    main = spin .. [[
      spin "nested"
      say "leaving"
    ]],
  }, 1)
  t.eq(kit.said(out), { "leaving" })
end)

-- Regression: the watchdog did not check the main thread, so a loop in mainthread_run could not be interrupted.
kit.test("an endless loop in mainthread_run ends with the system", {
  services = { looper = looper },
  config = { grace = 0.2, watchdog = 0 },
  main = spin .. [[
    spin "main_thread"
    say "leaving"
  ]],
  err = false,
  out = function(out) t.eq(kit.said(out), { "leaving" }) end,
  signals = true,
})

-- Regression: up to a thousand rounds of yielding coroutines ran before a message was handled, even if each round took
-- long.
kit.test("a task that works and yields in a loop does not delay requests", {
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

local ERROR <const> = "max_run_time: the task has run for more than 0.1 s without waiting"

kit.test("max_run_time ends a request in an endless loop with an error, and the service continues", {
  services = { looper = [[
    local S = {}
    function S.loop() while true do end end
    function S.catch() while true do pcall(function() while true do end end) end end
    function S.once() return pcall(function() while true do end end) end
    function S.nested() coroutine.wrap(function() while true do end end)() end
    function S.ping(...) return ... end
    return S
  ]], own = [[
    ltask.eventinit()
    local S = {}
    function S.loop() while true do end end
    function S.ping(...) return ... end
    return S
  ]] },
  config = { watchdog = 0, max_run_time = 0.1 },
  signals = true,
  main = [[
    local function ask(id, ...)
      local ok, message = pcall(ltask.call, id, ...)
      say(ok, tostring(message):match "[^\n]*")
    end
    local id, own = ltask.spawn "looper", ltask.spawn "own"
    for _, how in ipairs { "loop", "catch", "nested" } do ask(id, how) end
    say(ltask.call(id, "once"))
    ask(id, "ping", "pong")
    ask(own, "loop")
    ask(own, "ping", "pong")
  ]],
  out = function(out)
    local lines = {}
    for line in out:gmatch "[^\n]+" do
      if not line:find "^%[" and not line:find "^\t" then
        -- The error of `nested` also has the position of the call of the coroutine.
        lines[#lines + 1] = line:gsub("\t[^\t]*/([%w]+%.lua:%d+: max_run_time)", "\t%1", 1)
      end
    end
    t.eq(lines, {
      "false\tlooper.lua:2: " .. ERROR, "false\tlooper.lua:3: " .. ERROR, "false\tlooper.lua:5: " .. ERROR,
      "false\tlooper.lua:4: " .. ERROR, "true\tpong", "false\town.lua:3: " .. ERROR, "true\tpong",
    }, out)
  end,
  err = false,
})

t.finish()
