-- `require "skynet.start"`: boots a system of skynet's services from a table like skynet's configuration, runs
-- it, and returns its exit code. Called by the program, outside of any service.

local ltask = require "ltask"
local misuse = require "lio.misuse"

local M = {}

-- What is for the scheduler, by the name of its field there. Everything is a value of `getenv` as well.
local FIELDS <const> = {
  luaservice = "service_path", lua_path = "lua_path", lua_cpath = "lua_cpath", thread = "worker", logger = "logger",
}

local KINDS <const> = {
  start = "string", luaservice = "string", lua_path = "string", lua_cpath = "string", preload = "string",
  thread = "number", args = "table", ltask = "table",
}

local function fail(...)
  misuse.raise("skynet.start: " .. string.format(...))
end

local function check(config)
  if type(config) ~= "table" then fail("a table or a service's name expected, got %s", type(config)) end
  for name, value in pairs(config) do
    local kind = KINDS[name]
    if type(name) ~= "string" then fail("a field's name is no string: %s", tostring(name)) end
    if kind and type(value) ~= kind then fail("%s: %s expected, got %s", name, kind, type(value)) end
  end
end

-- Lua text that makes the configuration known in a service.
local function environment(config)
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

-- `start(config)` → exit code. `config` is the name of the first service, or a table: see docs/skynet.md.
function M.start(config)
  if type(config) == "string" then config = { start = config } end
  check(config)
  local boot = {}
  for name, value in pairs(config.ltask or {}) do boot[name] = value end
  for name, field in pairs(FIELDS) do
    if config[name] ~= nil then boot[field] = config[name] end
  end
  boot.preload = environment(config)
  if config.preload then boot.preload = boot.preload .. " " .. read(config.preload) end
  local path = boot.service_path or "./?.lua"
  local name = config.start or "main"
  local file, problem = package.searchpath(name, path)
  if not file then fail("the service '%s' is not found:%s", name, problem) end
  local args = config.args or {}
  boot.bootstrap = { {
    name = name,
    source = "return require 'skynet.boot'.run(...)",
    chunkname = "=skynet.boot",
    args = { n = 2 + (args.n or #args), file, name, table.unpack(args, 1, args.n) },
  } }
  return ltask.start.start(boot)
end

return setmetatable(M, {
  __call = function(_, config)
    return M.start(config)
  end,
})
