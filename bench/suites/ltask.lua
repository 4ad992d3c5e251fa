-- Suite `ltask`: the scheduler's cases of ltask/cases.lua, each turn in a fresh process.

local process = require "frame.process"

local SECONDS <const> = 60 -- for one process

-- The modules of bench/ltask, whose names are those of other folders as well.
local function load(name)
  return assert(loadfile(process.here .. "ltask/" .. name .. ".lua"))()
end

local list, report = load "cases", load "report"

local M = { title = "The scheduler", columns = {}, cases = {} }

for i, one in ipairs(list) do
  local columns, targets = {}, {}
  for _, row in ipairs(one.rows) do
    columns[#columns + 1] = { row[2], row[2] }
    if row.least or row.most then
      targets[#targets + 1] = {
        what = row[1], of = "lio", figure = row[2], least = row.least, most = row.most, unit = row[3],
      }
    end
  end
  M.cases[i] = {
    name = one.name, what = one.rows[1][1], columns = columns, targets = targets, turn_seconds = 3,
    contenders = { {
      name = "lio",
      turn = function()
        local figures, problem = report.measured(one, SECONDS)
        process.check()
        return figures or error(problem, 0)
      end,
    } },
  }
end

-- Marks each case with what was measured of it.
function M.tables(result)
  local by_name, measured = {}, {}
  for _, one in ipairs(list) do by_name[one.name] = one end
  for i, case in ipairs(result.cases) do
    local one = by_name[case.name]
    one.results = {}
    for _, figures in ipairs(case.contenders[1].rounds) do
      if figures then table.insert(one.results, figures) end
    end
    measured[i] = one
  end
  return report.table(measured)
end

return M
