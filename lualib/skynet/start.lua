-- `require "skynet.start"`: boots a system of skynet's services from a table like skynet's configuration, runs the
-- system, and returns its exit code. Used by programs, outside of services.

local ltask = require "ltask"
local misuse = require "lio.misuse"
local options = require "lio.options"

local M = {}

-- Maps a field to the name of the same field in the table of `ltask.start`.
local SCHEDULER_FIELDS <const> = {
  luaservice = "service_path", lua_path = "lua_path", lua_cpath = "lua_cpath", thread = "worker", logger = "logger",
}

-- The fields whose values are checked. A configuration may have other fields, for `getenv`.
local FIELDS <const> = {
  start = options.string, luaservice = options.string, lua_path = options.string, lua_cpath = options.string,
  preload = options.string, thread = options.integer(1, 256), args = options.table, ltask = options.table,
}

local function fail(...)
  misuse.raise("skynet.start: " .. string.format(...))
end

local function check(config)
  if type(config) ~= "table" then fail("a table or a service's name expected, got %s", type(config)) end
  local known = {}
  for name, value in pairs(config) do
    if type(name) ~= "string" then fail("a field's name is not a string: %s", tostring(name)) end
    if FIELDS[name] then known[name] = value end
  end
  options.check("skynet.start", 1, known, FIELDS, "field")
end

-- Returns Lua code that stores the configuration in a service, for `getenv`, except for tables and the logger.
local function environment_code(config)
  local out = { "package.loaded['skynet.env'] = {" }
  for name, value in pairs(config) do
    if type(value) ~= "table" and name ~= "logger" then
      out[#out + 1] = ("[%q] = %q,"):format(name, tostring(value))
    end
  end
  out[#out + 1] = "}"
  return table.concat(out, " ")
end

local function read(path)
  local file, problem = io.open(path, "rb")
  if not file then fail("preload: %s", problem) end
  local text = file:read "a"
  file:close()
  return text
end

-- Returns the description of the first service for `bootstrap` of `ltask.start`.
local function first_service(config, path)
  local name = config.start or "main"
  local file, problem = package.searchpath(name, path)
  if not file then fail("the service '%s' was not found:%s", name, problem) end
  local args = config.args or {}
  return {
    name = name,
    source = "return require 'skynet.boot'.run(...)",
    chunkname = "=skynet.boot",
    args = { n = 2 + (args.n or #args), file, name, table.unpack(args, 1, args.n) },
  }
end

-- `start(config)`: boots the system, and returns its exit code when it has ended. `config` is the name of the first
-- service, or a table: see docs/skynet.md.
function M.start(config)
  if type(config) == "string" then config = { start = config } end
  check(config)
  local ltask_config = {}
  for name, value in pairs(config.ltask or {}) do ltask_config[name] = value end
  for name, field in pairs(SCHEDULER_FIELDS) do
    if config[name] ~= nil then ltask_config[field] = config[name] end
  end
  ltask_config.preload = environment_code(config)
  if config.preload then ltask_config.preload = ltask_config.preload .. " " .. read(config.preload) end
  ltask_config.bootstrap = { first_service(config, ltask_config.service_path or "./?.lua") }
  return ltask.start.start(ltask_config)
end

return setmetatable(M, {
  __call = function(_, config)
    return M.start(config)
  end,
})
