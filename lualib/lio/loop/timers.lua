-- `sleep`, `timeout` and `cancel` of `lio.loop`. Their timers share one queue with those of `lio.net`. Invariant:
-- `sleeping` has the coroutines whose sleep has neither ended nor been abandoned.

local misuse = require "lio.misuse"
local owner = require "lio.loop.owner"
local task = require "lio.task"
local timer = require "lio.timer"

local queue <const> = timer.new()

-- `pending` is the number of timeouts that have not fired.
local M = { queue = queue, pending = 0 }

local sleeping = {} -- coroutine: id of the timer that ends its sleep
local timeouts = {} -- ids of `timeout` that have not fired

local FIRED <const> = {}

-- `timer_handler(driver)`: the function for `driver:set_timer_handler`.
function M.timer_handler(driver)
  return function(value, id)
    if type(value) == "thread" then
      sleeping[value] = nil
      task.wakeup(value, FIRED)
    elseif type(value) == "function" then
      timeouts[id] = nil
      M.pending = M.pending - 1
      task.fork(value)
    else
      driver:fire(value)
    end
  end
end

-- `abandon(token)`: a wait on the token has ended without a wakeup, or could not begin.
function M.abandon(token)
  local id = sleeping[token]
  if not id then return end
  sleeping[token] = nil
  queue:cancel(id)
end

-- `is_sleeping(token)`: whether it is a coroutine in `sleep`.
function M.is_sleeping(token)
  return sleeping[token] ~= nil
end

local function woken(co, id, first, ...)
  if first == FIRED then return end
  sleeping[co] = nil
  queue:cancel(id)
  return first, ...
end

-- `loop.sleep(seconds)` returns nothing after that time, or the waker's values if `wakeup(co)` came first. 0 lets other
-- tasks and I/O run first.
function M.sleep(seconds)
  misuse.check_seconds("sleep", 1, seconds)
  owner.check "loop.sleep"
  local co = task.running()
  local id = queue:add(seconds, co)
  sleeping[co] = id
  return woken(co, id, task.wait(co))
end

-- `loop.timeout(seconds, f)` returns an id for `cancel`. Forks `f` after that time; `run` waits for that.
function M.timeout(seconds, f)
  misuse.check_seconds("timeout", 1, seconds)
  misuse.check("timeout", 2, f, "function")
  owner.check "loop.timeout"
  local id = queue:add(seconds, f)
  timeouts[id] = true
  M.pending = M.pending + 1
  return id
end

-- `loop.cancel(id)` returns whether `id` is of a `timeout` that had not fired; it will not fire.
function M.cancel(id)
  if not timeouts[id] then return false end
  local was_there = queue:cancel(id)
  -- The timeout is removed from the table after its cancel. If the cancel raises, the timeout is cancelled when the
  -- loop ends.
  timeouts[id] = nil
  M.pending = M.pending - 1
  return was_there
end

-- `cancel_all()`: cancels all timeouts.
function M.cancel_all()
  for id in pairs(timeouts) do M.cancel(id) end
end

return M
