-- `lio.webserver`: HTTP servers in Lua, on `lio.net`.
--
--   local web = require "lio.webserver"
--   local app = web.new()
--   app:get("/", function(req, res) return "Hello, World!\n" end)
--   app:run(8080)
--
-- An app is a table of routes and middleware. Handlers get a request (web/request.lua) and a response
-- (web/response.lua); web/app_server.lua serves the connections of a listener.

local debug <const> = debug or require "lio.debug"
local html = require "lio.web.html"
local http = require "lio.http"
local listening = require "lio.web.listening"
local misuse = require "lio.misuse"
local mounting = require "lio.web.mount"
local percent_decode <const> = require "lio.http.percent_decode"
local next_of = require("lio.web.middleware").next_of
local settings = require "lio.web.settings"

local M = { defaults = settings.defaults }

-- `web.worker()` returns the number of this worker, and the number of workers; nil if the program does not run in
-- workers (see `app:run`).
M.worker = listening.worker

-- `web.html(text)` returns a value that a handler can return in the place of a body. The text is sent as HTML; a plain
-- string is sent as plain text.
M.html = html.html

-- `web.escape(text)` returns the text, escaped for the content or for a quoted attribute of an HTML page.
M.escape = html.escape

-- `web.url_escape(text)` returns the text, percent-encoded for one segment of a path, or for a name or a value of a
-- query. `web.url_unescape(text)` decodes each `%xx`; it changes neither other percent signs nor `+`.
M.url_escape = http.percent_encode
function M.url_unescape(text)
  misuse.check("url_unescape", 1, text, "string")
  return percent_decode(text)
end

-- The library's own middleware is loaded when it is first used.
local LAZY <const> = {
  basic_auth = "lio.web.basic_auth",
  compress = "lio.web.compress",
  cors = "lio.web.cors",
  csrf = "lio.web.csrf",
  hsts = "lio.web.hsts",
  https_redirect = "lio.web.https_redirect",
  log = "lio.web.log",
  memory_store = "lio.web.memory_store",
  rate_limit = "lio.web.rate_limit",
  request_id = "lio.web.request_id",
  sessions = "lio.web.sessions",
  trust_proxy = "lio.web.trust_proxy",
}

-- Raises if the value is not middleware, but one of the functions that make it, such as `web.log`.
local function check_is_middleware(value)
  for name in pairs(LAZY) do
    if value ~= nil and rawequal(rawget(M, name), value) then
      misuse.raise(("app:use: web.%s makes middleware: call it, as in app:use(web.%s())"):format(name, name))
    end
  end
end

local App = {}
App.__index = App
App.__name = "lio.webserver"

-- `web.new([options])` returns an app. `web.defaults` contains the options with their default values.
function M.new(opts)
  return setmetatable({
    settings = settings.new(opts),
    grace = opts and opts.grace, -- nil: `loop.grace` applies
    routes = http.routes(),
    handlers = {}, -- id of a route: its handler
    entries = {}, -- id of a route: its method, pattern, handler, and the program's function
    listed = {}, -- the entries, in the order in which they were added
    names = {}, -- name of a route: its entry
    wrappers = {}, -- middleware
    servers = setmetatable({}, { __mode = "v" }), -- servers of the app; for tests
    mounts = {}, -- mounts of other apps in this app
    mounted_in = {}, -- mounts of this app in other apps
  }, App)
end

local function check_app(app, call)
  if getmetatable(app) ~= App then misuse.no_colon("app", call) end
end

-- Adding routes ----------------------------------------------------------------------------------------

-- Combines the handlers of a route into one function, which runs the first handler. The argument `next` of a handler
-- runs the next handler.
local function sequence(handlers)
  if #handlers == 1 then return handlers[1] end
  return function(req, res)
    local function from(index)
      local f = handlers[index]
      if not handlers[index + 1] then return f(req, res, function() end) end
      return f(req, res, next_of(res, "handler", handlers[index + 1], function() return from(index + 1) end))
    end
    return from(1)
  end
end

-- Returns a function that calls a handler, which may be a table with `__call`, such as a result of `web.rate_limit`.
local function as_function(handler)
  if type(handler) == "function" then return handler end
  return function(req, res, next) return handler(req, res, next) end
end

-- Raises if a constraint is malformed, because Lua would raise only at the first request.
local function check_constraints(routes, id, pattern, call)
  for name, constraint in pairs(routes:constraints(id) or {}) do
    local ok, message = pcall(string.find, "", "^" .. constraint .. "$")
    if not ok then
      misuse.raise(("%s: the constraint of '%s' in '%s': %s"):format(call, name, pattern, message))
    end
  end
end

-- Adds a route for `app:get` and similar calls. `from.call` is the name of the call; `from.index` is the position of
-- the argument `pattern`.
local function add_route(app, from, method, pattern, ...)
  local call, index = from.call, from.index
  misuse.check(call, index, pattern, "string")
  if not utf8.len(pattern) then misuse.bad(call, index, "pattern must be UTF-8") end
  local handlers = table.pack(...)
  if handlers.n == 0 then misuse.raise(("app:%s: a handler is missing"):format(call)) end
  local first = handlers[1]
  for at = 1, handlers.n do
    misuse.check_function(call, index + at, handlers[at])
    handlers[at] = as_function(handlers[at])
  end
  return app:add_entry(method, pattern, sequence(handlers), call, first)
end

-- `app:route(method, pattern, handler, …)` returns app. `method` is in upper case; `""` means every method. Patterns
-- are `/users/:id`, `/files/*path` for the rest of a path, and `/users/:id<%d+>` with a Lua pattern that the whole
-- value must match.
function App:route(method, pattern, ...)
  check_app(self, "route")
  misuse.check("route", 1, method, "string")
  local upper = method:upper()
  if method ~= upper and (App[method:lower()] or upper == "CONNECT" or upper == "TRACE") then
    misuse.bad("route", 1, ("methods are in upper case: '%s' expected, got '%s'"):format(upper, method))
  end
  return add_route(self, { call = "route", index = 2 }, method, pattern, ...)
end

-- `app:get(pattern, handler, …)`, `app:post(…)` and so on add a route for the method, and return app.
for _, method in ipairs { "get", "post", "put", "patch", "delete", "head", "options" } do
  local name = method:upper()
  App[method] = function(self, pattern, ...)
    check_app(self, method)
    return add_route(self, { call = method, index = 1 }, name, pattern, ...)
  end
end

-- `app:any(pattern, handler, …)` adds a route that matches every method, and returns app.
function App:any(pattern, ...)
  check_app(self, "any")
  return add_route(self, { call = "any", index = 1 }, "", pattern, ...)
end

-- `app:ws(pattern, [opts,] handler)` adds a route that accepts WebSocket connections, and returns app. `handler(ws,
-- req)` runs in a task for each connection, which is closed when it returns; or `handler` is a table of the functions
-- `open(ws, req)`, `message(ws, message, kind)` and `close(ws, code, reason)`, and then a connection without messages
-- has no task. `opts`: see web/websocket.lua.
function App:ws(pattern, opts, handler)
  check_app(self, "ws")
  if handler == nil then opts, handler = nil, opts end
  local accept = require("lio.web.websocket").handler(opts, handler)
  return add_route(self, { call = "ws", index = 1 }, "GET", pattern, accept)
end

-- `app:name(name)` names the route that was added last, for `app:url_for`. Returns app.
function App:name(name)
  check_app(self, "name")
  require("lio.web.url_for").name(self, name)
  return self
end

-- `app:url_for(route, params [, query])` returns the path of a route. `route` is a name, or the pattern of a route of
-- this app or of a mounted app. `params` has a value for each parameter of the pattern; `query` is a table of the
-- values of a query, which may be lists. All values are escaped.
function App:url_for(route, params, query)
  check_app(self, "url_for")
  return require("lio.web.url_for").build(self, route, params, query)
end

-- `app:static(prefix, dir [, opts])` returns app. Serves the files of the folder `dir` below the path `prefix`. `opts`:
-- `list` (pages for directories without an index), `index` ("index.html"), `hidden` (also serves names that begin with
-- a dot), `max_age` (seconds), `immutable`, `cache_control`, `precompressed` (false: ignores `.br` and `.gz` copies).
function App:static(prefix, dir, opts)
  check_app(self, "static")
  return require "lio.web.static"(self, prefix, dir, opts)
end

-- `app:mount(prefix, other)` returns app. Adds the routes of another app below `prefix`, which may have parameters. In
-- handlers and middleware of the other app, `req.path` has no prefix. The other app's `on_error` and `not_found` apply
-- below the prefix; its options do not. Routes that are added to the other app later are also added to this app.
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

-- `app:add_entry(method, pattern, handler, call, origin)` returns app. Adds a route with one handler to this app and to
-- the apps in which this app is mounted. `call` is the name of the call in messages, such as "get". `origin`: the
-- program's function, whose results the handler returns.
function App:add_entry(method, pattern, handler, call, origin)
  local ok, id = pcall(self.routes.add, self.routes, method, pattern)
  if not ok then misuse.raise(("app:%s: %s"):format(call, id)) end
  check_constraints(self.routes, id, pattern, "app:" .. call)
  self.handlers[id] = handler
  local info = debug.getinfo(handler, "u")
  if info.nparams < 2 and not info.isvararg then self.routes:set_argument_count(id, info.nparams) end
  local entry = { method = method, pattern = pattern, handler = handler, origin = origin }
  self.entries[id] = entry
  self.listed[#self.listed + 1] = entry
  mounting.spread(self, entry, call)
  return self
end

-- Functions around handlers ----------------------------------------------------------------------------

-- `app:use([prefix,] middleware)` returns app. `middleware(req, res, next)` runs around the handlers of all requests,
-- or of the requests below `prefix`. The middleware that was added first is the outermost. `next()` runs the inner
-- middleware and the handler; then `res` contains their response. The response is sent when the outermost middleware
-- has returned.
function App:use(prefix, middleware)
  check_app(self, "use")
  check_is_middleware(middleware == nil and prefix or middleware)
  if middleware == nil then
    misuse.check_function("use", 1, prefix)
    prefix, middleware = "/", prefix
  end
  misuse.check("use", 1, prefix, "string")
  if prefix:sub(1, 1) ~= "/" then misuse.bad("use", 1, "prefix must begin with '/'") end
  misuse.check_function("use", 2, middleware)
  self.routes:add_middleware()
  table.insert(self.wrappers, { prefix = prefix:gsub("/$", ""), run = middleware })
  return self
end

-- `app:on_error(f)` returns app. If a handler raises `err`, `f(err, req, res, traceback)` responds instead.
function App:on_error(f)
  check_app(self, "on_error")
  misuse.check_function("on_error", 1, f)
  self.error_handler = f
  return self
end

-- `app:not_found(f)` returns app. `f` is the handler for paths without a route.
function App:not_found(f)
  check_app(self, "not_found")
  misuse.check_function("not_found", 1, f)
  self.not_found_handler = f
  return self
end

-- Serving ----------------------------------------------------------------------------------------------

-- `app:listen(where [, opts])` returns a server, or nil and a message. The call does not run the loop. `where` is a
-- port, `"addr:port"`, `"[v6]:port"`, `"unix:/path"`, or a listening socket; `opts` are those of `net.listen`, and
-- `addr` and `proxy_protocol` (web/listening.lua). `server.url` is the address; `server:stop(grace)` ends the server.
function App:listen(where, opts)
  check_app(self, "listen")
  return listening.listen(self, where, opts)
end

-- `app:server()` returns a server that does not listen: `server:admit(c)` serves a connection that the program already
-- has, such as one end of a pair. `server:stop(grace)` ends the server.
function App:server()
  check_app(self, "server")
  return listening.server(self)
end

-- `app:test([opts])` returns a client that sends requests to this app in memory, without a socket, for tests. See
-- lio/testing/client.lua. Must be used in a task.
function App:test(opts)
  check_app(self, "test")
  return require("lio.testing.client").new(self, opts)
end

-- `app:run(where [, opts])`: listens, prints the address once, and serves until SIGINT, SIGTERM or `stop` of
-- `lio.loop`. In a task of a running loop, `run` serves until the server stops. `opts` are those of `listen`, and
-- `workers` (how many services of the scheduler serve the address; each of them runs the program) and `watchdog` (after
-- how many seconds of CPU time an endless loop in a worker is reported).
function App:run(where, opts)
  check_app(self, "run")
  return listening.run(self, where, opts)
end

return setmetatable(M, {
  __index = function(_, name)
    local module = LAZY[name]
    if not module then return nil end
    M[name] = require(module)
    return M[name]
  end,
})
