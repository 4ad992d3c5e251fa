-- Skynet's services on the scheduler's: how they begin, find each other and end. Called through
-- lualib/skynet.lua.

local ltask = require "ltask"
local core = require "ltask.core"
local task = require "lio.task"
local launch = require "skynet.launch"
local message = require "skynet.message"
local names = require "skynet.names"
local trace = require "skynet.trace"

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
    source = "return require 'skynet.launch'.run(...)",
    chunkname = "=skynet.launch",
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

-- Functions of modules, to be run before the start function.
local inits = {}
local listens, started = false, false

-- `init(f)`: `f` runs before the function of `start`, or at once when that has run.
function M.init(f)
  if started then return f() end
  inits[#inits + 1] = f
end

local function run(f)
  for _, init in ipairs(inits) do init() end
  started, inits = true, {}
  f()
end

-- What a service of the program waits on that is no request: see `start`.
local SCRIPT <const> = "skynet.start"

-- `start(f)`: makes this a service of skynet's, and runs `f` when its file has run: see skynet.launch. In a
-- service that was not made by `newservice` or `skynet.start`, `f` runs at once; in a script the call ends with
-- the service.
function M.start(f)
  if not ltask.call then
    error("skynet.start: outside of a service; a system is booted by require 'skynet.start'", 2)
  end
  if type(f) ~= "function" then
    error(("bad argument #1 to 'start' (function expected, got %s)"):format(type(f)), 2)
  end
  if listens then error("skynet.start: called a second time", 2) end
  listens = true
  -- Skynet's mailboxes have no bound.
  ltask.on_full "wait"
  trace.listen()
  message.listen()
  if launch.loading then
    launch.first = function() run(f) end
    return
  end
  local is_request = launch.enter()
  run(f)
  launch.leave()
  if not is_request then task.wait(SCRIPT) end
end

-- `exit()`: ends this service, and does not return. Its coroutines are closed, and who waits for it gets an error.
function M.exit()
  message.stop()
  launch.answer()
  task.kill_all()
  ltask.quit()
  task.wait "skynet.exit"
end

-- `kill(addr)` → whether there was such a service; it ends.
function M.kill(addr)
  local id = names.resolve(addr)
  return id ~= nil and ltask.call(ROOT, "kill", id)
end

-- `abort()`: ends the whole system.
function M.abort()
  ltask.send(ROOT, "quit_ltask")
end

-- `error(…)`: a line of the log, the values with spaces between them.
function M.error(...)
  local list = table.pack(...)
  for i = 1, list.n do list[i] = tostring(list[i]) end
  core.log("info", table.concat(list, " "))
end

return M
