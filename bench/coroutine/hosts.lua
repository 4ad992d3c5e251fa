-- Who runs a case: plain Lua's coroutines in a stock interpreter, ours in the same interpreter and in this
-- executable. For run.lua and instructions.lua, which this executable runs.
--
-- LUA54 names the stock interpreter ("lua5.4"); it loads build/lio.so.

local rounds = require "rounds"
local quote = rounds.quote

local here = debug.getinfo(1, "S").source:match "^@(.*)hosts%.lua$"
local stock = quote(os.getenv "LUA54" or "lua5.4")
local child = quote(here .. "child.lua")

local M = {
  { name = "plain", program = stock, whose = "plain", setting = "" },
  { name = "module", program = stock, whose = "ours", setting = "LUA_CPATH=" .. quote(here .. "../../build/?.so") },
  { name = "executable", program = quote(arg[-1]), whose = "ours", setting = "" },
}

-- The command line that does a case `times` times in a host; `under`: the words of a program that is to run it.
function M.command(host, one, times, under)
  local case = host.whose == "plain" and "switches." .. one.plain or one.case
  return ("env %s %s %s %s %s %s %d %s"):format(host.setting, under or "", host.program, child, host.whose,
    case, times, one.outside and "outside" or "")
end

return M
