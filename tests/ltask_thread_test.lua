-- lio.thread in services: threads that call, sleep and return results to callers; scopes of requests whose caller dies
-- or whose service is killed; and the sessions and timers of killed threads, which must be removed.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- The source that precedes each program, on its first line. `left()` returns the number of sessions for which tasks of
-- the service wait (including one for each sleep), and the number of its timers. `quiet(sessions, timers)` waits until
-- `left()` returns these numbers, and returns true, or a string with the numbers if this takes too long.
local prelude <const> = ([[
local thread, task = require "lio.thread", require "lio.task"
local function left() return require "ltask.core".pending() end
local function quiet(sessions, timers)
  for _ = 1, 200 do
    local s, n = left()
    if s == sessions and n == timers then return true end
    ltask.sleep(0)
  end
  local s, n = left()
  return "left: " .. s .. " sessions, " .. n .. " timers"
end
local function closing(f) return setmetatable({}, { __close = f }) end
]]):gsub("\n", " ")

local function both(name, spec)
  spec.main = prelude .. spec.main
  for service, source in pairs(spec.services or {}) do spec.services[service] = prelude .. source end
  kit.test(name, spec)
end

-- A service that responds to `late` only when it gets `answer`, and to `slow` after a very long time.
local peer <const> = [[
  local S, n = {}, 0
  function S.echo(...) return ... end
  function S.late(x)
    n = n + 1
    local mine = "late" .. n
    ltask.wait(mine)
    return x
  end
  function S.answer() for i = 1, n do ltask.wakeup("late" .. i) end end
  function S.slow() ltask.sleep(1000000) end
  function S.fail(e) error(e, 0) end
  return S
]]

both("threads of a service call concurrently, and wait returns the first response", {
  services = { peer = peer },
  main = [[
    local p = ltask.spawn "peer"
    local late = thread.spawn(ltask.call, p, "late", "L")
    local soon = thread.spawn(ltask.call, p, "echo", 1, nil, "x")
    say(thread.wait(late, soon))
    ltask.send(p, "answer")
    say(thread.wait(late))
    say(thread.wait(thread.spawn(ltask.call, p, "fail", "why")))
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.eq(lines[1], "true\t1\tnil\tx")
    t.eq(lines[2], "true\tL")
    t.ok(lines[3]:find "^false\t.*why", lines[3])
  end,
})

both("spawn runs a thread at once; woken threads run in the order of wakeups, before the next message", {
  services = { order = [[
    local S, list = {}, {}
    function S.first()
      for i = 1, 3 do
        thread.spawn(function()
          list[#list + 1] = "spawn" .. i
          ltask.wait("order" .. i)
          list[#list + 1] = "woken" .. i
        end)
      end
      for _, i in ipairs { 2, 3, 1 } do ltask.wakeup("order" .. i) end
      list[#list + 1] = "handler"
    end
    function S.second() list[#list + 1] = "second" end
    function S.list() return table.concat(list, " ") end
    return S
  ]] },
  main = [[
    local a = ltask.spawn "order"
    ltask.send(a, "first")
    ltask.send(a, "second")
    say(ltask.call(a, "list"))
  ]],
  out = { "spawn1 spawn2 spawn3 handler woken2 woken3 woken1 second" },
})

both("a handler may return the results of its threads", {
  services = { peer = peer, front = [[
    local S = {}
    function S.sum(p, ...)
      local tasks = {}
      for i, x in ipairs { ... } do tasks[i] = { ltask.call, p, "echo", x } end
      local ok, list = thread.all(tasks)
      if not ok then error(list, 0) end
      local sum = 0
      for _, r in ipairs(list) do sum = sum + r[1] end
      return sum
    end
    function S.hurry(p) return thread.timeout(0.01, ltask.call, p, "slow") end
    function S.left() return left() end
    return S
  ]] },
  main = [[
    local p, f = ltask.spawn "peer", ltask.spawn "front"
    say(ltask.call(f, "sum", p, 1, 2, 3, 4))
    say(ltask.call(f, "hurry", p))
    say(ltask.call(f, "left"))
  ]],
  out = { "10", "nil\ttimeout", "0\t0" },
})

both("a thread continues after the request of its parent has been answered", {
  services = { peer = peer, front = [[
    local S, got = {}, nil
    function S.start(p)
      thread.spawn(function() got = ltask.call(p, "late", "later") end)
      return "answered"
    end
    function S.got() return got end
    return S
  ]] },
  main = [[
    local p, f = ltask.spawn "peer", ltask.spawn "front"
    say(ltask.call(f, "start", p), ltask.call(f, "got"))
    ltask.call(p, "answer")
    local got
    repeat got = ltask.call(f, "got") until got
    say(got)
  ]],
  out = { "answered\tnil", "later" },
})

both("a thread that is killed in any wait of the service library leaves no session and no timer", {
  services = { peer = peer },
  main = [[
    local p = ltask.spawn "peer"
    local waits = {
      call = function() ltask.call(p, "late", 1) end,
      syscall = function() ltask.call(p, "slow") end,
      sleep = function() ltask.sleep(1000000) end,
      wait = function() ltask.wait "token" end,
      pcall = function() pcall(ltask.call, p, "late", 2) end,
      thread = function() thread.timeout(10000, ltask.call, p, "late", 3) end,
      all = function() thread.all { { ltask.call, p, "late", 4 }, { ltask.sleep, 1000000 } } end,
      race = function() thread.race { { ltask.call, p, "late", 5 }, { ltask.sleep, 1000000 } } end,
      multi = function() ltask.multi_wait "many" end,
      coroutine = function()
        require "lio.coroutine".wrap(function() ltask.call(p, "late", 6) end)()
      end,
      scope = function()
        local scope <close> = thread.scope()
        scope:spawn(ltask.call, p, "late", 7)
        scope:spawn(ltask.sleep, 1000000)
        scope:wait()
      end,
    }
    local names = {}
    for name in pairs(waits) do names[#names + 1] = name end
    table.sort(names)
    local s0, n0 = left()
    for _, name in ipairs(names) do
      local closed, went_on = 0, false
      local h = thread.spawn(function()
        local _ <close> = closing(function() closed = closed + 1 end)
        waits[name]()
        went_on = true
      end)
      ltask.sleep(0)
      local before = thread.status(h)
      local killed = thread.kill(h)
      say(name, before, killed, closed, went_on, thread.wait(h))
      say(name, quiet(s0, n0), closed, went_on)
    end
    -- Responses to killed threads have no effect.
    ltask.call(p, "answer")
    say(ltask.call(p, "echo", "well"))
    say(quiet(s0, n0))
  ]],
  out = function(out)
    local want = {}
    for _, name in ipairs { "all", "call", "coroutine", "multi", "pcall", "race", "scope", "sleep", "syscall",
      "thread", "wait" } do
      want[#want + 1] = name .. "\twaiting\ttrue\t1\tfalse\tfalse\tkilled"
      want[#want + 1] = name .. "\ttrue\t1\tfalse"
    end
    want[#want + 1] = "well"
    want[#want + 1] = "true"
    t.eq(kit.lines(out), want)
  end,
})

both("a killed thread and its descendants leave no session and no timer", {
  services = { peer = peer },
  main = [[
    local p = ltask.spawn "peer"
    local s0, n0 = left()
    local grown, ended = 0, 0
    local function grow(depth)
      local _ <close> = closing(function() ended = ended + 1 end)
      grown = grown + 1
      local scope <close> = thread.scope()
      scope:spawn(ltask.call, p, "late", depth)
      scope:spawn(ltask.sleep, 1000000)
      scope:spawn(thread.timeout, 10000, ltask.call, p, "late", depth)
      scope:spawn(function()
        require "lio.coroutine".wrap(function()
          thread.race { { ltask.call, p, "late", 1 }, { ltask.sleep, 1000000 } }
        end)()
      end)
      if depth < 4 then
        for _ = 1, 2 do scope:spawn(grow, depth + 1) end
      end
      scope:wait()
    end
    local root = thread.spawn(grow, 1)
    ltask.sleep(0)
    local s, n = left()
    say(grown, s - s0, n - n0)
    say(thread.kill(root), ended, quiet(s0, n0))
    say(thread.wait(root))
    ltask.call(p, "answer")
    ltask.sleep(0)
    say(quiet(s0, n0))
  ]],
  out = { "15\t90\t45", "true\t15\ttrue", "false\tkilled", "true" },
})

both("a thread that is killed after its response arrived does not run, and no other thread gets the response", {
  services = { peer = peer },
  main = [[
    local p = ltask.spawn "peer"
    local s0, n0 = left()
    local ran = 0
    for i = 1, 20 do
      local h = thread.spawn(function()
        ltask.call(p, "echo", i)
        ran = ran + 1
      end)
      local other = thread.spawn(ltask.call, p, "echo", "mine" .. i)
      for _ = 1, i % 4 do ltask.sleep(0) end
      local before = ran
      local killed = thread.kill(h)
      local ok, x = thread.wait(other)
      assert(ok and x == "mine" .. i, x)
      assert(ran == before, "a killed thread ran")
      assert(killed or before == 1 or ran > 0)
    end
    say(quiet(s0, n0))
  ]],
  out = { "true" },
})

both("the scope of a failing handler ends before the caller gets the error", {
  services = { peer = peer, front = [[
    local S, ended = {}, 0
    function S.work(p)
      local scope <close> = thread.scope()
      for i = 1, 3 do
        scope:spawn(function()
          local _ <close> = closing(function() ended = ended + 1 end)
          ltask.call(p, "late", i)
        end)
      end
      error("gives up", 0)
    end
    function S.ended() return ended, left() end
    return S
  ]] },
  main = [[
    local p, f = ltask.spawn "peer", ltask.spawn "front"
    local ok, e = pcall(ltask.call, f, "work", p)
    say(ok, tostring(e):find("gives up", 1, true) ~= nil)
    say(ltask.call(f, "ended"))
  ]],
  out = { "false\ttrue", "3\t0\t0" },
})

both("a service that is killed while threads wait in a scope ends, and its callers get errors", {
  services = { peer = peer, front = [[
    local S = {}
    function S.work(p)
      local scope <close> = thread.scope()
      for i = 1, 10 do scope:spawn(ltask.call, p, "late", i) end
      scope:spawn(ltask.sleep, 1000000)
      scope:wait()
    end
    function S.ready() return (left()) end
    return S
  ]] },
  main = [[
    local p, f = ltask.spawn "peer", ltask.spawn "front"
    local work = thread.spawn(ltask.call, f, "work", p)
    repeat until ltask.call(f, "ready") == 11
    say(ltask.kill(f))
    say((thread.wait(work)))
    ltask.call(p, "answer")
    say(ltask.call(p, "echo", "the peer lives"))
    say(left())
  ]],
  out = { "true", "false", "the peer lives", "0\t0" },
})

both("if a caller dies, the handler's scope continues, and the response is dropped", {
  services = {
    caller = [[
      local S = {}
      function S.go(f) ltask.call(f, "work") end
      return S
    ]],
    front = [[
      local S, state = {}, "not begun"
      function S.work()
        state = "working"
        local scope <close> = thread.scope()
        local _ <close> = closing(function() state = "left" end)
        scope:spawn(ltask.sleep, 1000000)
        local h = scope:spawn(function() return ltask.wait "go" end)
        return thread.wait(h)
      end
      function S.go() return ltask.wakeup("go", "result") end
      function S.state() return state, left() end
      return S
    ]],
  },
  main = [[
    local c, f = ltask.spawn "caller", ltask.spawn "front"
    ltask.send(c, "go", f)
    repeat until ltask.call(f, "state") == "working"
    say(ltask.kill(c))
    say(ltask.call(f, "state"))
    say(ltask.call(f, "go"))
    repeat until ltask.call(f, "state") == "left"
    say(ltask.call(f, "state"))
  ]],
  out = { "true", "working\t1\t1", "true", "left\t0\t0" },
})

both("when a handler ends, its zombies are reaped, and a failure that no thread has read is logged once", {
  services = { front = [[
    local S, h = {}, nil
    function S.work()
      h = thread.spawn(function() error "unseen in a service" end)
      return thread.status(h)
    end
    function S.after() return thread.status(h), thread.wait(h) end
    return S
  ]] },
  main = [[
    local f = ltask.spawn "front"
    say(ltask.call(f, "work"))
    say(ltask.call(f, "after"))
  ]],
  err = false,
  out = function(out, err)
    t.eq(kit.lines(out), { "zombie", "dead\tnil\talready waited" })
    local _, n = (out .. err):gsub("unseen in a service", "")
    t.eq(n, 1, err)
    t.ok((out .. err):find("stack traceback:", 1, true), err)
  end,
})

both("each service has its own threads, and a handle that was sent in a message is not valid", {
  services = { peer = peer },
  main = [[
    local p = ltask.spawn "peer"
    local h = thread.spawn(ltask.wait, "mine")
    local ok = pcall(function()
      local other = ltask.call(p, "echo", h)
      return thread.wait(other)
    end)
    say(ok, thread.status(h), thread.kill(h))
  ]],
  out = { "false\twaiting\ttrue" },
})

both("10,000 threads call, and each gets its own response", {
  config = { queue = 16384 }, -- the peer may run only after all requests are sent
  services = { peer = peer },
  main = [[
    local p = ltask.spawn "peer"
    local s0, n0 = left()
    local list = {}
    for i = 1, 10000 do list[i] = { ltask.call, p, "echo", i } end
    local ok, results = thread.all(list)
    local right = 0
    for i, r in ipairs(results) do if r[1] == i and r.n == 1 then right = right + 1 end end
    say(ok, right, quiet(s0, n0))
  ]],
  out = { "true\t10000\ttrue" },
})

-- Regression: if there was no memory for the results of a thread, an error was raised before the thread had woken the
-- waiting thread, so `all` never returned. The limit grows by a few bytes in each round, so that each allocation at the
-- end of a thread fails once.
kit.test("if there is no memory for a thread's results, the waiting thread is still woken", {
  services = { poor = [[
    local thread = require "lio.thread"
    local S, figures = {}, {}
    local function limit(spare) ltask.mem_limit(ltask.mem_count(figures).memory + spare) end
    -- Returns a function that returns `count` values, with only `spare` bytes of memory left.
    local function ending(spare, count)
      return function()
        ltask.sleep(0)
        if spare then limit(spare) end
        return table.unpack(figures, 1, count)
      end
    end
    local function run(f, ...)
      ltask.mem_limit(0)
      collectgarbage()
      local done, ok = pcall(f, ...)
      ltask.mem_limit(0)
      return done and ok
    end
    function S.all(spare)
      return run(thread.all, { ending(spare, 30), ending(nil, 2), { ending(nil, 60), 1 }, ending(nil, 0) })
    end
    function S.given(spare)
      local first, second = thread.spawn(ending(spare, 30)), thread.spawn(ending(nil, 3))
      return run(thread.all, { first, second, first, ending(nil, 2), second })
    end
    function S.wait(spare)
      local one = thread.spawn(ending(spare, 40))
      return run(thread.wait, one)
    end
    function S.scope(spare)
      return run(function()
        local scope <close> = thread.scope()
        scope:spawn(ending(spare, 30))
        scope:spawn(function() ltask.sleep(0) error { "wrong" } end)
        return scope:wait()
      end)
    end
    function S.race(spare)
      return run(thread.race, { ending(spare, 30), ending(nil, 2) })
    end
    return S
  ]] },
  main = [[
    local a = ltask.spawn "poor"
    for _, way in ipairs { "all", "given", "wait", "scope", "race" } do
      local good, bad = 0, 0
      for spare = 0, 16000, 80 do
        local done, ok = pcall(ltask.call, a, way, spare)
        assert(done, ok)
        if ok then good = good + 1 else bad = bad + 1 end
      end
      -- In `scope` one thread always fails.
      say(way, good > 0 or way == "scope", bad > 0)
    end
  ]],
  err = false,
  out = { "all\ttrue\ttrue", "given\ttrue\ttrue", "wait\ttrue\ttrue", "scope\ttrue\ttrue", "race\ttrue\ttrue" },
})

t.finish()
