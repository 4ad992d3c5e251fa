-- Measures the cost of coroutines: Lua's own in a stock interpreter, and lio's in the same interpreter and in this
-- executable. Each round of a case runs in new processes, and the hosts take turns. Prints a table of medians.
--
--   lio bench/coroutine/run.lua [rounds=7] [seconds=60] [case ...]
--
-- A case is a name in cases.lua. `seconds` is the time limit of each process. hosts.lua defines the programs. The exit
-- code is 1 if a process failed.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. here .. "../?.lua;" .. package.path
local arguments = require "arguments"
local report = require "report"

local options = { rounds = 7, seconds = 60 }
local list = arguments.read(arg, options, require "cases")

local failures = 0
for _, one in ipairs(list) do one.results = {} end
for round = 1, options.rounds do
  for _, one in ipairs(list) do
    local row, problem = report.turn(one, options.seconds)
    if row then
      table.insert(one.results, row)
      io.stderr:write(("round %d %-14s plain %.1f  module %.1f (%.2f)  executable %.1f (%.2f)\n"):format(
        round, one.name, row.plain, row.module, row.ratio_module, row.executable, row.ratio_executable))
    else
      failures = failures + 1
      io.stderr:write(("round %d %-14s FAILED: %s\n"):format(round, one.name, problem))
    end
  end
end

io.write(report.table(list))
if failures > 0 then
  print(("\n%d turns failed."):format(failures))
  os.exit(1)
end
