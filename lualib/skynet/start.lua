-- `require "skynet.start"`: boots a system of skynet's services from a table like skynet's configuration, runs the
-- system, and returns its exit code. Also reads skynet's configuration files. Used by programs, outside of services.

local ltask = require "ltask"
local misuse = require "lio.misuse"
local options = require "lio.options"

local M = {}

-- Maps a field to the name of the same field in the table of `ltask.start`.
local SCHEDULER_FIELDS <const> = {
  luaservice = "service_path", lua_path = "lua_path", lua_cpath = "lua_cpath", thread = "worker",
}

-- The fields whose values are checked. A configuration may have other fields, for `getenv`.
local FIELDS <const> = {
  logger = options.rule("the name of a log file (a service is `logservice`)", options.string.test),
  logservice = options.string,
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

-- Returns Lua code that stores the configuration in a service, for `getenv`, except for tables.
local function environment_code(config)
  local out = { "package.loaded['skynet.env'] = {" }
  for name, value in pairs(config) do
    if type(value) ~= "table" then
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

-- The log -------------------------------------------------------------------------------------

-- The services of skynet that write the log: the C service "logger", and "snlua", which runs the Lua service `logger`.
local FILE_LOGGER <const>, LUA_LOGGER <const> = "logger", "snlua"

-- Returns the description of the logger. Its name differs from "logger", so that a program may have a service of that
-- name.
local function file_logger(path)
  if path then
    local file, problem = io.open(path, "a")
    if not file then fail("logger: %s", problem) end
    file:close()
  end
  return {
    name = "skynet.logger",
    label = "logger",
    source = "return require('ltask.core').load_embedded 'ltask.service.logger'(...)",
    args = { path },
  }
end

-- Returns the description of the logger for `ltask.start`.
local function logger(config)
  local service = config.logservice or FILE_LOGGER
  if service == FILE_LOGGER then return file_logger(config.logger) end
  if service ~= LUA_LOGGER then return service end
  return config.logger or fail("logservice is \"snlua\", so 'logger' must be the name of a service")
end

-- Warnings ------------------------------------------------------------------------------------

-- Fields of skynet without an effect, unless they have this value.
local WITHOUT_EFFECT <const> = {
  cluster = "", cpath = "", daemon = "", harbor = "0", standalone = "",
}

-- Other fields of skynet, which are not misspelled names of the fields above.
local OTHERS <const> = " address bootstrap enablessl logpath lualoader master profile root snax "

-- Returns a line for the log for each kind of field that is probably a mistake.
local function warnings(config)
  local ignored, lines = {}, {}
  for name, value in pairs(config) do
    if WITHOUT_EFFECT[name] then
      if tostring(value) ~= WITHOUT_EFFECT[name] then ignored[#ignored + 1] = name end
    elseif not FIELDS[name] and not OTHERS:find(" " .. name .. " ", 1, true) then
      local near = options.nearest(name, FIELDS)
      if near then lines[#lines + 1] = ("skynet.start: field '%s': did you mean '%s'?"):format(name, near) end
    end
  end
  table.sort(ignored)
  table.sort(lines)
  if #ignored > 0 then
    table.insert(lines, 1, ("skynet.start: these fields have no effect here: %s (docs/migrate-skynet.md)")
      :format(table.concat(ignored, ", ")))
  end
  return lines
end

-- The first service ---------------------------------------------------------------------------

-- Returns a hint about templates of `luaservice` that name one file, or "".
local function template_hint(path)
  for template in path:gmatch "[^;]+" do
    if not template:find("?", 1, true) then
      return ("\n\tluaservice: the template '%s' has no '?' for the service's name; an example is '%s?.lua'")
        :format(template, (template:gsub("/?$", "/", 1)))
    end
  end
  return ""
end

-- Returns the description of the first service for `bootstrap` of `ltask.start`. It logs the lines when it starts.
local function first_service(config, path, lines)
  local name = config.start or "main"
  local file, problem = package.searchpath(name, path)
  if not file then fail("the service '%s' was not found:%s%s", name, problem, template_hint(path)) end
  local args = config.args or {}
  local source = {}
  for i, line in ipairs(lines) do source[i] = ("require 'ltask.core'.log('info', %q) "):format(line) end
  return {
    name = name,
    source = table.concat(source) .. "return require 'skynet.boot'.run(...)",
    chunkname = "=skynet.boot",
    args = { n = 2 + (args.n or #args), file, name, table.unpack(args, 1, args.n) },
  }
end

-- The start -----------------------------------------------------------------------------------

-- `start(config)`: boots the system, and returns its exit code when it has ended. `config` is the name of the first
-- service, or a table: see docs/skynet.md.
function M.start(config)
  if type(config) == "string" then config = { start = config } end
  check(config)
  local ltask_config = { logger = logger(config) }
  for name, value in pairs(config.ltask or {}) do ltask_config[name] = value end
  for name, field in pairs(SCHEDULER_FIELDS) do
    if config[name] ~= nil then ltask_config[field] = config[name] end
  end
  ltask_config.preload = environment_code(config)
  if config.preload then ltask_config.preload = ltask_config.preload .. " " .. read(config.preload) end
  local path <const> = ltask_config.service_path or "./?.lua"
  ltask_config.bootstrap = { first_service(config, path, warnings(config)) }
  return ltask.start.start(ltask_config)
end

-- `config(path)`: reads a configuration file of skynet. Returns its fields as a table for `start`.
function M.config(path)
  return require "skynet.config"(path)
end

return setmetatable(M, {
  __call = function(_, config)
    return M.start(config)
  end,
})
