-- `net.serve`: runs the program's handler in a task for each connection. Part of `lio.net` and of `lio.net.remote`.
-- Invariant: a connection is in `connections` from the time it is accepted until its handler returns, fails or is
-- killed, or until the connection is released.

local debug <const> = debug or require "lio.debug"
local misuse = require "lio.misuse"
local options = require "lio.options"
local report = require "lio.net.report"
local server = require "lio.net.server"

local M = {}

local OPTIONS <const> = {
  max_connections = options.limit,
  on_error = options.callable,
  on_stop = options.callable,
  attended = options.boolean,
}

-- The backend of the servers that `net.serve` returns; net/server.lua documents the methods.
local Tasks = {}
Tasks.__index = Tasks

function Tasks:count()
  return self.connection_count
end

function Tasks:is_full()
  return self.connection_count >= self.max_connections
end

local function traceback(message)
  if type(message) == "string" then return debug.traceback(message, 2) end
  return message
end

-- Runs a function from the options. If the function raises, logs the error.
local function run_hook(name, f, ...)
  local ok, message = xpcall(f, traceback, ...)
  if not ok then report(("error in %s of net.serve: %s"):format(name, message)) end
end

-- Runs the handler in the accept loop. The handler must close and release the connection, unless it raises.
local function run_attended(backend, c)
  local ok, message = xpcall(backend.handler, traceback, c)
  if ok then return end
  run_hook("on_error", backend.on_error, message, c)
  backend.driver.net.close(c)
  backend:release(c)
end

-- Closed when a handler returns or raises, or when its task is killed. If the handler has released the connection, the
-- connection has another owner and stays open.
local Handling = {}

function Handling:__close()
  local backend, c = self.backend, self.connection
  if not backend.connections[c] then return end
  backend.driver.net.close(c)
  backend:release(c)
end

local function run(backend, c)
  local handling <close> = setmetatable({ backend = backend, connection = c }, Handling)
  local ok, message = xpcall(backend.handler, traceback, c)
  if not ok then run_hook("on_error", backend.on_error, message, c) end
  return handling
end

function Tasks:admit(c)
  self.connections[c] = true
  self.connection_count = self.connection_count + 1
  if self.attended then run_attended(self, c) else self.driver.scheduler.fork(run, self, c) end
end

function Tasks:release(c)
  if not self.connections[c] then return end
  self.connections[c] = nil
  self.connection_count = self.connection_count - 1
  if not self.notifies then return end
  self.notifies = false
  self.on_leave()
end

function Tasks:notify_leave()
  self.notifies = true
end

function Tasks:stop()
  if self.on_stop then run_hook("on_stop", self.on_stop) end
end

function Tasks:close()
  local all = {}
  for c in pairs(self.connections) do all[#all + 1] = c end
  for _, c in ipairs(all) do self.driver.net.close(c) end
end

local function log_error(message)
  report("error in a connection's handler: " .. tostring(message))
end

local function serve(driver, listener, handler, opts)
  if listener ~= nil then misuse.check_kind("serve", listener, driver.listener_kind) end
  if listener and listener.closed then misuse.raise "net.serve: the listener is closed" end
  misuse.check_function("serve", 2, handler)
  opts = options.check("net.serve", 3, opts, OPTIONS)
  return server.start(driver, listener, setmetatable({
    driver = driver,
    handler = handler,
    max_connections = opts.max_connections or math.huge,
    on_error = opts.on_error or log_error,
    on_stop = opts.on_stop,
    attended = opts.attended,
    connections = {},
    connection_count = 0,
    notifies = false,
  }, Tasks))
end

-- `install(driver, calls)`: adds `serve` to `calls`.
function M.install(driver, calls)
  -- `serve(listener, handler [, opts])` returns a server. The server runs `handler(c)` as a task for each connection
  -- and closes the connection afterwards; an error that the handler raises is logged with its traceback. At
  -- `opts.max_connections` connections, accepting is paused; `opts.on_error(message, c)` replaces the log;
  -- `opts.on_stop()` runs when a stop begins. With `opts.attended`, the handler runs in the accept loop and must not
  -- wait. If `listener` is nil, the server gets connections only through `server:admit`.
  function calls.serve(listener, handler, opts)
    return serve(driver, listener, handler, opts)
  end
end

return M
