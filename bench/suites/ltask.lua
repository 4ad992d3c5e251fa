-- Suite `ltask`: the cases of the scheduler in ltask/cases.lua. Each turn runs in a new process.

local case_lists = require "harness.case_lists"
local process = require "harness.process"

local SECONDS <const> = 60 -- the time limit of a process

local list, report = case_lists.load("ltask", "cases"), case_lists.load("ltask", "report")

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

function M.tables(result)
  return report.table(case_lists.measured(list, result))
end

return M
