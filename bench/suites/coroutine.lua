-- Suite `coroutine`: the cases of coroutine/cases.lua. Each turn runs three new processes: a stock interpreter, the
-- same interpreter with the module, and the executable.

local case_lists = require "harness.case_lists"
local process = require "harness.process"

local SECONDS <const> = 60 -- the time limit of a process

local list, report = case_lists.load("coroutine", "cases"), case_lists.load("coroutine", "report")

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
        what = ("%s: ratio to plain Lua, %s"):format(one.what:match "^%s*(.*)", host), of = "all",
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
  return report.table(case_lists.measured(list, result))
end

return M
