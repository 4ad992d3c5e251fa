-- What a system costs in which nothing happens. A watching thread ticks on for a moment after the last
-- activity, so a short rest is taken from a long one: what is left is `seconds` of pure idleness.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

local function rest(seconds)
  local switches, cpu = figures.switches(), figures.cpu()
  ltask.sleep(seconds * 100)
  return switches(), figures.cpu() - cpu
end

figures.case(function()
  local seconds = options.seconds or 5
  figures.spawn(options.services or 100, "idle")
  ltask.sleep(50)
  local short = rest(1)
  local long, cpu = rest(1 + seconds)
  return { cpu = cpu * 1000, switches = math.max(0, long - short), tail = short }
end)
