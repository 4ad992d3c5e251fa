-- `app:test()`: a client that speaks to an app's server in the same VM, without a socket. The bytes of a request go
-- through the same server as those of a network connection: parsing, limits, routes, middleware, responses. Part of
-- `lio.testing`.
--
-- Invariant: the client does its work in the tasks that call it, and in the hooks of the loop: while a task waits for a
-- response, `before_wait` checks after each flush whether data has arrived, and a timer that is due at once keeps the
-- loop from waiting for I/O.

local app_servers = require "lio.web.app_server"
local connections = require "lio.testing.connection"
local cookie_jars = require "lio.testing.cookies"
local drivers = require "lio.net.driver"
local handler_error = require "lio.web.handler_error"
local http = require "lio.http"
local misuse = require "lio.misuse"
local options = require "lio.options"
local requests = require "lio.http.client.request"
local responses = require "lio.http.client.response"
local runner = require "lio.testing.runner"
local task = require "lio.task"
local urls = require "lio.http.client.url"

local owner <const> = http.head.owner
local SLOT <const> = (1 << 20) - 1

local M = {}

local SHARED_OPTIONS <const> = {
  headers = options.table,
  redirects = options.whole(0),
  timeout = options.seconds,
  limit = options.limit,
  decode = options.boolean,
}

local REQUEST_OPTIONS <const> = {
  method = options.any,
  path = options.string,
  url = options.string,
  query = options.any,
  body = options.any,
  json = options.any,
  form = options.table,
  stream = options.boolean,
}

local CLIENT_OPTIONS <const> = {
  base_url = options.string,
  cookies = options.boolean,
  remote_addr = options.string,
  remote_port = options.integer(0, 65535),
}

for name, rule in pairs(SHARED_OPTIONS) do
  REQUEST_OPTIONS[name], CLIENT_OPTIONS[name] = rule, rule
end

local DEFAULTS <const> = {
  base_url = "http://localhost",
  cookies = true,
  remote_addr = "127.0.0.1",
  remote_port = 0,
  redirects = 0,
  limit = 64 * 1024 * 1024,
  decode = true,
}

local Client = { __name = "lio.testing.client" }
Client.__index = Client

local function check_client(self, call)
  if getmetatable(self) ~= Client then misuse.no_colon("client", call) end
end

-- The loop ---------------------------------------------------------------------------------------------

-- The hooks, the timer and the connections of a client.
local Pool = {}
Pool.__index = Pool

-- Called after the server has sent its queues.
function Pool:before_wait()
  local client = self.client
  local is_ready = false
  for conn in pairs(self.all) do
    if conn.responses:pump() and conn.token then is_ready = true end
  end
  if is_ready or client.app_server.server:work_count() > 0 then client.driver.timers:set(self.timer, 0) end
end

function Pool.after_events() end

function Pool:expired()
  for conn in pairs(self.all) do conn:wake() end
  self.client.app_server:serve()
end

-- Creating ---------------------------------------------------------------------------------------------

-- Called for an error in a handler of the server, instead of writing it to the log.
local function on_handler_error(client, req, err)
  local _, id = owner(req)
  local text = ("error in %s %s: %s"):format(req.method, req.target, err.text)
  for conn in pairs(client.pool.all) do
    if conn.slot == id & SLOT then conn.handler_error = { value = err.value, text = err.text } end
  end
  if not runner.note(text) then return false end
  return true
end

-- `new(app, opts)` implements `app:test`.
function M.new(app, opts)
  local all = {}
  for name, value in pairs(DEFAULTS) do all[name] = value end
  for name, value in pairs(options.check("app:test", 1, opts, CLIENT_OPTIONS)) do all[name] = value end
  local base, message = urls.parse(all.base_url)
  if not base then misuse.raise("app:test: option 'base_url': " .. message) end
  if not require("lio.resolver").is_numeric(all.remote_addr) then
    misuse.raise(("app:test: option 'remote_addr' must be an IP address, got %q"):format(all.remote_addr))
  end
  local driver = drivers.of(require("lio.net").instance)
  driver:check_loop "app:test"
  local client = setmetatable({
    settings = all, base = base, driver = driver, headers = {}, jar = cookie_jars.new(),
  }, Client)
  -- `all`: the open connections; `idle`: those that no request uses.
  client.pool = setmetatable({ client = client, all = {}, idle = {} }, Pool)
  client.pool.timer = driver.timers:create(client.pool)
  -- Hooks that were added first are called last: the client's after the server's.
  driver:add_hooks(client.pool)
  client.app_server = app_servers.new(app, driver)
  handler_error.observe(client.app_server.server, function(req, err) return on_handler_error(client, req, err) end)
  for name, value in pairs(all.headers or {}) do client.headers[name] = value end
  runner.on_test_end(function() client:close() end)
  return client
end

-- Connections ------------------------------------------------------------------------------------------

-- `pool:acquire()` returns a connection that no request uses, or a new one; nil if the server has no room for it.
function Pool:acquire()
  local conn = table.remove(self.idle)
  while conn and not conn:is_reusable() do
    conn:close()
    conn = table.remove(self.idle)
  end
  if conn then return conn end
  conn = connections.new(self.client)
  if conn then self.all[conn] = true end
  return conn
end

-- `pool:release(conn)`: takes back a connection at the end of a response.
function Pool:release(conn)
  if not conn:is_reusable() then return conn:close() end
  self.idle[#self.idle + 1] = conn
end

-- `pool:forget(conn)`: removes a closed connection.
function Pool:forget(conn)
  self.all[conn] = nil
  for index, other in ipairs(self.idle) do
    if other == conn then return table.remove(self.idle, index) end
  end
end

-- Requests ---------------------------------------------------------------------------------------------

-- Returns the client's default headers as a list, so that the order is the same in every run.
local function default_headers(client)
  local names, list = {}, {}
  for name in pairs(client.headers) do names[#names + 1] = name end
  table.sort(names)
  for index, name in ipairs(names) do list[index] = { name, client.headers[name] } end
  return list
end

local function prepare(client, opts)
  local target = opts.path or opts.url or "/"
  local all = {}
  for name, value in pairs(opts) do all[name] = value end
  all.url, all.path = target, nil
  local request, message = requests.new(all, { base = client.base, headers = default_headers(client) })
  if not request then error("url: " .. message, 0) end
  local function option(name)
    if opts[name] ~= nil then return opts[name] end
    return client.settings[name]
  end
  request.decode = option "decode"
  request.limit = options.to_integer(opts.limit or (opts.stream and math.maxinteger or client.settings.limit))
  request.redirects = option "redirects"
  request.history = {}
  request.sets_cookie = request.fields.by_name.cookie ~= nil
  return request
end

-- Sends a request. Returns the response, whose body has not been read; or nil, message, code.
local function send(client, request)
  if client.settings.cookies and not request.sets_cookie then
    request.fields:remove "cookie"
    local cookie = client.jar:header(request.url)
    if cookie then request.fields:add("Cookie", cookie) end
  end
  request:render(nil, nil)
  local conn = client.pool:acquire()
  if not conn then return nil, "the server has no room for a connection", "closed" end
  conn.handler_error = nil
  local status, head, code = conn:request(request)
  if not status then
    conn:close()
    return nil, head, code
  end
  local response = responses.new(conn, status, head, request)
  response.served_by = conn
  if client.settings.cookies then
    for _, field in ipairs(response:header_all "set-cookie") do client.jar:store(request.url, field) end
  end
  return response
end

-- Reads the body of a response, unless the request streams it. Returns the response; or nil, message, code.
local function complete(response, opts)
  local conn = response.served_by
  response.served_by = nil
  if responses.release_if_complete(response) then
    if not opts.stream then response.body = "" end
  elseif not opts.stream and response.status ~= 101 then
    local text, message, code = response:text()
    if not text then return nil, message, code end
  end
  response.error = conn.handler_error and conn.handler_error.text
  return response
end

local function perform(client, call, opts)
  if client.is_closed then misuse.raise(call .. ": the client is closed") end
  if not task.current() then
    misuse.raise(call .. ": no task is running; call it in testing.test or loop.run")
  end
  local ok, request = pcall(prepare, client, opts)
  if not ok then misuse.raise(call .. ": " .. tostring(request)) end
  while true do
    local response, message, code = send(client, request)
    if not response then return nil, message, code end
    local location = response.headers.location
    local follows = #request.history < request.redirects and request:redirect(response.status, location)
    if not follows then return complete(response, opts) end
    request.history[#request.history + 1] = responses.summary(response)
    responses.discard(response, math.maxinteger)
  end
end

-- `client:request(opts)` sends a request and returns its response; or nil, message, code if the server has closed the
-- connection before the end of the response.
function Client:request(opts)
  check_client(self, "request")
  misuse.check("request", 1, opts, "table")
  return perform(self, "client:request", options.check("client:request", 1, opts, REQUEST_OPTIONS))
end

-- `client:get(path [, opts])` and so on: requests with this method.
for _, name in ipairs { "get", "head", "post", "put", "patch", "delete", "options" } do
  local call, method = "client:" .. name, name:upper()
  Client[name] = function(self, path, opts)
    check_client(self, name)
    misuse.check(name, 1, path, "string")
    local all = { path = path, method = method }
    for key, value in pairs(options.check(call, 2, opts, REQUEST_OPTIONS)) do all[key] = value end
    return perform(self, call, all)
  end
end

-- `client:header(name [, value])`: sends this header with every request; if `value` is nil, no longer sends it.
function Client:header(name, value)
  check_client(self, "header")
  misuse.check("header", 1, name, "string")
  for known in pairs(self.headers) do
    if known:lower() == name:lower() then self.headers[known] = nil end
  end
  self.headers[name] = value
  return self
end

-- Cookies ----------------------------------------------------------------------------------------------

-- `client:cookie(name [, path = "/"])` returns the value of a cookie that a request for the path would send, or nil.
function Client:cookie(name, path)
  check_client(self, "cookie")
  misuse.check("cookie", 1, name, "string")
  local url = assert(urls.resolve(self.base, path or "/"))
  for _, cookie in ipairs(self.jar:for_url(url)) do
    if cookie.name == name then return cookie.value end
  end
end

-- `client:set_cookie(name, value)`: stores a cookie for every path. If `value` is nil, deletes it.
function Client:set_cookie(name, value)
  check_client(self, "set_cookie")
  misuse.check("set_cookie", 1, name, "string")
  self.jar:store(self.base, ("%s=%s; Path=/%s"):format(name, value or "", value and "" or "; Max-Age=0"))
  return self
end

-- `client:clear_cookies()`: deletes all cookies.
function Client:clear_cookies()
  check_client(self, "clear_cookies")
  self.jar:clear()
  return self
end

-- Closing ----------------------------------------------------------------------------------------------

-- `client:close()`: closes the connections and the server. Tasks that wait for a response get nil, "closed", "closed".
-- Called at the end of the test in which the client was created. Idempotent.
function Client:close()
  check_client(self, "close")
  if self.is_closed then return end
  self.is_closed = true
  local list = {}
  for conn in pairs(self.pool.all) do list[#list + 1] = conn end
  for _, conn in ipairs(list) do conn:close() end
  self.driver:remove_hooks(self.pool)
  self.driver.timers:free(self.pool.timer)
  self.app_server:close()
end

Client.__close = Client.close

return M
