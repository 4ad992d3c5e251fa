-- Runs one case of cases.lua in a fresh process, and makes the table of many. Shared by run.lua here and by the suite
-- `ltask` of the bench. A case's rounds are in `results`.

local format = require "format"
local measure = require "measure"
local quote, shown = measure.quote, format.number

local here = debug.getinfo(1, "S").source:match "^@(.*)report%.lua$"

local M = {}

-- The figures of one process by name, which is ended after `seconds`; nil and what went wrong when it failed.
function M.measured(one, seconds)
  local words = {}
  for i, value in ipairs(one.values) do words[i] = quote(value) end
  local figures, problem = measure.figures(("%s %schild.lua %s %s"):format(
    quote(arg[-1]), quote(here), one.case, table.concat(words, " ")), seconds)
  if figures and figures.each then figures.share = figures.each * figures.switch / 1e6 end
  return figures, problem
end

local function line(one, row)
  if #one.results == 0 then return ("| %s | failed | %s | no | | |"):format(row[1], format.target(row)) end
  local value = measure.median(one.results, row[2])
  local each, share = "", ""
  if row[2] == "rate" then
    each = shown(measure.median(one.results, "each"))
    share = shown(measure.median(one.results, "share"))
  end
  return ("| %s | %s%s | %s | %s | %s | %s |"):format(row[1], shown(value), row[3] == "" and "" or " " .. row[3],
    format.target(row), format.verdict(row, value), each, share)
end

-- The table of the cases of a list, and how fast plain Lua was in the same processes.
function M.table(list)
  local lines = {
    "| case | measured | target | met | CPU µs each | in plain switches |",
    "|---|---|---|---|---|---|",
  }
  local yardsticks = {}
  for _, one in ipairs(list) do
    for _, row in ipairs(one.rows) do lines[#lines + 1] = line(one, row) end
    for _, figures in ipairs(one.results) do yardsticks[#yardsticks + 1] = figures end
  end
  if #yardsticks > 0 then
    local text = "\nPlain Lua beside them: %s coroutine switches/s (a resume and a yield), %s function calls/s."
    local switches, calls = measure.median(yardsticks, "switch"), measure.median(yardsticks, "call")
    lines[#lines + 1] = text:format(shown(switches), shown(calls))
  end
  return table.concat(lines, "\n") .. "\n"
end

return M
