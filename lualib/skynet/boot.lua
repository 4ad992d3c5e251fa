-- How a service of skynet's begins and ends: its file runs, then the function that the file gave to `start`. A file
-- without that is one of the scheduler's own. Called by root's request for a service of skynet.lifecycle, and through
-- lualib/skynet.lua.
--
-- Invariant: who made the service hears of it when all that has run, or when it calls `exit` before.

local ltask = require "ltask"
local core = require "ltask.core"

local M = {}

local running <const> = coroutine.running

local RESPONSE <const> = 2

-- The module skynet.trace, once something is followed here: until then nobody looks.
M.trace = false
-- Whether `exit` was called.
M.exiting = false
-- The coroutine that runs the service's file or its start function.
M.starter = nil

-- The begin of this service is a request, of root's: its session, until it is answered.
local from
M.session = nil

-- The begin of this service is the running request: who made it waits for its end. False in a task that
-- answers nobody.
local function enter()
  from, M.session = core.current()
  if M.session == 0 then M.session = nil end
  return M.session ~= nil
end

-- It has begun.
local function leave()
  M.session = nil
end

-- Whether the file runs now, and the function that is to run behind it.
local loading, first = false, nil

local function assert_loaded(f, problem)
  if not f then error(problem, 0) end
  return f
end

-- Runs a service's main function: returns what that returned.
local function run_main(name, f, ...)
  rawset(_G, "SERVICE_NAME", name)
  -- Loaded precompiled, unless the preload script has loaded it or there is a file of that name.
  if not package.loaded.skynet and not package.searchpath("skynet", package.path) then
    package.loaded.skynet = core.chunk "skynet"()
  end
  enter()
  M.starter = running()
  loading = true
  local handlers = f(...)
  loading = false
  if first then first() end
  M.starter = nil
  leave()
  return handlers
end

-- `run(file, name, …)` → what the file returned.
function M.run(file, name, ...)
  return run_main(name, assert_loaded(loadfile(file)), ...)
end

-- `run_code(code, name, …)`: the same with the main function as Lua code, text or binary.
function M.run_code(code, name, ...)
  return run_main(name, assert_loaded(load(code, "=" .. name)), ...)
end

-- Functions of modules, to be run before the start function.
local inits = {}
local listens, started = false, false

-- `init(f)`: `f` runs before the function of `start`, or at once when that has run.
function M.init(f)
  if started then return f() end
  inits[#inits + 1] = f
end

local function run(f, ...)
  for _, init in ipairs(inits) do init() end
  started, inits = true, {}
  return f(...)
end

-- `pcall(f, …)`: runs the functions of `init`, then `f`; results as those of `xpcall` with a traceback.
function M.pcall(f, ...)
  return xpcall(run, debug.traceback, f, ...)
end

-- What a service of the program waits on that is no request: see `start`.
local SCRIPT <const> = "skynet.start"
M.SCRIPT = SCRIPT

-- `start(f)`: makes this a service of skynet's, and runs `f` when its file has run. In a service that was not made
-- by `newservice` or `skynet.start`, `f` runs at once; in a script the call ends with the service.
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
  core.report_overload()
  core.use_hooks "skynet.hooks"
  ltask.dispatch {
    debug = function(...) return require "skynet.debug".command(...) end,
    ["skynet.trace"] = function(tag) require "skynet.trace".expect(core.current(), tag) end,
  }
  if loading then
    first = function() run(f) end
    return
  end
  local is_request = enter()
  run(f)
  leave()
  if not is_request then ltask.wait(SCRIPT) end
end

-- `exit()`: ends this service, and does not return. Its coroutines are closed, and who waits for it gets an error.
function M.exit()
  M.exiting = true
  -- If it had not begun, that is no failure.
  if M.session then core.post(from, M.session, RESPONSE) end
  leave()
  require "lio.task".kill_all()
  ltask.quit()
  ltask.wait "skynet.exit"
end

return M
