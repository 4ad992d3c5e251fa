-- lio.thread: threads that are killed after their wakeup and before they run, so that another thread must get their
-- results; and threads that are killed with a tree of descendants, which must leave no task, timer or descriptor.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local counts = require "tests.model.counts"
local coroutine = require "lio.coroutine"
local loop = require "lio.loop"
local net = require "lio.net"
local thread = require "lio.thread"

local pack <const> = table.pack

local function closing(f)
  return setmetatable({}, { __close = f })
end

-- ---------------------------------------------------------------------------------------------
-- Kills between a wakeup and the run

netkit.test("a woken thread that is killed before it runs does not run", function()
  local went_on = false
  local h = thread.spawn(function()
    loop.wait "woken, killed"
    went_on = true
  end)
  loop.wakeup("woken, killed", "value")
  t.eq(thread.status(h), "waiting")
  t.eq(thread.kill(h), true)
  netkit.settle()
  t.eq(went_on, false)
  t.is_nil(loop.wakeup "woken, killed")
end)

netkit.test("if a thread in accept is killed between its wakeup and its run, the next thread accepts", function()
  local listener <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  for round = 1, 12 do
    local first = thread.spawn(net.accept, listener)
    local second = thread.spawn(net.accept, listener)
    local client = thread.spawn(net.connect, "127.0.0.1", port)
    -- In some rounds the client's connection has woken the first thread, which has not run yet.
    for _ = 1, round % 4 do loop.sleep(0) end
    local killed = thread.kill(first)
    local ok, server = thread.wait(killed and second or first)
    t.eq(ok, true)
    t.ok(server and server.close, server)
    server:close()
    select(2, thread.wait(client)):close()
    thread.kill(second)
  end
end)

netkit.pair_test("if a reader is killed between its wakeup and its run, the next reader gets the data", function(a, b)
  for round = 1, 20 do
    local first = thread.spawn(a.recv, a)
    local second = thread.spawn(a.recv, a)
    b:send "data"
    for _ = 1, round % 3 do loop.sleep(0) end
    local killed = thread.kill(first)
    if killed then
      t.eq(pack(thread.wait(second)), pack(true, "data"))
    else
      t.eq(pack(thread.wait(first)), pack(true, "data"))
      thread.kill(second)
    end
  end
end)

netkit.test("if a waiting thread is killed before it runs with a result, the next thread gets the result", function()
  local h = thread.spawn(function() return loop.wait "result" end)
  local first = thread.spawn(thread.wait, h)
  local second = thread.spawn(thread.wait, h)
  loop.wakeup("result", "kept")
  local killed
  loop.fork(function() killed = thread.kill(first) end)
  t.eq(pack(thread.wait(second)), pack(true, true, "kept"))
  t.eq(killed, true)
end)

netkit.test("if the only waiting thread is killed before it runs, the result is kept", function()
  local h = thread.spawn(function() return loop.wait "result" end)
  local only = thread.spawn(thread.wait, h)
  loop.wakeup("result", "kept")
  local killed
  loop.fork(function() killed = thread.kill(only) end)
  netkit.settle()
  t.eq(killed, true)
  t.eq(pack(thread.wait(h)), pack(true, "kept"))
end)

netkit.test("if the caller of timeout is killed after the timeout and before it runs, nothing is left", function()
  local before = counts.now()
  local ended = 0
  local caller = thread.spawn(function()
    thread.timeout(0, function()
      local _ <close> = closing(function() ended = ended + 1 end)
      loop.wait "for ever"
    end)
  end)
  -- This timer is set after the timer of `timeout`, so it fires after that timer, in the same round or later.
  loop.timeout(0, function() thread.kill(caller) end)
  t.ok(thread.wait(caller) ~= nil)
  t.eq(ended, 1)
  counts.expect(before)
end)

-- ---------------------------------------------------------------------------------------------
-- Trees

local tokens = 0

-- Waits until the task is killed. The token is a string, so that the task is not orphaned.
local function wait_for_ever()
  tokens = tokens + 1
  loop.wait("tree " .. tokens)
end

-- Returns functions that wait, one for each kind of wait, on objects that the test has opened.
local function waits(world)
  return {
    function() loop.sleep(1000) end,
    wait_for_ever,
    function() pcall(function() world.a:recv() end) end,
    function() while true do world.b:send(("x"):rep(1 << 20)) end end,
    function() net.accept(world.listener) end,
    function()
      local a, b = netkit.pair()
      local _ <close> = netkit.closing(a, b)
      a:timeout(1000)
      a:recv()
    end,
    function() thread.wait(thread.spawn(loop.wait, "grandchild")) end,
    function() thread.timeout(1000, loop.sleep, 1000) end,
    function() thread.all { { loop.sleep, 1000 }, wait_for_ever } end,
    function() thread.race { { loop.sleep, 1000 }, wait_for_ever } end,
    function()
      for _ in coroutine.wrap(function()
        coroutine.yield(1)
        loop.sleep(1000)
      end) do end -- luacheck: ignore 542
    end,
    function()
      local server <close> = assert(net.listen("127.0.0.1", 0))
      net.accept(server)
    end,
  }
end

-- The function of one node in a tree of threads. The scope of a node has a thread for each of `world.waits` (the
-- seventh only at depth 1), and two child nodes, down to depth 4. `world.grown` and `world.ended` count the nodes that
-- have started and ended.
local function grow(world, depth)
  local _ <close> = closing(function() world.ended = world.ended + 1 end)
  world.grown = world.grown + 1
  local scope <close> = thread.scope()
  for i, wait in ipairs(world.waits) do
    if i ~= 7 or depth == 1 then scope:spawn(wait) end
  end
  if depth < 4 then
    for _ = 1, 2 do scope:spawn(grow, world, depth + 1) end
  end
  scope:wait()
end

netkit.test("a killed thread whose descendants wait on timers and sockets leaves none of them", function()
  local a, b = netkit.pair()
  local listener = t.ok(net.listen("127.0.0.1", 0))
  local world = { a = a, b = b, listener = listener, grown = 0, ended = 0 }
  world.waits = waits(world)
  netkit.settle()
  local before = counts.now(true)
  local root = thread.spawn(grow, world, 1)
  netkit.settle()
  for _ = 1, 20 do loop.sleep(0) end
  t.eq(world.grown, 15)
  local during = counts.now(true)
  t.ok(during.timers >= before.timers + 75, during.timers .. " timers")
  t.ok(during.sockets >= before.sockets + 15, during.sockets .. " sockets")
  t.ok(during.descriptors >= before.descriptors + 30, during.descriptors .. " descriptors")
  t.eq(thread.kill(root), true)
  t.eq(world.ended, 15)
  -- The grandchild was not spawned in a scope, so it waits until it is woken.
  t.eq(counts.now().tasks, before.tasks + 1)
  loop.wakeup "grandchild"
  before.sockets = nil
  counts.expect(before)
  a:close()
  b:close()
  listener:close()
  netkit.settle()
  -- The kit checks that the same descriptors are open as before the test.
  t.eq(counts.now().timers, before.timers)
end)

netkit.test("a tree of threads leaves nothing if its owner fails, or if a timeout ends it", function()
  local a, b = netkit.pair()
  local _ <close> = netkit.closing(a, b, t.ok(net.listen("127.0.0.1", 0)))
  local listener <close> = t.ok(net.listen("127.0.0.1", 0))
  local before = counts.now(true)
  before.sockets = nil
  for _, leave in ipairs {
    function(world)
      local h = thread.spawn(function()
        local scope <close> = thread.scope()
        scope:spawn(grow, world, 1)
        error("leaves", 0)
      end)
      t.eq(pack(thread.wait(h)), pack(false, "leaves"))
    end,
    function(world) t.eq(pack(thread.timeout(0.01, grow, world, 1)), pack(nil, "timeout")) end,
  } do
    local world = { a = a, b = b, listener = listener, grown = 0, ended = 0 }
    world.waits = waits(world)
    leave(world)
    t.eq(world.grown, 15)
    t.eq(world.ended, 15)
    loop.wakeup "grandchild"
    counts.expect(before)
  end
end)

t.finish()
