-- The root service: creates services, keeps their names, answers requests to dead services with an error, and ends the
-- system. This file gets the configuration from `ltask.start`, and starts the configured services.

local ltask = require "ltask"
local core = require "ltask.core"
local loading = require "ltask.root.loading"
local native = require "ltask.root"
local names = require "ltask.root.names"
local services = require "ltask.root.services"

local config = ...

local S = {}

-- If a mailbox is full, root waits, so that none of its messages is lost.
ltask.on_full "wait"
services.configure(config)

function ltask.signal_handler(id)
  names.remove_all(id)
  services.has_died(id)
end

-- Services ------------------------------------------------------------------------------------

-- `spawn(name, …)`, `spawn_service(t)`: create a service, and return its address.
function S.spawn(name, ...)
  return services.spawn_common { name = name, args = table.pack(...) }
end

local function spawn_service(t)
  if t.unique then return names.unique_service(t.name, t) end
  return services.spawn_common(t)
end

function S.spawn_service(t)
  if type(t) ~= "table" or type(t.name) ~= "string" then
    error("spawn_service: a table with a name expected", 0)
  end
  return spawn_service(t)
end

-- `uniqueservice(name, …)`: returns the address of the unique service of that name. Creates it if there is none.
function S.uniqueservice(name, ...)
  return names.unique_service(name, { name = name, args = table.pack(...) })
end

-- `queryservice(name)`: waits until a service has that name, and returns its address.
S.queryservice = names.wait_for

-- `register(name)`: gives the caller a name.
function S.register(name)
  local owner = names.find(name)
  if owner then error(("register: the name '%s' is taken by service %d"):format(tostring(name), owner), 0) end
  names.set(name, ltask.current_session().from)
end

-- `kill(id)`: makes a service quit. Returns whether the service existed and was not killed before.
S.kill = services.kill

-- `servicepath([path])`: sets the path of service files for later spawns. Returns the current path.
function S.servicepath(path)
  if path then config.service_path = path end
  return config.service_path
end

-- `in_file(call, …)`: the request `call`, if the caller's file waits for the answer.
function S.in_file(call, ...)
  local _ <close> = loading.wait(ltask.current_session().from, call, (...))
  return S[call](...)
end

-- `label(id)`: returns the label of a service, or nil.
S.label = services.label

-- `stat()`: returns the statistics of every service, by address.
function S.stat()
  local all = {}
  for _, id in ipairs(core.services()) do all[id] = core.stat(id) end
  return all
end

-- Messages from outside of the system ---------------------------------------------------------

-- The service that gets external messages. Until a service has registered as the receiver, the messages are kept.
local external_receiver
local kept_messages = {}

-- `on_external()`: makes the caller the receiver of external messages. It gets each message as its request `external`,
-- the kept messages first.
function S.on_external()
  external_receiver = ltask.current_session().from
  for _, message in ipairs(kept_messages) do ltask.send(external_receiver, "external", message) end
  kept_messages = {}
end

function S.external(message)
  if external_receiver then
    ltask.send(external_receiver, "external", message)
  else
    kept_messages[#kept_messages + 1] = message
  end
end

-- The end of the system -----------------------------------------------------------------------

-- `exit_code(n)`: sets what `ltask.start` returns.
function S.exit_code(code)
  native.set_exit_code(code)
end

-- `quit_ltask([grace])`: ends the system. Only workers of an app pass `grace` (seconds): they have waited before.
S.quit_ltask = services.end_system

-- Ends the system. Does not return, because root quits only after the other services.
function S.quit()
  services.end_system()
  ltask.wait {}
end

-- The start of the system ---------------------------------------------------------------------

-- Returns the result of `f(…)`. If `f` raises an error, raises it with the prefix `name`, which describes the failed
-- part of the configuration.
local function start_part(name, f, ...)
  local ok, result = pcall(f, ...)
  if not ok then error(name .. ": " .. tostring(result), 0) end
  return result
end

local function start_logger(logger)
  services.set_logger(names.unique_service(logger.name, logger))
end

local function start_exclusive(one)
  services.add(one.id, one.name)
  services.init(one.id, one)
  names.set(one.name, one.id)
end

local function run_initfunc(code)
  local f, problem = load(code, "=root_initfunc")
  if not f then error(problem, 0) end
  f(S)
end

local function start_all()
  local logger = config.logger
  if logger then start_part(("the logger '%s'"):format(logger.name), start_logger, logger) end
  for _, one in ipairs(config.exclusive) do
    start_part(("the exclusive service '%s'"):format(one.name), start_exclusive, one)
  end
  if config.root_initfunc then start_part("root_initfunc", run_initfunc, config.root_initfunc) end
  -- Keep the system running until all services have started: a service that ends at once must not end the system.
  services.hold()
  for _, one in ipairs(config.bootstrap) do
    -- An earlier service may have ended the system.
    if services.is_ending() then return end
    start_part(("the bootstrap service '%s'%s"):format(one.name, one.note or ""), spawn_service, one)
  end
  services.release()
end

ltask.fork(function()
  local ok, problem = pcall(start_all)
  if not ok and not services.was_cut_short(problem) then
    -- `ltask.start` raises this error.
    core.fail_boot(problem)
    services.end_system()
  end
end)

return S
