-- The statistics of each service, which ltask.call(1, "stat") returns.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local worker <const> = [[
  local S, kept = {}, nil
  function S.ping(...) return ... end
  function S.wait() ltask.wait() end
  function S.burn()
    local x = 0
    for i = 1, 2e7 do x = x + i end
    return x
  end
  function S.grow(n) kept = ("x"):rep(n) end
  function S.shrink() kept = nil collectgarbage() end
  function S.hold(who, dir)
    ltask.send(who, "held")
    repeat local f = io.open(dir .. "/go") until f
  end
  return S
]]

kit.test("every service has statistics with all fields until it ends", {
  services = { worker = worker },
  main = [[
    local a = ltask.spawn "worker"
    local stat = ltask.call(1, "stat")
    say(stat[1].label, stat[a].label, stat[ltask.self()].label)
    for _, key in ipairs {
      "messages", "queue", "queue_max", "cpu", "memory", "memory_max", "resumes", "coroutines",
    } do
      say(key, type(stat[a][key]), stat[a][key] >= 0)
    end
    ltask.kill(a)
    while ltask.call(1, "stat")[a] do ltask.sleep(1) end
    say "after its end"
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.ok(lines[1]:find "^root\tworker\tmain$", lines[1])
    for i = 2, 9 do t.ok(lines[i]:find "\tnumber\ttrue$", lines[i]) end
    t.eq(lines[10], "after its end")
  end,
})

kit.test("objects with finalizers do not accumulate in a service", {
  main = [[
    local meta = { __gc = function() end }
    local most = 0
    for i = 1, 300000 do
      setmetatable({}, meta)
      if i % 1000 == 0 then most = math.max(most, collectgarbage "count") end
    end
    say(most < 4096, "most KiB", most)
  ]],
  out = function(out) t.ok(out:find "^true", out) end,
})

kit.test("the statistics count received messages, resumes of the service, and created coroutines", {
  services = { worker = worker },
  main = [[
    local a = ltask.spawn "worker"
    local function stat() return ltask.call(1, "stat")[a] end
    local before = stat()
    for i = 1, 1000 do ltask.call(a, "ping", i) end
    local after = stat()
    say(after.messages - before.messages >= 1000, after.messages - before.messages < 1100)
    say(after.resumes > before.resumes, after.resumes - before.resumes <= 2100)
    say(after.coroutines - before.coroutines < 10)
    for _ = 1, 100 do ltask.send(a, "wait") end
    ltask.call(a, "ping")
    local waiting = stat().coroutines - after.coroutines
    say(waiting >= 80, waiting <= 110)
  ]],
  out = { "true\ttrue", "true\ttrue", "true", "true\ttrue" },
})

kit.test("queue is the number of waiting messages, and queue_max is the maximum of queue", {
  services = { worker = worker },
  main = [[
    local dir = ...
    function S.held() ltask.wakeup "held" end
    local a = ltask.spawn "worker"
    ltask.send(a, "hold", ltask.self(), dir)
    ltask.wait "held"
    for i = 1, 100 do ltask.send(a, "ping", i) end
    local held = ltask.call(1, "stat")[a]
    say(held.queue, held.queue_max)
    io.open(dir .. "/go", "w"):close()
    ltask.call(a, "ping")
    local over = ltask.call(1, "stat")[a]
    say(over.queue, over.queue_max >= 100)
  ]],
  out = { "100\t100", "0\ttrue" },
})

kit.test("cpu grows during work but not during waits; memory follows the values in use", {
  services = { worker = worker },
  main = [[
    local a = ltask.spawn "worker"
    local function stat() return ltask.call(1, "stat")[a] end
    -- The statistics are updated at the end of a slice, which may be after the response.
    local function stat_until(f)
      local deadline = ltask.counter() + 10
      local figures
      repeat
        figures = stat()
      until f(figures) or ltask.counter() > deadline or ltask.sleep(1)
      return figures
    end
    local before = stat()
    ltask.sleep(20)
    local idle = stat()
    ltask.call(a, "burn")
    local burnt = stat_until(function(now) return now.cpu - idle.cpu > 0.01 end)
    say(idle.cpu - before.cpu < 0.1, burnt.cpu - idle.cpu > 0.01, burnt.cpu < 60)
    ltask.call(a, "grow", 10 << 20)
    local grown = stat_until(function(now) return now.memory - burnt.memory >= 9 << 20 end)
    ltask.call(a, "shrink")
    local shrunk = stat_until(function(now) return grown.memory - now.memory >= 9 << 20 end)
    say(grown.memory - burnt.memory >= 9 << 20, grown.memory_max >= grown.memory)
    say(grown.memory - shrunk.memory >= 9 << 20, shrunk.memory_max >= grown.memory_max)
  ]],
  out = { "true\ttrue\ttrue", "true\ttrue", "true\ttrue" },
})

t.finish()
