-- lio.loop: results and errors of run, timers, deadlocks, stop. tests/loop_signal_test.lua tests signals.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local driver = require "lio.net.driver"

local now <const> = lio.now

t.test("run returns the results of its function, including nils", function()
  t.eq(table.pack(loop.run(function(...) return nil, ..., nil end, 1, 2)), { nil, 1, nil, n = 3 })
  t.eq(table.pack(loop.run(function() end)), { n = 0 })
end)

t.test("run returns when the last task has ended, not when its function has returned", function()
  local ended = false
  local result = loop.run(function()
    loop.fork(function()
      loop.sleep(0.01)
      ended = true
    end)
    return "first"
  end)
  t.eq(result, "first")
  t.eq(ended, true)
end)

t.test("an error in run's function ends the loop, and run raises it with its traceback", function()
  local closed = false
  local message = t.raises("loop_test.lua:%d+: it broke", loop.run, function()
    loop.fork(function()
      local _ <close> = setmetatable({}, { __close = function() closed = true end })
      loop.wait "never"
    end)
    loop.sleep(0)
    error "it broke"
  end)
  t.ok(message:find("stack traceback:", 1, true), message)
  t.eq(closed, true, "the other task has ended")
  local object = { 1 }
  local ok, problem = pcall(loop.run, function() error(object) end)
  t.eq(ok, false)
  t.ok(rawequal(problem, object), "an error object is raised unchanged")
end)

t.test("the loop runs again after an error, and cannot be nested", function()
  pcall(loop.run, error, "x")
  t.eq(loop.is_running(), false)
  t.eq(loop.run(function()
    t.eq(loop.is_running(), true)
    t.raises("is already running", loop.run, print)
    return 5
  end), 5)
end)

netkit.test("sleep does not return before its time, and its timer is not set to a later time", function()
  for _, seconds in ipairs { 0.001, 0.01, 0.05, 0.0105 } do
    local before = now()
    loop.sleep(seconds)
    local slept = now() - before
    t.ok(slept >= seconds, slept .. " of " .. seconds)
  end
  -- The timer of this sleep expires before the test's own timer of 60 s.
  local co = loop.fork(loop.sleep, 30)
  netkit.settle()
  t.ok(driver.of(loop.net).timers:next() <= 30, "the sleep would be too long")
  loop.kill(co)
end)

netkit.test("sleep(0) lets other tasks and I/O run first", function()
  local a, b = netkit.pair()
  local _ <close> = netkit.closing(a, b)
  local got
  loop.fork(function() got = b:recv() end)
  loop.sleep(0)
  a:send "x"
  local rounds = 0
  while not got do
    rounds = rounds + 1
    t.ok(rounds < 10000, "a task that sleeps 0 starves I/O")
    loop.sleep(0)
  end
end)

netkit.test("a task that yields forever does not starve I/O or timers", function()
  local a, b = netkit.pair()
  local _ <close> = netkit.closing(a, b)
  local done = false
  loop.fork(function() while not done do coroutine.yield() end end)
  local received = netkit.promise(function() return b:recv() end)
  loop.sleep(0.01)
  a:send "through"
  t.eq(received(), "through")
  done = true
end)

netkit.test("wakeup(co) ends a sleep and passes values", function()
  local co = loop.running()
  loop.fork(function() loop.wakeup(co, "up", nil) end)
  t.eq(table.pack(loop.sleep(100000)), { "up", nil, n = 2 })
end)

netkit.test("an interrupted sleep leaves no timer that would shorten the next wait", function()
  local co = loop.running()
  loop.fork(function() loop.interrupt(co, "stop") end)
  t.eq({ pcall(loop.sleep, 0.5) }, { false, "stop" })
  local before = now()
  loop.sleep(0.6)
  t.ok(now() - before >= 0.6, "the first sleep's timer ended the second")
end)

netkit.test("sleep takes only a number", function()
  t.raises("bad argument #1 to 'sleep'", loop.sleep, "soon")
  t.raises("not a number", loop.sleep, 0 / 0)
  t.raises("bad argument #2 to 'timeout'", loop.timeout, 1, "f")
end)

netkit.test("timers fire in the order of their times, or of their calls if the times are equal", function()
  local seen, set
  -- Sets the timers again if they were not set at almost the same time.
  repeat
    local mine = {}
    seen, set = mine, now()
    for i, seconds in ipairs { 0.3, 0.1, 0.2, 0.1, 0 } do
      loop.timeout(seconds, function() mine[#mine + 1] = i end)
    end
  until now() - set < 0.09
  loop.sleep(0.4)
  t.eq(seen, { 5, 2, 4, 3, 1 })
end)

netkit.test("cancel prevents a timeout from firing, and returns true only once", function()
  local fired = 0
  local id = loop.timeout(0.01, function() fired = fired + 1 end)
  t.eq(loop.cancel(id), true)
  t.eq(loop.cancel(id), false)
  local other = loop.timeout(0, function() fired = fired + 10 end)
  loop.sleep(0.02)
  t.eq(fired, 10)
  t.eq(loop.cancel(other), false, "the timeout has fired")
  t.eq(loop.cancel(12345), false)
end)

t.test("run waits for a pending timeout, and a stop cancels it", function()
  local fired = false
  loop.run(function() loop.timeout(0.01, function() fired = true end) end)
  t.eq(fired, true)
  fired = false
  loop.run(function()
    loop.timeout(1, function() fired = true end)
    loop.stop()
  end)
  loop.run(function() loop.sleep(1.1) end)
  t.eq(fired, false)
end)

netkit.test("a hundred thousand timers, most of them cancelled, fire in order", function()
  local last, fired, disorder, ids = 0, 0, 0, {}
  for i = 1, 100000 do
    local seconds = (i * 7919 % 1000) / 10000
    -- The timer queue reads the clock after `earliest` is computed and before `latest` is.
    local earliest, latest = now() + seconds, nil
    ids[i] = loop.timeout(seconds, function()
      if latest < last then disorder = disorder + 1 end
      last, fired = math.max(last, earliest), fired + 1
    end)
    latest = now() + seconds
  end
  for i = 1, 100000 do
    if i % 10 ~= 0 then loop.cancel(ids[i]) end
  end
  loop.sleep(0.1)
  t.eq(fired, 10000)
  t.eq(disorder, 0)
end)

t.test("if nothing can wake the tasks, run raises and shows where they wait", function()
  local message = t.raises("every task is waiting, and nothing can wake any of them", loop.run, function()
    loop.fork(function() loop.wait "godot" end)
    loop.wait "beckett"
  end)
  local _, tasks = message:gsub("\ntask, waits for token \"%a+\":\n", "")
  t.eq(tasks, 2, message)
  t.ok(message:find "loop_test.lua:%d+: in function <", message)
end)

t.test("stop calls the hooks with the grace, then closes the remaining tasks and ends run", function()
  local seen = {}
  local result = table.pack(loop.run(function()
    local _ <close> = setmetatable({}, { __close = function() seen[#seen + 1] = "closed" end })
    local take_back = loop.on_stop(function() seen[#seen + 1] = "taken back" end)
    take_back()
    loop.on_stop(function(grace)
      seen[#seen + 1] = grace
      loop.sleep(0.01)
      seen[#seen + 1] = "hook done"
    end)
    loop.stop(3)
    loop.wait "never"
  end))
  t.eq(result, { n = 0 })
  t.eq(seen, { 3, "hook done", "closed" })
end)

t.test("a second stop does not wait for the hooks", function()
  local begun, waited = false, false
  loop.run(function()
    local take_back = loop.on_stop(function()
      begun = true
      loop.sleep(100000)
      waited = true
    end)
    loop.stop(100000)
    while not begun do loop.sleep(0) end
    take_back()
    loop.stop()
    loop.wait "never"
  end)
  t.eq(waited, false)
end)

t.test("the loop ends even if a hook raises an error", function()
  local r = t.run(t.lio() .. " " .. t.quote(t.write(t.tmp() .. "/s.lua", [[
    local loop = require "lio.loop"
    loop.run(function()
      loop.on_stop(function() error "bad hook" end)
      loop.stop()
      loop.wait "never"
    end)
    print "over"
  ]])))
  t.eq(r.out, "over\n")
  t.ok(r.err:find "bad hook", r.err)
end)

t.test("stop outside run does nothing", function()
  loop.stop()
  t.eq(loop.run(function() loop.sleep(0) return "ran" end), "ran")
end)

netkit.test("tasks that are killed while they sleep or receive do not affect later waits", function()
  local a, b = netkit.pair()
  local _ <close> = netkit.closing(a, b)
  local sleeper = loop.fork(function() loop.sleep(1) end)
  local receiver = loop.fork(function() b:recv() end)
  netkit.settle()
  t.ok(loop.kill(sleeper))
  t.ok(loop.kill(receiver))
  a:send "for the next"
  t.eq(b:recv(), "for the next")
  local before = now()
  loop.sleep(1.1)
  t.ok(now() - before >= 1.1)
end)

t.test("a call of net outside a task raises, and the connection works in a task afterwards", function()
  local a, b = loop.run(netkit.pair)
  local _ <close> = netkit.closing(a, b)
  t.raises("outside a task", net.recv, b)
  t.eq(loop.run(function()
    a:send "later"
    return b:recv()
  end), "later")
end)

t.finish()
