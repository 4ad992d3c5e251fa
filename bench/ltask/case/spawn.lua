-- Spawns services that quit at once, `width` at a time, and waits until the last service has ended. With `skynet=1` the
-- services use skynet's API.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

local function one()
  ltask.call(ltask.spawn "idle", "leave")
end

if options.skynet then
  local skynet = require "skynet"
  function one()
    skynet.call(skynet.newservice "skynet_echo", "lua", "leave")
  end
end

local function rounds(n)
  for _ = 1, n do one() end
end

local function alive()
  local count = 0
  for _ in pairs(ltask.call(1, "stat")) do count = count + 1 end
  return count
end

figures.case(function()
  local n, width = options.rounds or 2000, options.width or 1
  rounds(20)
  while alive() > 3 do ltask.sleep(0) end
  local before = figures.resident()
  local left = width
  local function some()
    rounds(n // width)
    left = left - 1
    if left == 0 then ltask.wakeup "done" end
  end
  local result = figures.timed(n, function()
    for _ = 1, width do ltask.fork(some) end
    ltask.wait "done"
    while alive() > 3 do ltask.sleep(0) end
  end)
  result.growth = figures.resident() - before
  return result
end)
