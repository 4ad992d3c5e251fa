-- The service that stores the names of services, and the values of `setenv`, for all services. A system has one;
-- skynet.names starts it at the first request.

local ltask = require "ltask"

local S = {}

-- Returns the address under that name. If the service has died, removes the address and returns nil.
local function find(addresses, name)
  local id = addresses[name]
  if id and not ltask.touch_service(id) then id = nil end
  addresses[name] = id
  return id
end

local ROOT <const> = 1

local names = {} -- name: an address

-- The name of skynet's launcher, which starts when its name is first used.
local LAUNCHER <const> = ".launcher"

local function start_launcher()
  return ltask.call(ROOT, "spawn_service", {
    name = LAUNCHER,
    source = "return require 'skynet.boot'.run_embedded('skynet.launcher', ...)",
    chunkname = "=skynet.boot",
    unique = true,
    args = { LAUNCHER },
  })
end

-- `get(name)`: returns the address of the service with that name, or nil.
function S.get(name)
  return find(names, name) or name == LAUNCHER and start_launcher() or nil
end

-- `set(name, id)`: gives a service a name. Raises if another service has the name.
function S.set(name, id)
  local owner = S.get(name)
  if owner and owner ~= id then
    error(("the name '%s' is taken by the service :%08x"):format(name, owner), 0)
  end
  names[name] = id
end

-- Services of skynet.service ------------------------------------------------------------------

local services = {} -- name: an address
local starting = {} -- name: the token on which requests for a starting service wait
local queried = {} -- name: the token on which requests wait until a service has the name
local count = 0

-- Passes root a name that is never used again, so that a service of the same name can start as soon as the old service
-- is closed.
local function start_service(name, code, args)
  count = count + 1
  return ltask.call(ROOT, "spawn_service", {
    name = ("skynet.service %d %s"):format(count, name),
    label = name,
    unique = true,
    source = "return require 'skynet.boot'.run_code(...)",
    chunkname = "=skynet.boot",
    args = table.pack(code, name, table.unpack(args, 1, args.n)),
  })
end

-- `new_service(name, code, args)`: returns the address of the unique service of that name. If there is none, creates it
-- from the code. While the service starts, further requests for it wait. If the service fails to start, these requests
-- get the same error.
function S.new_service(name, code, args)
  local id = find(services, name)
  if id then return id end
  if starting[name] then return ltask.multi_wait(starting[name]) end
  local token = {}
  starting[name] = token
  local ok, result = pcall(start_service, name, code, args)
  starting[name] = nil
  if not ok then
    ltask.multi_interrupt(token, result)
    error(result, 0)
  end
  services[name] = result
  ltask.multi_wakeup(token, result)
  if queried[name] then ltask.multi_wakeup(queried[name], result) end
  queried[name] = nil
  return result
end

-- `query_service(name)`: waits until a service has that name, and returns its address.
function S.query_service(name)
  local id = find(services, name)
  if id then return id end
  queried[name] = queried[name] or {}
  return ltask.multi_wait(queried[name])
end

-- `close_service(name)`: ends the service of that name, and waits until it has ended. Returns whether there was such a
-- service.
function S.close_service(name)
  local id = find(services, name)
  if not id then return false end
  services[name] = nil
  ltask.call(ROOT, "kill", id)
  -- `watch` raises an error when the service has ended.
  pcall(ltask.syscall, id, "watch")
  return true
end

-- Values of `setenv` --------------------------------------------------------------------------

local values = {}

function S.getenv(key)
  return values[key]
end

function S.setenv(key, value)
  if values[key] ~= nil then error(("setenv: the key '%s' is already set"):format(tostring(key)), 0) end
  values[key] = value
end

return S
