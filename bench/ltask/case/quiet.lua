-- Measures the cost of an idle system. The monitor thread takes some samples after the last activity, so the result is
-- the difference between a long and a short pause, which is the cost of `seconds` of idle time.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

local function pause(seconds)
  local switches, cpu = figures.switches(), figures.cpu()
  ltask.sleep(seconds * 100)
  return switches(), figures.cpu() - cpu
end

figures.case(function()
  local seconds = options.seconds or 5
  figures.spawn(options.services or 100, "idle")
  ltask.sleep(50)
  local short = pause(1)
  local long, cpu = pause(1 + seconds)
  return { cpu = cpu * 1000, switches = math.max(0, long - short), tail = short }
end)
