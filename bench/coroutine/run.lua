-- Measures what coroutines cost: plain Lua's in a stock interpreter, ours in the same interpreter and in this
-- executable. Each case in fresh processes, which take turns; prints one table of medians.
--
--   lio bench/coroutine/run.lua [rounds=7] [seconds=60] [case ...]
--
-- Cases are those of cases.lua, by name; `seconds` bounds each process; hosts.lua says which programs run them.
-- Exit code 1: a process failed.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. here .. "../?.lua;" .. package.path
local report = require "report"
local rounds = require "rounds"

local options = { rounds = 7, seconds = 60 }
local list = rounds.chosen(arg, options, require "cases")

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
