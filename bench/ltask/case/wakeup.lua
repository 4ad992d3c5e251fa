-- Two coroutines of one service wake each other in turn.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

figures.case(function()
  local n = (options.pairs or 2000000) // 2
  local wait, wakeup = ltask.wait, ltask.wakeup
  local function other()
    for _ = 1, n do
      wakeup "a"
      wait "b"
    end
  end
  return figures.timed(2 * n, function()
    ltask.fork(other)
    for _ = 1, n do
      wait "a"
      wakeup "b"
    end
  end)
end)
