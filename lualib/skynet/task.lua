-- Skynet's coroutines on the scheduler's tasks: `fork`, `sleep`, `wait`, `wakeup`, `yield` and `timeout`. Used by
-- lualib/skynet.lua.
--
-- The task core has one ready queue, first in, first out. Skynet has two: when the running coroutine suspends, the
-- coroutines that were woken run before those that were forked. So a fork that would run while wakeups are queued is
-- deferred until the woken coroutines have run; forks keep their order.

local ltask = require "ltask"
local task = require "lio.task"
local boot = require "skynet.boot"

local running <const> = coroutine.running
local status <const> = coroutine.status
local task_wait <const>, task_wakeup <const>, task_fork <const> = task.wait, task.wakeup, task.fork

local M = {}

-- `sleeping` maps a token to the coroutine that sleeps or waits on it, `woken` to the coroutine that was woken and has
-- not run yet. The tables are weak, so that they keep neither tokens nor coroutines alive.
local sleeping = setmetatable({}, { __mode = "kv" })
local woken = setmetatable({}, { __mode = "kv" })

-- The number of wakeups, and the number of wakeups whose coroutines are certain to have run.
local wakeups, finished_wakeups = 0, 0

-- `deferred`: the tokens of new deferred forks. `deferred_again`: the tokens of forks that were deferred again.
-- `is_resuming`: whether a task is resuming deferred forks.
local deferred, deferred_again, is_resuming = {}, {}, false

local function check_function(position, call, f)
  if type(f) == "function" then return end
  error(("bad argument #%d to '%s' (function expected, got %s)"):format(position, call, type(f)), 3)
end

local function check_time(call, centiseconds)
  if math.type(centiseconds) and centiseconds == centiseconds then return end
  error(("bad argument #1 to '%s' (a time in centiseconds expected, got %s)")
    :format(call, tostring(centiseconds)), 3)
end

-- fork ----------------------------------------------------------------------------------------

-- Waits until the tasks that are in the ready queue have run.
local function wait_for_ready_tasks()
  local token = {}
  task_fork(task_wakeup, token)
  task_wait(token)
end

local function resume_deferred()
  repeat
    while finished_wakeups < wakeups do
      local seen = wakeups
      wait_for_ready_tasks()
      finished_wakeups = math.max(finished_wakeups, seen)
    end
    local list = deferred
    deferred, deferred_again = {}, {}
    for _, token in ipairs(list) do task_wakeup(token) end
    -- If one of these forks wakes a coroutine, the forks after it are deferred again, before the new ones.
    wait_for_ready_tasks()
    table.move(deferred, 1, #deferred, #deferred_again + 1, deferred_again)
    deferred, deferred_again = deferred_again, {}
  until #deferred == 0
  is_resuming = false
end

-- Suspends the running fork, and appends its token to the list.
local function defer(list)
  local token = {}
  list[#list + 1] = token
  if not is_resuming then
    is_resuming = true
    task_fork(resume_deferred)
  end
  task_wait(token)
end

-- Runs the function of a fork once all coroutines that have been woken have run. `wakeups_before`: the number of
-- wakeups when the function was forked.
local function run_fork(f, wakeups_before, ...)
  -- The coroutines of these wakeups have run: they were in the queue before the fork.
  if wakeups_before > finished_wakeups then finished_wakeups = wakeups_before end
  if finished_wakeups < wakeups or is_resuming then
    defer(deferred)
    while finished_wakeups < wakeups or #deferred_again > 0 do defer(deferred_again) end
  end
  return f(...)
end

-- `fork(f, …)`: creates a coroutine and returns it. The new coroutine runs when the running coroutine suspends, after
-- the coroutines that were woken or forked before.
function M.fork(f, ...)
  check_function(1, "fork", f)
  return task_fork(run_fork, f, wakeups, ...)
end

-- sleep ---------------------------------------------------------------------------------------

-- Timers that no coroutine uses. A timer of the scheduler cannot be cancelled: the timer of a woken coroutine fires
-- without an effect, and can then be used again.
local free_timers = {}

local timer_meta = {
  __close = function(timer) timer.token = nil end,
}

local function new_timer()
  local timer = setmetatable({}, timer_meta)
  function timer.fire()
    local token = timer.token
    timer.token = nil
    free_timers[#free_timers + 1] = timer
    if token ~= nil then task_wakeup(token, timer) end
  end
  return timer
end

local function take_timer()
  local n = #free_timers
  local timer = free_timers[n]
  if not timer then return new_timer() end
  free_timers[n] = nil
  return timer
end

local function begin_wait(token, co, call)
  if sleeping[token] and task.is_waiting(token) then
    error(call .. ": a coroutine is already sleeping or waiting on this token", 3)
  end
  if boot.trace then boot.trace.event "sleep" end
  sleeping[token] = co
end

local function end_wait(token, co)
  if sleeping[token] == co then sleeping[token] = nil end
  if woken[token] == co then woken[token] = nil end
  if boot.trace then boot.trace.event "resume" end
end

-- `sleep(centiseconds[, token])`: waits until the time has passed or `wakeup(token)` is called. The default token is
-- the running coroutine. Returns "BREAK" after a wakeup, otherwise nothing.
function M.sleep(centiseconds, token)
  check_time("sleep", centiseconds)
  local co = running()
  if token == nil then token = co end
  begin_wait(token, co, "sleep")
  local timer <close> = take_timer()
  timer.token = token
  ltask.timeout(centiseconds, timer.fire)
  local waker = task_wait(token)
  end_wait(token, co)
  if waker ~= timer then return "BREAK" end
end

-- `yield()`: the same as `sleep(0)`. Messages that have arrived are handled first.
function M.yield()
  return M.sleep(0)
end

-- `wait([token])`: waits until `wakeup(token)` is called. The default token is the running coroutine.
function M.wait(token)
  local co = running()
  if token == nil then token = co end
  begin_wait(token, co, "wait")
  task_wait(token)
  end_wait(token, co)
end

-- Handles a wakeup of a coroutine that an earlier wakeup has woken: ends the coroutine's next wait, if it has started
-- one.
local function wake_again(token)
  if sleeping[token] and task_wakeup(token) then
    woken[token], sleeping[token] = sleeping[token], nil
  end
end

-- `wakeup(token)`: wakes the coroutine that sleeps or waits on the token. The woken coroutines run when the running
-- coroutine suspends, in the order of the wakeups. Returns true, or nothing if no coroutine is waiting.
function M.wakeup(token)
  if token == nil then error("bad argument #1 to 'wakeup' (a token expected, got nil)", 2) end
  local co = sleeping[token]
  if co then
    sleeping[token] = nil
    if not task_wakeup(token) then return end
    woken[token] = co
  else
    co = woken[token]
    if not co or status(co) == "dead" then return end
    task_fork(wake_again, token)
  end
  wakeups = wakeups + 1
  return true
end

-- While `trace_timeout` is on, maps a coroutine of `timeout` to a string that shows where `timeout` was called;
-- otherwise false.
M.timeout_places = false

local function run_timeout(centiseconds, f)
  ltask.sleep(centiseconds)
  if M.timeout_places then M.timeout_places[running()] = nil end
  return f()
end

-- `timeout(centiseconds, f)`: creates a coroutine that runs `f` after that time, and returns the coroutine.
function M.timeout(centiseconds, f)
  check_time("timeout", centiseconds)
  check_function(2, "timeout", f)
  local co = task.spawn(run_timeout, centiseconds, f)
  if M.timeout_places then
    M.timeout_places[co] = ("TIMER %d+%d : %s"):format(require "skynet.clock".now(), math.ceil(centiseconds),
      debug.traceback("timeout", 2))
  end
  return co
end

-- `trace_timeout(on)`: sets whether `task` shows, for a coroutine of `timeout`, where `timeout` was called.
function M.trace_timeout(on)
  M.timeout_places = on and (M.timeout_places or setmetatable({}, { __mode = "k" })) or false
end

return M
