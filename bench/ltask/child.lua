-- Runs one case of bench/ltask: measures plain Lua, and then boots a system whose main service is the case. The case
-- prints its results with figures.lua.
--
--   lio bench/ltask/child.lua CASE [name=value ...]
--
-- `worker`, `queue` and `full` are passed to the scheduler, all other values to the case. `plain=1` skips the
-- measurement of plain Lua, for use with a profiler.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. here .. "../?.lua;" .. package.path

local CORE <const> = { worker = true, queue = true, full = true }

local core, options = { worker = 1 }, {}
for i = 2, #arg do
  local name, value = arg[i]:match "^([%w_]+)=(.*)$"
  if not name then error("name=value expected, got " .. arg[i], 0) end
  local t = CORE[name] and core or options
  t[name] = math.tointeger(value) or value
end

if not options.plain then require "plain_lua" () end
io.stdout:flush()

local code = require "ltask.start" {
  core = core,
  service_path = here .. "service/?.lua;" .. here .. "case/?.lua",
  lua_path = package.path,
  lua_cpath = package.cpath,
  bootstrap = { { name = arg[1], args = { options } } },
}
os.exit(code, true)
