-- Runs one case of bench/coroutine, and prints the nanoseconds of CPU per repetition.
--
--   lio|lua5.4 bench/coroutine/child.lua plain|lio FILE.FUNCTION times [outside]
--
-- `plain` uses Lua's own coroutines, which needs a stock interpreter; `lio` uses `lio.coroutine`. Without `outside` the
-- case runs in a task, or for plain Lua in a coroutine. All hosts use the collector mode of a new Lua state, because
-- the stock interpreter would select another mode for its scripts.

collectgarbage "incremental"

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. package.path

local library_name, path, times, place = arg[1], arg[2], math.tointeger(arg[3]), arg[4]
local file, name = path:match "^(%w+)%.([%w_]+)$"

local library, run
if library_name == "plain" then
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
