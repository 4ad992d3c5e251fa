-- Runs one case of cases.lua in a new process, and formats the table of all cases. Used by run.lua in this folder and
-- by the suite `ltask`. The field `results` of a case is the list of the results of its rounds.

local format = require "format"
local measure = require "measure"
local quote, shown = measure.quote, format.number

local here = debug.getinfo(1, "S").source:match "^@(.*)report%.lua$"

local M = {}

-- Runs a case in a process with a time limit of `seconds`. Returns the results by name, or nil and the reason if the
-- process failed.
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

-- Returns the Markdown table of a list of cases, followed by the rates of plain Lua in the same processes.
function M.table(list)
  local lines = {
    "| case | measured | target | met | CPU µs each | in plain switches |",
    "|---|---|---|---|---|---|",
  }
  local processes = {}
  for _, one in ipairs(list) do
    for _, row in ipairs(one.rows) do lines[#lines + 1] = line(one, row) end
    for _, figures in ipairs(one.results) do processes[#processes + 1] = figures end
  end
  if #processes > 0 then
    local text = "\nPlain Lua in the same processes: %s coroutine switches/s (a resume and a yield), "
      .. "%s function calls/s."
    local switches, calls = measure.median(processes, "switch"), measure.median(processes, "call")
    lines[#lines + 1] = text:format(shown(switches), shown(calls))
  end
  return table.concat(lines, "\n") .. "\n"
end

return M
