-- Skynet's words for other services on the scheduler's: how they are made, found and ended. Called through
-- lualib/skynet.lua.

local ltask = require "ltask"

local M = {}

local ROOT <const> = 1

-- Makes a service of a file of the service path. What is not found there is the scheduler's business: a service
-- that is built in, or the error that tells where it was looked for.
local function spawn(unique, name, ...)
  if type(name) ~= "string" then
    error(("a service's name expected, got %s"):format(type(name)), 3)
  end
  local file = package.searchpath(name, ltask.call(ROOT, "servicepath"))
  if not file then return ltask.call(ROOT, unique and "uniqueservice" or "spawn", name, ...) end
  return ltask.call(ROOT, "spawn_service", {
    name = name,
    unique = unique,
    source = "return require 'skynet.boot'.run(...)",
    chunkname = "=skynet.boot",
    args = table.pack(file, name, ...),
  })
end

-- `newservice(name, …)` → the address of a new service, whose file gets the further arguments, when its start
-- function has returned. Raises what it raised.
function M.newservice(name, ...)
  return spawn(nil, name, ...)
end

-- `uniqueservice([true, ]name, …)` → the address of the one service of that name, made if need be.
function M.uniqueservice(name, ...)
  if name == true then return spawn(true, ...) end
  return spawn(true, name, ...)
end

-- `queryservice([true, ]name)` → its address; waits until there is one.
function M.queryservice(...)
  local name, other = ...
  if name == true then name = other end
  return ltask.call(ROOT, "queryservice", name)
end

-- `kill(addr)` → whether there was such a service; it ends.
function M.kill(addr)
  local id = require "skynet.names".resolve(addr)
  return id ~= nil and ltask.call(ROOT, "kill", id)
end

-- `abort()`: ends the whole system.
function M.abort()
  ltask.send(ROOT, "quit_ltask")
end

return M
