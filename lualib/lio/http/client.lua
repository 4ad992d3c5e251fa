-- `lio.http.client`: requests to HTTP servers. A request blocks the calling task, not the thread.
--
-- A client keeps connections for later requests to the same server; `client.get` and the other functions of the module
-- share one client. Failures outside the program are returned as `nil, message, code`; misuse raises. Every wait ends
-- at the latest when its timeout expires, the connection ends, or the client is closed.

local drivers = require "lio.net.driver"
local misuse = require "lio.misuse"
local options = require "lio.options"
local perform <const> = require "lio.http.client.perform"
local pools = require "lio.http.client.pool"
local urls = require "lio.http.client.url"

local M = {}

local seconds <const> = options.either(options.seconds, options.rule("false for no limit", options.is_false.test))

-- The options that both clients and requests accept.
local SHARED_OPTIONS <const> = {
  timeout = seconds,
  connect_timeout = seconds,
  read_timeout = seconds,
  write_timeout = seconds,
  redirects = options.whole(0),
  limit = options.limit,
  decode = options.boolean,
  headers = options.table,
  proxy = options.either(options.string, options.is_false),
  tls = options.any,
  socket = options.rule("a path", function(value) return type(value) == "string" and value ~= "" end),
}

local REQUEST_OPTIONS <const> = {
  url = options.any,
  method = options.any,
  body = options.any,
  query = options.any,
  json = options.any,
  form = options.table,
  stream = options.boolean,
  expect_continue = options.either(options.boolean, options.number(0)),
  idempotent = options.boolean,
}

-- The upper bound of `max_fields` is the size of the parser's table.
local CLIENT_OPTIONS <const> = {
  base_url = options.string,
  max_idle = options.limit,
  max_idle_per_host = options.limit,
  max_per_host = options.limit,
  idle_timeout = options.seconds_from_0,
  max_header = options.whole(1, 1 << 30),
  max_fields = options.whole(1, 256),
  net = options.rule("an instance of lio.net", function(value) return (pcall(drivers.of, value)) end),
}

for name, rule in pairs(SHARED_OPTIONS) do
  REQUEST_OPTIONS[name], CLIENT_OPTIONS[name] = rule, rule
end

M.defaults = {
  connect_timeout = 10,
  read_timeout = 60,
  write_timeout = 60,
  redirects = 10,
  limit = 64 * 1024 * 1024,
  decode = true,
  max_idle = 100,
  max_idle_per_host = 16,
  max_per_host = math.huge,
  idle_timeout = 60,
  max_header = 64 * 1024,
  max_fields = 200,
}

local Client = { __name = "lio.http.client" }
Client.__index = Client

local function with_url(self, call, method, url, opts)
  local all = { url = url, method = method }
  for name, value in pairs(options.check(call, 2, opts, REQUEST_OPTIONS)) do all[name] = value end
  return perform(self, call, all)
end

local function check_client(self, call)
  if getmetatable(self) ~= Client then misuse.no_colon("client", call) end
end

-- `client:request(options)` returns a response; or nil, message, code. Codes: `"timeout"`, `"closed"`, `"reset"`,
-- `"refused"`, `"unresolved"` and other codes of `lio.net`; `"url"`, `"tls"`, `"protocol"` (a malformed response),
-- `"truncated"`, `"too long"`, `"corrupt"` (the body cannot be decoded), `"redirect"`, `"body"` (the request's body
-- cannot be read, or is shorter than announced).
function Client:request(opts)
  check_client(self, "request")
  misuse.check("request", 1, opts, "table")
  return perform(self, "client:request", options.check("client:request", 1, opts, REQUEST_OPTIONS))
end

local METHODS <const> = { "get", "head", "post", "put", "patch", "delete" }

for _, name in ipairs(METHODS) do
  local call, method = "client:" .. name, name:upper()
  Client[name] = function(self, url, opts)
    check_client(self, name)
    return with_url(self, call, method, url, opts)
  end
end

-- `client:counts()` returns a table: `open` and `idle` connections now, `opened` and `reused` so far.
function Client:counts()
  check_client(self, "counts")
  return self.pool:counts()
end

-- `client:close_idle()`: closes the connections that no request uses.
function Client:close_idle()
  check_client(self, "close_idle")
  self.pool:close_idle()
end

-- `client:close()`: fails all requests and closes all connections. Later requests return `nil, "closed", "closed"`.
function Client:close()
  check_client(self, "close")
  self.pool:close()
end

Client.__close = Client.close

-- `new([options])` returns a client. Options: those in `SHARED_OPTIONS`, as defaults for requests; and `base_url`,
-- `max_idle`, `max_idle_per_host`, `max_per_host`, `idle_timeout`, `max_header`, `max_fields`, `net`.
function M.new(opts)
  opts = options.check("http.new", 1, opts, CLIENT_OPTIONS)
  local all = {}
  for name, value in pairs(M.defaults) do all[name] = value end
  for name, value in pairs(opts) do all[name] = value end
  -- The program may have changed the defaults.
  options.check("http.new", 1, all, CLIENT_OPTIONS)
  local base, message
  if all.base_url then
    base, message = urls.parse(all.base_url)
    if not base then misuse.raise("http.new: option 'base_url': " .. message) end
  end
  local pool = pools.new {
    net = all.net,
    max_idle = all.max_idle,
    max_idle_per_host = all.max_idle_per_host,
    max_per_host = all.max_per_host,
    idle_timeout = all.idle_timeout,
    headers = math.tointeger(all.max_header),
    fields = math.tointeger(all.max_fields),
  }
  return setmetatable({ options = all, base = base, pool = pool }, Client)
end

-- The client that the functions of the module share, created when it is first needed.
local shared_client

local function get_shared_client()
  shared_client = shared_client or M.new()
  return shared_client
end

for _, name in ipairs(METHODS) do
  local call, method = "http." .. name, name:upper()
  M[name] = function(url, opts)
    return with_url(get_shared_client(), call, method, url, opts)
  end
end

function M.request(opts)
  misuse.check("request", 1, opts, "table")
  return perform(get_shared_client(), "http.request", options.check("http.request", 1, opts, REQUEST_OPTIONS))
end
function M.counts() return get_shared_client():counts() end
function M.close_idle() return get_shared_client():close_idle() end

return M
