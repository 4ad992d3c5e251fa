-- Requests as handlers see them. Fields are computed when they are first read: `method`, `path` (decoded), `raw_path`,
-- `target`, `raw_query`, `query`, `params`, `headers`, `version`, `host`, `remote_addr`, `remote_port`, `is_tls`,
-- `proxy_addr`, `cookies`, `upgrade` (the protocols that the client offers, or nil). Handlers and middleware may set
-- other fields.

local exchanges = require "lio.web.exchange"
local form = require "lio.web.form"
local http = require "lio.http"
local misuse = require "lio.misuse"

local head <const> = http.head
local native <const> = http.request
local whole_body <const> = head.whole_body
local body_of <const> = http.body_of
local exchange_of <const> = exchanges.of_request

local Request = {}
local getters = {
  method = head.method,
  target = head.target,
  raw_path = head.raw_path,
  path = head.path,
  raw_query = head.raw_query,
  query = head.query,
  version = head.version,
  host = head.host,
  cookies = head.cookies,
  params = head.params,
  upgrade = head.upgrade,
}

-- Header values by name, case-insensitive; the values of repeated fields are joined. The key for the request is a
-- table, because any string can be the name of a header field.
local REQUEST <const> = {}
local Headers = {}

function Headers.__index(headers, name)
  if type(name) ~= "string" then return nil end
  return head.field(headers[REQUEST], name)
end

function Headers.__pairs(headers)
  return next, head.fields(headers[REQUEST]), nil
end

-- Behind a proxy, the client may use TLS: web/trust_proxy.lua also sets this field.
getters.is_tls = native.used_tls

-- A table that describes TLS on the connection to the server, as `c:tls()` of `lio.net` does; nil if there is none.
getters.tls = native.tls

-- In a mounted app, web/mount_scope.lua sets these two fields.
function getters.base() return "" end
function getters.original_path(req) return req.path end

function getters.headers(req)
  return setmetatable({ [REQUEST] = req }, Headers)
end

-- Set by web/trust_proxy.lua.
function getters.proxy_addr() return nil end

-- Nil if the connection is closed.
function getters.remote_addr(req)
  local ip, _, family = native.address(req)
  return family == "unix" and "unix:" or ip
end

function getters.remote_port(req)
  -- The port of a proxy is not the port of the client.
  if req.proxy_addr then return nil end
  local ip, port, family = native.address(req)
  return ip and family ~= "unix" and port or nil
end

-- Raises unless `req` is a request, and `limit` is nil or an integer number of bytes.
local function check(req, call, limit)
  if type(req) ~= "userdata" or not pcall(head.field, req, "") then misuse.no_colon("req", call) end
  if limit == nil then return end
  misuse.check(call, 1, limit, "number")
  if math.type(limit) ~= "integer" or limit < 0 then
    misuse.bad(call, 1, ("bytes must be an integer of at least 0, not %s"):format(limit))
  end
end

-- `req:trailers()` returns the trailer fields of a chunked body, by lower-case name; empty until the body has been
-- read.
function Request:trailers()
  check(self, "trailers")
  return native.trailers(self)
end

-- `req:header(name)` returns the value of a header field, or nil; repeated values are joined. Case-insensitive.
Request.header = head.field

-- `req:header_all(name)` returns a list of the values of a header field.
Request.header_all = head.field_all

-- `req:body([limit])` returns the whole body, `""` if there is none; or nil, reason, status. `limit` is in bytes; the
-- default is the app's limit. If the body is refused and the handler does not set a response, the refusal is the
-- response.
function Request:body(limit)
  if limit ~= nil or type(self) ~= "userdata" then check(self, "body", limit) end
  local body, status, reason = body_of(self, limit)
  if body then return body end
  local exchange = exchange_of(self)
  limit = limit or exchange.app.settings.body
  body, status, reason = exchange:continue_reading(body_of, limit, body, status, reason)
  if not body then return nil, reason, status end
  return body
end

-- `for piece in req:stream([limit]) do`: iterates over the body in pieces; each piece is read when the iteration
-- reaches it. If `req:body` was called before, the only piece is the whole body. Raises if the body ends early or is
-- refused.
function Request:stream(limit)
  check(self, "stream", limit)
  local exchange = exchange_of(self)
  limit = limit or exchange.app.settings.body
  local known = whole_body(self)
  if known then
    return function()
      if #known > limit then
        exchange.refusal = { status = 413, reason = "the body is larger than allowed", is_of_read = true }
        misuse.raise "request body: the body is larger than allowed"
      end
      local piece = known
      known = ""
      return piece ~= "" and piece or nil
    end
  end
  return function()
    local piece, status, reason = exchange:read(native.piece, limit)
    if not piece and status then misuse.raise("request body: " .. reason) end
    return piece
  end
end

-- Returns the table that a body contains as JSON; or nil and the reason.
local function decode_json(body)
  if not body:find "%S" then return nil, "the body is empty, JSON expected" end
  local value, message = require("lio.json").decode(body)
  if value == nil then return nil, "the body is not valid JSON: " .. message:gsub("^json: ", "") end
  if type(value) == "table" then return value end
  return nil, "the body must be a JSON object or array, got " .. (type(value) == "userdata" and "null" or type(value))
end

-- `req:json([limit])` returns the decoded body, a table; or nil, reason, status. Any other JSON value is refused, so
-- that a handler can index the result; `json.decode(req:body())` accepts every value.
function Request:json(limit)
  if limit ~= nil or type(self) ~= "userdata" then check(self, "json", limit) end
  local body, reason, status = self:body(limit)
  if not body then return nil, reason, status end
  local value, message = decode_json(body)
  if value == nil then
    local exchange = exchange_of(self)
    native.record_effect(self, true)
    exchange.refusal = { status = 400, reason = message }
    return nil, message, 400
  end
  return value
end

-- `req:form([opts])` returns the fields and the files of a urlencoded or multipart form; or nil, reason, status. Later
-- calls return the same tables. `opts`: see web/form.lua; a number is the limit of the body in bytes.
function Request:form(opts)
  check(self, "form")
  local known = self.whole_form
  if known then return known.fields, known.files end
  local kind = head.field(self, "content-type") or ""
  local fields, files, status = form.read(self, exchange_of(self), opts, kind, whole_body(self))
  if fields then self.whole_form = { fields = fields, files = files } end
  return fields, files, status
end

-- `req:arg(name [, default])` returns a string: the value of a parameter of the route, of the query, or of a form in
-- the body, in this order; if a name is repeated, the first value. Returns `default`, a string or nil, if there is
-- none.
function Request:arg(name, default)
  check(self, "arg")
  return require("lio.web.argument")(self, name, default)
end

-- `req:validate(rules [, opts])` returns a table of the converted values of a JSON body, a form or the query. If a
-- value does not satisfy its rule, raises a refusal: unless the handler catches it, the client gets the status 422 and
-- a list of the problems. See web/validate.lua.
function Request:validate(rules, opts)
  check(self, "validate")
  return require("lio.web.validate")(self, exchange_of(self), rules, opts)
end

-- `req:take_over()` returns the connection, with the bytes that have already been received. The server no longer uses
-- the connection: the caller must close it, and the server's timeouts do not apply. Used for upgrades, tunnels and
-- CONNECT.
function Request:take_over()
  local exchange = exchange_of(self)
  local function check_open()
    if native.response_has_begun(self) then misuse.raise "req:take_over: the request has already been answered" end
  end
  check_open()
  exchange:send()
  -- Another task may have responded meanwhile.
  check_open()
  local ok, c = pcall(native.detach, self)
  if not ok then misuse.raise("req:take_over: " .. c) end
  exchange.taken_over = true
  exchange:end_waits()
  return exchange.driver:register(c)
end

http.define_request_fields(getters, Request)

-- The methods of requests, and the functions that compute their fields.
return { Request = Request, getters = getters }
