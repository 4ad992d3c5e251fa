-- Measures the memory of an idle service: the resident KiB of the process per service, and the KiB of the service's VM
-- in the statistics. With `skynet=1` the services use skynet's API.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

local function spawn(n)
  if not options.skynet then return figures.spawn(n, "idle") end
  local skynet = require "skynet"
  local list = {}
  for i = 1, n do list[i] = skynet.newservice "skynet_echo" end
  return list
end

figures.case(function()
  local n = options.services or 2000
  spawn(1)
  local before = figures.resident()
  local list = spawn(n)
  local resident = (figures.resident() - before) / n
  local stat = ltask.call(1, "stat")
  local sum = 0
  for _, id in ipairs(list) do sum = sum + stat[id].memory end
  return { resident = resident, vm = sum / n / 1024 }
end)
