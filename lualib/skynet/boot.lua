-- How a service of skynet starts and ends. First its file runs, then the function that the file has passed to `start`.
-- A service whose file does not call `start` is a plain service of the scheduler. Used by skynet.lifecycle,
-- skynet.start and lualib/skynet.lua.
--
-- Invariant: `newservice` returns when the file and the start function have run, or when the service has called `exit`.

local ltask = require "ltask"
local core = require "ltask.core"

local M = {}

local running <const> = coroutine.running

local RESPONSE <const> = 2

-- The module skynet.trace, once this service has used tracing; until then false, so that a service that is not traced
-- has no overhead.
M.trace = false
-- Whether `exit` was called.
M.exiting = false
-- The coroutine that runs the service's file or its start function.
M.starter = nil
-- While the service starts: the session and the sender of root's request to start it, which is answered afterwards.
M.session = nil
local sender

-- Records that the running coroutine starts the service. Returns whether the coroutine handles root's request to start
-- the service.
local function begin()
  sender, M.session = core.current()
  if M.session == 0 then M.session = nil end
  return M.session ~= nil
end

local function end_begin()
  M.session = nil
end

-- `is_loading`: whether the service's main function is running. `start_function`: the function that runs after the main
-- function, or nil.
local is_loading, start_function = false, nil

local function check_loaded(f, problem)
  if not f then error(problem, 0) end
  return f
end

-- Runs the main function of a service, then its start function. Returns the result of the main function.
local function run_main(name, main, ...)
  rawset(_G, "SERVICE_NAME", name)
  -- The embedded module is precompiled. Files on `package.path` and modules of the preload script take precedence.
  if not package.loaded.skynet and not package.searchpath("skynet", package.path) then
    package.loaded.skynet = core.load_embedded "skynet"()
  end
  begin()
  M.starter = running()
  is_loading = true
  local handlers = main(...)
  is_loading = false
  if start_function then start_function() end
  M.starter = nil
  end_begin()
  return handlers
end

-- `run(file, name, …)`: runs a service's file. Returns its result.
function M.run(file, name, ...)
  return run_main(name, check_loaded(loadfile(file)), ...)
end

-- `run_embedded(module, name, …)`: runs the file of a service that is a part of the library. Returns its result.
function M.run_embedded(module, name, ...)
  local file = package.searchpath(module, package.path)
  return run_main(name, file and check_loaded(loadfile(file)) or core.load_embedded(module), ...)
end

-- `run_code(code, name, …)`: runs a service's main function. `code` is its source or its binary chunk. Returns its
-- result.
function M.run_code(code, name, ...)
  return run_main(name, check_loaded(load(code, "=" .. name)), ...)
end

local function check_function(call, f)
  if type(f) ~= "function" then require("skynet.argument").check_function(call, f) end
end

-- The functions passed to `init`. They run before the start function.
local inits = {}
local is_start_called, is_started = false, false

-- `init(f)`: runs `f` before the start function, or at once if the start function has begun.
function M.init(f)
  check_function("init", f)
  if is_started then return f() end
  inits[#inits + 1] = f
end

local function run_with_inits(f, ...)
  for _, init in ipairs(inits) do init() end
  is_started, inits = true, {}
  return f(...)
end

-- `pcall(f, …)`: runs the functions of `init`, then `f`. Returns the results of `xpcall`; an error message includes a
-- traceback.
function M.pcall(f, ...)
  return xpcall(run_with_inits, debug.traceback, f, ...)
end

-- The token on which `start` waits in a script. `skynet.task` does not list the coroutine that waits on it.
local SCRIPT <const> = "skynet.start"
M.SCRIPT = SCRIPT

local function check_start(f)
  if not ltask.call then
    error("skynet.start: called outside of a service; to boot a system, use require 'skynet.start'", 3)
  end
  check_function("start", f)
  if is_start_called then error("skynet.start: called a second time", 3) end
end

-- `start(f)`: makes this a service of skynet, and runs `f` after the service's file. If the service was not created by
-- a function of skynet, such as `newservice`, `f` runs at once. In a script, the call does not return while the service
-- runs.
function M.start(f)
  check_start(f)
  is_start_called = true
  -- In skynet, mailboxes are unbounded, so a send never fails because a mailbox is full.
  ltask.on_full "wait"
  core.report_overload()
  core.use_callbacks "skynet.callbacks"
  ltask.dispatch {
    debug = function(...) return require "skynet.debug".command(...) end,
    ["skynet.redirect"] = function(...) return require "skynet.redirect".first(...) end,
    ["skynet.raw"] = function(...) return require "skynet.protocol".receive(...) end,
    ["skynet.trace"] = function(tag) require "skynet.trace".expect(core.current(), tag) end,
  }
  if is_loading then
    start_function = function() run_with_inits(f) end
    return
  end
  local is_request = begin()
  run_with_inits(f)
  end_begin()
  if not is_request then ltask.wait(SCRIPT) end
end

-- `exit()`: ends this service, and does not return. Its coroutines are closed, and its open requests fail with
-- `{service:N} is dead`.
function M.exit()
  M.exiting = true
  -- If the service is still starting, answer root's request, so that the creator of the service gets no error.
  if M.session then core.post(sender, M.session, RESPONSE) end
  end_begin()
  core.exiting()
  require "lio.task".kill_all()
  ltask.quit()
  ltask.wait "skynet.exit"
end

return M
