-- Creates, finds and ends other services. Used by lualib/skynet.lua.

local ltask = require "ltask"

local M = {}

local ROOT <const> = 1

-- Creates a service from a file on the service path. If there is no such file, passes the name to the scheduler, which
-- has embedded services, or raises an error that lists the files it has tried.
local function spawn(is_unique, name, ...)
  if type(name) ~= "string" then
    error(("a service's name expected, got %s"):format(type(name)), 3)
  end
  local file = package.searchpath(name, ltask.call(ROOT, "servicepath"))
  if not file then return ltask.call(ROOT, is_unique and "uniqueservice" or "spawn", name, ...) end
  return ltask.call(ROOT, "spawn_service", {
    name = name,
    unique = is_unique,
    source = "return require 'skynet.boot'.run(...)",
    chunkname = "=skynet.boot",
    args = table.pack(file, name, ...),
  })
end

-- `newservice(name, …)`: creates a service, whose file gets the other arguments. Returns the service's address when its
-- start function has returned. Raises the error of its file or start function.
function M.newservice(name, ...)
  return spawn(false, name, ...)
end

-- `uniqueservice([true, ]name, …)`: returns the address of the unique service of that name. Creates it if there is
-- none.
function M.uniqueservice(name, ...)
  if name == true then return spawn(true, ...) end
  return spawn(true, name, ...)
end

-- `queryservice([true, ]name)`: waits until a service has that name, and returns its address.
function M.queryservice(...)
  local name, other = ...
  if name == true then name = other end
  return ltask.call(ROOT, "queryservice", name)
end

-- `kill(addr)`: makes a service quit. Returns false if there is no such service, or it was killed before.
function M.kill(addr)
  local id = require "skynet.names".resolve(addr)
  return id ~= nil and ltask.call(ROOT, "kill", id)
end

-- `abort()`: ends the whole system.
function M.abort()
  ltask.send(ROOT, "quit_ltask")
end

return M
