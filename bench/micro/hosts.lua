-- The hosts of the cases of bench/micro: the executable, and a stock interpreter with build/lio.so. Used by the suite
-- and by instructions.lua. LUA54 names the stock interpreter (default "lua5.4").

local measure = require "measure"
local quote = measure.quote

local M = {}

local function is_there(path)
  local file <close> = io.open(path)
  return file ~= nil
end

-- Returns the list of hosts. `lio` is the path of the executable, `bench` the path of the folder `bench` with a slash
-- at the end. A host has `name`, `missing` (nil, or the reason why the host is not available) and `command(case,
-- option, prefix)`, which returns the command line of child.lua. If `prefix` is given, it is put before the program.
function M.list(lio, bench)
  local child = quote(bench .. "micro/child.lua")
  local stock = quote(os.getenv "LUA54" or "lua5.4")
  local function host(name, setting, program, missing)
    return {
      name = name,
      missing = missing,
      command = function(case, option, prefix)
        return ("env %s %s %s %s %s %s"):format(setting, prefix or "", program, child, case, option)
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
