-- lio.net on another scheduler: `net.new` needs only the functions wait, wakeup, fork and running, which every actor
-- system provides. Also tests two instances in one VM, each with its own connections.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local lio = require "lio"
local net = require "lio.net"
local drivers = require "lio.net.driver"
local socket = require "lio.socket"

-- Returns a scheduler with only the required functions, a function that runs it, and a function that makes a wait raise
-- an error.
local function tiny_scheduler()
  local ready, waiting, raising = {}, {}, {}
  local sched = {}
  sched.running = coroutine.running
  function sched.fork(f, ...)
    local args = table.pack(...)
    local co = coroutine.create(function() f(table.unpack(args, 1, args.n)) end)
    table.insert(ready, table.pack(co))
    return co
  end
  function sched.wait(token)
    waiting[token] = coroutine.running()
    local values = table.pack(coroutine.yield())
    local problem = raising[token]
    if problem then
      raising[token] = nil
      error(problem, 0)
    end
    return table.unpack(values, 1, values.n)
  end
  function sched.wakeup(token, ...)
    local co = waiting[token]
    if not co then return end
    waiting[token] = nil
    table.insert(ready, table.pack(co, ...))
    return true
  end
  local function interrupt(token, problem)
    raising[token] = problem
    return sched.wakeup(token)
  end
  -- Runs tasks and I/O until the main task `f` has returned; raises after 10 s.
  local function run(api, f)
    local result
    sched.fork(function() result = table.pack(xpcall(f, debug.traceback)) end)
    local deadline = lio.now() + 10
    while not result do
      assert(lio.now() < deadline, "the deadline passed")
      while ready[1] do
        local entry = table.remove(ready, 1)
        local ok, problem = coroutine.resume(table.unpack(entry, 1, entry.n))
        if not ok then error(debug.traceback(entry[1], problem), 0) end
      end
      if not result then api.step(0.1) end
    end
    if not result[1] then error(result[2], 0) end
  end
  return sched, run, interrupt
end

local function test(name, f)
  t.test(name, function()
    local selector <close> = lio.create()
    local sched, run, interrupt = tiny_scheduler()
    local api = net.new(selector, sched)
    run(api, function() f(api, sched, interrupt) end)
  end)
end

local function sleep(api, seconds)
  drivers.of(api):sleep(seconds)
end

local function pair(api)
  local left, right = socket.pair()
  return assert(api.wrap(left)), assert(api.wrap(right))
end

test("listen, connect, serve, recv, send and stop work on another scheduler", function(api, sched)
  local l = t.ok(api.listen("127.0.0.1", 0))
  local _, port = l:address()
  local server = api.serve(l, function(c)
    for line in function() return (c:recv "line") end do c:send(line:upper(), "\n") end
  end, { max_connections = 1 })
  for _ = 1, 3 do
    local c <close> = t.ok(api.connect("localhost", port))
    c:send "hello\n"
    t.eq(c:recv "line", "HELLO")
  end
  t.eq(select(3, api.connect("no.such.host.invalid", port)), "unresolved")
  local c <close> = t.ok(api.connect("127.0.0.1", port))
  local over = false
  sched.fork(function() server:stop(5) over = true end)
  c:close()
  server:wait()
  t.eq(over, true)
end)

test("timeouts work without shared timers", function(api)
  local a, b = pair(api)
  local _ <close> = netkit.closing(a, b)
  b:timeout(0.02)
  t.eq(select(2, b:recv()), "timeout")
  b:timeout()
  a:send "x"
  t.eq(b:recv(), "x")
end)

test("if a wait raises, the next receiver reads", function(api, sched, interrupt)
  local a, b = pair(api)
  local _ <close> = netkit.closing(a, b)
  local problem, got
  sched.fork(function() problem = select(2, pcall(api.recv, b)) end)
  sched.fork(function() got = b:recv() end)
  sleep(api, 0.01)
  interrupt(b, "enough")
  while not problem do sleep(api, 0.001) end
  t.eq(problem, "enough")
  a:send "to the second"
  while not got do sleep(api, 0.001) end
  t.eq(got, "to the second")
end)

test("close wakes a receiver that waits", function(api, sched)
  local a, b = pair(api)
  local _ <close> = netkit.closing(a, b)
  local got
  sched.fork(function() got = table.pack(b:recv()) end)
  sleep(api, 0.01)
  b:close()
  while not got do sleep(api, 0.001) end
  t.eq(got, { nil, "closed", nil, "closed", n = 4 })
end)

test("datagrams", function(api)
  local u <close> = t.ok(api.udp("127.0.0.1", 0))
  local _, port = u:address()
  u:sendto("x", "127.0.0.1", port)
  t.eq((u:recvfrom()), "x")
end)

t.test("with two instances in one VM, a method uses the instance of its connection", function()
  local selector <close> = lio.create()
  local sched, run = tiny_scheduler()
  local other = net.new(selector, sched)
  local mine, theirs
  netkit.run(function()
    local left, right = socket.pair()
    mine = t.ok(net.wrap(left))
    local peer <close> = t.ok(net.wrap(right))
    local got = netkit.promise(function() return mine:recv "line" end)
    netkit.settle()
    peer:send "of the loop\n"
    t.eq(got(), "of the loop")
    mine:close()
  end)
  run(other, function()
    local a, b = pair(other)
    local _ <close> = netkit.closing(a, b)
    theirs = b
    sched.fork(function()
      sleep(other, 0.01)
      a:send "of the other\n"
    end)
    t.eq(b:recv "line", "of the other")
  end)
  t.eq({ mine:is_closed(), theirs:is_closed() }, { true, true })
  -- The loop's connections still work after the other instance has run.
  netkit.run(function()
    local a, b = netkit.pair()
    local _ <close> = netkit.closing(a, b)
    b:timeout(0.01)
    t.eq(select(2, b:recv()), "timeout")
  end)
end)

t.finish()
