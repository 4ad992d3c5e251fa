-- lio.thread: which of several waiting tasks gets the result of a thread: the first task that runs. A task that the
-- thread's end has woken gets the result even if the parent ends first. If a waiting task ends, the result is not lost.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local coroutine = require "lio.coroutine"
local loop = require "lio.loop"
local thread = require "lio.thread"

local pack <const> = table.pack

-- Spawns a thread that waits for `token` and returns the values of its wakeup.
local function sleeper(token)
  return thread.spawn(function() return loop.wait(token) end)
end

netkit.test("a task that waits before all gets the result, and all gets 'already waited'", function()
  local h = sleeper "before all"
  local first = thread.spawn(thread.wait, h)
  local second = thread.spawn(thread.all, { h })
  loop.wakeup("before all", "x")
  t.eq(pack(thread.wait(first)), pack(true, true, "x"))
  t.eq(pack(thread.wait(second)), pack(true, false, "already waited"))
end)

netkit.test("if all waits before another task, all gets the result", function()
  local h = sleeper "all first"
  local first = thread.spawn(thread.all, { h })
  local second = thread.spawn(thread.wait, h)
  loop.wakeup("all first", "x")
  t.eq(pack(thread.wait(first)), pack(true, true, { pack "x" }))
  t.eq(pack(thread.wait(second)), pack(true, nil, "already waited"))
end)

netkit.test("tasks that wait for one thread and tasks that wait for several threads share a queue", function()
  for _, order in ipairs { { 1, 2 }, { 2, 1 } } do
    local h, other = sleeper "line", sleeper "other"
    local waits <const> = { { thread.wait, h }, { thread.wait, other, h } }
    local first = thread.spawn(table.unpack(waits[order[1]]))
    local second = thread.spawn(table.unpack(waits[order[2]]))
    loop.wakeup("line", "x")
    t.eq(pack(thread.wait(first)), pack(true, true, "x"))
    t.eq(pack(thread.wait(second)), pack(true, nil, "already waited"))
    t.eq(thread.kill(other), true)
  end
end)

netkit.test("if a wait ends because its coroutine is closed, another task gets the result", function()
  local h = sleeper "closed wait"
  local co
  local waiter = thread.spawn(function()
    co = coroutine.create(function() thread.wait(h) end)
    local ok, e = coroutine.resume(co)
    loop.wait "afterwards"
    return ok, e
  end)
  t.eq(coroutine.close(co), true)
  netkit.settle()
  loop.wakeup("closed wait", "kept")
  netkit.settle()
  t.eq(thread.status(h), "zombie")
  t.eq(pack(thread.wait(h)), pack(true, "kept"))
  loop.wakeup "afterwards"
  t.eq(pack(thread.wait(waiter)), pack(true, false, "coroutine was closed"))
end)

netkit.test("if a coroutine is closed between its wakeup and its run, another task gets the result", function()
  local h = sleeper "closed late"
  local co
  local waiter = thread.spawn(function()
    co = coroutine.create(function() thread.wait(h) end)
    return coroutine.resume(co)
  end)
  loop.wakeup("closed late", "kept")
  local closed
  loop.fork(function() closed = coroutine.close(co) end)
  t.eq(pack(thread.wait(waiter)), pack(true, false, "coroutine was closed"))
  t.eq(closed, true)
  t.eq(pack(thread.wait(h)), pack(true, "kept"))
end)

netkit.test("a waiting task gets the result even if the parent ends before it runs", function()
  local h
  local parent = thread.spawn(function()
    h = thread.spawn(function()
      loop.wait "early end"
      error("seen", 0)
    end)
    loop.wait "parent"
  end)
  local waiter = thread.spawn(thread.wait, h)
  loop.wakeup "early end"
  loop.wakeup "parent"
  t.eq(thread.wait(parent), true)
  t.eq(pack(thread.wait(waiter)), pack(true, false, "seen"))
end)

t.test("an error that a waiting task has received is not logged", function()
  local file = t.write(t.tmp() .. "/script.lua", [[
    local loop, thread = require "lio.loop", require "lio.thread"
    loop.run(function()
      local h
      thread.spawn(function()
        h = thread.spawn(function() loop.wait "end" error("seen", 0) end)
        loop.wait "parent"
      end)
      local waiter = thread.spawn(function() print(thread.wait(h)) end)
      loop.wakeup "end"
      loop.wakeup "parent"
      thread.wait(waiter)
    end)
    for _ = 1, 3 do collectgarbage() end
  ]])
  local r = t.run("timeout 60 " .. t.lio() .. " " .. t.quote(file))
  t.eq(r.out, "false\tseen\n")
  t.eq(r.err, "")
end)

t.finish()
