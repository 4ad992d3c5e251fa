-- Forks functions in batches. A batch ends before the next batch begins.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

figures.case(function()
  local batch = options.batch or 100
  local rounds = (options.forks or 1000000) // batch
  local left
  local function one()
    left = left - 1
    if left == 0 then ltask.wakeup "batch" end
  end
  local fork = ltask.fork
  return figures.timed(rounds * batch, function()
    for _ = 1, rounds do
      left = batch
      for _ = 1, batch do fork(one) end
      ltask.wait "batch"
    end
  end)
end)
