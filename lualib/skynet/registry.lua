-- The service behind skynet.names: names of services, and values that all services share. One of it is in a
-- system, started by skynet.names when it is first asked.

local ltask = require "ltask"

local S = {}

local names = {} -- name → address
local values = {} -- of `setenv`

-- `get(name)` → address of the living service with that name, or nil.
function S.get(name)
  local id = names[name]
  if id and not ltask.touch_service(id) then
    names[name] = nil
    return nil
  end
  return id
end

-- `set(name, id)`: raises when a living service has the name.
function S.set(name, id)
  local owner = S.get(name)
  if owner and owner ~= id then
    error(("the name '%s' is taken by the service :%08x"):format(name, owner), 0)
  end
  names[name] = id
end

function S.getenv(key)
  return values[key]
end

function S.setenv(key, value)
  if values[key] ~= nil then error(("setenv: the key '%s' is set already"):format(tostring(key)), 0) end
  values[key] = value
end

return S
