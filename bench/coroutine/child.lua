-- One case of bench/coroutine in a process of its own: prints its figure, nanoseconds of CPU for each.
--
--   lio|lua5.4 bench/coroutine/child.lua plain|ours FILE.FUNCTION times [outside]
--
-- `plain`: Lua's own coroutines, so the interpreter must be a stock one; `ours`: those of `lio.coroutine`.
-- Without `outside`, inside a task; for plain Lua that is inside a coroutine. All hosts run with the collector
-- that a new Lua state has: the stock interpreter would set another one for its scripts.

collectgarbage "incremental"

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. package.path

local whose, path, times, place = arg[1], arg[2], math.tointeger(arg[3]), arg[4]
local file, name = path:match "^(%w+)%.([%w_]+)$"

local library, run
if whose == "plain" then
  library = coroutine
  run = function(f) coroutine.wrap(f)() end
else
  library = require "lio.coroutine"
  run = require("lio.loop").run
end

local function case()
  print(("each\t%.3f"):format(require(file)[name](library, times)))
end

if place == "outside" then case() else run(case) end
