-- What a system costs in which nothing happens.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

figures.case(function()
  local seconds = options.seconds or 5
  figures.spawn(options.services or 100, "idle")
  ltask.sleep(50)
  local cpu, switches = figures.cpu(), figures.switches()
  ltask.sleep(seconds * 100)
  -- The probe of the switches waits for a child process: not part of it.
  local used = figures.cpu() - cpu
  return { cpu = used * 1000, switches = figures.switches() - switches }
end)
