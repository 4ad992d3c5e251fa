-- Creates, finds and ends other services. Used by lualib/skynet.lua.

local ltask = require "ltask"

local M = {}

local ROOT <const> = 1

-- Loads the module only when a check fails.
local function misuse() return require "lio.misuse" end

local function check_name(call, name)
  if type(name) == "string" then return end
  misuse().raise(("%s: a service's name expected, got %s"):format(call, misuse().shown(name)))
end

-- Sends root a request, and returns the answer. `call` is the name of the function that the program has called. The
-- callers do not use a tail call, so that the traceback of an error contains their names.
local function ask_root(call, ...)
  return require("ltask.root_client").check_answer(call, pcall(ltask.call, ROOT, ...))
end

-- The services of skynet that are a part of the library: the module of each.
local EMBEDDED <const> = {
  console = "skynet.console", debug_console = "skynet.debug_console", gate = "skynet.gate",
}

-- Creates a service from a file on the service path. If there is no such file, creates an embedded service of skynet,
-- or passes the name to the scheduler, which starts its embedded service of that name or raises an error that lists the
-- files that it has tried.
local function spawn(call, name, ...)
  local is_unique <const> = call == "uniqueservice"
  check_name(call, name)
  local file = package.searchpath(name, ask_root(call, "servicepath"))
  local embedded = not file and EMBEDDED[name]
  if not file and not embedded then
    return ask_root(call, is_unique and "uniqueservice" or "spawn", name, ...)
  end
  return ask_root(call, "spawn_service", {
    name = name,
    unique = is_unique,
    source = ("return require 'skynet.boot'.%s(...)"):format(file and "run" or "run_embedded"),
    chunkname = "=skynet.boot",
    args = table.pack(file or embedded, name, ...),
  })
end

-- `newservice(name, …)`: creates a service, whose file gets the other arguments. Returns the service's address when its
-- start function has returned. Raises the error from its file or start function.
function M.newservice(name, ...)
  return (spawn("newservice", name, ...))
end

-- `uniqueservice([true, ]name, …)`: returns the address of the unique service of that name. Creates it if there is
-- none.
function M.uniqueservice(name, ...)
  if name == true then return (spawn("uniqueservice", ...)) end
  return (spawn("uniqueservice", name, ...))
end

-- `queryservice([true, ]name)`: waits until a service has that name, and returns its address.
function M.queryservice(...)
  local name, other = ...
  if name == true then name = other end
  check_name("queryservice", name)
  return (ask_root("queryservice", "queryservice", name))
end

-- `kill(addr)`: makes a service quit. Returns true, or false if there is no such service or it was killed before.
function M.kill(addr)
  local id = require "skynet.names".resolve(addr)
  return id ~= nil and ltask.call(ROOT, "kill", id)
end

-- `abort()`: ends the whole system.
function M.abort()
  ltask.send(ROOT, "quit_ltask")
end

return M
