-- Cases with waits, in tasks and in coroutines inside tasks. They have the same arguments and results as the cases of
-- switches.lua; child.lua calls them in a task of `lio.loop`.
--
-- Each case runs in a hundred tasks at once, so the tasks share the cost of a turn of the loop, which checks for I/O
-- and takes 1 to 2 µs.

local loop = require "lio.loop"
local switches = require "switches"

local M = {}

local TASKS <const> = 100

-- Repeats an operation `n` times in `count` tasks (default: a hundred). Each task calls `f(times, turn)`, where
-- `turn()` wakes the task's partner and waits until the partner wakes the task. All tasks must call `turn` equally
-- often. Returns the nanoseconds of CPU per repetition. Raises the first error in a task.
function M.together(n, f, count)
  count = count or TASKS
  local wait, wakeup = loop.wait, loop.wakeup
  local tokens, left, problem = {}, count, nil
  for i = 0, count - 1 do tokens[i] = {} end
  local function task(i)
    local mine, partner = tokens[i], tokens[i ~ 1]
    local ok, message = pcall(f, n // count, function()
      wakeup(partner)
      return wait(mine)
    end)
    wakeup(partner) -- the partner is waiting in its last turn, or has ended
    if not ok then problem = problem or message end
    left = left - 1
    if left == 0 then wakeup(tokens) end
  end
  local each = switches.timed(n, function()
    for i = 0, count - 1 do loop.fork(task, i) end
    wait(tokens)
  end)
  if problem then error(problem, 0) end
  return each
end

local function turns(times, turn)
  for _ = 1, times do turn() end
end

-- Runs only two tasks, so each wait takes a turn of the loop.
function M.alone(_, n)
  return M.together(n, turns, 2)
end

-- Returns a case that waits and wakes inside `depth` nested coroutines.
local function waits(depth)
  return function(co, n)
    return M.together(n, function(times, turn)
      switches.nested(co, depth, function() turns(times, turn) end)
    end)
  end
end

M.wait0 = waits(0)
M.wait1 = waits(1)
M.wait10 = waits(10)
M.wait50 = waits(50)

-- Takes all items from a generator that waits once for each item.
local function take(co, times, turn)
  local yield = co.yield
  for _ in co.wrap(function()
    for i = 1, times do
      turn()
      yield(i)
    end
  end) do end
end

function M.items(co, n)
  return M.together(n, function(times, turn) take(co, times, turn) end)
end

-- Takes all items from a generator that waits once for each item, inside 9 nested coroutines.
function M.deep_items(co, n)
  return M.together(n, function(times, turn)
    switches.nested(co, 9, function() take(co, times, turn) end)
  end)
end

-- Creates ten nested coroutines, of which the innermost waits once.
function M.chain(co, n)
  return M.together(n, function(times, turn)
    for _ = 1, times do switches.nested(co, 10, turn) end
  end)
end

return M
