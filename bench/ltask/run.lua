-- Measures the scheduler, and prints a table with medians and targets. Each round of a case runs in a new process of
-- this executable. The cases take turns, so if the machine's speed changes, all of them are affected.
--
--   lio bench/ltask/run.lua [rounds=3] [seconds=60] [case ...]
--
-- A case is a name in cases.lua. `seconds` is the time limit of each process. The exit code is 1 if a process failed.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. here .. "../?.lua;" .. package.path
local arguments = require "arguments"
local cases = require "cases"
local format = require "format"
local report = require "report"
local shown = format.number

local options = { rounds = 3, seconds = 60 }
local list = arguments.read(arg, options, cases)

local failures = 0
for _, one in ipairs(list) do one.results = {} end
for round = 1, options.rounds do
  for _, one in ipairs(list) do
    local figures, problem = report.measured(one, options.seconds)
    local text = { ("round %d %-10s"):format(round, one.name) }
    if figures then
      table.insert(one.results, figures)
      for _, row in ipairs(one.rows) do text[#text + 1] = row[2] .. " " .. shown(figures[row[2]]) end
    else
      failures = failures + 1
      text[2] = "FAILED: " .. problem
    end
    io.stderr:write(table.concat(text, "  "), "\n")
  end
end

io.write(report.table(list))
if failures > 0 then
  print(("%d processes failed."):format(failures))
  os.exit(1)
end
