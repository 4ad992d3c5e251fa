-- Runs one round of a case in all hosts, and makes the table of many. Shared by run.lua here and by the suite
-- `coroutine` of the bench. A case's rounds are in `results`.

local measure = require "measure"
local rounds = require "rounds"
local shown = rounds.shown

local here = debug.getinfo(1, "S").source:match "^@(.*)report%.lua$"
local hosts = assert(loadfile(here .. "hosts.lua"))()

local M = {}

-- The nanoseconds of a case in a host; nil and what went wrong when it failed.
local function measured(one, host, seconds)
  local figures, problem = rounds.figures(hosts.command(host, one, one.times), seconds)
  return figures and figures.each, problem
end

-- One round of a case, in processes that are ended after `seconds`: the nanoseconds by host, and the ratios to
-- plain Lua; nil and what went wrong when one failed.
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
    verdicts[#verdicts + 1] = rounds.verdict(one, ratio)
  end
  cells[#cells + 1] = rounds.target(one)
  cells[#cells + 1] = verdicts[1] == verdicts[2] and verdicts[1] or table.concat(verdicts, ", ")
  return "| " .. table.concat(cells, " | ") .. " |"
end

-- The table of the cases of a list.
function M.table(list)
  local lines = {
    "| case, ns of CPU | plain Lua | ours, module | ratio | ours, executable | ratio | target | met |",
    "|---|---|---|---|---|---|---|---|",
  }
  for _, one in ipairs(list) do lines[#lines + 1] = line(one) end
  return table.concat(lines, "\n") .. "\n"
end

return M
