-- `require "skynet.service"`: unique services that are made of a function instead of a file. Called by programs. One
-- service keeps their names: lualib/skynet/registry_service.lua.

local ltask = require "ltask"
local names = require "skynet.names"

local M = {}

local known = {} -- name → address, as long as that one lives

local function check_name(call, name)
  if type(name) == "string" then return end
  error(("bad argument #1 to '%s' (string expected, got %s)"):format(call, type(name)), 3)
end

-- The function runs in another VM: what it refers to does not go along.
local function code_of(f)
  if type(f) == "string" then return f end
  if type(f) ~= "function" then
    error(("bad argument #2 to 'new' (function expected, got %s)"):format(type(f)), 3)
  end
  local i = 1
  local name = debug.getupvalue(f, i)
  while name do
    if name ~= "_ENV" then
      error(("bad argument #2 to 'new' (the function runs in another VM and must not refer to the local '%s')")
        :format(name), 3)
    end
    i = i + 1
    name = debug.getupvalue(f, i)
  end
  return string.dump(f)
end

-- `new(name, f, …)` → address of the one service of that name. When there is none, it is made: `f(…)` is its main
-- function, which calls `skynet.start`. Raises what that raised.
function M.new(name, f, ...)
  check_name("new", name)
  known[name] = names.ask("new_service", name, code_of(f), table.pack(...))
  return known[name]
end

-- `query(name)` → its address; waits until there is one.
function M.query(name)
  check_name("query", name)
  local id = known[name]
  if id and ltask.touch_service(id) then return id end
  known[name] = names.ask("query_service", name)
  return known[name]
end

-- `close(name)` → whether there was one; it has ended then.
function M.close(name)
  check_name("close", name)
  known[name] = nil
  return names.ask("close_service", name)
end

return M
