-- Checks the configuration of `ltask.start`, before any service starts, and converts the tables of both generations to
-- one form.

local misuse = require "lio.misuse"
local options = require "lio.options"

local M = {}

-- The fields of the table `core`. They are also accepted outside of `core`, in the configuration itself.
-- `bootstrap.init` checks their values.
local CORE_FIELDS <const> = {}
for name in ([[
  worker io queue queue_sending max_service external_queue log_queue crashlog debuglog full watchdog
  max_run_time
]]):gmatch "%S+" do
  CORE_FIELDS[name] = options.any
end

local service <const> = options.either(options.string, options.table)

local FIELDS <const> = {
  core = options.table, service_path = options.string, lua_path = options.string, lua_cpath = options.string,
  bootstrap = service, logger = options.either(service, options.is_false), exclusive = options.table,
  preload = options.string, mainthread = options.any, root_initfunc = options.string,
  generation = options.rule("1 or 2", function(value) return value == 1 or value == 2 end),
  grace = options.any_number, root = options.table, init_service = options.string, timer = options.any,
}
for name, rule in pairs(CORE_FIELDS) do FIELDS[name] = rule end

-- The fields of a service.
local SERVICE_FIELDS <const> = {
  name = options.string, args = options.table, unique = options.boolean, worker_id = options.integer(0),
  label = options.string, source = options.string, initfunc = options.string, chunkname = options.string,
}

-- `fail(format, …)`: raises an error from `ltask.start` at the program's line.
function M.fail(...)
  misuse.raise("ltask.start: " .. string.format(...))
end
local fail <const> = M.fail

-- Services ------------------------------------------------------------------------------------

-- Returns the description of a service. `list`: the service's arguments if `t` has no field `args`; `where`: the place
-- of `t` in the configuration.
local function describe(where, name, t, list)
  local fields = {}
  for field, value in pairs(t) do
    if type(field) == "string" then fields[field] = value end
  end
  options.check("ltask.start: " .. where, 1, fields, SERVICE_FIELDS, "field")
  return {
    name = name,
    args = t.args or list,
    unique = t.unique,
    worker_id = t.worker_id,
    label = t.label,
    source = t.initfunc or t.source,
    chunkname = t.chunkname,
  }
end

-- Reads a service: "name", `{ "name", args… }` or `{ name=, args= }`.
local function read_service(where, t)
  if type(t) == "string" then return { name = t, args = {} } end
  if type(t) ~= "table" then fail("%s: a name or a table expected, got %s", where, type(t)) end
  local name = t.name or t[1]
  if type(name) ~= "string" then fail("%s: no service name; an example is { name = \"main\" }", where) end
  return describe(where, name, t, table.pack(table.unpack(t, t.name and 1 or 2)))
end

-- Reads an entry of a table of services by name: `name = { args = }` or `name = true`.
local function read_named_service(name, t)
  local where = ("bootstrap['%s']"):format(name)
  if t == true then t = {} end
  if type(t) ~= "table" then fail("%s: true or a table such as { args = {} } expected, got %s", where, type(t)) end
  if t.name ~= nil then fail("%s: the key is the service's name; remove the field 'name'", where) end
  return describe(where, name, t, table.pack(table.unpack(t)))
end

-- Returns a note for the error that the service of `bootstrap = { "a", "b" }` does not exist; nil if it has no such
-- argument.
local function arguments_note(t)
  if type(t[2]) ~= "string" then return nil end
  return (" ('%s' is its argument; several services are { { name = \"%s\" }, { name = \"%s\" } })"):format(
    t[2], t[1], t[2])
end

-- Reads the bootstrap services. In G1 `t` is `{ "main", args… }`; in G2 it is a list of services, or a table of
-- services by name. A table of services by name has no order, so its services start in the order of their names.
local function read_bootstrap(t)
  if t == nil then fail("bootstrap is missing; an example is bootstrap = { { name = \"main\" } }") end
  if type(t) == "string" then return { read_service("bootstrap", t) } end
  if type(t) ~= "table" then fail("bootstrap: a table expected, got %s", type(t)) end
  if type(t[1]) == "string" or type(t.name) == "string" then
    local one = read_service("bootstrap", t)
    one.note = not t.name and arguments_note(t) or nil
    return { one }
  end
  local names, list = {}, {}
  for key in pairs(t) do
    if type(key) == "string" then names[#names + 1] = key end
  end
  for i, one in ipairs(t) do list[i] = read_service("bootstrap[" .. i .. "]", one) end
  if #names > 0 and #list > 0 then
    fail("bootstrap: a list of services, or a table of them by name, expected; got both: [1] and '%s'", names[1])
  end
  table.sort(names)
  for i, name in ipairs(names) do list[i] = read_named_service(name, t[name]) end
  if #list == 0 then
    fail("bootstrap: the table contains no service; an example is bootstrap = { { name = \"main\" } }")
  end
  return list
end

local function read_exclusive(t)
  local list = {}
  for i, one in ipairs(t or {}) do list[i] = read_service("exclusive[" .. i .. "]", one) end
  return list
end

local function read_logger(t)
  if t == false then return false end
  return t and read_service("logger", t) or { name = "logger", args = {} }
end

-- The whole table -----------------------------------------------------------------------------

local function check_fields(config)
  if type(config) ~= "table" then fail("a table expected, got %s", type(config)) end
  return options.check("ltask.start", 1, config, FIELDS, "field")
end

-- Fields of the configuration override those of `core`.
local function read_core(config)
  local t = {}
  for name, value in pairs(config.core or {}) do
    if not CORE_FIELDS[name] then
      fail("core.%s is unknown%s", tostring(name), options.hint(name, CORE_FIELDS, "core."))
    end
    t[name] = value
  end
  for name in pairs(CORE_FIELDS) do
    if config[name] ~= nil then t[name] = config[name] end
  end
  return t
end

-- `fail_core(config, problem)`: raises the error `problem` of `bootstrap.init`, which names a field as `config.worker`.
-- `config` is the table of the program, with the field in `core` or outside of it.
function M.fail_core(config, problem)
  local text = tostring(problem):gsub("^[^\n]-:%d+: ", "", 1)
  fail("%s", (text:gsub("^config%.([%w_]+)", function(name)
    return config[name] == nil and "core." .. name or name
  end)))
end

-- `read(config)`: returns the configuration in one form: `core` has all fields for `bootstrap.init`, `bootstrap` and
-- `exclusive` are lists of services, `logger` is a service or false. The other fields are unchanged.
function M.read(config)
  config = check_fields(config)
  return {
    bootstrap = read_bootstrap(config.bootstrap),
    exclusive = read_exclusive(config.exclusive),
    logger = read_logger(config.logger),
    core = read_core(config),
    service_path = config.service_path or "./?.lua",
    lua_path = config.lua_path or package.path,
    lua_cpath = config.lua_cpath or package.cpath,
    preload = config.preload,
    mainthread = config.mainthread,
    root_initfunc = config.root_initfunc,
    generation = config.generation,
    grace = config.grace,
  }
end

return M
