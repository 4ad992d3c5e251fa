-- `testing.clock()`: virtual time for the loop of this VM. A paused clock does not move while tasks run. If no task is
-- ready and only a timer can wake a task, the clock jumps to the next timer. Otherwise I/O is pending: the loop waits
-- for it, and the clock moves by the duration of the wait. So timers and I/O cannot block each other, and no timer
-- fires before the result of an I/O operation that takes less time.

local drivers = require "lio.net.driver"
local lio = require "lio"
local loop = require "lio.loop"
local misuse = require "lio.misuse"
local owner = require "lio.loop.owner"
local runner = require "lio.testing.runner"
local timer = require "lio.timer"

local M = {}

local driver = drivers.of(loop.net)

local clock -- the clock that is paused, or nil
local advancing = 0 -- the number of tasks in `clock:advance`
local has_polled = false -- the last wait was for I/O only, before an advance

-- `is_paused()` returns whether the clock is paused.
function M.is_paused() return clock ~= nil end

-- `wait(seconds, limit)`: waits in place of the selector, for at most `limit` seconds of real time (nil: no limit).
-- `seconds`: how long the loop may wait in virtual time; nil if no timer is set.
function M.wait(seconds, limit)
  local selector <const> = driver.selector
  local has_io = driver.has_io()
  if seconds == 0 then
    has_polled = false
    return selector:wait(0)
  end
  if seconds and (not has_io or advancing > 0 and has_polled) then
    has_polled = false
    driver.timers:skip()
    return selector:wait(0)
  end
  if advancing > 0 and seconds then
    has_polled = true
    return selector:wait(0)
  end
  local began = timer.real()
  selector:wait(seconds and limit and math.min(seconds, limit) or seconds or limit)
  local passed = timer.real() - began
  timer.advance(seconds and math.min(passed, seconds) or passed)
end

-- Without a test, there is no limit in real time.
local function wait_without_limit(seconds)
  M.wait(seconds, nil)
end

local Clock = { __name = "lio.testing.clock" }
Clock.__index = Clock

local function check_clock(self, call)
  if getmetatable(self) ~= Clock then misuse.no_colon("clock", call) end
  if self ~= clock then misuse.raise("clock:" .. call .. ": the clock is closed") end
end

-- `clock:now()` returns the virtual time, which is that of `loop.now`.
function Clock:now()
  check_clock(self, "now")
  return lio.now()
end

-- `clock:advance(seconds)`: moves the clock forward, even while I/O is pending. All timers of this time fire in order,
-- and the tasks that they wake run, before the call returns. Must be called in a task.
function Clock:advance(seconds)
  check_clock(self, "advance")
  misuse.check_seconds("advance", 1, seconds)
  advancing = advancing + 1
  local _ <close> = setmetatable({}, { __close = function() advancing = math.max(advancing - 1, 0) end })
  loop.sleep(seconds)
  -- The tasks that are ready now run first.
  loop.sleep(0)
end

-- `clock:close()`: ends virtual time. The clock continues from its current time. Called at the end of the test.
-- Idempotent.
function Clock:close()
  if getmetatable(self) ~= Clock then misuse.no_colon("clock", "close") end
  if self == clock then M.reset() end
end

Clock.__close = Clock.close

-- `reset()`: ends virtual time, if there is any.
function M.reset()
  if not clock then return end
  clock, advancing, has_polled = nil, 0, false
  timer.resume()
  if driver.waiter == wait_without_limit then driver.waiter = nil end
end

-- `pause()` implements `testing.clock`.
function M.pause()
  if clock then misuse.raise "testing.clock: the clock is already paused" end
  owner.check "testing.clock"
  if driver.request_round then misuse.raise "testing.clock: this service owns no loop" end
  clock = setmetatable({}, Clock)
  timer.pause()
  driver.waiter = driver.waiter or wait_without_limit
  runner.on_test_end(M.reset)
  return clock
end

return M
