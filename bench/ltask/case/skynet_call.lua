-- Makes sequential calls with skynet's API from one service to another. `to` is the name of the called service;
-- `command` selects how it responds.

local skynet = require "skynet"
local figures = require "figures"
local options = ...

local function calls(address, n)
  local call, command = skynet.call, options.command
  for i = 1, n do
    if call(address, "lua", command, i) ~= i then error "the response of another call" end
  end
end

figures.case(function()
  local n = options.calls or 400000
  local address = skynet.newservice(options.to)
  calls(address, 10000)
  return figures.timed(n, function() calls(address, n) end)
end)
