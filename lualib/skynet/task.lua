-- Skynet's coroutines on the scheduler's tasks: `fork`, `sleep`, `wait`, `wakeup`, `yield` and `timeout`.
-- Called through lualib/skynet.lua.
--
-- The task core has one queue, in order. Skynet has two: coroutines that were woken run as soon as the
-- running one suspends, and before those that were forked. So a fork whose turn comes while earlier wakeups
-- are still queued steps aside until they have run; forks keep their order.

local ltask = require "ltask"
local task = require "lio.task"
local boot = require "skynet.boot"

local running <const> = coroutine.running
local status <const> = coroutine.status
local task_wait <const>, task_wakeup <const>, task_fork <const> = task.wait, task.wakeup, task.fork

local M = {}

-- The coroutine that sleeps or waits by skynet's words, by token, and the one that was woken and has not run
-- yet. Weak: they keep neither a token nor a coroutine alive.
local sleeping = setmetatable({}, { __mode = "kv" })
local woken = setmetatable({}, { __mode = "kv" })

-- How many wakeups there were, and how many of them have run for sure.
local wakes, settled = 0, 0

-- Forks that have stepped aside: new ones, and those that did it again. And whether a coroutine looks after them.
local held, again, serving = {}, {}, false

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

-- Lets run what is queued now.
local function turn()
  local place = {}
  task_fork(task_wakeup, place)
  task_wait(place)
end

local function serve_held()
  repeat
    while settled < wakes do
      local seen = wakes
      turn()
      settled = math.max(settled, seen)
    end
    local list = held
    held, again = {}, {}
    for _, place in ipairs(list) do task_wakeup(place) end
    -- They run now. When one of them wakes somebody, those behind it step aside again, before the new ones.
    turn()
    table.move(held, 1, #held, #again + 1, again)
    held, again = again, {}
  until #held == 0
  serving = false
end

local function step_aside(list)
  local place = {}
  list[#list + 1] = place
  if not serving then
    serving = true
    task_fork(serve_held)
  end
  task_wait(place)
end

local function forked(f, mark, ...)
  -- What was woken before this was forked has run by now: the queue keeps its order.
  if mark > settled then settled = mark end
  if settled < wakes or serving then
    step_aside(held)
    while settled < wakes or #again > 0 do step_aside(again) end
  end
  return f(...)
end

-- `fork(f, …)` → the coroutine; it runs after the running coroutine suspends, behind those that were woken and
-- those that were forked before.
function M.fork(f, ...)
  check_function(1, "fork", f)
  return task_fork(forked, f, wakes, ...)
end

-- sleep ---------------------------------------------------------------------------------------

-- Timers are used again, because one that was set cannot be taken back: when its sleeper was woken it
-- fires for nobody, and is free from then on.
local free = {}

local timer_meta = {
  __close = function(timer) timer.token = nil end,
}

local function new_timer()
  local timer = setmetatable({}, timer_meta)
  function timer.fire()
    local token = timer.token
    timer.token = nil
    free[#free + 1] = timer
    if token ~= nil then task_wakeup(token, timer) end
  end
  return timer
end

local function take_timer()
  local n = #free
  local timer = free[n]
  if not timer then return new_timer() end
  free[n] = nil
  return timer
end

local function enter(token, co, call)
  if sleeping[token] and task.is_waiting(token) then
    error(call .. ": somebody sleeps or waits on this token already", 3)
  end
  if boot.trace then boot.trace.event "sleep" end
  sleeping[token] = co
end

local function leave(token, co)
  if sleeping[token] == co then sleeping[token] = nil end
  if woken[token] == co then woken[token] = nil end
  if boot.trace then boot.trace.event "resume" end
end

-- `sleep(centiseconds[, token])` → nothing, or "BREAK" when `wakeup` ended it. The token is the running coroutine
-- by default.
function M.sleep(centiseconds, token)
  check_time("sleep", centiseconds)
  local co = running()
  if token == nil then token = co end
  enter(token, co, "sleep")
  local timer <close> = take_timer()
  timer.token = token
  ltask.timeout(centiseconds, timer.fire)
  local why = task_wait(token)
  leave(token, co)
  if why ~= timer then return "BREAK" end
end

-- `yield()`: lets the messages go first that are there now. Returns as `sleep(0)`.
function M.yield()
  return M.sleep(0)
end

-- `wait([token])`: until `wakeup` of the token, by default the running coroutine.
function M.wait(token)
  local co = running()
  if token == nil then token = co end
  enter(token, co, "wait")
  task_wait(token)
  leave(token, co)
end

-- The token's waiter was woken already: this wakeup is for the wait that it may begin before.
local function wake_again(token)
  if sleeping[token] and task_wakeup(token) then
    woken[token], sleeping[token] = sleeping[token], nil
  end
end

-- `wakeup(token)` → true when somebody sleeps or waits on it, nothing otherwise. The token is what was given
-- to `sleep` or `wait`, or the sleeping coroutine. It runs when the running one suspends, in the order of wakeups.
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
  wakes = wakes + 1
  return true
end

-- While `trace_timeout` is on: coroutine of `timeout` → where it was made.
M.timeouts = false

local function timed(centiseconds, f)
  ltask.sleep(centiseconds)
  if M.timeouts then M.timeouts[running()] = nil end
  return f()
end

-- `timeout(centiseconds, f)` → the coroutine that runs `f` when the time is over.
function M.timeout(centiseconds, f)
  check_time("timeout", centiseconds)
  check_function(2, "timeout", f)
  local co = task.spawn(timed, centiseconds, f)
  if M.timeouts then
    M.timeouts[co] = ("TIMER %d+%d : %s"):format(require "skynet.clock".now(), math.ceil(centiseconds),
      debug.traceback("timeout", 2))
  end
  return co
end

-- `trace_timeout(on)`: from now on, or no longer, `task` tells of a coroutine of `timeout` where it was made.
function M.trace_timeout(on)
  M.timeouts = on and (M.timeouts or setmetatable({}, { __mode = "k" })) or false
end

return M
