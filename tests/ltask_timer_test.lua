-- sleep and timeout of the service library: their order, the time before which they must not end, and services that end
-- with pending timers. No test limits how late a timer may be, because the benchmarks measure the delay.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

kit.test("sleep never returns early", {
  main = [[
    local early = 0
    for _, cs in ipairs { 0, 1, 2, 3, 5, 10, 1, 1, 1 } do
      local started = ltask.counter()
      ltask.sleep(cs)
      if ltask.counter() - started < cs / 100 then early = early + 1 end
    end
    say(early)
  ]],
  out = { "0" },
})

kit.test("sleep(0) lets the service handle other messages", {
  services = { busy = [[
    local S, stop = {}, false
    function S.run()
      local turns = 0
      while not stop do
        turns = turns + 1
        ltask.sleep(0)
      end
      return turns > 0
    end
    function S.stop() stop = true end
    return S
  ]] },
  main = [[
    local a = ltask.spawn "busy"
    ltask.fork(function() ltask.wakeup("done", ltask.call(a, "run")) end)
    ltask.sleep(0)
    ltask.call(a, "stop")
    say(ltask.wait "done")
  ]],
  out = { "true" },
})

kit.test("timeout returns at once; its function runs as a coroutine that may wait", {
  main = [[
    ltask.timeout(1, function()
      say "fired"
      ltask.sleep(1)
      ltask.wakeup "done"
    end)
    say "set"
    ltask.wait "done"
    say "done"
  ]],
  out = { "set", "fired", "done" },
})

kit.test("timeouts fire in the order of their times", {
  main = [[
    local list
    -- Sets the timeouts again if they were not set at almost the same time.
    repeat
      local mine, set = {}, ltask.counter()
      list = mine
      for _, cs in ipairs { 50, 10, 30, 20, 40 } do
        ltask.timeout(cs, function()
          mine[#mine + 1] = cs
          if #list == 5 then ltask.wakeup "done" end
        end)
      end
    until ltask.counter() - set < 0.09
    ltask.wait "done"
    say(table.concat(list, " "))
  ]],
  out = { "10 20 30 40 50" },
})

-- Each timeout is set between two readings of the clock, so the range of its time is known. All times are at least 1,
-- because a timeout of 0 is not a timer: it fires after messages that have arrived, and before late timers.
kit.test("each of five thousand timeouts fires once, in order, and not early", {
  main = [[
    local n <const> = 5000
    local lower, upper, fired, order = {}, {}, {}, {}
    local state = 12345
    for i = 1, n do
      state = (state * 1103515245 + 12345) & 0x7fffffff
      local cs = 1 + state % 30
      lower[i] = ltask.counter() + cs / 100
      ltask.timeout(cs, function()
        fired[i] = (fired[i] or 0) + 1
        order[#order + 1] = i
        lower[i] = ltask.counter() >= lower[i] and lower[i] or error "early"
        if #order == n then ltask.wakeup "done" end
      end)
      upper[i] = ltask.counter() + cs / 100
    end
    ltask.wait "done"
    ltask.sleep(5)
    local once, wrong = #order == n, 0
    for i = 1, n do once = once and fired[i] == 1 end
    -- A timer that was certainly earlier than another must not fire after it.
    local latest = 0
    for k = 1, n do
      local i = order[k]
      if upper[i] + 1e-6 < latest then wrong = wrong + 1 end
      if lower[i] > latest then latest = lower[i] end
    end
    say(once, wrong)
  ]],
  out = { "true\t0" },
})

kit.test("ten thousand coroutines may sleep at the same time, and all wake up", {
  main = [[
    local awake = 0
    for i = 1, 10000 do
      ltask.fork(function()
        ltask.sleep(i % 10)
        awake = awake + 1
        if awake == 10000 then ltask.wakeup "done" end
      end)
    end
    ltask.wait "done"
    say(awake)
  ]],
  out = { "10000" },
})

kit.test("timers of a dead service are removed", {
  services = { brief = [[
    local S = {}
    function S.run()
      for i = 1, 100 do ltask.timeout(1 + i % 5, function() say "of a dead service" end) end
      ltask.timeout(1000000, function() end)
      ltask.quit()
    end
    return S
  ]] },
  main = [[
    for _ = 1, 20 do pcall(ltask.call, ltask.spawn "brief", "run") end
    ltask.sleep(10)
    say "nothing came"
  ]],
  -- Timers that expire before their service has ended may still fire.
  out = function(out)
    t.ok(out:find "nothing came\n$", out)
  end,
})

kit.test("a timer in the far future does not keep the system running", {
  services = { far = [[
    ltask.timeout(8640000, function() end)
    ltask.fork(function() ltask.sleep(100000000) end)
    return {}
  ]] },
  main = [[
    ltask.spawn "far"
    ltask.timeout(100000, function() end)
    say "leaving"
  ]],
  out = { "leaving" },
})

kit.test("now, walltime and counter advance while a service sleeps", {
  main = [[
    local s1, cs1 = ltask.now()
    local w, c = ltask.walltime(), ltask.counter()
    ltask.sleep(12)
    local s2, cs2 = ltask.now()
    say(s2 >= s1, cs2 - cs1 >= 11, ltask.walltime() - w >= 11, ltask.counter() - c >= 0.12)
  ]],
  out = { "true\ttrue\ttrue\ttrue" },
})

t.finish()
