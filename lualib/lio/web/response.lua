-- Responses as handlers see them. The values that a handler sets or returns are kept until the handler and its
-- middleware have returned; `write` starts sending at once. The class and its fields are in web/response_class.lua.

local classes = require "lio.web.response_class"
local exchanges = require "lio.web.exchange"
local html = require "lio.web.html"
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

local function set_status(res, call, index, n)
  check_open(res, call)
  if math.type(n) ~= "integer" or n < 200 or n > 599 then
    misuse.bad(call, index, ("integer from 200 to 599 expected, got %s"):format(misuse.shown(n)))
  end
  res.code = n
end

-- `res:status(n)`: sets the status, an integer from 200 to 599. Returns res.
function Response:status(n)
  set_status(self, "status", 1, n)
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

-- `res:add_header(name, value)`: adds a header field, even if a field of that name exists. Raises for bytes that could
-- split the response. Returns res.
function Response:add_header(name, value)
  return add_field(self, "add_header", name, value)
end

-- Replaces all fields called `name` with one. If `value` is nil, only removes them.
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

-- `res:header(name, value)`: replaces all fields called `name` with one; if `value` is nil, removes them. If the
-- Content-Type is `false`, the body is sent without a type. Returns res.
-- `res:header(name)` returns the value that was set, or nil.
function Response:header(name, ...)
  local is_simple = type(self) == "table" and rawget(self, "content_type") == nil
  if is_simple and set_field(self.request, name, ...) then return self end
  check_self(self, "header")
  misuse.check("header", 1, name, "string")
  if select("#", ...) == 0 then return self:get_header(name) end
  return replace_field(self, "header", name, (...))
end

-- `res:get_header(name)` returns the value that was set, or nil.
function Response:get_header(name)
  check_self(self, "get_header")
  misuse.check("get_header", 1, name, "string")
  return native.get_field(self.request, name)
end

-- `res:cookie(name, value [, opts])`: sets a cookie (RFC 6265 section 4.1). `opts`: `path`, `domain`, `max_age`
-- (seconds), `expires` (HTTP date), `secure`, `http_only`, `same_site` ("strict", "lax", "none"). Raises for a cookie
-- that browsers drop: "none" without `secure`, or a `__Secure-` or `__Host-` name without the attributes that it needs.
-- Returns res.
function Response:cookie(name, value, opts)
  check_open(self, "cookie")
  misuse.check("cookie", 1, name, "string")
  return self:add_header("Set-Cookie", require("lio.web.cookie")(name, value, opts))
end

-- `res:trailer(name, value)`: adds a trailer field. The body is then sent in chunks, unless the client uses HTTP/1.0 or
-- the method is HEAD; in these cases, no trailer is sent. Raises for a field that is not allowed in trailers, and for
-- bytes that could split the response. Returns res.
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

-- Reports whether a table is a list of strings; numbers may follow the first string.
local function is_list_of_strings(body)
  if type(body[1]) ~= "string" then return false end
  local count = 0
  for _, value in pairs(body) do
    if type(value) ~= "string" and type(value) ~= "number" then return false end
    count = count + 1
  end
  return count == #body
end

-- `res:send(body)`: sets the body, which is a string, a list of strings, a result of `web.html`, or a function that
-- returns the pieces, and nil at the end. Any other table is sent as JSON. Returns res.
function Response:send(body)
  check_open(self, "send")
  local kind = type(body)
  if kind == "table" then
    if not is_list_of_strings(body) then return self:json(body) end
    body = table.concat(body)
  elseif kind ~= "string" and kind ~= "function" then
    local text = html.text_of(body)
    if not text then misuse.argument("send", 1, "string, table or function", body) end
    return self:html(text)
  end
  self.body = body
  if self.content_type then self.content_type = nil end
  return self
end

-- `res:html(text)`: sets an HTML body. Returns res.
function Response:html(text)
  check_open(self, "html")
  misuse.check("html", 1, text, "string")
  self.body, self.content_type = text, html.MEDIA_TYPE
  return self
end

-- `res:json(value)`: sets a JSON body. Raises for a value that JSON cannot represent. Returns res.
function Response:json(value)
  check_open(self, "json")
  local ok, text = pcall(require("lio.json").encode, value)
  if not ok then misuse.raise(text) end
  self.body, self.content_type = text, JSON
  return self
end

-- `res:redirect(url [, status = 302])`: sets the response to a redirect. Returns res.
function Response:redirect(url, status)
  set_status(self, "redirect", 2, status or 302)
  misuse.check("redirect", 1, url, "string")
  replace_field(self, "redirect", "Location", url)
  self.body = ""
  return self
end

-- `res:file(path [, opts])` returns res; or nil, message, code, with a response of status 403, 404 or 503. For a path
-- that comes from a client, set `opts.root`, a folder that the path cannot leave. Other options: `type` (media type),
-- `name` (makes the response a download with this file name), `max_age` (seconds), `immutable`, `cache_control`,
-- `precompressed` (false: `.br` and `.gz` copies beside the file are not used).
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

-- `res:on_head(f)`: calls `f(res, body)` once, just before the head is sent, so `f` can still set header fields. `body`
-- is a string, or nil if the body is sent in pieces. The function that was added last is called first. Returns res.
function Response:on_head(f)
  check_open(self, "on_head", true)
  misuse.check_function("on_head", 1, f)
  self.head_hooks = self.head_hooks or {}
  table.insert(self.head_hooks, f)
  return self
end

-- `res:on_end(f)`: calls `f(req, res)` when the response has been sent or the client has closed; the results of
-- `res:sent()` are final then. `f` must not wait. The function that was added last is called first. Returns res.
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

-- The metatable of responses, for src/modules/http/serve.rs, which creates them.
return { Response = Response }
