-- Responses as handlers see them. The values that a handler sets or returns are kept until the handler and its
-- middleware have returned; `write` begins to send at once. The class and its fields are in web/response_class.lua.

local classes = require "lio.web.response_class"
local exchanges = require "lio.web.exchange"
local misuse = require "lio.misuse"
require "lio.web.response_sending"
local native <const> = require("lio.http").request

local exchange_of <const>, existing_exchange <const> = exchanges.of, exchanges.existing
local check_self <const>, check_open <const> = classes.check_self, classes.check_open
local Response <const> = classes.Response
local rawget <const>, type <const> = rawget, type
local set_field <const> = native.set_field

local JSON <const> = "application/json"

-- Status and header fields ---------------------------------------------------------------------------

local function set_status(res, call, n)
  check_open(res, call)
  if math.type(n) ~= "integer" or n < 200 or n > 599 then
    misuse.raise(("res:%s: status: must be an integer from 200 to 599, not %s"):format(call, tostring(n)))
  end
  res.code = n
end

-- `res:status(n)` returns res. 200 to 599.
function Response:status(n)
  set_status(self, "status", n)
  return self
end

local function add_field(res, call, name, value)
  check_open(res, call)
  if type(value) == "number" then value = tostring(value) end
  misuse.check(call, 1, name, "string")
  misuse.check(call, 2, value, "string")
  local problem = native.add_field(res.request, name, value)
  if problem then misuse.raise(("res:%s: %s"):format(call, problem)) end
  return res
end

-- `res:add_header(name, value)` returns res. Adds a field, even if there is one of that name. Raises for bytes that
-- could split the response.
function Response:add_header(name, value)
  return add_field(self, "add_header", name, value)
end

-- Replaces the fields of a name by one; nil removes them.
local function replace_field(res, call, name, value)
  check_open(res, call)
  misuse.check(call, 1, name, "string")
  local lower = name:lower()
  native.remove_field(res.request, name)
  if res.content_type == false and lower == "content-type" then res.content_type = nil end
  if value == nil then return res end
  if value == false and lower == "content-type" then
    res.content_type = false
    return res
  end
  return add_field(res, call, name, value)
end

-- `res:header(name, value)` returns res. Replaces the fields of that name; nil removes them. `false` as the
-- Content-Type: the body is sent without a type. Without `value`: returns the value that is set, or nil.
function Response:header(name, ...)
  local is_simple = type(self) == "table" and rawget(self, "content_type") == nil
  if is_simple and set_field(self.request, name, ...) then return self end
  check_self(self, "header")
  misuse.check("header", 1, name, "string")
  if select("#", ...) == 0 then return self:get_header(name) end
  return replace_field(self, "header", name, (...))
end

-- `res:get_header(name)` returns the value that is set, or nil.
function Response:get_header(name)
  check_self(self, "get_header")
  misuse.check("get_header", 1, name, "string")
  return native.get_field(self.request, name)
end

-- `res:cookie(name, value [, opts])` returns res (RFC 6265 section 4.1). `opts`: `path`, `domain`, `max_age`
-- (seconds), `expires` (HTTP date), `secure`, `http_only`, `same_site` ("strict", "lax", "none"). Raises for cookies
-- that browsers drop: "none" without `secure`, and names with `__Secure-` or `__Host-` without their attributes.
function Response:cookie(name, value, opts)
  check_open(self, "cookie")
  misuse.check("cookie", 1, name, "string")
  return self:add_header("Set-Cookie", require("lio.web.cookie")(name, value, opts))
end

-- `res:trailer(name, value)` returns res. Adds a field after the body, which is then sent in chunks. HTTP/1.0 clients
-- and HEAD requests do not get it. Raises for a field that is not allowed there, and for bytes that could split the
-- response.
function Response:trailer(name, value)
  check_self(self, "trailer")
  misuse.check("trailer", 1, name, "string")
  native.record_effect(self.request, true)
  local line = require("lio.web.trailer")(name, value)
  self.trailers = self.trailers or {}
  table.insert(self.trailers, line)
  return self
end

-- The body -------------------------------------------------------------------------------------------

-- Whether a table is a list of strings; numbers may follow the first string.
local function is_list_of_strings(body)
  if type(body[1]) ~= "string" then return false end
  local count = 0
  for _, value in pairs(body) do
    if type(value) ~= "string" and type(value) ~= "number" then return false end
    count = count + 1
  end
  return count == #body
end

-- `res:send(body)` returns res. `body`: a string, a list of strings, or a function that returns pieces until nil. Any
-- other table is sent as JSON.
function Response:send(body)
  check_open(self, "send")
  local kind = type(body)
  if kind == "table" then
    if not is_list_of_strings(body) then return self:json(body) end
    body = table.concat(body)
  elseif kind ~= "string" and kind ~= "function" then
    misuse.argument("send", 1, "string, table or function", body)
  end
  self.body = body
  if self.content_type then self.content_type = nil end
  return self
end

-- `res:json(value)` returns res. Raises for values that JSON does not have.
function Response:json(value)
  check_open(self, "json")
  local ok, text = pcall(require("lio.json").encode, value)
  if not ok then misuse.raise(text) end
  self.body, self.content_type = text, JSON
  return self
end

-- `res:redirect(url [, status = 302])` returns res.
function Response:redirect(url, status)
  set_status(self, "redirect", status or 302)
  misuse.check("redirect", 1, url, "string")
  replace_field(self, "redirect", "Location", url)
  self.body = ""
  return self
end

-- `res:file(path [, opts])` returns res; or nil, message, code, and the response is 403, 404 or 503. A path that comes
-- from a client needs `opts.root`, a folder that it cannot leave. Other options: `type` (media type), `name` (a
-- download of that name), `max_age` (seconds), `immutable`, `cache_control`, `precompressed` (false: `.br` and `.gz`
-- copies beside the file are not used).
function Response:file(path, opts)
  check_open(self, "file", true)
  local done, message, code = require("lio.web.file").respond(self, path, opts)
  if done then return self end
  return nil, message, code
end

-- `res:sse([opts])` returns a stream of server-sent events, see web/sse.lua.
function Response:sse(opts)
  check_open(self, "sse", true)
  return require("lio.web.sse")(self, opts)
end

-- Removes what a handler has set, so that another response can be set.
function Response:reset()
  self.code, self.body, self.content_type, self.trailers = nil, nil, nil, nil
  native.clear_fields(self.request)
  local exchange = existing_exchange(self)
  if exchange then exchange:keep_file(nil) end
end

-- Hooks ----------------------------------------------------------------------------------------------

-- `res:on_head(f)` returns res. `f(res, body)` is called once, when the handler and its middleware have returned or
-- begin to send, before the head is sent: the last moment for headers. `body` is a string, or nil if it is sent in
-- pieces. The latest `f` is called first.
function Response:on_head(f)
  check_open(self, "on_head", true)
  misuse.check_function("on_head", 1, f)
  self.head_hooks = self.head_hooks or {}
  table.insert(self.head_hooks, f)
  return self
end

-- `res:on_end(f)` returns res. `f(req, res)` is called when the response is sent or the client has closed; `sent()` is
-- final by then. It must not wait. The latest `f` is called first.
function Response:on_end(f)
  check_self(self, "on_end")
  native.record_effect(self.request, true)
  misuse.check_function("on_end", 1, f)
  local exchange = exchange_of(self)
  exchange.end_hooks = exchange.end_hooks or { res = self }
  exchange.needs_cleanup = true
  table.insert(exchange.end_hooks, f)
  return self
end

-- The metatable of responses, which src/modules/http/serve.rs creates.
return { Response = Response }
