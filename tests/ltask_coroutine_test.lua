-- Coroutines in one service: all forms of fork, wait and wakeup, the order in which coroutines run, and the pool of
-- coroutines.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

kit.test("wakeup passes its values to the waiting coroutine, and returns true", {
  main = [[
    ltask.fork(function() say("woken", ltask.wait "token") end)
    local me = ltask.fork(function() say("by default", ltask.wait()) end)
    ltask.sleep(0)
    say(ltask.wakeup("token", 1, nil, "x"))
    say(ltask.wakeup(me, "own coroutine"))
    say "queued, not run"
    ltask.sleep(0)
  ]],
  out = { "true", "true", "queued, not run", "woken\t1\tnil\tx", "by default\town coroutine" },
})

kit.test("wakeup of a token without a waiting coroutine, and a second wakeup, return nil", {
  main = [[
    say(ltask.wakeup "nobody", ltask.interrupt("nobody", "x"))
    say(ltask.multi_wakeup "nobody", ltask.multi_interrupt("nobody", "x"))
    ltask.fork(function() ltask.wait "token" end)
    ltask.sleep(0)
    say(ltask.wakeup "token", ltask.wakeup "token")
  ]],
  out = { "nil\tnil", "nil\tnil", "true\tnil" },
})

kit.test("woken coroutines run in the order of the wakeups, after the running coroutine suspends", {
  main = [[
    local list = {}
    for i = 1, 5 do
      ltask.fork(function()
        ltask.wait("token" .. i)
        list[#list + 1] = i
      end)
    end
    ltask.sleep(0)
    for _, i in ipairs { 3, 1, 5, 2, 4 } do ltask.wakeup("token" .. i) end
    say("before", #list)
    ltask.sleep(0)
    say(table.concat(list, " "))
  ]],
  out = { "before\t0", "3 1 5 2 4" },
})

kit.test("fork returns the coroutine, passes its arguments, and starts forks in order", {
  main = [[
    local list, cos = {}, {}
    for i = 1, 5 do
      cos[i] = ltask.fork(function(a, b)
        list[#list + 1] = a .. b
        assert(ltask.running() == cos[i] and coroutine.running() == cos[i])
        ltask.wait()
        list[#list + 1] = "again" .. i
      end, "f", i)
    end
    say(type(cos[1]), #list)
    ltask.sleep(0)
    say(table.concat(list, " "))
    for i = 5, 1, -1 do ltask.wakeup(cos[i]) end
    ltask.sleep(0)
    say(table.concat(list, " ", 6))
  ]],
  out = { "thread\t0", "f1 f2 f3 f4 f5", "again5 again4 again3 again2 again1" },
})

kit.test("forked functions start before the service handles its next message", {
  services = { order = [[
    local S, list = {}, {}
    function S.first()
      list[#list + 1] = "first"
      for i = 1, 3 do
        ltask.fork(function() list[#list + 1] = "fork" .. i end)
      end
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
  out = { "first fork1 fork2 fork3 second" },
})

kit.test("interrupt raises its error in the waiting coroutine", {
  main = [[
    local co = ltask.fork(function()
      local ok, e = pcall(ltask.wait)
      say(ok, tostring(e):find("stop that", 1, true) ~= nil)
    end)
    ltask.sleep(0)
    say(ltask.interrupt(co, "stop that"), ltask.interrupt(co, "again"))
    ltask.sleep(0)
  ]],
  out = { "true\tnil", "false\ttrue" },
})

kit.test("multi_wakeup wakes all coroutines that wait on a token, in order; multi_interrupt interrupts all", {
  main = [[
    local list = {}
    for i = 1, 4 do
      ltask.fork(function()
        local got = table.concat { ltask.multi_wait "all" }
        list[#list + 1] = i .. got
      end)
    end
    ltask.sleep(0)
    say(ltask.multi_wakeup("all", "a", "b"), ltask.multi_wakeup "all")
    ltask.sleep(0)
    say(table.concat(list, " "))
    local raised = 0
    for _ = 1, 3 do
      ltask.fork(function()
        local ok, e = pcall(ltask.multi_wait, "all")
        if not ok and tostring(e):find("off", 1, true) then raised = raised + 1 end
      end)
    end
    ltask.sleep(0)
    say(ltask.multi_interrupt("all", "off"), ltask.multi_interrupt("all", "off"))
    ltask.sleep(0)
    say(raised)
  ]],
  out = { "true\tnil", "1ab 2ab 3ab 4ab", "true\tnil", "3" },
})

kit.test("a coroutine can be woken with its current_token", {
  main = [[
    local token
    ltask.fork(function()
      token = ltask.current_token()
      say("woken", ltask.wait(token))
    end)
    ltask.sleep(0)
    say(ltask.wakeup(token, "x"))
    ltask.sleep(0)
  ]],
  out = { "true", "woken\tx" },
})

kit.test("two coroutines that wake each other lose no wakeup", {
  main = [[
    local n <const> = 20000
    local turns = 0
    local a, b
    a = ltask.fork(function()
      for _ = 1, n do
        ltask.wait()
        turns = turns + 1
        ltask.wakeup(b)
      end
    end)
    b = ltask.fork(function()
      for _ = 1, n do
        ltask.wakeup(a)
        ltask.wait()
      end
      ltask.wakeup "done"
    end)
    ltask.wait "done"
    say(turns == n)
  ]],
  out = { "true" },
})

kit.test("twenty thousand sequential requests run in a few coroutines", {
  services = { pool = [[
    local S, seen, count = {}, {}, 0
    function S.ping(i)
      local co = coroutine.running()
      if not seen[co] then seen[co], count = true, count + 1 end
      return i
    end
    function S.wait() ltask.sleep(0) return S.ping(0) end
    function S.count() return count end
    return S
  ]] },
  main = [[
    local a, right = ltask.spawn "pool", true
    for i = 1, 20000 do right = right and ltask.call(a, "ping", i) == i end
    say(right, ltask.call(a, "count") < 10)
    for _ = 1, 2000 do ltask.call(a, "wait") end
    say(ltask.call(a, "count") < 20)
  ]],
  out = { "true\ttrue", "true" },
})

kit.test("a pooled coroutine keeps no value of the previous request", {
  services = { leak = [[
    local S, weak = {}, setmetatable({}, { __mode = "k" })
    function S.hold()
      local big = {}
      weak[big] = true
      ltask.sleep(0)
      return "held"
    end
    function S.left()
      collectgarbage()
      collectgarbage()
      return next(weak) == nil
    end
    return S
  ]] },
  main = [[
    local a = ltask.spawn "leak"
    for _ = 1, 10 do ltask.call(a, "hold") end
    say(ltask.call(a, "left"))
  ]],
  out = { "true" },
})

kit.test("twenty thousand forks run in order and in linear time", {
  main = [[
    -- Forks `run` n times and waits until all forks have run. Returns the CPU time in seconds.
    local function forks(n)
      local next_one, order = 1, true
      local function run(i)
        order = order and i == next_one
        next_one = next_one + 1
      end
      local cpu = os.clock()
      for i = 1, n do ltask.fork(run, i) end
      ltask.sleep(0)
      assert(next_one - 1 == n and order)
      return os.clock() - cpu
    end
    -- Both measurements fork the same number of coroutines. In quadratic time, the second would take ten times as long.
    local apart = 0
    for _ = 1, 10 do apart = apart + forks(2000) end
    local at_once = forks(20000)
    say(at_once < 4 * apart + 0.5 or at_once .. " s against " .. apart)
  ]],
  out = { "true" },
})

kit.test("forks of forks run before the next message, even at the end of a long slice", {
  services = { chain = [[
    local S, log = {}, {}
    function S.message() log[#log + 1] = "message" end
    local function link(n)
      log[#log + 1] = n
      if n < 20 then ltask.fork(link, n + 1) end
    end
    function S.begin()
      ltask.send(ltask.self(), "message")
      -- Runs for longer than the limit of a slice.
      local began = ltask.counter()
      while ltask.counter() - began < 0.003 do end
      link(1)
    end
    function S.log() return table.concat(log, " ") end
    return S
  ]] },
  main = [[
    local chain = ltask.spawn "chain"
    for _ = 1, 3 do ltask.call(chain, "begin") end
    say(ltask.call(chain, "log"))
  ]],
  out = function(out)
    local links = {}
    for i = 1, 20 do links[i] = i end
    local one = table.concat(links, " ") .. " message"
    t.eq(kit.lines(out), { table.concat({ one, one, one }, " ") })
  end,
})

kit.test("an error in a fork ends only the fork's coroutine, and its pending __close runs", {
  main = [[
    ltask.fork(function()
      local _ <close> = setmetatable({}, { __close = function() say "closed" end })
      error "broken fork"
    end)
    ltask.fork(function() say "the next one runs" end)
    ltask.sleep(0)
    say "and so does main"
  ]],
  err = false,
  out = function(out, err)
    t.ok(table.concat(kit.said(out), "|"):find("closed|the next one runs|and so does main", 1, true), out)
    t.ok((out .. err):find("broken fork", 1, true), out .. err)
  end,
})

kit.test("suspend sets the function that gets the response for a session", {
  main = [[
    local session <const> = 0x70000001
    ltask.suspend(session, function() say "by a function" ltask.wakeup "next" end)
    ltask.timer_add(session, 1)
    ltask.wait "next"
  ]],
  out = { "by a function" },
})

kit.test("thread_info describes a waiting coroutine", {
  main = [[
    local co = ltask.fork(function() ltask.wait "something" end)
    ltask.sleep(0)
    local info = ltask.thread_info(co)
    say(info ~= nil)
    ltask.wakeup "something"
  ]],
  out = { "true" },
})

kit.test("a handler may create and resume its own coroutines", {
  services = { own = [[
    local S = {}
    function S.generate(n)
      local sum = 0
      for i in coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end end) do
        sum = sum + i
        ltask.sleep(0)
      end
      return sum
    end
    return S
  ]] },
  main = [[ say(ltask.call(ltask.spawn "own", "generate", 100)) ]],
  out = { "5050" },
})

t.finish()
