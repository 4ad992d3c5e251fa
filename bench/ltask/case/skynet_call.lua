-- Calls by skynet's words, one after another, from one service to another. `to`: the service; `command`: how it
-- answers.

local skynet = require "skynet"
local figures = require "figures"
local options = ...

local function calls(address, n)
  local call, command = skynet.call, options.command
  for i = 1, n do
    if call(address, "lua", command, i) ~= i then error "another call's answer" end
  end
end

figures.case(function()
  local n = options.calls or 400000
  local address = skynet.newservice(options.to)
  calls(address, 10000)
  return figures.timed(n, function() calls(address, n) end)
end)
