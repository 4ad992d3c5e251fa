-- Creates the services of a system, removes those that have died, and decides when the system ends. Used only by the
-- root service.
--
-- The system ends when no common service is left, or on request: then the remaining services quit
-- (root/shutdown.lua). A common service is one that is not unique.

local ltask = require "ltask"
local core = require "ltask.core"
local loading = require "ltask.root.loading"
local native = require "ltask.root"
local shutdown = require "ltask.root.shutdown"

local SCHEDULE_NEW <const>, SCHEDULE_DEL <const> = 0, 1 -- types of messages to service 0, the scheduler
local RECEIPT_RESPONSE <const> = 4
local SYSTEM <const>, ERROR <const> = 0, 3 -- types of messages

-- The error from `spawn` while the system is ending.
local IS_ENDING <const> = "the system is ending"

local M = {}

local config
local main_chunk <const> = core.main_chunk()
-- The keys of these tables are the services' addresses.
local labels, killed, is_common = {}, {}, {}
-- The number of calls of `hold` without a matching `release`: one for each common service, including those that are
-- starting, and one while root starts the configured services.
local common_count = 0
local is_ending = false
-- The address of the logger, once it has started.
local logger

-- `configure(config)`: sets the configuration that new services get.
function M.configure(root_config)
  config = root_config
  loading.configure(config.watchdog)
end

-- `set_logger(id)`: makes a service the logger, which quits last.
function M.set_logger(id)
  logger = id
end

-- `label(id)`: returns the label of a service, or nil.
function M.label(id)
  return labels[id]
end

-- `add(id, label)`: adds a service that `ltask.start` has created.
function M.add(id, label)
  labels[id] = label
end

-- The end of the system -----------------------------------------------------------------------

local function post_quit(id)
  return core.post(id, 0, SYSTEM, "quit")
end

-- `end_system([grace])`: makes the system end. `grace` is the number of seconds that the services have to end (default:
-- that of the configuration). Only the first call has an effect.
function M.end_system(grace)
  if is_ending then return end
  is_ending = true
  ltask.fork(function()
    shutdown.run { services = labels, logger = logger, grace = grace or config.grace, quit = post_quit }
  end)
end

-- `is_ending()`: returns whether the system is ending.
function M.is_ending()
  return is_ending
end

-- `was_cut_short(problem)`: returns whether the error `problem` of a service that failed to start only means that the
-- system is ending: the service quit during its start, or it could not spawn another service.
function M.was_cut_short(problem)
  problem = tostring(problem)
  return is_ending and (problem:find(IS_ENDING, 1, true) or problem:find "{service:%d+} is dead") ~= nil
end

-- `hold()`, `release()`: between the two calls, the system ends only on request, even if there are no common services.
function M.hold()
  common_count = common_count + 1
end

function M.release()
  common_count = common_count - 1
  if common_count == 0 then M.end_system() end
end

-- Making services -----------------------------------------------------------------------------

local function new_id()
  ltask.send_message(0, 0, SCHEDULE_NEW)
  local kind, id = ltask.message_receipt()
  if kind ~= RECEIPT_RESPONSE then error("too many services (core.max_service)", 0) end
  return id
end

-- Removes a dead service, and answers its open requests with an error.
local function remove(id)
  local text = ("{service:%d} is dead"):format(id)
  local requests = native.close_service(id) -- { address, session, … }
  for i = 1, #requests, 2 do core.post(requests[i], requests[i + 1], ERROR, text) end
  ltask.send_message(0, id, SCHEDULE_DEL)
  ltask.message_receipt()
  labels[id], killed[id] = nil, nil
end

-- `init(id, t)`: sends a new service the request to run its file as `t` describes, and waits until the file has
-- returned. The service handles the request in src/modules/ltask/start.rs.
function M.init(id, t)
  loading.begin(id, t.label or t.name)
  local _ <close> = setmetatable({}, { __close = function() loading.finish(id) end })
  ltask.syscall(id, "init", {
    name = t.name,
    args = t.args,
    source = t.source or t.initfunc,
    chunkname = t.chunkname,
    service_path = config.service_path,
    lua_path = config.lua_path,
    lua_cpath = config.lua_cpath,
    preload = config.preload,
    generation = config.generation,
  })
end

-- Creates the VM of a service. Returns nil, or an error.
local function make_vm(id, label, worker_id)
  local called, ok, problem = pcall(native.init_service, id, label, main_chunk, "=ltask.main", worker_id)
  if called and ok then return nil end
  if called then return problem end
  -- Drop the name of the native function: the program has not called it.
  local text = tostring(ok)
  return ("service '%s': %s"):format(tostring(label), text:match "^bad argument #%d+ to '[^']*' %((.*)%)$" or text)
end

local function create(id, t)
  local label = t.label or t.name
  local problem = make_vm(id, label, t.worker_id)
  if problem then
    remove(id)
    error(problem, 0)
  end
  labels[id] = label
  M.init(id, t)
end

-- `spawn(t [, created])`: creates the service that `t` describes. Returns its address. If the service's file raises an
-- error, `spawn` raises it too. `created(id)` is called before the file runs.
function M.spawn(t, created)
  if is_ending then error(IS_ENDING, 0) end
  local id = new_id()
  if created then created(id) end
  loading.set_target(ltask.current_session().from, id)
  local ok, problem = pcall(create, id, t)
  if ok then return id end
  -- A service whose file has failed must quit; root gets a signal when the service has died.
  if labels[id] then post_quit(id) end
  error(problem, 0)
end

-- `spawn_common(t)`: like `spawn`, for a common service, which keeps the system running.
function M.spawn_common(t)
  M.hold()
  local ok, id = pcall(M.spawn, t)
  -- The service may already have ended.
  local is_running = ok and labels[id]
  if is_running then is_common[id] = true else M.release() end
  if not ok then error(id, 0) end
  return id
end

-- `kill(id)`: makes a service quit. Returns true, or false if the service does not exist, was killed before, or is
-- root.
function M.kill(id)
  if not labels[id] or killed[id] or id == ltask.self() then return false end
  killed[id] = post_quit(id)
  return killed[id]
end

-- `has_died(id)`: removes a service that has died.
function M.has_died(id)
  remove(id)
  if is_common[id] then
    is_common[id] = nil
    M.release()
  end
  shutdown.has_died()
end

return M
