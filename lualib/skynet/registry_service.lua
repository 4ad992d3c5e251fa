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

-- Services of skynet.service ------------------------------------------------------------------

local ROOT <const> = 1

local services = {} -- name → address
local starting = {} -- name → token of those that wait while it starts
local wanted = {} -- name → token of those that wait until there is one
local count = 0

local function living(name)
  local id = services[name]
  if id and not ltask.touch_service(id) then id = nil end
  services[name] = id
  return id
end

-- Each gets a name of its own at root, so that a closed one leaves its place at once.
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

-- `new_service(name, code, args)` → address of the one service of that name, made of the code when there is none.
-- While it starts, others wait for it, and get its error.
function S.new_service(name, code, args)
  local id = living(name)
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
  if wanted[name] then ltask.multi_wakeup(wanted[name], result) end
  wanted[name] = nil
  return result
end

-- `query_service(name)` → its address; waits until there is one.
function S.query_service(name)
  local id = living(name)
  if id then return id end
  wanted[name] = wanted[name] or {}
  return ltask.multi_wait(wanted[name])
end

-- `close_service(name)` → whether there was one: the name is free, and the service has ended.
function S.close_service(name)
  local id = living(name)
  if not id then return false end
  services[name] = nil
  ltask.call(ROOT, "kill", id)
  -- Raises at its end.
  pcall(ltask.syscall, id, "watch")
  return true
end

function S.getenv(key)
  return values[key]
end

function S.setenv(key, value)
  if values[key] ~= nil then error(("setenv: the key '%s' is set already"):format(tostring(key)), 0) end
  values[key] = value
end

return S
