-- Measures what coroutines cost: plain Lua's in a stock interpreter, ours in the same interpreter and in this
-- executable. Each case in fresh processes, which take turns; prints one table of medians.
--
--   lio bench/coroutine/run.lua [rounds=7] [seconds=60] [case ...]
--
-- Cases are those of cases.lua, by name; `seconds` bounds each process; hosts.lua says which programs run them.
-- Exit code 1: a process failed.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. here .. "../?.lua;" .. package.path
local measure = require "measure"
local rounds = require "rounds"
local hosts = require "hosts"
local shown = rounds.shown

local options = { rounds = 7, seconds = 60 }
local list = rounds.chosen(arg, options, require "cases")

-- The nanoseconds of a case in a host; nil and what went wrong when it failed.
local function measured(one, host)
  local figures, problem = rounds.figures(hosts.command(host, one, one.times), options.seconds)
  return figures and figures.each, problem
end

-- One round of a case: the nanoseconds by host, and the ratios to plain Lua; nil when a process failed.
local function turn(one)
  local row = {}
  for _, host in ipairs(hosts) do
    local each, problem = measured(one, host)
    if not each then return nil, host.name .. ": " .. problem end
    row[host.name] = each
    row["ratio_" .. host.name] = each / row.plain
  end
  return row
end

local function line(one)
  if #one.results == 0 then return ("| %s | failed | | | | | | |"):format(one.what) end
  local cells = { one.what, shown(measure.median(one.results, "plain")) }
  local verdicts = {}
  for i = 2, #hosts do
    local ratio = measure.median(one.results, "ratio_" .. hosts[i].name)
    cells[#cells + 1] = shown(measure.median(one.results, hosts[i].name))
    cells[#cells + 1] = ("%.2f"):format(ratio)
    verdicts[#verdicts + 1] = rounds.verdict(one, ratio)
  end
  cells[#cells + 1] = rounds.target(one)
  cells[#cells + 1] = verdicts[1] == verdicts[2] and verdicts[1] or table.concat(verdicts, ", ")
  return "| " .. table.concat(cells, " | ") .. " |"
end

local failures = 0
for _, one in ipairs(list) do one.results = {} end
for round = 1, options.rounds do
  for _, one in ipairs(list) do
    local row, problem = turn(one)
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

print("| case, ns of CPU | plain Lua | ours, module | ratio | ours, executable | ratio | target | met |")
print("|---|---|---|---|---|---|---|---|")
for _, one in ipairs(list) do print(line(one)) end
if failures > 0 then
  print(("\n%d turns failed."):format(failures))
  os.exit(1)
end
