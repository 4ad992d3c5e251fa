-- `ltask.start`: boots a whole system from a table, runs it, and returns its exit code.
--
-- Both generations of the table are accepted and brought into one form here; what is wrong with it is said
-- before anything starts. Root and logger need not be named.

local debug <const> = debug or require "lio.debug"
local boot = require "ltask.bootstrap"
local core = require "ltask.core"
local misuse = require "lio.misuse"
local options = require "lio.options"
local write = require "ltask.log_output"

local M = {}

local ROOT <const> = 1
local SYSTEM <const> = 0

local CORE <const> = {
  "worker", "queue", "queue_sending", "max_service", "external_queue", "log_queue", "crashlog", "debuglog", "full",
  "watchdog",
}

local KNOWN <const> = {
  core = "table", service_path = "string", lua_path = "string", lua_cpath = "string", bootstrap = "table",
  logger = "table", exclusive = "table", preload = "string", mainthread = "any", root_initfunc = "string",
  generation = "number", grace = "number", root = "table", init_service = "string", timer = "any",
}
local OF_CORE <const> = {}
for _, name in ipairs(CORE) do KNOWN[name], OF_CORE[name] = "any", true end

local function fail(...)
  misuse.raise("ltask.start: " .. string.format(...))
end

local OF_ENTRY <const> = {
  name = "any", args = "any", unique = "any", worker_id = "any", label = "any", source = "any", initfunc = "any",
  chunkname = "any",
}

-- A service `name` with the fields of `t`; `given`: its arguments where `t.args` is nil.
local function described(where, name, t, given)
  for field in pairs(t) do
    if type(field) == "string" and not OF_ENTRY[field] then
      options.unknown("ltask.start: " .. where, field, OF_ENTRY, "field")
    end
  end
  local args = t.args
  if args == nil then args = given elseif type(args) ~= "table" then args = { args } end
  return { name = name, args = args, unique = t.unique, worker_id = t.worker_id, label = t.label,
    source = t.initfunc or t.source, chunkname = t.chunkname }
end

-- `{ name, args… }` or `{ name=, args= }`.
local function entry(where, t)
  if type(t) == "string" then return { name = t, args = {} } end
  if type(t) ~= "table" then fail("%s: a name or a table expected, got %s", where, type(t)) end
  local name = t.name or t[1]
  if type(name) ~= "string" then fail("%s: no service name, as in { name = \"main\" }", where) end
  return described(where, name, t, table.pack(table.unpack(t, t.name and 1 or 2)))
end

-- `main = { args = }`, or `main = true`.
local function named_entry(name, t)
  local where = ("bootstrap['%s']"):format(name)
  if t == true then t = {} end
  if type(t) ~= "table" then fail("%s: true or a table such as { args = {} } expected, got %s", where, type(t)) end
  if t.name ~= nil then fail("%s: the key is the service's name; remove the field 'name'", where) end
  return described(where, name, t, table.pack(table.unpack(t)))
end

-- G1: `{ "main", args… }`. G2: a list of entries, or a table of them by name: that has no order, so its services
-- start in the order of their names.
local function bootstrap_list(t)
  if t == nil then fail("bootstrap is missing, as in bootstrap = { { name = \"main\" } }") end
  if type(t) == "string" then return { entry("bootstrap", t) } end
  if type(t) ~= "table" then fail("bootstrap: a table expected, got %s", type(t)) end
  if type(t[1]) == "string" or type(t.name) == "string" then return { entry("bootstrap", t) } end
  local names, list = {}, {}
  for key in pairs(t) do
    if type(key) == "string" then names[#names + 1] = key end
  end
  for i, one in ipairs(t) do list[i] = entry("bootstrap[" .. i .. "]", one) end
  if #names > 0 and #list > 0 then
    fail("bootstrap: a list of services, or a table of them by name, expected; got both: [1] and '%s'", names[1])
  end
  table.sort(names)
  for i, name in ipairs(names) do list[i] = named_entry(name, t[name]) end
  if #list == 0 then fail("bootstrap names no service, as in bootstrap = { { name = \"main\" } }") end
  return list
end

local function check(config)
  if type(config) ~= "table" then fail("a table expected, got %s", type(config)) end
  for name, value in pairs(config) do
    local kind = KNOWN[name]
    if not kind then options.unknown("ltask.start", name, KNOWN, "field") end
    local name_only = name == "logger" and (value == false or type(value) == "string")
    local one = name == "bootstrap" and type(value) == "string"
    if kind ~= "any" and type(value) ~= kind and not name_only and not one then
      fail("%s: %s expected, got %s", name, kind, type(value))
    end
  end
  if config.generation and config.generation ~= 1 and config.generation ~= 2 then
    fail("generation: 1 or 2 expected, got %s", tostring(config.generation))
  end
end

local function core_config(config)
  local t = {}
  for name, value in pairs(config.core or {}) do t[name] = value end
  for _, name in ipairs(CORE) do
    if config[name] ~= nil then t[name] = config[name] end
  end
  for name in pairs(t) do
    if not OF_CORE[name] then options.unknown("ltask.start", name, OF_CORE, "field of core") end
  end
  return t
end

local function exclusive_services(config)
  local list = {}
  for i, one in ipairs(config.exclusive or {}) do
    local t = entry("exclusive[" .. i .. "]", one)
    t.id = boot.new_service(t.name, core.main_chunk(), ROOT + i)
    boot.new_thread(t.id)
    list[i] = t
  end
  return list
end

local function new_root(config, bootstrap)
  boot.init_timer()
  boot.init_socket()
  boot.new_service("root", core.main_chunk(), ROOT)
  boot.init_root(ROOT)
  local logger = config.logger
  if logger ~= false then logger = logger and entry("logger", logger) or { name = "logger", args = {} } end
  local exclusive_ids = exclusive_services(config)
  local source, chunkname = core.embedded "ltask.service.root"
  local message, size = boot.pack("init", {
    name = "root",
    source = source,
    chunkname = chunkname,
    lua_path = config.lua_path,
    lua_cpath = config.lua_cpath,
    generation = config.generation,
    args = { {
      service_path = config.service_path or "./?.lua",
      lua_path = config.lua_path,
      lua_cpath = config.lua_cpath,
      preload = config.preload,
      generation = config.generation,
      grace = config.grace,
      logger = logger,
      exclusive_ids = exclusive_ids,
      bootstrap = bootstrap,
      root_initfunc = config.root_initfunc,
    } },
  })
  boot.post_message { from = ROOT, to = ROOT, session = 0, type = SYSTEM, message = message, size = size }
end

-- What was said after the logger's end.
local function flush_log()
  while true do
    local time, id, label, pointer, size = boot.poplog()
    if not time then break end
    write(time, id, label, boot.unpack_remove(pointer, size))
  end
  io.stdout:flush()
end

-- This thread has nothing else to do: it is there for `ltask.mainthread_run`.
local function run(config)
  local main = config.mainthread
  local context = boot.run(main)
  if type(main) == "function" then main(context) end
  while boot.mainthread_wait() do end
  return boot.wait(context)
end

-- `start.start(config)` → exit code, when the system has ended. Raises when it could not start. See docs/ltask.md for
-- the fields.
function M.start(config)
  check(config)
  local bootstrap = bootstrap_list(config.bootstrap)
  for i, one in ipairs(config.exclusive or {}) do entry("exclusive[" .. i .. "]", one) end
  local fields = core_config(config)
  local accepted, problem = pcall(boot.init, fields)
  if not accepted then fail("%s", tostring(problem):gsub("^[^\n]-:%d+: ", "", 1)) end
  local ok, result = xpcall(function()
    new_root(config, bootstrap)
    return run(config)
  end, function(message)
    return type(message) == "string" and debug.traceback(message, 2) or message
  end)
  flush_log()
  local failure = boot.boot_failure()
  boot.deinit()
  if not ok then error(result, 0) end
  -- Raised, so that a program which drops the result ends with exit code 1.
  if failure then fail("the system cannot start: %s", failure) end
  return result
end

return setmetatable(M, {
  __call = function(_, config)
    return M.start(config)
  end,
})
