-- What an idle service takes: KiB of the process for each, and KiB of its VM as root's statistics say.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

figures.case(function()
  local n = options.services or 2000
  figures.spawn(1, "idle")
  local before = figures.resident()
  local list = figures.spawn(n, "idle")
  local resident = (figures.resident() - before) / n
  local stat = ltask.call(1, "stat")
  local sum = 0
  for _, id in ipairs(list) do sum = sum + stat[id].memory end
  return { resident = resident, vm = sum / n / 1024 }
end)
