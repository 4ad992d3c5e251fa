-- Measures the scheduler case by case, each in a fresh process of this executable, and prints one table of
-- medians beside the targets. Cases take turns, so that a machine's drift meets all of them.
--
--   lio bench/ltask/run.lua [rounds=3] [seconds=60] [case ...]
--
-- Cases are those of cases.lua, by name; `seconds` bounds each process. Exit code 1: a process failed.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. here .. "../?.lua;" .. package.path
local cases = require "cases"
local measure = require "measure"
local rounds = require "rounds"
local quote, shown = rounds.quote, rounds.shown

local options = { rounds = 3, seconds = 60 }
local list = rounds.chosen(arg, options, cases)

-- The figures of one process by name; nil and what went wrong when it failed.
local function measured(one)
  local words = {}
  for i, value in ipairs(one.values) do words[i] = quote(value) end
  local figures, problem = rounds.figures(("%s %schild.lua %s %s"):format(
    quote(arg[-1]), quote(here), one.case, table.concat(words, " ")), options.seconds)
  if figures and figures.each then figures.share = figures.each * figures.switch / 1e6 end
  return figures, problem
end

local function line(one, row)
  if #one.results == 0 then return ("| %s | failed | %s | no | | |"):format(row[1], rounds.target(row)) end
  local value = measure.median(one.results, row[2])
  local each, share = "", ""
  if row[2] == "rate" then
    each = shown(measure.median(one.results, "each"))
    share = shown(measure.median(one.results, "share"))
  end
  return ("| %s | %s%s | %s | %s | %s | %s |"):format(row[1], shown(value), row[3] == "" and "" or " " .. row[3],
    rounds.target(row), rounds.verdict(row, value), each, share)
end

local failures, yardsticks = 0, {}
for _, one in ipairs(list) do one.results = {} end
for round = 1, options.rounds do
  for _, one in ipairs(list) do
    local figures, problem = measured(one)
    local text = { ("round %d %-10s"):format(round, one.name) }
    if figures then
      table.insert(one.results, figures)
      table.insert(yardsticks, figures)
      for _, row in ipairs(one.rows) do text[#text + 1] = row[2] .. " " .. shown(figures[row[2]]) end
    else
      failures = failures + 1
      text[2] = "FAILED: " .. problem
    end
    io.stderr:write(table.concat(text, "  "), "\n")
  end
end

print("| case | measured | target | met | CPU µs each | in plain switches |")
print("|---|---|---|---|---|---|")
for _, one in ipairs(list) do
  for _, row in ipairs(one.rows) do print(line(one, row)) end
end
if #yardsticks > 0 then
  print(("\nPlain Lua beside them: %s coroutine switches/s (a resume and a yield), %s function calls/s.")
    :format(shown(measure.median(yardsticks, "switch")), shown(measure.median(yardsticks, "call"))))
end
if failures > 0 then
  print(("%d processes failed."):format(failures))
  os.exit(1)
end
