-- Shared code of the suites whose cases are in bench/NAME/cases.lua and whose table comes from bench/NAME/report.lua:
-- suites/coroutine.lua and suites/ltask.lua.

local process = require "harness.process"

local M = {}

-- Loads the module bench/FOLDER/NAME.lua. Does not use `require`, because several folders have modules of the same
-- name.
function M.load(folder, name)
  return assert(loadfile(("%s%s/%s.lua"):format(process.here, folder, name)))()
end

-- Returns the cases of `list` that have been run, in the order of `result`. Sets the field `results` of each case to
-- the results of its successful rounds.
function M.measured(list, result)
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
  return measured
end

return M
