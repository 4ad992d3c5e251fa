-- Tasks and turns of the loop. A case sets up, and returns what does its thing `n` times; child.lua runs it in a
-- task of `lio.loop`.

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

-- New tasks that end at once, a hundred at a time.
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

-- `count` pairs of tasks that wake each other in turn, `n` wakeups in all.
local function partners(count)
  return function(n)
    local over, left = {}, 2 * count
    local function play(mine, partner, times)
      for _ = 1, times do
        loop.wakeup(partner)
        loop.wait(mine)
      end
      loop.wakeup(partner) -- which is in its last turn, or has ended
      left = left - 1
      if left == 0 then loop.wakeup(over) end
    end
    local times = (n + 2 * count - 1) // (2 * count)
    for _ = 1, count do
      local a, b = {}, {}
      loop.fork(play, a, b, times)
      loop.fork(play, b, a, times)
    end
    loop.wait(over)
  end
end

-- A turn of the loop for each wakeup: what one turn costs by itself is in this.
function M.wakeup_alone()
  return partners(1)
end

-- A turn of the loop for each hundred wakeups.
function M.wakeup_crowd()
  return partners(50)
end

return M
