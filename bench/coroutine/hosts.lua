-- The hosts of the cases: a stock interpreter with Lua's coroutines, the same interpreter with lio's coroutines, and
-- the executable that runs the calling script. Used by report.lua and instructions.lua.
--
-- LUA54 names the stock interpreter (default "lua5.4"), which loads build/lio.so.

local measure = require "measure"
local quote = measure.quote

local here = debug.getinfo(1, "S").source:match "^@(.*)hosts%.lua$"
local stock = quote(os.getenv "LUA54" or "lua5.4")
local child = quote(here .. "child.lua")

local M = {
  { name = "plain", program = stock, library = "plain", setting = "" },
  { name = "module", program = stock, library = "lio", setting = "LUA_CPATH=" .. quote(here .. "../../build/?.so") },
  { name = "executable", program = quote(arg[-1]), library = "lio", setting = "" },
}

-- Returns the command line that runs the case `one` in a host with `times` repetitions. If `prefix` is given, it is put
-- before the program.
function M.command(host, one, times, prefix)
  local case = host.library == "plain" and "switches." .. one.plain or one.case
  return ("env %s %s %s %s %s %s %d %s"):format(host.setting, prefix or "", host.program, child, host.library,
    case, times, one.outside and "outside" or "")
end

return M
