-- For the suites of lio.task, lio.loop and lio.net: a loop with a deadline, and connected pairs. Used by
-- tests/task_test.lua, loop_test.lua and net_*_test.lua. Invariant: a test that hangs ends after its deadline, and its
-- failure shows where every task waits.

local loop = require "lio.loop"
local net = require "lio.net"
local socket = require "lio.socket"
local task = require "lio.task"
local t = require "tests.kit"

local netkit = {}

-- The first name resolution in a process opens the loop's waker. It happens here, before a test counts descriptors.
loop.run(function() net.resolve "localhost" end)

local function where_tasks_wait()
  local lines = { "the test's deadline has passed; these tasks were left:" }
  for _, co in ipairs(task.list()) do lines[#lines + 1] = debug.traceback(co, "task:") end
  return table.concat(lines, "\n")
end

--- Runs `f` as the loop's main task and returns its results. Raises an error after `seconds` (default: 60, which only a
-- test that hangs reaches).
function netkit.run(f, seconds)
  local late
  local results = table.pack(loop.run(function()
    local deadline = loop.timeout(seconds or 60, function()
      late = where_tasks_wait()
      loop.stop(0)
      loop.stop(0)
    end)
    local function done(ok, ...)
      loop.cancel(deadline)
      if not ok then error((...), 0) end
      return ...
    end
    return done(xpcall(f, function(e)
      return type(e) == "string" and debug.traceback(e, 2) or e
    end))
  end))
  if late then error(late, 0) end
  return table.unpack(results, 1, results.n)
end

--- Runs a test whose body is the main task of a loop.
function netkit.test(name, f, opts)
  t.test(name, function() netkit.run(f, opts and opts.seconds) end, opts)
end

--- Returns a value that closes all arguments when it goes out of scope.
function netkit.closing(...)
  local list = { ... }
  return setmetatable({}, { __close = function()
    for _, x in ipairs(list) do x:close() end
  end })
end

--- Returns two TCP connections, which are connected to each other through `addr` (default: 127.0.0.1).
function netkit.pair(addr)
  local listener <close> = t.ok(net.listen(addr or "127.0.0.1", 0))
  local _, port = listener:address()
  local client = assert(net.connect(addr or "127.0.0.1", port))
  return client, assert(net.accept(listener))
end

--- Runs a test whose body `f(a, b)` gets two connections, connected to each other. They are closed afterwards.
function netkit.pair_test(name, f, opts)
  netkit.test(name, function()
    local a, b = netkit.pair()
    local _ <close> = netkit.closing(a, b)
    f(a, b)
  end, opts)
end

--- Returns a port of 127.0.0.1 at which no socket listens.
function netkit.dead_port()
  local listener <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  return port
end

--- Forks `f(...)`. Returns a function that waits until `f` has returned, and returns its results.
function netkit.promise(f, ...)
  local results, waiter
  loop.fork(function(...)
    results = table.pack(f(...))
    if waiter then loop.wakeup(waiter) end
  end, ...)
  return function()
    while not results do
      waiter = {}
      loop.wait(waiter)
    end
    return table.unpack(results, 1, results.n)
  end
end

--- Lets other tasks and I/O run for a few rounds, so that forked calls reach their waits.
function netkit.settle()
  for _ = 1, 3 do loop.sleep(0) end
end

--- Calls `f` every millisecond until it returns a true value, and returns this value. The limit is the test's deadline.
function netkit.await(f)
  while true do
    local value = f()
    if value then return value end
    loop.sleep(0.001)
  end
end

--- Returns two connected unix sockets that no loop uses yet.
netkit.raw_pair = socket.pair

--- Returns the CPU time of the process in seconds.
netkit.cpu = os.clock

return netkit
