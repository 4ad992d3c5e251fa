-- `ltask.start`: boots a system from a table, runs it, and returns its exit code. Called by programs, outside of
-- services.

local debug <const> = debug or require "lio.debug"
local bootstrap = require "ltask.bootstrap"
local core = require "ltask.core"
local defer = require "lio.defer"
local write_all = require "ltask.log_output"
local configuration = require "ltask.start.config"

local M = {}

local ROOT <const> = 1
local SYSTEM <const> = 0

-- Creates the exclusive services. Their addresses follow root's, and are stored in their descriptions as `id`.
local function make_exclusive_services(list)
  for i, one in ipairs(list) do
    one.id = bootstrap.new_service(one.name, core.main_chunk(), ROOT + i)
    bootstrap.new_thread(one.id)
  end
end

-- Posts root's first message, with the configuration.
local function init_root(config)
  local source, chunkname = core.embedded_source "ltask.service.root"
  local message, size = bootstrap.pack("init", {
    name = "root",
    source = source,
    chunkname = chunkname,
    lua_path = config.lua_path,
    lua_cpath = config.lua_cpath,
    generation = config.generation,
    args = { {
      service_path = config.service_path,
      lua_path = config.lua_path,
      lua_cpath = config.lua_cpath,
      preload = config.preload,
      generation = config.generation,
      grace = config.grace,
      watchdog = config.core.watchdog,
      logger = config.logger,
      exclusive = config.exclusive,
      bootstrap = config.bootstrap,
      root_initfunc = config.root_initfunc,
    } },
  })
  bootstrap.post_message { from = ROOT, to = ROOT, session = 0, type = SYSTEM, message = message, size = size }
end

-- Creates root and the exclusive services; root starts the other services.
local function boot(config)
  bootstrap.init_timer()
  bootstrap.init_socket()
  bootstrap.new_service("root", core.main_chunk(), ROOT)
  bootstrap.init_root(ROOT)
  make_exclusive_services(config.exclusive)
  init_root(config)
end

-- Runs the system until it has ended. This thread runs the functions that services pass to `ltask.mainthread_run`.
local function run(config)
  local main = config.mainthread
  local context = bootstrap.run(main)
  if type(main) == "function" then main(context) end
  while bootstrap.mainthread_wait() do end
  return bootstrap.wait(context)
end

local function add_traceback(err)
  return type(err) == "string" and debug.traceback(err, 2) or err
end

-- `start.start(config)`: returns the exit code when the system has ended. Raises if the configuration is invalid or the
-- system cannot start. docs/ltask.md describes the configuration's fields.
function M.start(config)
  local given = config
  config = configuration.read(given)
  local exists = false
  -- Closes the system even if memory runs out, so that the program can start another one.
  local _ <close> = defer(function()
    if exists then bootstrap.deinit() end
  end)
  local accepted, problem = pcall(bootstrap.init, config.core)
  if not accepted then configuration.fail_core(given, problem) end
  exists = true
  local ok, result = xpcall(function()
    boot(config)
    return run(config)
  end, add_traceback)
  write_all(bootstrap.poplog, bootstrap.unpack_remove)
  local failure = bootstrap.boot_failure()
  if not ok then error(result, 0) end
  -- Raise an error, so that a program that ignores the result ends with exit code 1.
  if failure then configuration.fail("the system cannot start: %s", failure) end
  return result
end

return setmetatable(M, {
  __call = function(_, config)
    return M.start(config)
  end,
})
