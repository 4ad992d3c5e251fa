-- `sleep`, `timeout` and `cancel` of `lio.loop`. Their timers share one queue with those of `lio.net`. Invariant:
-- `sleeping` contains the coroutines whose sleep has neither ended nor been abandoned.

local misuse = require "lio.misuse"
local owner = require "lio.loop.owner"
local task = require "lio.task"
local timer = require "lio.timer"

local queue <const> = timer.new()

-- `pending` is the number of timeouts that have not fired.
-- If `on_pending` is set, `on_pending(n)` is called when `n` is added to `pending`.
local M = { queue = queue, pending = 0 }

local sleeping = {} -- coroutine: id of the timer that ends its sleep
local timeouts = {} -- id: function, for each timeout that has not fired

local FIRED <const> = {}

local function add_pending(count)
  M.pending = M.pending + count
  if M.on_pending then M.on_pending(count) end
end

-- `timer_handler(driver)` returns the function for `driver:set_timer_handler`.
function M.timer_handler(driver)
  return function(value, id)
    if type(value) == "thread" then
      sleeping[value] = nil
      task.wakeup(value, FIRED)
    elseif type(value) == "function" then
      timeouts[id] = nil
      add_pending(-1)
      task.fork(value)
    else
      driver:fire(value)
    end
  end
end

-- `abandon(token)`: removes the timer of a sleep. Called when a wait on the token has ended without a wakeup, or could
-- not begin.
function M.abandon(token)
  local id = sleeping[token]
  if not id then return end
  sleeping[token] = nil
  queue:cancel(id)
end

-- `is_sleeping(token)` returns whether the token is a coroutine in `sleep`.
function M.is_sleeping(token)
  return sleeping[token] ~= nil
end

local function woken(co, id, first, ...)
  if first == FIRED then return end
  sleeping[co] = nil
  queue:cancel(id)
  return first, ...
end

-- `loop.sleep(seconds)` suspends the running task, and returns nothing. If `wakeup(co, …)` wakes the task before the
-- time has passed, `sleep` returns the values passed to `wakeup`. If `seconds` is 0, other tasks and I/O run first.
function M.sleep(seconds)
  misuse.check_seconds("sleep", 1, seconds)
  owner.check "loop.sleep"
  local co = task.running()
  local id = queue:add(seconds, co)
  sleeping[co] = id
  return woken(co, id, task.wait(co))
end

-- `loop.timeout(seconds, f)` forks `f` after `seconds`, and returns an id for `cancel`. `run` does not return while a
-- timeout is pending, unless the loop is stopped.
function M.timeout(seconds, f)
  misuse.check_seconds("timeout", 1, seconds)
  misuse.check("timeout", 2, f, "function")
  owner.check "loop.timeout"
  local id = queue:add(seconds, f)
  timeouts[id] = f
  add_pending(1)
  return id
end

-- `loop.cancel(id)` cancels a timeout. Returns false if the timeout has already fired, or if `id` is not the id of a
-- timeout.
function M.cancel(id)
  if not timeouts[id] then return false end
  local was_there = queue:cancel(id)
  -- Remove the id after the timer: if `queue:cancel` raises, the timeout can still be cancelled when the loop ends.
  timeouts[id] = nil
  add_pending(-1)
  return was_there
end

-- `list()` returns a table that maps the id of each pending timeout to its function.
function M.list()
  local copy = {}
  for id, f in pairs(timeouts) do copy[id] = f end
  return copy
end

-- `cancel_all()`: cancels all timeouts.
function M.cancel_all()
  for id in pairs(timeouts) do M.cancel(id) end
end

return M
