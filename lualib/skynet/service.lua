-- `require "skynet.service"`: unique services that are created from a function instead of a file. Used by programs.
-- Another service, lualib/skynet/registry_service.lua, stores their names.

local ltask = require "ltask"
local names = require "skynet.names"

local M = {}

local addresses = {} -- name: the address of a service, which may have died

local function check_name(call, name)
  if type(name) == "string" then return end
  error(("bad argument #1 to '%s' (string expected, got %s)"):format(call, type(name)), 3)
end

-- Returns the code of a service's main function. The function runs in another VM, so it cannot refer to local variables
-- outside of the function.
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

-- `new(name, f, …)`: returns the address of the unique service of that name. If there is none, creates it: `f(…)` is
-- its main function, which calls `skynet.start`. Raises the error from the main function.
function M.new(name, f, ...)
  check_name("new", name)
  addresses[name] = names.ask("new_service", name, code_of(f), table.pack(...))
  return addresses[name]
end

-- `query(name)`: waits until a service has that name, and returns its address.
function M.query(name)
  check_name("query", name)
  local id = addresses[name]
  if id and ltask.touch_service(id) then return id end
  addresses[name] = names.ask("query_service", name)
  return addresses[name]
end

-- `close(name)`: ends the service of that name, and waits until it has ended. Returns whether there was such a service.
function M.close(name)
  check_name("close", name)
  addresses[name] = nil
  return names.ask("close_service", name)
end

return M
