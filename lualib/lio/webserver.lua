-- `lio.webserver`: HTTP servers in Lua, on `lio.net`.
--
--   local web = require "lio.webserver"
--   local app = web.new()
--   app:get("/", function(req, res) return "Hello, World!\n" end)
--   app:run(8080)
--
-- An app is a table of routes and middleware. Each connection is one task that answers its requests in
-- turn (web/app_server.lua); handlers get a request (web/request.lua) and a response (web/response.lua).

local debug <const> = debug or require "lio.debug"
local http = require "lio.http"
local app_servers = require "lio.web.app_server"
local drivers = require "lio.net.driver"
local misuse = require "lio.misuse"
local mounting = require "lio.web.mount"
local next_of = require("lio.web.middleware").next_of
local options = require "lio.options"

local M = {}

-- Limits, all settable through `web.new`: bytes, counts, and seconds.
M.defaults = {
  request_line = 8 * 1024,
  headers = 32 * 1024,
  fields = 100,
  body = 8 * 1024 * 1024,
  header_time = 10, -- from a head's first byte to its blank line
  keep_alive_time = 60, -- without a request
  body_time = 10, -- before the minimum rate counts
  body_rate = 240, -- bytes a second a body must come in with
  write_time = 30, -- without progress in sending
  connections = 10000,
  requests = math.huge, -- per connection
  grace = 10, -- for a graceful stop
  debug = false, -- error pages with traceback
}

-- What counts something, and so cannot be a fraction; `fields` is bounded by the parser's table.
local WHOLE <const> = { request_line = true, headers = true, fields = true, body = true }

local OF_APP <const> = {
  request_line = options.number(1, 1 << 30),
  headers = options.number(1, 1 << 30),
  fields = options.number(1, 256),
  body = options.number(0),
  header_time = options.seconds_from_0,
  keep_alive_time = options.seconds_from_0,
  body_time = options.seconds_from_0,
  body_rate = options.number(0),
  write_time = options.seconds_from_0,
  connections = options.number(0),
  requests = options.number(0),
  grace = options.seconds_from_0,
  debug = options.boolean,
}

local OF_LISTEN <const> = {
  addr = options.string,
  backlog = options.integer(0, 2147483647),
  reuseport = options.boolean,
  v6only = options.boolean,
  mode = options.integer(0, 511),
}

-- `module` and `args` are `lio serve`'s.
local OF_RUN <const> = {
  workers = options.integer(1, 1024), module = options.string, args = options.table,
  watchdog = options.seconds_from_0,
}
for name, rule in pairs(OF_LISTEN) do OF_RUN[name] = rule end

-- `web.worker()` → this worker's number and how many there are; nil where the program does not run in one of
-- several (see `app:run`).
function M.worker()
  local workers = package.loaded["lio.web.workers"]
  local share = workers and workers.share
  if not share then return nil end
  return share.index, share.count
end

local App = {}
App.__index = App
App.__name = "lio.webserver"

-- `web.new([options])` → an app. Options are the names of `web.defaults`.
function M.new(opts)
  local app = {
    entries = {}, -- by the route's id
    listed = {}, -- the same in the order of adding
    handlers = {},
    wrappers = {},
    settings = {},
    servers = {},
    mounts = {}, -- apps in this one
    mounted_in = {}, -- places of this one in others
  }
  for name, value in pairs(M.defaults) do app.settings[name] = value end
  for name, value in pairs(options.check("web.new", 1, opts, OF_APP)) do
    if WHOLE[name] then value = math.tointeger(value // 1) or math.maxinteger end
    app.settings[name] = value
  end
  -- Unless it is set here, `loop.grace` counts.
  app.grace = opts and opts.grace
  app.routes = http.routes()
  return setmetatable(app, App)
end

-- Several handlers of one route run in turn, each calling `next()` as middleware does.
local function sequence(handlers)
  if #handlers == 1 then return handlers[1] end
  return function(req, res)
    local function from(index)
      local f = handlers[index]
      if not handlers[index + 1] then return f(req, res, function() end) end
      return f(req, res, next_of(req, res, "handler", handlers[index + 1], function() return from(index + 1) end))
    end
    return from(1)
  end
end

-- Lua would find fault with a constraint only when a request comes.
local function check_constraints(routes, id, pattern, call)
  for name, constraint in pairs(routes:constraints(id) or {}) do
    local ok, message = pcall(string.find, "", "^" .. constraint .. "$")
    if not ok then
      misuse.raise(("%s: the constraint of '%s' in '%s': %s"):format(call, name, pattern, message))
    end
  end
end

local function check_app(app, call)
  if getmetatable(app) == App then return end
  misuse.raise(("app:%s: call it with a colon, as in app:%s(…)"):format(call, call))
end

-- Adds a route for `app:get` and the others, whose pattern is argument `index`.
local function add_route(app, call, index, method, pattern, ...)
  misuse.check(call, index, pattern, "string")
  if not utf8.len(pattern) then misuse.bad(call, index, "pattern must be UTF-8") end
  local handlers = table.pack(...)
  if handlers.n == 0 then misuse.raise(("app:%s: a handler is missing"):format(call)) end
  for at = 1, handlers.n do
    if type(handlers[at]) ~= "function" then misuse.argument(call, index + at, "function", handlers[at]) end
  end
  return app:add_entry(method, pattern, sequence(handlers), call, handlers[1])
end

-- `app:route(method, pattern, handler, …)`: `method` in capitals, `""` for any. Patterns: `/users/:id`,
-- `/files/*path` for the rest of a path, `:id<%d+>` with a Lua pattern the value must match as a whole.
-- → app.
function App:route(method, pattern, ...)
  check_app(self, "route")
  misuse.check("route", 1, method, "string")
  return add_route(self, "route", 2, method, pattern, ...)
end

-- Adds a route with one handler, here and in the apps above, on behalf of a call such as "get". `origin`: whose values
-- the handler returns.
function App:add_entry(method, pattern, handler, call, origin)
  local ok, id = pcall(self.routes.add, self.routes, method, pattern)
  if not ok then misuse.raise(("app:%s: %s"):format(call, id)) end
  check_constraints(self.routes, id, pattern, "app:" .. call)
  self.handlers[id] = handler
  local info = debug.getinfo(handler, "u")
  if info.nparams < 2 and not info.isvararg then self.routes:takes(id, info.nparams) end
  local entry = { method = method, pattern = pattern, handler = handler, origin = origin }
  self.entries[id] = entry
  self.listed[#self.listed + 1] = entry
  mounting.spread(self, entry, call)
  return self
end

-- `app:mount(prefix, other)` → app: the routes of another app, below `prefix`, which may have parameters.
-- Its handlers and middleware see `req.path` without the prefix; its `on_error` and `not_found` count below
-- the prefix, its options do not. What is added to it later comes along.
function App:mount(prefix, other)
  check_app(self, "mount")
  misuse.check("mount", 1, prefix, "string")
  if prefix:sub(1, 1) ~= "/" or prefix:find("/*", 1, true) then
    misuse.bad("mount", 1, "prefix must begin with '/' and have no '*'")
  end
  if getmetatable(other) ~= App then misuse.argument("mount", 2, "app", other) end
  mounting.mount(self, prefix:gsub("/+$", ""), other)
  return self
end

for _, method in ipairs { "get", "post", "put", "patch", "delete", "head", "options" } do
  local name = method:upper()
  -- `app:get(pattern, handler, …)` and so on → app.
  App[method] = function(self, pattern, ...)
    check_app(self, method)
    return add_route(self, method, 1, name, pattern, ...)
  end
end

-- `app:any(pattern, handler, …)`: any method → app.
function App:any(pattern, ...)
  check_app(self, "any")
  return add_route(self, "any", 1, "", pattern, ...)
end

-- `app:static(prefix, dir [, opts])`: serves the files of a folder below a path → app. `opts`: `list` (pages
-- for directories without an index), `index` ("index.html"), `hidden` (names that begin with a dot, too),
-- `max_age` (seconds), `immutable`, `cache_control`, `precompressed` (false: no `.br` and `.gz` copies).
function App:static(prefix, dir, opts)
  check_app(self, "static")
  return require "lio.web.static"(self, prefix, dir, opts)
end

-- `app:use([prefix,] middleware)`: `middleware(req, res, next)` runs around the handlers of all requests,
-- or of those below `prefix`, in the order of `use`. `next()` runs what is inside; what a handler returned
-- is in `res` then and goes out when the outermost has returned. → app.
function App:use(prefix, middleware)
  check_app(self, "use")
  if middleware == nil then
    misuse.check_function("use", 1, prefix)
    prefix, middleware = "/", prefix
  end
  misuse.check("use", 1, prefix, "string")
  if prefix:sub(1, 1) ~= "/" then misuse.bad("use", 1, "prefix must begin with '/'") end
  misuse.check_function("use", 2, middleware)
  self.routes:wrapped()
  table.insert(self.wrappers, { prefix = prefix:gsub("/$", ""), run = middleware })
  return self
end

-- `app:on_error(f)`: `f(err, req, res, traceback)` answers for a handler that raised `err`, as a handler
-- does. → app.
function App:on_error(f)
  check_app(self, "on_error")
  misuse.check_function("on_error", 1, f)
  self.error_handler = f
  return self
end

-- `app:not_found(f)`: the handler for paths without a route. → app.
function App:not_found(f)
  check_app(self, "not_found")
  misuse.check_function("not_found", 1, f)
  self.not_found_handler = f
  return self
end

-- What a listener, or a socket that listens, is bound to: ip, port, family.
local function bound(listening)
  local where = listening.address and { listening:address() } or { listening:info("socket"):value() }
  return table.unpack(where, 1, 3)
end

-- The same as an address.
local function address_text(listening)
  local ip, port, family = bound(listening)
  if family == "unix" then return "unix:" .. tostring(ip) end
  local host = ip:find(":", 1, true) and "[" .. ip .. "]" or ip
  return ("http://%s:%d/"):format(host, port)
end

local function is_loopback(listening)
  local ip, _, family = bound(listening)
  return family == "unix" or ip == "::1" or ip:find "^127%." ~= nil or ip:find "^::ffff:127%." ~= nil
end

-- Error pages tell of the program: that others than this machine reach them is worth a line.
local function warn_of_debug(self, listening)
  if not self.settings.debug or is_loopback(listening) then return end
  io.stderr:write("lio: warning: debug = true shows tracebacks and source lines to everyone who reaches ",
    address_text(listening), "\n")
end

-- Reads `port`, `"addr:port"`, `"[v6]:port"` or `"unix:/path"`; a socket that listens is what it is.
local function parse_address(call, where, opts)
  if type(where) == "userdata" then
    misuse.check_kind(call, where, "port or address")
    return where
  end
  if type(where) == "number" then
    misuse.check_port(call, 1, where)
    return opts.addr or "127.0.0.1", where
  end
  if type(where) ~= "string" then misuse.argument(call, 1, "port or address", where) end
  if opts.addr then
    misuse.raise(("app:%s: option 'addr' goes with a port, and not with the address '%s'"):format(call, where))
  end
  if where:match "^unix:." then return where, nil end
  local addr, port = where:match("^%[([%x:.%%]+)%]:(%d+)$")
  if not addr then addr, port = where:match("^([^:]+):(%d+)$") end
  port = math.tointeger(tonumber(port))
  if not addr or port > 65535 then
    misuse.raise(("app:%s: cannot read the address '%s', which would be as in 127.0.0.1:8080"):format(call, where))
  end
  return addr, port
end

-- Returns the server that gives the listener's connections to the app, and its backend.
local function serve(self, driver, listener)
  local app_server = app_servers.new(self, driver)
  local server = driver:serve(listener, app_server)
  table.insert(self.servers, server)
  return server, app_server
end

local function driver_in_use()
  return drivers.of(require("lio.net").instance)
end

local function cannot_listen(addr, port, message)
  return ("cannot listen on %s: %s"):format(port and tostring(addr) .. ":" .. port or tostring(addr), message)
end

-- The options of `net.listen` among those of `app:listen` and `app:run`.
local function of_listener(opts)
  return { backlog = opts.backlog, reuseport = opts.reuseport, v6only = opts.v6only, mode = opts.mode }
end

local function listen(self, call, where, opts)
  local driver = driver_in_use()
  driver:check_loop("app:%s", call)
  local addr, port = parse_address(call, where, opts)
  local listener, message = driver.net.listen(addr, port, of_listener(opts))
  if not listener then
    return nil, cannot_listen(addr, port, message)
  end
  local server, app_server = serve(self, driver, listener)
  listener.on_exhausted = function() app_server:shed() end
  server.url = address_text(listener)
  -- Of several workers the one that started them has said it.
  if not M.worker() then warn_of_debug(self, listener) end
  return server
end

-- `app:listen(where [, opts])` → server; only listens, the loop must run. `where`: a port,
-- `"addr:port"`, `"unix:/path"`, or a socket that listens; `opts`: those of `net.listen`, and `addr`. On
-- failure nil and a message. `server.url` tells the address, `server:stop(grace)` ends it.
function App:listen(where, opts)
  check_app(self, "listen")
  opts = options.check("app:listen", 2, opts, OF_LISTEN)
  return listen(self, "listen", where, opts)
end

-- `app:server()` → a server that listens nowhere: `server:admit(c)` serves a connection that came in another
-- way, such as one end of a pair. `server:stop(grace)` ends it.
function App:server()
  check_app(self, "server")
  local driver = driver_in_use()
  driver:check_loop "app:server"
  return (serve(self, driver))
end

local function announce(url)
  io.stdout:write("lio: serving ", url, "\n")
  io.stdout:flush()
end

local function start_workers(app, where, opts, count)
  local loop = require "lio.loop"
  if loop.drives() then
    misuse.raise "app:run: several workers are started by a program's main chunk, not inside of a loop or a service"
  end
  local addr, port = parse_address("run", where, opts)
  local workers, program = require "lio.web.workers", { module = opts.module, args = opts.args }
  local limits = { grace = app.grace or loop.grace, watchdog = opts.watchdog }
  local ok, message = workers.start(addr, port, of_listener(opts), program, count, limits, function(socket)
    announce(address_text(socket))
    warn_of_debug(app, socket)
  end)
  if not ok then misuse.raise(cannot_listen(addr, port, message)) end
end

-- `app:run(where [, opts])`: listens, prints the address once, and serves until SIGINT, SIGTERM or
-- `lio.loop`'s `stop`. Inside a task of a loop that runs already it serves until the server stops.
-- `opts.workers`: so many services of the scheduler serve the address, each of which runs the program.
function App:run(where, opts)
  check_app(self, "run")
  opts = options.check("app:run", 2, opts, OF_RUN)
  local loop = require "lio.loop"
  driver_in_use():check_loop "app:run"
  local count = opts.workers or 1
  if count > 1 then
    local workers = require "lio.web.workers"
    local is_worker, socket = workers.take()
    if not is_worker then return start_workers(self, where, opts, count) end
    -- Another call is the starting VM's to begin, or is done.
    if not socket then return end
    where = socket
  end
  local server, message = listen(self, "run", where, opts)
  if not server then misuse.raise(message) end
  if count > 1 then require("lio.web.workers").serves(server) end
  -- Who reads the address may send a signal at once.
  local _ <close> = not loop.is_running() and assert(require("lio.signal").hold("SIGINT", "SIGTERM")) or nil
  if count == 1 then announce(server.url) end
  if loop.is_running() then return server:wait() end
  loop.grace = self.grace or loop.grace
  return loop.run(server.wait, server)
end

-- Middleware of the library's own is loaded when it is first asked for.
local LAZY <const> = { compress = "lio.web.compress", log = "lio.web.log" }

return setmetatable(M, {
  __index = function(_, name)
    local module = LAZY[name]
    if not module then return nil end
    M[name] = require(module)
    return M[name]
  end,
})
