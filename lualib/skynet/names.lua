-- Names of services (global names, and names that begin with a dot), and the values of `getenv`. A service,
-- lualib/skynet/registry_service.lua, stores them; the first request starts this service. Used by the other files of
-- this folder.

local argument = require "skynet.argument"
local ltask = require "ltask"

local M = {}

local ROOT <const> = 1

local registry -- the address of the service
local addresses = {} -- name: the address of a service, which may have died

-- `ask(…)`: sends a request to the registry, and returns the answer.
function M.ask(...)
  registry = registry or ltask.call(ROOT, "spawn_service", {
    name = "skynet.registry",
    source = "return require 'skynet.registry_service'",
    chunkname = "=skynet.registry",
    unique = true,
  })
  return ltask.call(registry, ...)
end
local ask <const> = M.ask

-- Raises unless `name` can be the name of a service. Numbers and strings such as ":0000000a" are addresses, not names.
local function check_name(name, call)
  if type(name) ~= "string" or name == "" or name:sub(1, 1) == ":" or tonumber(name) then
    error(("%s: a name expected, such as \".name\" or \"NAME\", got '%s'"):format(call, tostring(name)), 3)
  end
end

local function find(name)
  local id = addresses[name]
  if id and ltask.touch_service(id) then return id end
  addresses[name] = ask("get", name)
  return addresses[name]
end

-- `localname(name)`: returns the address of the service with that name, or nil.
function M.localname(name)
  check_name(name, "localname")
  return find(name)
end

-- `name(name, addr)`: gives a service a name, which the service keeps until it ends. Raises if the name is taken.
function M.name(name, addr)
  check_name(name, "name")
  local id = M.resolve(addr)
  if not id then error(("name: there is no service '%s'"):format(tostring(addr)), 2) end
  ask("set", name, id)
end

-- `register(name)`: gives this service a name.
function M.register(name)
  check_name(name, "register")
  ask("set", name, ltask.self())
end

-- `resolve(addr)`: returns an address in any form (number, ":0000000a", ".name", "NAME") as a number, or nil.
function M.resolve(addr)
  if math.type(addr) == "integer" then return addr end
  if type(addr) ~= "string" or addr == "" then return nil end
  if addr:sub(1, 1) ~= ":" then return find(addr) end
  local digits = addr:match "^:(%x+)$"
  return digits and tonumber(digits, 16)
end

local function get(key)
  local config = package.loaded["skynet.env"]
  local value = config and config[key]
  if value ~= nil then return value end
  return ask("getenv", key)
end

-- `getenv(key)`: returns the string that the configuration or `setenv` has set for the key, or nil.
function M.getenv(key)
  argument.check_key("getenv", key)
  return get(key)
end

-- `setenv(key, value)`: sets a value for all services. Raises if the key already has a value.
function M.setenv(key, value)
  argument.check_key("setenv", key)
  if get(key) ~= nil then error(("setenv: the key '%s' is already set"):format(tostring(key)), 2) end
  ask("setenv", key, tostring(value))
end

return M
