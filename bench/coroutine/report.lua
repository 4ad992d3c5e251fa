-- Runs one round of a case in all hosts, and formats the table of all cases. Used by run.lua in this folder and by the
-- suite `coroutine`. The field `results` of a case is the list of the results of its rounds.

local format = require "format"
local measure = require "measure"
local shown = format.number

local here = debug.getinfo(1, "S").source:match "^@(.*)report%.lua$"
local hosts = assert(loadfile(here .. "hosts.lua"))()

local M = {}

-- Returns the nanoseconds of one repetition of a case in a host, or nil and the reason if the process failed.
local function measured(one, host, seconds)
  local figures, problem = measure.figures(hosts.command(host, one, one.times), seconds)
  return figures and figures.each, problem
end

-- Runs one round of a case, in processes with a time limit of `seconds`. Returns a table with the nanoseconds of each
-- host and their ratios to plain Lua, or nil and the reason if a process failed.
function M.turn(one, seconds)
  local row = {}
  for _, host in ipairs(hosts) do
    local each, problem = measured(one, host, seconds)
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
    verdicts[#verdicts + 1] = format.verdict(one, ratio)
  end
  cells[#cells + 1] = format.target(one)
  cells[#cells + 1] = verdicts[1] == verdicts[2] and verdicts[1] or table.concat(verdicts, ", ")
  return "| " .. table.concat(cells, " | ") .. " |"
end

-- Returns the Markdown table of a list of cases.
function M.table(list)
  local lines = {
    "| case, ns of CPU | plain Lua | lio, module | ratio | lio, executable | ratio | target | met |",
    "|---|---|---|---|---|---|---|---|",
  }
  for _, one in ipairs(list) do lines[#lines + 1] = line(one) end
  return table.concat(lines, "\n") .. "\n"
end

return M
