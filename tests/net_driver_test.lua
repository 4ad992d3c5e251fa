-- `lio.net.driver`: the functions of the loop for protocol code, and for the code that runs the loop. The tests use the
-- driver of `lio.loop`, unless they create another driver.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local drivers = require "lio.net.driver"
local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local socket = require "lio.socket"

local driver <const> = drivers.of(loop.net)

t.test("once the module lio.net has an instance, both have the same driver", function()
  t.ok(net.listen)
  t.eq(drivers.of(net), driver)
  t.eq(driver.net, loop.net)
end)

t.test("the driver of a table is that of the instance to which its __index leads", function()
  for _, index in ipairs { loop.net, net, function(_, name) return loop.net[name] end } do
    t.eq(drivers.of(setmetatable({}, { __index = index })), driver)
  end
  for _, wrong in ipairs { {}, 5, "x", false } do
    t.raises("net_driver_test.lua:%d+: bad argument #1 to 'of' %(instance of lio.net expected, got ",
      function() drivers.of(wrong) end)
  end
end)

t.test("each driver has its own instance", function()
  local selector <close> = lio.create()
  local scheduler = { wait = loop.wait, wakeup = loop.wakeup, fork = loop.fork, running = loop.running }
  local other = drivers.new(selector, scheduler)
  t.eq(drivers.of(other.net), other)
  t.ok(other.net ~= driver.net)
  -- Does nothing, because the scheduler has no `check_loop`.
  other:check_loop "x"
end)

netkit.test("a wait on a token gets the value of its wakeup", function()
  local token = driver:new_token()
  local got = netkit.promise(function() return driver:wait(token) end)
  netkit.settle()
  t.eq({ driver:wake(token, "value"), driver:wake(token, "again") }, { true, false })
  t.eq(got(), "value")
end)

netkit.test("a wait on a token ends after its timeout", function()
  t.eq(driver:wait(driver:new_token(), 0.01), "timeout")
  t.eq(driver:wait(driver:new_token(), -1), "timeout")
end)

netkit.test("sleep waits for the given time, and round_time is the time of the round", function()
  local before = lio.now()
  driver:sleep(0.02)
  t.ok(lio.now() - before >= 0.02)
  t.ok(driver.round_time >= before and driver.round_time <= lio.now())
end)

netkit.test("hooks run before each wait and after the events, and deferred functions run after the hooks", function()
  local order = {}
  local hooks = {}
  function hooks.before_wait() order[#order + 1] = "before" end
  function hooks.after_events()
    order[#order + 1] = "after"
    driver:defer(function() order[#order + 1] = "deferred" end)
    driver:remove_hooks(hooks)
  end
  driver:add_hooks(hooks)
  driver:sleep(0.001)
  driver:sleep(0.001)
  t.eq(order, { "before", "after", "deferred" })
end)

netkit.pair_test("an event handler gets the events of its connection, and may pass them to the driver", function(a, b)
  local handler, seen = {}, 0
  function handler.on_events(_, events)
    seen = seen | events
    driver:dispatch(b, events)
  end
  t.ok(driver:set_event_handler(b, handler))
  local got = netkit.promise(function() return b:recv "line" end)
  netkit.settle()
  a:send "passed on\n"
  t.eq(got(), "passed on")
  t.eq(seen & 1, 1)
  driver:set_event_handler(b)
  seen = 0
  a:send "directly\n"
  t.eq({ b:recv "line", seen }, { "directly", 0 })
end)

netkit.pair_test("the function that flush_later gets runs before the queue is sent", function(a, b)
  local called
  driver:flush_later(a, function() called = a:send "queued\n" end)
  t.is_nil(called)
  t.eq(b:recv "line", "queued")
  t.eq(called, true)
end)

netkit.pair_test("a wait for a connection ends when it is ready or woken, or after the timeout", function(a, b)
  t.ok(b:arm(1))
  t.eq(driver:wait_readable(b, 0.01), "timeout")
  t.ok(b:arm(1))
  local reason = netkit.promise(function() return driver:wait_readable(b) end)
  netkit.settle()
  t.eq({ driver:wake_reader(b, "woken"), reason() }, { true, "woken" })
  t.eq(driver:wake_reader(b, "woken"), false)
  a:send "x"
  t.ok(b:arm(1))
  t.eq(driver:wait_readable(b), true)
end)

netkit.pair_test("forget ends every wait on a connection, and the connection stays open", function(a, b)
  local got = netkit.promise(function() return select(2, b:recv()) end)
  local ended = netkit.promise(function() return select(2, b:wait_readable()) end)
  netkit.settle()
  driver:forget(b)
  t.eq({ got(), ended(), b:is_closed() }, { "closed", "closed", false })
  a:send "x"
  t.eq(b:recv(), "x")
end)

netkit.test("a watched descriptor calls its function while it is readable", function()
  local one, other = assert(socket.pair())
  local _ <close> = netkit.closing(one, other)
  local token, calls = driver:new_token(), 0
  t.ok(driver:watch(one, function()
    calls = calls + 1
    one:recv()
    driver:wake(token)
  end))
  other:send "x"
  driver:wait(token)
  t.ok(driver:unwatch(one))
  other:send "y"
  driver:sleep(0.01)
  t.eq(calls, 1)
end)

netkit.test("a timer calls the method of its value", function()
  local token = driver:new_token()
  driver.timers:add(0, { expired = function() driver:wake(token, "expired") end })
  t.eq(driver:wait(token), "expired")
end)

netkit.test("describe returns a description of what a token's task waits for", function()
  local a, b = netkit.pair()
  local _ <close> = netkit.closing(a, b)
  loop.fork(function() b:recv() end)
  loop.fork(function() b:recv() end)
  netkit.settle()
  t.eq(driver:describe(b), "reading of " .. tostring(b))
  t.is_nil(driver:describe(a))
  t.is_nil(driver:describe "no token")
  t.ok(driver:describe(driver:new_token()))
end)

t.finish()
