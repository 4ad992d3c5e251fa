-- `lio.http.client`: requests to HTTP servers. The task that asks waits, the thread does not.
--
-- A client keeps connections for the next request to the same server; `client.get` and the others are those of one
-- client that the module has. Everything that can go wrong outside of the program is `nil, message, code`;
-- misuse raises. Every wait has an end: a time-out, an end of the connection, or `close`.

local pools = require "lio.http.client.pool"
local requests = require "lio.http.client.request"
local responses = require "lio.http.client.response"
local decoding = require "lio.http.client.decoding"
local urls = require "lio.http.client.url"
local misuse = require "lio.misuse"
local options = require "lio.options"
local now <const> = require("lio").now

local M = {}

-- Of a followed answer, so many bytes are read to keep its connection.
local DISCARD_MOST <const> = 64 * 1024

local seconds <const> = options.either(options.seconds, options.rule("false for no limit", options.is_false.test))
local count <const> = options.number(0)

-- Options of a client and of each of its requests.
local SHARED <const> = {
  timeout = seconds,
  connect_timeout = seconds,
  read_timeout = seconds,
  write_timeout = seconds,
  redirects = count,
  limit = count,
  decode = options.boolean,
  headers = options.table,
  proxy = options.either(options.string, options.boolean),
  socket = options.string,
}

local OF_REQUEST <const> = {
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

local OF_CLIENT <const> = {
  base_url = options.string,
  max_idle = count,
  max_idle_per_host = count,
  max_per_host = count,
  idle_timeout = count,
  max_header = count,
  max_fields = count,
  net = options.table,
}

for name, rule in pairs(SHARED) do OF_REQUEST[name], OF_CLIENT[name] = rule, rule end

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

-- An option of a request: its own, else the client's.
local function option(self, opts, name)
  local value = opts[name]
  if value == nil then value = self.options[name] end
  return value or nil
end

local function timing_of(self, opts)
  local whole = option(self, opts, "timeout")
  return {
    connect = option(self, opts, "connect_timeout"),
    read = option(self, opts, "read_timeout"),
    write = option(self, opts, "write_timeout"),
    deadline = whole and now() + whole,
  }
end

-- Where the connection for a request goes. → place, or nil, message, code.
local function place_of(request)
  if request.url.scheme ~= "http" then
    return nil, "https addresses need TLS, which is not there yet", "tls"
  end
  local socket, via = request.socket, request.proxy or request.url
  if socket then return { key = "unix:" .. socket, addr = "unix:" .. socket } end
  if via.scheme ~= "http" then return nil, "a proxy by https needs TLS, which is not there yet", "tls" end
  return { key = via.host .. " " .. via.port, addr = via.host, port = via.port }
end

local LOST <const> = { closed = true, reset = true, truncated = true }

-- Whether a failed request may be sent once more: on a connection that was kept, the server may have ended it before
-- the request came. What is no idempotent request might be carried out twice (RFC 9112 section 9.5).
local function may_repeat(request, conn, code)
  return conn.uses > 1 and LOST[code] and not conn.x:has_begun() and request.is_idempotent
    and (not request.body or request.body:rewind())
end

-- Sends a request once, on a kept connection if there is one. → response; or nil, message, code, and whether to send it
-- again.
local function try(self, request, place, fresh)
  local pool, timing = self.pool, request.timing
  local conn, message, code = pool:acquire(place, timing, fresh)
  if not conn then return nil, message, code end
  local guard <close> = setmetatable({ conn = conn }, { __close = function(guard)
    if guard.conn then guard.conn:close() end
  end })
  local status, head, why = conn:request(timing, request)
  if status then
    guard.conn = nil
    return responses.new(conn, pool, status, head, request)
  end
  return nil, head, why, may_repeat(request, conn, why)
end

-- Sends a request, again if need be. → response, or nil, message, code.
local function send(self, request)
  local place, message, code = place_of(request)
  if not place then return nil, message, code end
  request:render(request.decode and decoding.ACCEPTED or nil, request.proxy)
  local response, again
  response, message, code, again = try(self, request, place, false)
  if again then response, message, code = try(self, request, place, true) end
  if not response then return nil, message, code end
  -- RFC 9110 section 15.5.18: the server does not know what to expect.
  if response.status == 417 and request.expects and request.body:rewind() then
    responses.discard(response, DISCARD_MOST)
    request.expects = nil
    return send(self, request)
  end
  return response
end

-- Sends a request and follows where its answers point.
local function follow(self, request, most)
  while true do
    local response, message, code = send(self, request)
    if not response then return nil, message, code end
    local at = request.url
    local going, problem = false, nil
    if most > 0 then going, problem = request:redirect(response.status, response.headers.location) end
    if going == nil then
      response:close()
      return nil, "redirect: " .. problem, "redirect"
    end
    if not going then return response end
    if #request.history >= most then
      response:close()
      return nil, "more than " .. most .. " redirects", "redirect"
    end
    -- A socket's path stands for one server.
    if request.socket and not request.url:is_same_origin(at) then
      response:close()
      return nil, "redirect: to another server than that of the socket", "redirect"
    end
    request.history[#request.history + 1] = responses.summary(response)
    responses.discard(response, DISCARD_MOST)
  end
end

local function prepare(self, opts)
  local request, message = requests.new(opts, { base = self.base, headers = self.options.headers })
  if not request then return nil, "url: " .. message, "url" end
  request.timing = timing_of(self, opts)
  request.decode = option(self, opts, "decode")
  request.socket = option(self, opts, "socket")
  -- A stream is only bounded when its own request says so.
  request.limit = options.to_integer(opts.limit or (opts.stream and math.maxinteger or self.options.limit))
  request.history = {}
  local proxy = option(self, opts, "proxy")
  if proxy then
    request.proxy, message = urls.parse(proxy)
    if not request.proxy then return nil, "proxy: " .. message, "url" end
  end
  return request
end

-- Makes the request of a call such as "http.get", whose options are checked.
local function perform(self, call, opts)
  self.pool:driver():check_loop("http.client: %s request", opts.method or "GET")
  local ok, request, message, code = pcall(prepare, self, opts)
  if not ok then misuse.raise(call .. ": " .. tostring(request)) end
  if not request then return nil, message, code end
  local response
  response, message, code = follow(self, request, option(self, opts, "redirects") or 0)
  if not response then return nil, message, code end
  if responses.settle(response) then
    if not opts.stream then response.body = "" end
  elseif not opts.stream and response.status ~= 101 then
    local _ <close> = response
    local text
    text, message, code = response:text()
    if not text then return nil, message, code end
  end
  return response
end

local function with_url(self, call, method, url, opts)
  local all = { url = url, method = method }
  for name, value in pairs(options.check(call, 2, opts, OF_REQUEST)) do all[name] = value end
  return perform(self, call, all)
end

local function check_client(self, call)
  if getmetatable(self) ~= Client then
    misuse.no_colon("client", call)
  end
end

-- `client:request(options)` → response; or nil, message, code. Codes: `"timeout"`, `"closed"`, `"reset"`, `"refused"`,
-- `"unresolved"` and other words of `lio.net`; `"url"`, `"tls"`, `"protocol"` (what came is no right answer),
-- `"truncated"`, `"too long"`, `"corrupt"` (a coded body), `"redirect"`, `"body"` (of the request).
function Client:request(opts)
  check_client(self, "request")
  misuse.check("request", 1, opts, "table")
  return perform(self, "client:request", options.check("client:request", 1, opts, OF_REQUEST))
end

local METHODS <const> = { "get", "head", "post", "put", "patch", "delete" }

for _, name in ipairs(METHODS) do
  local call, method = "client:" .. name, name:upper()
  Client[name] = function(self, url, opts)
    check_client(self, name)
    return with_url(self, call, method, url, opts)
  end
end

-- `client:counts()` → `open`, `idle` connections now, `opened`, `reused` so far.
function Client:counts()
  check_client(self, "counts")
  return self.pool:counts()
end

-- `client:close_idle()`: closes the connections that no request uses.
function Client:close_idle()
  check_client(self, "close_idle")
  self.pool:close_idle()
end

-- `client:close()`: ends all requests and connections. Later requests get `nil, "closed", "closed"`.
function Client:close()
  check_client(self, "close")
  self.pool:close()
end

Client.__close = Client.close

-- `new([options])` → client. Options of requests are what its requests have unless they say otherwise; and `base_url`,
-- `max_idle`, `max_idle_per_host`, `max_per_host`, `idle_timeout`, `max_header`, `max_fields`, `net`.
function M.new(opts)
  opts = options.check("http.new", 1, opts, OF_CLIENT)
  local all = {}
  for name, value in pairs(M.defaults) do all[name] = value end
  for name, value in pairs(opts) do all[name] = value end
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
    headers = math.max(all.max_header // 1 | 0, 1),
    fields = math.min(math.max(all.max_fields // 1 | 0, 1), 256),
  }
  return setmetatable({ options = all, base = base, pool = pool }, Client)
end

-- The client of the module's own functions, made at the first request.
local own

local function own_client()
  own = own or M.new()
  return own
end

for _, name in ipairs(METHODS) do
  local call, method = "http." .. name, name:upper()
  M[name] = function(url, opts)
    return with_url(own_client(), call, method, url, opts)
  end
end

function M.request(opts)
  misuse.check("request", 1, opts, "table")
  return perform(own_client(), "http.request", options.check("http.request", 1, opts, OF_REQUEST))
end
function M.counts() return own_client():counts() end
function M.close_idle() return own_client():close_idle() end

return M
