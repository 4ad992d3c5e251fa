-- Adds the missing functions to the scheduler of a `lio.net` instance. Called by net/driver.lua.

local wait_queue = require "lio.net.wait_queue"

local M = {}

-- Returns a `wait` for a scheduler without `on_abandon`. Such a scheduler cannot kill tasks, but a wait can raise.
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

-- `complete(driver, scheduler)` returns the functions of the scheduler that lio/net/ uses. If `starts_at_once` is true,
-- `start` runs a task at once; otherwise `start` is `fork`.
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
    take_loop = scheduler.take_loop or function() end,
  }
end

-- `is_native(scheduler)` returns whether the scheduler's tasks are those of `lio.task`. If so, `recv`, `send` and the
-- handling of read events are native.
function M.is_native(scheduler)
  local task = package.loaded["lio.task"]
  return task ~= nil and scheduler.wait == task.wait and scheduler.wakeup == task.wakeup
end

return M
