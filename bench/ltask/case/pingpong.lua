-- Makes sequential calls from one service to another. `idle` is the number of additional services that wait for
-- messages, `blocked` the number of additional services that block on their event descriptors.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

local function calls(echo, n)
  local call = ltask.call
  for i = 1, n do
    if call(echo, "ping", i) ~= i then error "the response of another call" end
  end
end

figures.case(function()
  local n = options.calls or 400000
  figures.spawn(options.idle or 0, "idle")
  figures.spawn(options.blocked or 0, "blocker")
  local echo = ltask.spawn "echo"
  calls(echo, 10000)
  local switches = figures.switches()
  local result = figures.timed(n, function() calls(echo, n) end)
  result.switches = switches() / n
  return result
end)
