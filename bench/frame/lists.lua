-- Suites whose cases stand in a list of their own, bench/NAME/cases.lua, with a report beside it. For
-- suites/coroutine.lua and suites/ltask.lua.

local process = require "frame.process"

local M = {}

-- A module of bench/FOLDER. Not by `require`: its name is that of others in other folders.
function M.load(folder, name)
  return assert(loadfile(("%s%s/%s.lua"):format(process.here, folder, name)))()
end

-- Marks each of `list` that has been run with `results`, what its rounds gave. Returns those, in that order.
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
