-- A stock interpreter has the plain coroutine library in addition to `lio.coroutine`. These tests use it to close and
-- resume coroutines of the task core. The executable `lio` does not have the plain library.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local loop = require "lio.loop"
local task = require "lio.task"
local theirs = require "lio.coroutine"

local function run_all()
  while task.run_ready() do end
end

if coroutine.resume == theirs.resume then
  t.test("the global coroutine table is the table of lio.coroutine", function()
    t.ok(coroutine == theirs and package.loaded.coroutine == theirs)
  end)
  return t.finish()
end

t.test("the global coroutine table is not changed", function()
  t.ok(coroutine ~= theirs)
  t.ok(coroutine.wrap ~= theirs.wrap and coroutine.yield == theirs.yield)
end)

t.test("a wait in a coroutine that the plain library resumed raises", function()
  local problem
  task.fork(function()
    problem = select(2, coroutine.resume(coroutine.create(function() task.wait "x" end)))
  end)
  run_all()
  t.ok(problem:find("cannot wait here: inside a coroutine that the plain coroutine library resumed", 1, true), problem)
  t.ok(problem:find("lio.coroutine", 1, true), problem)
  t.eq(task.is_waiting "x", false, "the refused wait has not registered the token")
end)

t.test("the error names the plain library, regardless of which coroutine of the task it resumed", function()
  local problems = {}
  task.fork(function()
    theirs.wrap(function()
      problems[1] = select(2, coroutine.resume(coroutine.create(function() task.wait "x" end)))
    end)()
    coroutine.wrap(function()
      problems[2] = select(2, theirs.resume(coroutine.create(function() task.wait "x" end)))
    end)()
  end)
  run_all()
  for i = 1, 2 do t.ok(problems[i]:find("plain coroutine library", 1, true), problems[i]) end
  t.eq(task.count(), 0)
end)

t.test("a coroutine that the program closed is no longer a task", function()
  local ran = false
  local waiting = task.fork(function() task.wait "theirs" ran = true end)
  local woken = task.fork(function() task.wait "woken" ran = true end)
  run_all()
  local fresh = task.fork(function() ran = true end)
  task.wakeup "woken"
  for _, co in ipairs { waiting, woken, fresh } do coroutine.close(co) end
  t.eq(task.is_alive(fresh), false)
  t.eq(task.is_waiting "theirs", false)
  t.is_nil(task.wakeup "theirs")
  t.is_nil(task.kill(waiting))
  run_all()
  t.eq(ran, false)
  t.eq(task.count(), 0)
  t.eq(#task.list(), 0)
end)

t.test("the token of a coroutine that the program closed can be used again", function()
  local got
  local closed = task.fork(function() task.wait "freed" end)
  run_all()
  coroutine.close(closed)
  task.fork(function() got = task.wait "freed" end)
  run_all()
  t.eq(task.wakeup("freed", "mine"), true)
  run_all()
  t.eq(got, "mine")
  t.eq(task.count(), 0)
end)

t.test("a coroutine that the program resumes is no longer a task", function()
  local seen, problem = {}, nil
  local waiting = task.fork(function()
    seen[1] = task.wait "taken"
    problem = select(2, pcall(task.wait, "again"))
    coroutine.yield "mine"
    seen[2] = "end"
  end)
  run_all()
  t.eq({ coroutine.resume(waiting, "by hand") }, { true, "mine" })
  t.eq(seen, { "by hand" })
  t.ok(problem:find "outside a task", problem)
  t.eq(task.count(), 0)
  t.eq(task.is_alive(waiting), false)
  t.is_nil(task.wakeup "taken")
  run_all()
  t.eq(seen, { "by hand" }, "the core does not resume the coroutine")
  t.eq(coroutine.resume(waiting), true)
  t.eq(seen, { "by hand", "end" })
end)

t.test("a forked coroutine that the program resumes first is skipped", function()
  local runs, problem = 0, nil
  local on_error = task.on_error
  task.on_error = function(message) problem = message end
  local co = task.fork(function() runs = runs + 1 end)
  -- The core reaches `nested` in its queue while `nested` runs. Because of the argument of `run_ready`, the stack of
  -- `nested` resembles that of a coroutine that has not started.
  local nested = task.fork(function() runs = runs + 1 task.run_ready(1) end)
  t.eq(coroutine.resume(co), true)
  t.eq({ coroutine.resume(nested) }, { true })
  run_all()
  task.on_error = on_error
  t.is_nil(problem)
  t.eq(runs, 2)
  t.eq(task.count(), 0)
end)

t.test("a woken coroutine that the program resumes is skipped", function()
  local got
  local co = task.fork(function() got = table.pack(task.wait "both") end)
  run_all()
  task.wakeup("both", 1)
  t.eq(coroutine.resume(co, 2), true)
  t.eq(got, { 1, 2, n = 2 })
  run_all()
  t.eq(task.count(), 0)
end)

t.test("a woken coroutine that the plain library closes is skipped", function()
  local co = task.fork(function() task.wait "closed" end)
  run_all()
  task.wakeup "closed"
  coroutine.close(co)
  run_all()
  t.eq(task.count(), 0)
end)

-- The readiness event of the connection arrives for a coroutine that no longer waits.
netkit.pair_test("a coroutine that the stock library closes in recv is no longer a task", function(a, b)
  local before = task.count()
  local reader = loop.fork(function() a:recv() end)
  netkit.settle()
  t.eq(task.count(), before + 1)
  coroutine.close(reader)
  t.ok(b:send "hello")
  netkit.await(function() return task.count() == before end)
end)

-- Regression: recv read its connection argument before it checked what had resumed its coroutine; the loop panicked.
t.test("a recv that the plain library resumes does not use a replaced connection", function()
  for _, other in ipairs { false, 7, {} } do
    netkit.run(function()
      local a, b = netkit.pair()
      local _ <close> = netkit.closing(a, b)
      local reader = loop.fork(function() pcall(a.recv, a) coroutine.yield() end)
      netkit.settle()
      debug.setlocal(reader, 0, 1, other)
      a:close()
      t.eq(coroutine.resume(reader), true)
      netkit.settle()
      t.eq(task.is_alive(reader), false)
    end)
  end
end)

-- Regression: the review after a garbage collection cycle detected that an inner coroutine was closed, queued the task,
-- and then overwrote the task's state. The task was counted forever, or its released coroutine was given to the next
-- task.
for _, kept in ipairs { true, false } do
  -- A token that only the wait refers to makes its task orphaned: two cycles later the task would be reported.
  for before = 0, kept and 4 or 1 do
    local token = kept and "on a token with other references" or "on a token without other references"
    t.test(("closing a coroutine %d cycles after its wait %s ends its resume"):format(before, token), function()
      local kept_token, inner, said = {}, nil, nil
      local function cycle()
        collectgarbage()
        run_all()
        task.fork(function() end)
        run_all()
      end
      task.fork(function()
        inner = theirs.create(function(x) task.wait(x) end)
        said = table.pack(theirs.resume(inner, kept and kept_token or {}))
      end)
      run_all()
      for _ = 1, before do cycle() end
      coroutine.close(inner)
      inner = nil
      for _ = 1, 6 do cycle() end
      t.eq(said, { false, "coroutine was closed", n = 2 })
      t.eq(task.count(), 0)
      t.ok(not task.wakeup(kept_token))
      local ran = 0
      for _ = 1, 40 do task.fork(function() ran = ran + 1 end) end
      run_all()
      t.eq(ran, 40)
    end)
  end
end

t.test("a finalizer that calls the core after the core has ended gets an error", function()
  local script = t.write(t.tmp() .. "/late.lua", [[
    local task
    local _ = setmetatable({}, { __gc = function()
      print(pcall(task.fork, print))
      print(pcall(task.wakeup, "x"))
    end })
    task = require "lio.task"
    task.fork(function() task.wait "x" end)
    task.run_ready()
  ]])
  local r = t.run(t.lio() .. " " .. t.quote(script))
  t.eq(r.out, ("false\tthe VM is closing: it has no tasks\n"):rep(2))
  t.eq(r.err, "")
end)

t.finish()
