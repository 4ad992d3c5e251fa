-- Who runs the cases of bench/micro: the executable, and a stock interpreter with build/lio.so. For the suite and for
-- instructions.lua. LUA54 names the stock interpreter ("lua5.4").

local rounds = require "rounds"
local quote = rounds.quote

local M = {}

local function is_there(path)
  local file <close> = io.open(path)
  return file ~= nil
end

-- The hosts, for `lio`, the path of an executable, and `bench`, the folder above this one with a slash at its end. A
-- list of `name`, `missing` (why the host is not to be had, else nil) and `command(case, option, under)`: the command
-- line of child.lua, in which `under` are words before the program.
function M.list(lio, bench)
  local child = quote(bench .. "micro/child.lua")
  local stock = quote(os.getenv "LUA54" or "lua5.4")
  local function host(name, setting, program, missing)
    return {
      name = name,
      missing = missing,
      command = function(case, option, under)
        return ("env %s %s %s %s %s %s"):format(setting, under or "", program, child, case, option)
      end,
    }
  end
  local folder = bench .. "../build/"
  return {
    host("executable", "", quote(lio)),
    host("module", "LUA_CPATH=" .. quote(folder .. "?.so"), stock,
      not is_there(folder .. "lio.so") and "needs build/lio.so (make module)" or nil),
  }
end

return M
