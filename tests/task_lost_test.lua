-- The report of orphaned tasks. A task is orphaned if it waits for a token that only the task itself refers to. An
-- orphaned task is reported once and killed; a task that can still be woken is neither reported nor killed.
-- ltask_coroutine_wait_test.lua tests the same in services.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local kit = require "tests.kit.coroutine_places"
local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local task = require "lio.task"
local thread = require "lio.thread"
local c = require "lio.coroutine"

local here <const> = debug.getinfo(1, "S").short_src

-- Calls `f` inside `depth` nested coroutines.
local function nested(depth, f)
  if depth == 0 then return f() end
  return c.wrap(nested)(depth - 1, f)
end

local reports

-- Adds a test that collects the reports, as tables with the fields `message`, `co` and `traceback`.
local function lost_test(name, f)
  netkit.test(name, function()
    local on_error = task.on_error
    reports = {}
    task.on_error = function(message, co)
      reports[#reports + 1] = { message = tostring(message), co = co, traceback = debug.traceback(co) }
    end
    local _ <close> = kit.guard(function() task.on_error = on_error end)
    f()
  end)
end

-- Runs the collector several times, with rounds of the loop in between.
local function collect()
  for _ = 1, 6 do
    collectgarbage()
    loop.sleep(0)
  end
end

lost_test("a task that waits for a table without other references is reported once, and killed", function()
  local closed, line = 0, nil
  local before = task.count()
  loop.fork(function()
    local _ <close> = kit.guard(function() closed = closed + 1 end)
    line = kit.line() loop.wait({})
  end)
  netkit.settle()
  t.eq(#reports, 0)
  collect()
  t.eq(#reports, 1)
  t.ok(reports[1].message:find "lost", reports[1].message)
  t.ok(reports[1].traceback:find(("%s:%d:"):format(here, line), 1, true), reports[1].traceback)
  t.eq(closed, 1)
  t.eq(task.count(), before)
  collect()
  t.eq(#reports, 1, "once")
end)

lost_test("orphaned tasks are detected for every kind of token that can be collected", function()
  local before = task.count()
  loop.fork(function() loop.wait({}) end)
  loop.fork(function() loop.wait(function() return before end) end)
  loop.fork(function() loop.wait(c.create(function() return before end)) end)
  loop.fork(function() loop.wait() end)
  loop.fork(function() loop.wait(lio.create and assert(lio.create())) end)
  netkit.settle()
  collect()
  t.eq(#reports, 5)
  t.eq(task.count(), before)
end)

lost_test("an orphaned task's coroutines are closed from the innermost out, and its report names them", function()
  local closed = {}
  local function first_level() local _ = nested(0, loop.wait) return 1 end
  local function level(n)
    local _ <close> = kit.guard(function() closed[#closed + 1] = n end)
    if n == 0 then return first_level() end
    return (c.wrap(level)(n - 1))
  end
  loop.fork(level, 3)
  netkit.settle()
  collect()
  t.eq(#reports, 1)
  t.ok(reports[1].traceback:find("first_level", 1, true), reports[1].traceback)
  t.eq(closed, { 0, 1, 2, 3 })
end)

lost_test("a task is not orphaned if a table, an upvalue, the registry or a task refers to its token", function()
  local weak = setmetatable({}, { __mode = "v" })
  local in_table, woken = {}, 0
  local function wait_for(name)
    local token = {}
    weak[name] = token
    loop.fork(nested, 2, function()
      loop.wait(token)
      woken = woken + 1
    end)
    return token
  end
  in_table.deep = { { wait_for "table" } }
  local by_upvalue
  do
    local token = wait_for "upvalue"
    by_upvalue = function() return loop.wakeup(token) end
  end
  debug.getregistry()["a test's token"] = wait_for "registry"
  local holder
  do
    local token = wait_for "task"
    holder = loop.fork(function()
      loop.wait "holder"
      loop.wakeup(token)
    end)
  end
  netkit.settle()
  collect()
  t.eq(#reports, 0)
  t.eq({ loop.wakeup(in_table.deep[1][1]), by_upvalue(), loop.wakeup(debug.getregistry()["a test's token"]) },
    { true, true, true })
  debug.getregistry()["a test's token"] = nil
  t.eq(loop.wakeup "holder", true)
  netkit.settle()
  t.eq(woken, 4)
  t.eq(task.is_alive(holder), false)
  t.eq(#reports, 0)
end)

lost_test("a reference in a weak table does not prevent the report", function()
  local weak = setmetatable({}, { __mode = "kv" })
  loop.fork(function()
    local token = {}
    weak[1], weak[token] = token, token
    loop.wait(token)
  end)
  netkit.settle()
  collect()
  t.eq(#reports, 1)
end)

lost_test("a task whose coroutine is referenced is not orphaned, and can be woken or killed", function()
  local got
  local woken = loop.fork(function() got = loop.wait() end)
  local killed = loop.fork(function() loop.wait({}) end)
  netkit.settle()
  collect()
  t.eq(#reports, 0)
  t.eq({ loop.wakeup(woken, "woken"), loop.kill(killed) }, { true, true })
  netkit.settle()
  t.eq(got, "woken")
end)

lost_test("a task that waits for a string, a number or a boolean is never orphaned", function()
  local woken = 0
  local tokens = { "text", ("long"):rep(100), 7, 1.5, true, false }
  for _, token in ipairs(tokens) do
    loop.fork(function()
      loop.wait(token)
      woken = woken + 1
    end)
  end
  netkit.settle()
  collect()
  t.eq(#reports, 0)
  for _, token in ipairs(tokens) do t.eq(loop.wakeup(token), true) end
  netkit.settle()
  t.eq(woken, #tokens)
end)

lost_test("waits for sockets, sleeps and threads continue even if the collector runs often", function()
  local results = {}
  local port
  loop.fork(function()
    local listener <close> = t.ok(net.listen("127.0.0.1", 0))
    port = select(2, listener:address())
    nested(2, function()
      local connection <close> = t.ok(listener:accept())
      results[1] = connection:recv(5)
    end)
  end)
  loop.fork(nested, 2, function()
    loop.sleep(0.02)
    results[2] = "slept"
  end)
  loop.fork(function() results[3] = select(2, thread.wait(thread.spawn(nested, 1, function()
    loop.sleep(0.02)
    return "thread"
  end))) end)
  netkit.settle()
  collect()
  local client <close> = t.ok(net.connect("127.0.0.1", port))
  collect()
  client:send "hello"
  while not (results[1] and results[2] and results[3]) do loop.sleep(0.001) end
  t.eq(results, { "hello", "slept", "thread" })
  t.eq(#reports, 0)
end)

lost_test("a task whose connect is not answered is not orphaned, and the connect times out", function()
  local listener <close> = t.ok(net.listen("127.0.0.1", 0, { backlog = 0 }))
  local _, port = listener:address()
  local results = {}
  for i = 1, 8 do
    results[i] = netkit.promise(nested, i % 3, function()
      local connection <close>, _, code = net.connect("127.0.0.1", port, { timeout = 0.1 })
      return connection and "connected" or code
    end)
  end
  netkit.settle()
  collect()
  local timeouts = 0
  for i = 1, 8 do
    local result = results[i]()
    if result == "timeout" then timeouts = timeouts + 1 else t.eq(result, "connected") end
  end
  t.ok(timeouts > 0)
  t.eq(#reports, 0)
end)

lost_test("tasks that only each other could wake are orphaned together", function()
  local before = task.count()
  for _ = 1, 3 do
    local a, b = {}, {}
    loop.fork(function() loop.wait(a) loop.wakeup(b) end)
    loop.fork(function() loop.wait(b) loop.wakeup(a) end)
  end
  netkit.settle()
  collect()
  t.eq(#reports, 6)
  t.eq(task.count(), before)
end)

lost_test("the __close of an orphaned task may wake and fork tasks", function()
  local seen = {}
  loop.fork(function()
    loop.wait "told by the lost"
    seen[#seen + 1] = "woken"
  end)
  loop.fork(function()
    local _ <close> = kit.guard(function()
      loop.wakeup "told by the lost"
      loop.fork(function() seen[#seen + 1] = "forked" end)
    end)
    loop.wait({})
  end)
  netkit.settle()
  collect()
  netkit.settle()
  t.eq(seen, { "woken", "forked" })
  t.eq(#reports, 1)
end)

lost_test("a task whose wait has ended is not reported, and its next wait is not reported either", function()
  local kept, done = {}, 0
  for i = 1, 50 do
    kept[i] = {}
    loop.fork(function()
      for _ = 1, 5 do
        loop.wait(kept[i])
        kept[i] = {}
      end
      done = done + 1
    end)
  end
  for _ = 1, 5 do
    netkit.settle()
    collect()
    for i = 1, 50 do t.eq(loop.wakeup(kept[i]), true) end
  end
  netkit.settle()
  collect()
  t.eq(#reports, 0)
  t.eq(done, 50)
end)

local function run_program(code)
  return t.run(t.lio() .. " " .. t.quote(t.write(t.tmp() .. "/script.lua", code)))
end

t.test("by default an orphaned task is reported on standard error", function()
  local r = run_program [[
    local loop = require "lio.loop"
    loop.run(function()
      local function nobody_wakes_it() loop.wait({}) return 1 end
      loop.fork(function() nobody_wakes_it() end)
      for _ = 1, 8 do
        loop.sleep(0)
        collectgarbage()
      end
      print "end"
    end)
  ]]
  t.eq({ r.out, r.code }, { "end\n", 0 })
  t.eq(select(2, r.err:gsub("lost", "lost")), 1, r.err)
  t.ok(r.err:find("nobody_wakes_it", 1, true) and r.err:find("script.lua:3:", 1, true), r.err)
end)

t.test("nothing is reported when a program or a loop ends, or after a stop", function()
  local r = run_program [[
    local loop, task = require "lio.loop", require "lio.task"
    for how = 1, 3 do
      local ok = pcall(loop.run, function()
        for _ = 1, 5 do loop.fork(function() require("lio.coroutine").wrap(loop.wait)({}) end) end
        loop.sleep(0)
        if how == 1 then loop.stop(0) loop.sleep(1000) end
        if how == 2 then error("ends the loop", 0) end
      end)
      -- The third run fails, because nothing can wake a task.
      print(ok == (how == 1))
      collectgarbage()
    end
    task.fork(function() task.wait({}) end)
    task.run_ready()
    collectgarbage()
  ]]
  t.eq({ r.out, r.err, r.code }, { ("true\n"):rep(3), "", 0 })
end)

t.finish()
