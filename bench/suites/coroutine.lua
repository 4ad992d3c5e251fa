-- Suite `coroutine`: the cases of coroutine/cases.lua, each turn in fresh processes of plain Lua, of the same
-- interpreter with the module, and of the executable.

local process = require "frame.process"

local SECONDS <const> = 60 -- for one process

-- The modules of bench/coroutine, whose names are those of other folders as well.
local function load(name)
  return assert(loadfile(process.here .. "coroutine/" .. name .. ".lua"))()
end

local list, report = load "cases", load "report"

local M = {
  title = "Coroutines",
  columns = { { "plain", "plain" }, { "ratio_module", "module" }, { "ratio_executable", "executable" } },
  cases = {},
}

function M.needs()
  if not process.succeeds((os.getenv "LUA54" or "lua5.4") .. " -v") then
    return "needs a stock interpreter (Debian package: lua5.4)"
  end
  if process.text(process.here .. "../build/lio.so") == "" then return "needs build/lio.so: make module" end
end

for i, one in ipairs(list) do
  local targets
  if one.most then
    targets = {}
    for j, host in ipairs { "module", "executable" } do
      targets[j] = {
        what = ("%s: over plain Lua's, %s"):format(one.what:match "^%s*(.*)", host), of = "all",
        figure = "ratio_" .. host, most = one.most,
      }
    end
  end
  M.cases[i] = {
    name = one.name, what = one.what, targets = targets, turn_seconds = 2,
    contenders = { {
      name = "all",
      turn = function()
        local row, problem = report.turn(one, SECONDS)
        process.check()
        return row or error(problem, 0)
      end,
    } },
  }
end

function M.tables(result)
  local by_name, measured = {}, {}
  for _, one in ipairs(list) do by_name[one.name] = one end
  for i, case in ipairs(result.cases) do
    local one = by_name[case.name]
    one.results = {}
    for _, row in ipairs(case.contenders[1].rounds) do
      if row then table.insert(one.results, row) end
    end
    measured[i] = one
  end
  return report.table(measured)
end

return M
