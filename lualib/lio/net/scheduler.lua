-- The scheduler that an instance of `lio.net` was made for, completed with the functions that it does not have. Called
-- by net/driver.lua.

local wait_queue = require "lio.net.wait_queue"

local M = {}

-- A scheduler's `wait` for one without `on_abandon`, which cannot kill tasks but may make a wait raise.
local function guarded_wait(driver, wait)
  local function finish(token, ok, ...)
    if not ok then
      wait_queue.abandon(driver, token)
      error((...), 0)
    end
    return ...
  end
  return function(token) return finish(token, pcall(wait, token)) end
end

-- `complete(driver, scheduler)`: the functions of the scheduler that lio/net/ uses. `start` runs a task at once if
-- `starts_at_once`, else it is `fork`.
function M.complete(driver, scheduler)
  local wait = scheduler.wait
  if scheduler.on_abandon then
    scheduler.on_abandon(function(token) wait_queue.abandon(driver, token) end)
  else
    wait = guarded_wait(driver, wait)
  end
  return {
    wait = wait,
    wakeup = scheduler.wakeup,
    fork = scheduler.fork,
    start = scheduler.start or scheduler.fork,
    starts_at_once = scheduler.start ~= nil,
    on_stop = scheduler.on_stop,
    check = scheduler.check or function() end,
  }
end

-- `is_native(scheduler)`: whether its tasks are those of `lio.task`. Then `recv`, `send` and the events for reading are
-- native.
function M.is_native(scheduler)
  local task = package.loaded["lio.task"]
  return task ~= nil and scheduler.wait == task.wait and scheduler.wakeup == task.wakeup
end

return M
