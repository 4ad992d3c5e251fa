-- Cases that wait, of tasks and of the coroutines inside them: as those of switches.lua, run by child.lua in
-- a task of `lio.loop`.
--
-- A hundred tasks do the same at a time, so that what a turn of the loop costs by itself (it looks after I/O, 1
-- to 2 µs) is shared by a hundred.

local loop = require "lio.loop"
local switches = require "switches"

local M = {}

local CROWD <const> = 100

-- Does a thing `n` times in `count` tasks (a hundred): each runs `f(times, turn)`, where `turn()` is one wait:
-- it wakes the task's partner and waits to be woken by that. Each must call it equally often. Returns
-- nanoseconds for one time, and raises the first error.
function M.together(n, f, count)
  count = count or CROWD
  local wait, wakeup = loop.wait, loop.wakeup
  local tokens, left, problem = {}, count, nil
  for i = 0, count - 1 do tokens[i] = {} end
  local function task(i)
    local mine, partner = tokens[i], tokens[i ~ 1]
    local ok, message = pcall(f, n // count, function()
      wakeup(partner)
      return wait(mine)
    end)
    wakeup(partner) -- which is in its last turn, or ended
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

-- Two tasks alone: each wait takes a turn of the loop.
function M.alone(_, n)
  return M.together(n, turns, 2)
end

-- A wait and a wakeup, `depth` coroutines deep.
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

-- Takes all items of a generator that waits once for each.
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

-- The same, and who takes the items is 9 coroutines deep.
function M.deep_items(co, n)
  return M.together(n, function(times, turn)
    switches.nested(co, 9, function() take(co, times, turn) end)
  end)
end

-- Ten new coroutines that resume each other; the innermost waits once.
function M.chain(co, n)
  return M.together(n, function(times, turn)
    for _ = 1, times do switches.nested(co, 10, turn) end
  end)
end

return M
