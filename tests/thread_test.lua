-- lio.thread's spawn and wait: order, values, errors, several waiting tasks, bad arguments. Other suites:
-- thread_parent_test.lua (parents, zombies, the log), thread_kill_test.lua (kills), thread_scope_test.lua (scopes),
-- thread_group_test.lua (`all`, `race`, `timeout`), ltask_thread_test.lua (threads in services).

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local loop = require "lio.loop"
local task = require "lio.task"
local thread = require "lio.thread"

local pack <const> = table.pack

-- ---------------------------------------------------------------------------------------------
-- spawn

netkit.test("spawn runs the function at once, until its first wait", function()
  local seen = {}
  thread.spawn(function()
    seen[#seen + 1] = "first"
    loop.sleep(0)
    seen[#seen + 1] = "after the wait"
  end)
  seen[#seen + 1] = "spawner"
  t.eq(seen, { "first", "spawner" })
  netkit.settle()
  t.eq(seen, { "first", "spawner", "after the wait" })
end)

netkit.test("arguments and results are passed unchanged, including nils", function()
  for _, values in ipairs { pack(), pack(nil), pack(nil, 1), pack(1, nil), pack(nil, nil, 3, nil) } do
    local got
    local h = thread.spawn(function(...)
      got = pack(...)
      return ...
    end, table.unpack(values, 1, values.n))
    t.eq(got, values)
    local results = pack(thread.wait(h))
    t.eq(results[1], true)
    t.eq(pack(table.unpack(results, 2, results.n)), values)
  end
end)

netkit.test("threads run in the order in which they were woken", function()
  local seen = {}
  for i = 1, 4 do
    thread.spawn(function()
      loop.wait("order" .. i)
      seen[#seen + 1] = i
    end)
  end
  for _, i in ipairs { 3, 1, 4, 2 } do loop.wakeup("order" .. i) end
  t.eq(seen, {}, "a wakeup queues")
  netkit.settle()
  t.eq(seen, { 3, 1, 4, 2 })
end)

netkit.test("a woken task does not run inside the waker, even if the waker is a thread", function()
  local seen = {}
  thread.spawn(function()
    loop.wait "woken"
    seen[#seen + 1] = "woken"
  end)
  local waker = thread.spawn(function()
    loop.sleep(0)
    loop.wakeup "woken"
    seen[#seen + 1] = "waker goes on"
    loop.sleep(0)
  end)
  thread.wait(waker)
  t.eq(seen, { "waker goes on", "woken" })
end)

netkit.test("a task that waits for a thread is queued, and does not run while the thread ends", function()
  local seen = {}
  local child = thread.spawn(function()
    local _ <close> = setmetatable({}, { __close = function() seen[#seen + 1] = "end" end })
    loop.wait "go"
  end)
  thread.spawn(function()
    thread.wait(child)
    seen[#seen + 1] = "waiter"
  end)
  thread.spawn(function()
    loop.wait "go too"
    seen[#seen + 1] = "queued before"
  end)
  loop.wakeup "go"
  loop.wakeup "go too"
  netkit.settle()
  t.eq(seen, { "end", "queued before", "waiter" })
end)

netkit.test("a thread is a task: it can wait, be woken and fork like any other task", function()
  local got
  local h = thread.spawn(function()
    local me = task.running()
    loop.fork(function() loop.wakeup(me, "from a fork") end)
    got = loop.wait()
    return got
  end)
  t.eq(pack(thread.wait(h)), pack(true, "from a fork"))
  t.eq(got, "from a fork")
end)

netkit.test("500 threads, each spawned inside the previous one, all run and end", function()
  local deepest, ended = 0, 0
  local function dig(depth)
    deepest = math.max(deepest, depth)
    local ok, result = true, 0
    if depth < 500 then ok, result = thread.wait(thread.spawn(dig, depth + 1)) end
    assert(ok, result)
    ended = ended + 1
    return result + 1
  end
  t.eq(pack(thread.wait(thread.spawn(dig, 1))), pack(true, 500))
  t.eq(deepest, 500)
  t.eq(ended, 500)
end)

netkit.test("500 nested threads that do not wait end within a few rounds", function()
  local started, handles = 0, {}
  local function dig(depth)
    started = started + 1
    if depth < 500 then handles[depth] = thread.spawn(dig, depth + 1) end
    return depth
  end
  local first = thread.spawn(dig, 1)
  t.ok(started >= 32, "the first 32 run at once, not only " .. started)
  t.eq(pack(thread.wait(first)), pack(true, 1))
  while started < 500 do loop.sleep(0) end
  t.eq(#handles, 499)
end)

netkit.test("spawn takes values that can be called, and its error names an invalid argument", function()
  local h = thread.spawn(setmetatable({}, { __call = function(_, x) return x end }), 3)
  t.eq(pack(thread.wait(h)), pack(true, 3))
  t.raises("bad argument #1 to 'thread.spawn'", thread.spawn)
  t.raises("bad argument #1 to 'thread.spawn'", thread.spawn, 5)
  t.raises("bad argument #1 to 'thread.spawn'", thread.spawn, "text")
end)

t.test("a thread that is spawned outside a task runs at once, and continues in the loop", function()
  local seen = {}
  local h = thread.spawn(function(x)
    seen[1] = x
    loop.sleep(0)
    seen[2] = "after"
    return "result"
  end, "before")
  t.eq(seen, { "before" })
  t.eq(pack(netkit.run(function() return thread.wait(h) end)), pack(true, "result"))
  t.eq(seen, { "before", "after" })
end)

t.test("wait outside a task raises", function()
  local h
  netkit.run(function() h = thread.spawn(loop.sleep, 0) end)
  local other = thread.spawn(loop.wait, "outside")
  t.raises("outside a task", thread.wait, other)
  t.eq(thread.kill(other), true)
  t.eq(thread.status(h), "dead")
end)

-- ---------------------------------------------------------------------------------------------
-- wait

netkit.test("wait with one thread waits until the thread ends", function()
  local h = thread.spawn(function()
    for _ = 1, 5 do loop.sleep(0) end
    return "late", nil
  end)
  t.eq(pack(thread.wait(h)), pack(true, "late", nil))
end)

netkit.test("wait with several threads returns the results of the first to end, and may be called again", function()
  local handles = {}
  for i = 1, 3 do
    handles[i] = thread.spawn(function() return loop.wait("many" .. i) end)
  end
  loop.wakeup("many2", "second")
  t.eq(pack(thread.wait(table.unpack(handles))), pack(true, "second"))
  loop.wakeup("many3", "third")
  t.eq(pack(thread.wait(handles[1], handles[3])), pack(true, "third"))
  loop.wakeup("many1", "first")
  t.eq(pack(thread.wait(handles[1])), pack(true, "first"))
end)

netkit.test("if several threads have ended, wait returns the results of the first argument", function()
  local handles = {}
  for i = 1, 3 do handles[i] = thread.spawn(function() return i end) end
  t.eq(pack(thread.wait(handles[3], handles[1], handles[2])), pack(true, 3))
  t.eq(pack(thread.wait(handles[2], handles[1])), pack(true, 2))
  t.eq(pack(thread.wait(handles[1])), pack(true, 1))
end)

netkit.test("if several threads end before the waiting task runs, wait returns the first results", function()
  local handles = {}
  for i = 1, 3 do handles[i] = thread.spawn(function() return loop.wait("turn" .. i) end) end
  for _, i in ipairs { 2, 1, 3 } do loop.wakeup("turn" .. i, i) end
  t.eq(pack(thread.wait(table.unpack(handles))), pack(true, 2))
  t.eq(thread.status(handles[2]), "dead")
  t.eq(pack(thread.wait(handles[1], handles[3])), pack(true, 1))
  t.eq(pack(thread.wait(handles[3])), pack(true, 3))
end)

netkit.test("the second wait for a thread returns 'already waited'", function()
  local h = thread.spawn(function() return 1 end)
  t.eq(pack(thread.wait(h)), pack(true, 1))
  t.eq(pack(thread.wait(h)), pack(nil, "already waited"))
  t.eq(pack(thread.wait(h)), pack(nil, "already waited"))
end)

netkit.test("wait returns at once if one of the arguments was already waited for", function()
  local living = thread.spawn(loop.wait, "living")
  local reaped = thread.spawn(function() end)
  t.eq(thread.wait(reaped), true)
  t.eq(pack(thread.wait(living, reaped)), pack(nil, "already waited"))
  t.eq(pack(thread.wait(reaped, living)), pack(nil, "already waited"))
  t.eq(thread.status(living), "waiting")
  loop.wakeup("living", "well")
  t.eq(pack(thread.wait(living)), pack(true, "well"))
end)

netkit.test("the same thread may be passed to wait twice", function()
  local h = thread.spawn(function() return loop.wait "twice" end)
  loop.wakeup("twice", "once")
  t.eq(pack(thread.wait(h, h)), pack(true, "once"))
  t.eq(pack(thread.wait(h, h)), pack(nil, "already waited"))
end)

netkit.test("if several tasks wait, the first gets the result, and the others get 'already waited'", function()
  local h = thread.spawn(function() return loop.wait "shared" end)
  local results = {}
  local waiters = {}
  for i = 1, 3 do
    waiters[i] = thread.spawn(function() results[i] = pack(thread.wait(h)) end)
  end
  loop.wakeup("shared", "the result")
  for i = 1, 3 do t.eq(thread.wait(waiters[i]), true) end
  t.eq(results[1], pack(true, "the result"))
  t.eq(results[2], pack(nil, "already waited"))
  t.eq(results[3], pack(nil, "already waited"))
end)

netkit.test("wait with several threads ends when another task gets the result of one of them", function()
  local a = thread.spawn(function() return loop.wait "lose a" end)
  local b = thread.spawn(function() return loop.wait "lose b" end)
  local first = thread.spawn(function() return pack(thread.wait(a)) end)
  local second = thread.spawn(function() return pack(thread.wait(b, a)) end)
  loop.wakeup("lose a", "A")
  t.eq(select(2, thread.wait(first)), pack(true, "A"))
  t.eq(select(2, thread.wait(second)), pack(nil, "already waited"))
  loop.wakeup("lose b", "B")
  t.eq(pack(thread.wait(b)), pack(true, "B"))
end)

netkit.test("if the thread failed, wait returns false and the unchanged error", function()
  local object = setmetatable({}, { __tostring = function() return "an object" end })
  for _, raised in ipairs { "text", 42, false, object, { 1 } } do
    local h = thread.spawn(function() error(raised, 0) end)
    local ok, e = thread.wait(h)
    t.eq(ok, false)
    t.ok(rawequal(e, raised), t.show(e))
    h = thread.spawn(function()
      loop.sleep(0)
      error(raised, 0)
    end)
    ok, e = thread.wait(h)
    t.eq(ok, false)
    t.ok(rawequal(e, raised), t.show(e))
  end
end)

netkit.test("an error message has its position, and nothing is added to it", function()
  local _, e = thread.wait(thread.spawn(function() error "it broke" end))
  t.ok(e:find "^[^\n]*thread_test.lua:%d+: it broke$", e)
end)

netkit.test("wait raises if a thread waits for itself, with one or several arguments", function()
  local other = thread.spawn(loop.wait, "self")
  local me, problems
  me = thread.spawn(function()
    loop.sleep(0)
    problems = { select(2, pcall(thread.wait, me)), select(2, pcall(thread.wait, other, me)) }
  end)
  t.eq(thread.wait(me), true)
  t.eq(#problems, 2)
  for _, e in ipairs(problems) do t.ok(tostring(e):find "itself", e) end
  t.eq(thread.status(other), "waiting")
  t.eq(thread.kill(other), true)
end)

netkit.test("wait and status raise for an argument that is not a thread", function()
  local h = thread.spawn(function() end)
  t.raises("bad argument #1 to 'thread.wait'", thread.wait)
  t.raises("bad argument #1 to 'thread.wait'", thread.wait, 5)
  t.raises("bad argument #1 to 'thread.wait'", thread.wait, coroutine.create(print))
  t.raises("bad argument #2 to 'thread.wait'", thread.wait, h, {})
  t.raises("bad argument #3 to 'thread.wait'", thread.wait, h, h, nil, h)
  t.raises("bad argument #1 to 'thread.status'", thread.status)
  t.raises("bad argument #1 to 'thread.status'", thread.status, "x")
  -- Regression: the error was "thread expected, got thread".
  t.raises("bad argument #1 to 'thread.status' %(light thread expected, got a coroutine%)$",
    thread.status, coroutine.create(print))
  t.eq(thread.wait(h), true, "the refused calls have not taken the result")
end)

netkit.test("a refused wait does not keep the thread's result from later waits", function()
  local h = thread.spawn(function() return loop.wait "refused" end)
  t.raises("bad argument #2 to 'thread.wait'", thread.wait, h, 5)
  loop.wakeup("refused", 1)
  netkit.settle()
  t.eq(thread.status(h), "zombie", "the refused wait is not in the queue for the result")
  t.eq(pack(thread.wait(h)), pack(true, 1))
end)

-- ---------------------------------------------------------------------------------------------

netkit.test("threads that have ended and are not referenced use no memory", function()
  local function round()
    for _ = 1, 2000 do
      thread.wait(thread.spawn(function() return ("x"):rep(100) end))
      thread.wait(thread.spawn(loop.sleep, 0))
      thread.spawn(function() end)
      thread.kill(thread.spawn(loop.wait, "memory"))
    end
  end
  thread.wait(thread.spawn(round))
  collectgarbage()
  collectgarbage()
  local before = collectgarbage "count"
  for _ = 1, 3 do t.eq(thread.wait(thread.spawn(round)), true) end
  collectgarbage()
  collectgarbage()
  t.ok(collectgarbage "count" < before + 64, "grew from " .. before .. " to " .. collectgarbage "count" .. " KiB")
end)

t.finish()
