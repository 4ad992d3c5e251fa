-- lio.thread: a kill at any kind of wait leaves nothing. The suite counts tasks, timers, the sockets in the loop's
-- selector, and descriptors.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local counts = require "tests.model.counts"
local coroutine = require "lio.coroutine"
local loop = require "lio.loop"
local net = require "lio.net"
local socket = require "lio.socket"
local task = require "lio.task"
local thread = require "lio.thread"

local pack <const> = table.pack

local function closing(f)
  return setmetatable({}, { __close = f })
end

-- Calls `wait` in a thread. Checks that the thread waits, that a kill closes its <close> variables at once, and that
-- nothing is left afterwards.
local function kill_at(wait, ...)
  local before = counts.now(true)
  local closed, went_on = 0, false
  local h = thread.spawn(function(...)
    local _ <close> = closing(function() closed = closed + 1 end)
    wait(...)
    went_on = true
  end, ...)
  netkit.settle()
  t.eq(thread.status(h), "waiting")
  t.eq(closed, 0)
  t.eq(thread.kill(h), true)
  t.eq(closed, 1, "<close> variables run at once")
  t.eq(pack(thread.kill(h)), pack(nil, "already ended"))
  t.eq(pack(thread.wait(h)), pack(false, "killed"))
  netkit.settle()
  t.eq(went_on, false)
  t.eq(closed, 1)
  counts.expect(before)
end

-- Returns a port whose listener has a full backlog, so that a connect waits; and an object that closes the sockets.
local function full_listener()
  local listener = assert(socket.create "tcp")
  listener:bind("127.0.0.1", 0)
  listener:listen(1)
  local _, port = listener:info "socket":value()
  local fillers = {}
  for i = 1, 4 do
    fillers[i] = assert(socket.create "tcp")
    fillers[i]:connect("127.0.0.1", port)
  end
  return port, netkit.closing(listener, table.unpack(fillers))
end

-- ---------------------------------------------------------------------------------------------
-- Each kind of wait

netkit.test("killed in loop.wait", function()
  kill_at(loop.wait)
  kill_at(loop.wait, "a token")
  t.is_nil(loop.wakeup "a token", "no task waits there any longer")
end)

netkit.test("killed in loop.sleep: its timer is cancelled", function()
  kill_at(loop.sleep, 1000)
end)

netkit.pair_test("killed in recv: the connection stays open, the next reader gets the data", function(a, b)
  kill_at(function() a:recv() end)
  b:send "for the next"
  t.eq(a:recv(), "for the next")
end)

netkit.pair_test("killed in recv with a time limit: its timer is cleared", function(a, b)
  a:timeout(1000)
  local before
  local h = thread.spawn(function()
    local _ <close> = closing(function() a:close() end)
    a:recv()
  end)
  before = counts.now()
  t.eq(thread.kill(h), true)
  netkit.settle()
  t.eq(counts.now().tasks, before.tasks - 1)
  t.eq(b:recv(), nil)
end)

netkit.test("killed in recv, on a connection that a <close> variable of the thread closes", function()
  local before = counts.now(true)
  local a, b = netkit.pair()
  local h = thread.spawn(function()
    local _ <close> = closing(function() a:close() end)
    a:recv(10)
  end)
  t.eq(thread.kill(h), true)
  t.is_nil(b:recv())
  b:close()
  counts.expect(before)
end)

netkit.pair_test("killed in send to a peer that does not read", function(a, b)
  kill_at(function()
    while true do a:send(("x"):rep(1 << 20)) end
  end)
  a:close()
  while b:recv(1 << 16) do loop.sleep(0) end
end)

netkit.test("killed in accept: the next thread accepts", function()
  local listener <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  kill_at(net.accept, listener)
  local accepted = thread.spawn(net.accept, listener)
  local client <close> = assert(net.connect("127.0.0.1", port))
  local ok, server = thread.wait(accepted)
  t.eq(ok, true)
  server:close()
  t.ok(client)
end)

netkit.test("killed in connect: its socket is closed", function()
  local port, fillers <close> = full_listener()
  kill_at(net.connect, "127.0.0.1", port)
  kill_at(net.connect, "127.0.0.1", port, { timeout = 1000 })
  t.ok(fillers)
end)

netkit.test("killed in resolve", function()
  local before = counts.now()
  local h = thread.spawn(net.resolve, "killed-while-resolving.invalid")
  t.eq(thread.kill(h), true)
  net.resolve "killed-while-resolving.invalid"
  counts.expect(before)
end)

netkit.test("killed in thread.wait: the other thread continues, and keeps its result", function()
  local child = thread.spawn(loop.wait, "waited for")
  kill_at(thread.wait, child)
  kill_at(thread.wait, thread.spawn(function() loop.wait "waited for too" end), child)
  loop.wakeup("waited for", "result")
  loop.wakeup "waited for too"
  t.eq(pack(thread.wait(child)), pack(true, "result"))
end)

netkit.test("killed in all, race, timeout or scope:wait", function()
  local function sleeper() loop.sleep(1000) end
  kill_at(thread.all, { sleeper, sleeper, { loop.wait, "x" } })
  kill_at(thread.race, { sleeper, sleeper, { loop.wait, "x" } })
  kill_at(thread.timeout, 1000, sleeper)
  kill_at(function()
    local scope <close> = thread.scope()
    scope:spawn(sleeper)
    scope:spawn(loop.wait, "x")
    scope:wait()
  end)
end)

netkit.test("killed inside pcall and xpcall, which do not catch it", function()
  kill_at(function() pcall(loop.sleep, 1000) end)
  kill_at(function() xpcall(pcall, print, pcall, loop.wait) end)
  kill_at(function()
    while true do pcall(loop.wait, "again and again") end
  end)
end)

netkit.test("killed inside a metamethod inside a for iterator", function()
  local waits = setmetatable({}, { __index = function() return loop.wait "deep" end })
  kill_at(function()
    for _ in function() return waits.x end do t.ok(false) end
  end)
end)

netkit.test("killed in a plain yield", function()
  kill_at(function()
    while true do coroutine.yield() end
  end)
end)

netkit.test("killed in a generator: the nested coroutines are closed, the innermost first", function()
  local order = {}
  local function generator(depth)
    return coroutine.wrap(function()
      local _ <close> = closing(function() order[#order + 1] = depth end)
      coroutine.yield "ready"
      if depth == 5 then loop.sleep(1000) end
      local inner = generator(depth + 1)
      inner()
      inner()
    end)
  end
  kill_at(function()
    local _ <close> = closing(function() order[#order + 1] = 0 end)
    local outer = generator(1)
    t.eq(outer(), "ready")
    outer()
  end)
  t.eq(order, { 5, 4, 3, 2, 1, 0 })
end)

-- ---------------------------------------------------------------------------------------------
-- <close> variables

netkit.test("<close> variables are closed from the innermost out, with no error, before kill returns", function()
  local order = {}
  local h = thread.spawn(function()
    local _ <close> = closing(function(_, e) order[#order + 1] = { "outer", e } end)
    local function inner()
      local _ <close> = closing(function(_, e) order[#order + 1] = { "middle", e } end)
      local _ <close> = closing(function(_, e) order[#order + 1] = { "inner", e } end)
      loop.wait "close order"
    end
    pcall(inner)
  end)
  t.eq(thread.kill(h), true)
  t.eq(order, { { "inner" }, { "middle" }, { "outer" } })
end)

netkit.test("if a <close> variable raises during a kill, the others still run, and kill returns true", function()
  local order = {}
  local h = thread.spawn(function()
    local _ <close> = closing(function(_, e) order[#order + 1] = tostring(e):match "[^ ]*$" end)
    local _ <close> = closing(function() error("in close", 0) end)
    loop.wait "broken close"
  end)
  local logged = task.on_error
  task.on_error = function() end
  local ok, answer = pcall(thread.kill, h)
  local waited = pack(thread.wait(h))
  task.on_error = logged
  t.eq(ok, true, answer)
  t.eq(answer, true)
  t.eq(order, { "close" })
  t.eq(waited[1], false)
  t.eq(thread.status(h), "dead")
end)

netkit.test("a <close> variable of a killed thread may spawn, kill, wake and fork", function()
  local ran = {}
  local victim = thread.spawn(loop.wait, "victim")
  local woken = thread.spawn(function()
    local word = loop.wait "woken by close"
    ran[#ran + 1] = word
  end)
  local child
  local h = thread.spawn(function()
    local _ <close> = closing(function()
      child = thread.spawn(function() ran[#ran + 1] = "child" end)
      thread.kill(victim)
      loop.wakeup("woken by close", "woken")
      loop.fork(function() ran[#ran + 1] = "forked" end)
    end)
    loop.wait "closes busily"
  end)
  t.eq(thread.kill(h), true)
  thread.wait(woken)
  netkit.settle()
  table.sort(ran)
  t.eq(ran, { "child", "forked", "woken" })
  t.eq(pack(thread.wait(victim)), pack(false, "killed"))
  t.ok(child)
end)

netkit.test("if a <close> variable of a killed thread waits, it gets an error, and nothing hangs", function()
  local before = counts.now()
  local problem
  local h = thread.spawn(function()
    local _ <close> = closing(function() problem = select(2, pcall(loop.sleep, 1000)) end)
    loop.wait "waits in close"
  end)
  t.eq(thread.kill(h), true)
  t.ok(problem:find "cannot wait here", problem)
  t.eq(pack(thread.wait(h)), pack(false, "killed"))
  counts.expect(before)
end)

netkit.test("two threads whose <close> variables kill each other both end", function()
  local before = counts.now()
  local a, b
  local function body(other)
    local _ <close> = closing(function() pcall(thread.kill, other()) end)
    loop.wait()
  end
  a = thread.spawn(body, function() return b end)
  b = thread.spawn(body, function() return a end)
  t.eq(thread.kill(a), true)
  t.eq(pack(thread.wait(a)), pack(false, "killed"))
  t.eq(pack(thread.wait(b)), pack(false, "killed"))
  counts.expect(before)
end)

-- ---------------------------------------------------------------------------------------------
-- Threads that can be killed

netkit.test("kill of a thread that has ended returns nil and a message, reaped or not", function()
  local zombie = thread.spawn(function() return "result" end)
  t.eq(pack(thread.kill(zombie)), pack(nil, "already ended"))
  t.eq(pack(thread.wait(zombie)), pack(true, "result"), "its result is not lost")
  t.eq(pack(thread.kill(zombie)), pack(nil, "already ended"))
  local failed = thread.spawn(error, "x")
  t.eq(pack(thread.kill(failed)), pack(nil, "already ended"))
  t.eq(pack(thread.wait(failed)), pack(false, "x"))
end)

netkit.test("kill of the running thread, or of a thread that is spawning it, raises", function()
  local me, problem, spawner, problem_inside
  me = thread.spawn(function()
    loop.sleep(0)
    problem = select(2, pcall(thread.kill, me))
    return "goes on"
  end)
  t.eq(pack(thread.wait(me)), pack(true, "goes on"))
  t.ok(tostring(problem):find "kill", problem)
  spawner = thread.spawn(function()
    loop.sleep(0)
    thread.spawn(function() problem_inside = select(2, pcall(thread.kill, spawner)) end)
    return "goes on, too"
  end)
  t.eq(pack(thread.wait(spawner)), pack(true, "goes on, too"))
  t.ok(tostring(problem_inside):find "kill", problem_inside)
end)

netkit.test("if a thread kills itself from a nested coroutine, kill raises", function()
  local me, problem
  me = thread.spawn(function()
    loop.sleep(0)
    coroutine.wrap(function() problem = select(2, pcall(thread.kill, me)) end)()
    return "goes on"
  end)
  t.eq(pack(thread.wait(me)), pack(true, "goes on"))
  t.ok(tostring(problem):find "kill", problem)
end)

netkit.test("kill raises for an argument that is not a thread", function()
  t.raises("bad argument #1 to 'thread.kill'", thread.kill)
  t.raises("bad argument #1 to 'thread.kill'", thread.kill, 5)
  t.raises("bad argument #1 to 'thread.kill'", thread.kill, coroutine.create(print))
end)

netkit.test("a thread can be killed from outside the loop's tasks", function()
  local closed = false
  local h = thread.spawn(function()
    local _ <close> = closing(function() closed = true end)
    loop.wait "outside"
  end)
  loop.timeout(0, function() thread.kill(h) end)
  t.eq(pack(thread.wait(h)), pack(false, "killed"))
  t.eq(closed, true)
end)

netkit.test("a thread that has not started, because too many spawns are nested, can be killed", function()
  local began, deep = false, nil
  local function dig(depth)
    if depth < 100 then return thread.spawn(dig, depth + 1) end
    began = true
  end
  local function dig_and_kill(depth)
    local h = thread.spawn(depth < 40 and dig_and_kill or dig, depth + 1)
    if thread.status(h) == "waiting" and not deep then
      deep = h
      t.eq(thread.kill(h), true)
    end
  end
  dig_and_kill(1)
  netkit.settle()
  t.eq(began, false)
  t.eq(pack(thread.kill(deep)), pack(nil, "already ended"))
  t.eq(thread.status(deep), "dead")
end)

netkit.test("loop.kill of a thread's coroutine kills the thread", function()
  local co
  local h = thread.spawn(function()
    co = task.running()
    loop.wait "by its coroutine"
  end)
  t.eq(loop.kill(co), true)
  t.eq(pack(thread.kill(h)), pack(nil, "already ended"))
  t.eq(pack(thread.wait(h)), pack(false, "killed"))
end)

t.finish()
