-- Names of services, with a point at their begin and without, and the values of `getenv`: one service keeps them,
-- which is started at the first use. Called by the other files here; the service itself is
-- lualib/skynet/registry_service.lua.

local ltask = require "ltask"

local M = {}

local ROOT <const> = 1

local registry -- address of the service
local known = {} -- name → address, as long as that one lives

local function ask(...)
  registry = registry or ltask.call(ROOT, "spawn_service", {
    name = "skynet.registry",
    source = "return require 'skynet.registry_service'",
    chunkname = "=skynet.registry",
    unique = true,
  })
  return ltask.call(registry, ...)
end

M.ask = ask

-- Neither a number nor ":0000000a": those are addresses.
local function check(name, call)
  if type(name) ~= "string" or name == "" or name:sub(1, 1) == ":" or tonumber(name) then
    error(("%s: a name expected, as \".name\" or \"NAME\", got '%s'"):format(call, tostring(name)), 3)
  end
end

local function find(name)
  local id = known[name]
  if id and ltask.touch_service(id) then return id end
  known[name] = ask("get", name)
  return known[name]
end

-- `localname(name)` → the address of the service with that name, or nil.
function M.localname(name)
  check(name, "localname")
  return find(name)
end

-- `name(name, addr)`: gives a service a name, for as long as it lives. Raises when the name is taken.
function M.name(name, addr)
  check(name, "name")
  local id = M.resolve(addr)
  if not id then error(("name: there is no service '%s'"):format(tostring(addr)), 2) end
  ask("set", name, id)
end

-- `register(name)`: the same for this service.
function M.register(name)
  check(name, "register")
  ask("set", name, ltask.self())
end

-- An address in any of its forms (number, ":0000000a", ".name", "NAME") as a number, or nil.
function M.resolve(addr)
  if math.type(addr) == "integer" then return addr end
  if type(addr) ~= "string" or addr == "" then return nil end
  if addr:sub(1, 1) ~= ":" then return find(addr) end
  local digits = addr:match "^:(%x+)$"
  return digits and tonumber(digits, 16)
end

-- `getenv(key)` → a string of the configuration or of `setenv`, or nil.
function M.getenv(key)
  local config = package.loaded["skynet.env"]
  local value = config and config[key]
  if value ~= nil then return value end
  return ask("getenv", key)
end

-- `setenv(key, value)`: once for each key, in all services.
function M.setenv(key, value)
  if M.getenv(key) ~= nil then error(("setenv: the key '%s' is set already"):format(tostring(key)), 2) end
  ask("setenv", key, tostring(value))
end

return M
