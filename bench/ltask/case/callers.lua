-- Many coroutines of one service, each calling several services in turn.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

figures.case(function()
  local coroutines, n, services = options.coroutines or 100, options.calls or 2000, options.services or 8
  local list = figures.spawn(services, "echo")
  local left = coroutines
  local start = ltask.counter()
  for id = 1, coroutines do
    ltask.fork(function()
      local call = ltask.call
      for i = 1, n do
        if call(list[(id + i) % services + 1], "ping", i) ~= i then error "another call's answer" end
      end
      left = left - 1
      if left == 0 then ltask.wakeup "done" end
    end)
  end
  ltask.wait "done"
  return { rate = coroutines * n / (ltask.counter() - start) }
end)
