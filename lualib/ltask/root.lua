-- The root service: makes services, knows their names, answers for the dead, and ends the system.
--
-- The system ends when the last service that is not unique has ended, or at the request `quit_ltask`. Then
-- the unique ones quit, the last spawned first, and the logger last of all.

local ltask = require "ltask"
local core = require "ltask.core"
local root = require "ltask.root"

local config = ...
local RECEIPT_RESPONSE <const> = 4
local NEW <const>, DEL <const> = 0, 1
local SYSTEM <const>, ERROR <const> = 0, 3
local IS_ENDING <const> = "the system is ending"

local S = {}

-- What root has to say is not lost for want of room.
ltask.on_full "wait"

local labels = {} -- id → label
local dying = {} -- ids of services that were killed
local common = {} -- ids of services that keep the system alive
local common_count = 0
local names = {} -- name → id
local names_of = {} -- id → list of its names
local starting = {} -- name → what waits while the unique service of that name starts
local wanted = {} -- name → what waits in `queryservice`
local ending = false
local logger
local external

local service_source = core.main_chunk()

local function new_id()
  ltask.send_message(0, 0, NEW)
  local kind, id = ltask.message_receipt()
  if kind ~= RECEIPT_RESPONSE then error("too many services (core.max_service)", 0) end
  return id
end

local function bury(id)
  local text = ("{service:%d} is dead"):format(id)
  local list = root.close_service(id)
  for i = 1, #list, 2 do core.post(list[i], list[i + 1], ERROR, text) end
  ltask.send_message(0, id, DEL)
  ltask.message_receipt()
  labels[id], dying[id] = nil, nil
end

-- What a new service is told first: see src/ltask/lua/init.rs.
local function init(id, t)
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

local function create(t, id)
  local label = t.label or t.name
  local called, ok, problem = pcall(root.init_service, id, label, service_source, "=ltask.service", t.worker_id)
  if not called then
    local wrong = tostring(ok):match "^bad argument #%d+ to '[^']*' %((.*)%)$"
    ok, problem = false, ("service '%s': %s"):format(tostring(label), wrong or tostring(ok))
  end
  if not ok then
    bury(id)
    error(problem, 0)
  end
  labels[id] = label
  init(id, t)
  return id
end

local function end_system()
  if ending then return end
  ending = true
  ltask.fork(function()
    local ids = {}
    for id in pairs(labels) do
      if id ~= logger then ids[#ids + 1] = id end
    end
    table.sort(ids, function(a, b) return a > b end)
    -- Nobody is waited for by himself: one that hangs must not keep the others from their end.
    for _, id in ipairs(ids) do core.post(id, 0, SYSTEM, "quit") end
    local limit = ltask.counter() + (config.grace or 10)
    while next(labels) and not (next(labels) == logger and not next(labels, logger)) do
      if ltask.counter() > limit then break end
      ltask.wait_for_death(limit)
    end
    if logger and labels[logger] then
      core.post(logger, 0, SYSTEM, "quit")
      limit = math.max(limit, ltask.counter() + 1)
      while labels[logger] and ltask.counter() < limit do ltask.wait_for_death(limit) end
    end
    core.finish()
  end)
end

-- Waits until a service has died, or the clock says `limit`.
local mourner
function ltask.wait_for_death(limit)
  mourner = {}
  local mine = mourner
  local left = math.max(1, math.ceil((limit - ltask.counter()) * 100))
  ltask.timeout(left, function() ltask.wakeup(mine) end)
  ltask.wait(mine)
  mourner = nil
end

local function forget_common(id)
  if not common[id] then return end
  common[id] = nil
  common_count = common_count - 1
  if common_count == 0 then end_system() end
end

local function forget_names(id)
  for _, name in ipairs(names_of[id] or {}) do names[name] = nil end
  names_of[id] = nil
end

function ltask.signal_handler(id)
  bury(id)
  forget_names(id)
  forget_common(id)
  if mourner then ltask.wakeup(mourner) end
end

local function spawn(t)
  if ending then error(IS_ENDING, 0) end
  local id = new_id()
  local ok, problem = pcall(create, t, id)
  if ok then return id end
  if labels[id] then
    -- It is there, and its start failed: it goes, and its signal comes.
    core.post(id, 0, SYSTEM, "quit")
  end
  error(problem, 0)
end

local function spawn_common(t)
  common_count = common_count + 1
  local ok, id = pcall(spawn, t)
  if not ok then
    common_count = common_count - 1
    if common_count == 0 then end_system() end
    error(id, 0)
  end
  -- It may have ended at once.
  if labels[id] then
    common[id] = true
  else
    common_count = common_count - 1
    if common_count == 0 then end_system() end
  end
  return id
end

local function name_service(name, id)
  names[name] = id
  local list = names_of[id] or {}
  names_of[id] = list
  list[#list + 1] = name
  local waiters = wanted[name]
  wanted[name] = nil
  if waiters then ltask.multi_wakeup(waiters, id) end
end

-- The one service of that name: who comes while it starts waits for it, or gets its error.
local function unique_service(name, t)
  if names[name] then return names[name] end
  if starting[name] then return ltask.multi_wait(starting[name]) end
  local entry = {}
  starting[name] = entry
  local ok, id = pcall(spawn, t)
  starting[name] = nil
  if not ok then
    ltask.multi_interrupt(entry, id)
    error(id, 0)
  end
  name_service(name, id)
  ltask.multi_wakeup(entry, id)
  return id
end

-- `spawn(name, …)`, `spawn_service(t)` → address.
function S.spawn(name, ...)
  return spawn_common { name = name, args = table.pack(...) }
end

function S.spawn_service(t)
  if type(t) ~= "table" or type(t.name) ~= "string" then
    error("spawn_service: a table with a name expected", 0)
  end
  if t.unique then return unique_service(t.name, t) end
  return spawn_common(t)
end

-- `uniqueservice(name, …)` → address of the one of that name.
function S.uniqueservice(name, ...)
  return unique_service(name, { name = name, args = table.pack(...) })
end

-- `queryservice(name)` → address; waits until there is one.
function S.queryservice(name)
  if names[name] then return names[name] end
  wanted[name] = wanted[name] or {}
  return ltask.multi_wait(wanted[name])
end

-- `register(name)`: the caller is known under it.
function S.register(name)
  if names[name] then
    error(("register: the name '%s' is taken by service %d"):format(tostring(name), names[name]), 0)
  end
  name_service(name, ltask.current_session().from)
end

-- `kill(addr)` → whether there was such a service.
function S.kill(id)
  if not labels[id] or dying[id] or id == ltask.self() then return false end
  dying[id] = core.post(id, 0, SYSTEM, "quit")
  return dying[id]
end

function S.servicepath(path)
  if path then config.service_path = path end
  return config.service_path
end

function S.label(id)
  return labels[id]
end

-- `stat()` → figures of every service, by address.
function S.stat()
  local all = {}
  for _, id in ipairs(core.services()) do
    local label, messages, queue, queue_max, cpu, memory, memory_max, resumes, coroutines = core.stat(id)
    if label then
      all[id] = {
        label = label,
        messages = messages,
        queue = queue,
        queue_max = queue_max,
        cpu = cpu,
        memory = memory,
        memory_max = memory_max,
        resumes = resumes,
        coroutines = coroutines,
      }
    end
  end
  return all
end

-- `on_external()`: the caller gets the external messages as its request `external` from now on, also those
-- that have come so far.
function S.on_external()
  local kept = type(external) == "table" and external or {}
  external = ltask.current_session().from
  for _, message in ipairs(kept) do ltask.send(external, "external", message) end
end

function S.external(message)
  if type(external) == "number" then
    ltask.send(external, "external", message)
    return
  end
  external = external or {}
  external[#external + 1] = message
end

-- `exit_code(n)`: what the process's run call returns.
function S.exit_code(code)
  root.set_exit_code(code)
end

function S.quit_ltask()
  end_system()
end

-- Root's own `quit`: the others' come first, then `end_system` ends root as well.
function S.quit()
  end_system()
  ltask.wait {}
end

-- The start of the system ---------------------------------------------------------------------

-- `f(…)` → its result; an error says what of the configuration failed.
local function part(what, f, ...)
  local ok, result = pcall(f, ...)
  if not ok then error(what .. ": " .. tostring(result), 0) end
  return result
end

local function start_exclusive(one)
  labels[one.id] = one.name
  init(one.id, one)
  name_service(one.name, one.id)
end

local function run_initfunc()
  local f, problem = load(config.root_initfunc, "=root_initfunc")
  if not f then error(problem, 0) end
  f(S)
end

local function start_one(t)
  if t.unique then return unique_service(t.name, t) end
  return spawn_common(t)
end

local function start_all()
  if config.logger then
    local name = config.logger.name
    logger = part(("the logger '%s'"):format(name), unique_service, name, config.logger)
  end
  for _, one in ipairs(config.exclusive_ids or {}) do
    part(("the exclusive service '%s'"):format(one.name), start_exclusive, one)
  end
  if config.root_initfunc then part("root_initfunc", run_initfunc) end
  -- One more, so that a service which ends at once does not end the system before the next one.
  common_count = common_count + 1
  for _, t in ipairs(config.bootstrap) do
    -- A service that has started may have ended the system already: the rest is not missed.
    if ending then return end
    part(("the bootstrap service '%s'"):format(t.name), start_one, t)
  end
  common_count = common_count - 1
  if common_count == 0 then end_system() end
end

-- Whether a service did not start only because the system has been ended meanwhile: it quit in its start, or it was
-- denied a service of its own.
local function is_cut_short(problem)
  problem = tostring(problem)
  return ending and (problem:find(IS_ENDING, 1, true) or problem:find "{service:%d+} is dead")
end

ltask.fork(function()
  local ok, problem = pcall(start_all)
  if not ok and not is_cut_short(problem) then
    -- `ltask.start` raises it.
    core.fail_boot(problem)
    end_system()
  end
end)

return S
