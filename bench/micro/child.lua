-- Runs one case of bench/micro, and prints the nanoseconds of CPU per repetition.
--
--   lio|lua5.4 bench/micro/child.lua FILE.FUNCTION [seconds=0.3]
--   valgrind --tool=callgrind lio bench/micro/child.lua FILE.FUNCTION times=10000
--
-- The result is the median of nine batches, each of which takes a ninth of `seconds`. With `times` the operation is
-- repeated `times` times and nothing is printed, for programs that count instructions. All hosts use the collector mode
-- of a new Lua state, because the stock interpreter would select another mode for its scripts.

collectgarbage "incremental"

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. package.path

local loop = require "lio.loop"

local BATCHES <const> = 9

local file, name = arg[1]:match "^(%w+)%.([%w_]+)$"
local option, value = (arg[2] or "seconds=0.3"):match "^(%w+)=([%d.]+)$"

local function cpu_of(run, n)
  local start = os.clock()
  run(n)
  return os.clock() - start
end

-- Returns the number of repetitions that take `seconds`. The calls of `run` also warm up caches.
local function calibrate(run, seconds)
  local n = 100
  while true do
    local took = cpu_of(run, n)
    if took >= seconds / 2 then return math.max(1, math.floor(n * seconds / took)) end
    n = took > 0 and math.min(n * 10, math.ceil(n * seconds / took)) or n * 10
  end
end

local function each(run, seconds)
  local n = calibrate(run, seconds / BATCHES)
  local batches = {}
  for i = 1, BATCHES do batches[i] = cpu_of(run, n) / n * 1e9 end
  table.sort(batches)
  return batches[(BATCHES + 1) // 2]
end

loop.run(function()
  local run = require("case." .. file)[name]()
  if option == "times" then
    run(math.tointeger(tonumber(value)))
  else
    print(("each\t%.3f"):format(each(run, tonumber(value))))
  end
  loop.stop(0)
end)
