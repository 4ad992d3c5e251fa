-- Calls several services in turn from many coroutines of one service.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

local coroutines <const> = options.coroutines or 100
local calls <const> = options.calls or 2000

local function caller(list, id)
  local call, count = ltask.call, #list
  for i = 1, calls do
    if call(list[(id + i) % count + 1], "ping", i) ~= i then error "the response of another call" end
  end
end

figures.case(function()
  local list = figures.spawn(options.services or 8, "echo")
  local left = coroutines
  local function one(id)
    caller(list, id)
    left = left - 1
    if left == 0 then ltask.wakeup "done" end
  end
  return figures.timed(coroutines * calls, function()
    for id = 1, coroutines do ltask.fork(one, id) end
    ltask.wait "done"
  end)
end)
