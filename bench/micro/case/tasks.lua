-- Tasks and turns of the loop. A case returns a function that repeats the operation `n` times; child.lua calls this
-- function in a task of `lio.loop`.

local loop = require "lio.loop"

local M = {}

function M.sleep0()
  return function(n)
    for _ = 1, n do loop.sleep(0) end
  end
end

function M.timeout_cancel()
  local function nothing() end
  return function(n)
    for _ = 1, n do loop.cancel(loop.timeout(10, nothing)) end
  end
end

-- Forks tasks that end at once, a hundred at a time.
function M.fork()
  local function done(i, token)
    if i == 100 then loop.wakeup(token) end
  end
  return function(n)
    local token = {}
    for _ = 1, (n + 99) // 100 do
      for i = 1, 100 do loop.fork(done, i, token) end
      loop.wait(token)
    end
  end
end

-- Returns a function that runs `count` pairs of tasks. The tasks of a pair wake each other in turn, with `n` wakeups in
-- total.
local function partners(count)
  return function(n)
    local finished, left = {}, 2 * count
    local function play(mine, partner, times)
      for _ = 1, times do
        loop.wakeup(partner)
        loop.wait(mine)
      end
      loop.wakeup(partner) -- the partner is waiting in its last turn, or has ended
      left = left - 1
      if left == 0 then loop.wakeup(finished) end
    end
    local times = (n + 2 * count - 1) // (2 * count)
    for _ = 1, count do
      local a, b = {}, {}
      loop.fork(play, a, b, times)
      loop.fork(play, b, a, times)
    end
    loop.wait(finished)
  end
end

-- Takes one turn of the loop per wakeup, so the result includes the cost of a turn.
function M.wakeup_alone()
  return partners(1)
end

-- Takes one turn of the loop per hundred wakeups.
function M.wakeup_crowd()
  return partners(50)
end

return M
