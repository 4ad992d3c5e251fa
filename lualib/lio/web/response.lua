-- Responses as handlers see them. What a handler returns, or gives to `send`, `json` and the like, is
-- kept until the handler and its middleware have returned; `write` begins to send at once.
--
-- Fields: `code` (status or nil), `body`, `kind` (content type when no header names one; false for none). The server
-- keeps the header fields.

local debug <const> = debug or require "lio.debug"
local exchanges = require "lio.web.exchange"
local http = require "lio.http"
local misuse = require "lio.misuse"

local set_field <const> = http.set_field
local exchange_of <const>, known <const> = exchanges.of, exchanges.known
local type <const> = type

local TEXT <const> = "text/plain; charset=utf-8"
local JSON <const> = "application/json"
local FLUSH_AT <const> = 16 * 1024
-- Where a response keeps its server, by which number that knows its request, and the request itself.
local SERVER <const>, ID <const>, REQUEST <const> = 1, 2, 3

local M = { TEXT = TEXT }

local Response = {}
Response.__index = Response
Response.__name = "lio.response"

local function check_self(self, call)
  if getmetatable(self) == Response then return end
  misuse.raise(("res:%s: call it with a colon, as in res:%s(…)"):format(call, call))
end

-- `special`: the call does what only `finish` knows how to conclude.
local function check_open(self, call, special)
  check_self(self, call)
  if self[SERVER]:touch(self[ID], special) or self.mode then
    misuse.raise(("res:%s: the response has begun already"):format(call))
  end
end

local function set_status(self, call, n)
  check_open(self, call)
  if math.type(n) ~= "integer" or n < 200 or n > 599 then
    misuse.raise(("res:%s: status: must be an integer from 200 to 599, not %s"):format(call, tostring(n)))
  end
  self.code = n
end

-- `res:status(n)` → res. 200 to 599.
function Response:status(n)
  set_status(self, "status", n)
  return self
end

local function add_field(self, call, name, value)
  check_open(self, call)
  if type(value) == "number" then value = tostring(value) end
  misuse.check(call, 1, name, "string")
  misuse.check(call, 2, value, "string")
  local problem = self[SERVER]:add_field(self[ID], name, value)
  if problem then misuse.raise(("res:%s: %s"):format(call, problem)) end
  return self
end

-- `res:add_header(name, value)` → res: adds one more. Raises for what could split the response.
function Response:add_header(name, value)
  return add_field(self, "add_header", name, value)
end

-- Sets a field, in the place of what was there; nil removes.
local function replace_field(self, call, name, value)
  check_open(self, call)
  misuse.check(call, 1, name, "string")
  local lower = name:lower()
  self[SERVER]:remove_field(self[ID], name)
  if self.kind == false and lower == "content-type" then self.kind = nil end
  if value == nil then return self end
  if value == false and lower == "content-type" then
    self.kind = false
    return self
  end
  return add_field(self, call, name, value)
end

-- `res:header(name, value)` → res: sets, in the place of what was there; nil removes. With the name
-- alone: the value that is set, or nil. `res:header("Content-Type", false)`: the body goes out without a type.
function Response:header(name, ...)
  if type(self) == "table" and rawget(self, "kind") == nil and set_field(self, name, ...) then return self end
  check_self(self, "header")
  misuse.check("header", 1, name, "string")
  if select("#", ...) == 0 then return self:get_header(name) end
  return replace_field(self, "header", name, (...))
end

-- `res:get_header(name)` → the value that is set, or nil.
function Response:get_header(name)
  check_self(self, "get_header")
  misuse.check("get_header", 1, name, "string")
  return self[SERVER]:get_field(self[ID], name)
end

-- `res:cookie(name, value [, opts])` → res (RFC 6265 section 4.1). `opts`: `path`, `domain`, `max_age`
-- (seconds), `expires` (HTTP date), `secure`, `http_only`, `same_site` ("strict", "lax", "none"). Raises for
-- what a browser would drop: "none" without `secure`, and names with `__Secure-` or `__Host-` that lack theirs.
function Response:cookie(name, value, opts)
  check_open(self, "cookie")
  misuse.check("cookie", 1, name, "string")
  return self:add_header("Set-Cookie", require("lio.web.cookie")(name, value, opts))
end

-- Whether a table is a list of strings; numbers behind the first may be among them.
local function is_list_of_strings(body)
  if type(body[1]) ~= "string" then return false end
  local count = 0
  for _, value in pairs(body) do
    if type(value) ~= "string" and type(value) ~= "number" then return false end
    count = count + 1
  end
  return count == #body
end

-- `res:send(body)` → res: a string, a list of strings, or a function that gives pieces until nil. Any other table
-- is sent as JSON.
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
  if self.kind then self.kind = nil end
  return self
end

-- `res:json(value)` → res. Raises for what JSON cannot hold.
function Response:json(value)
  check_open(self, "json")
  local ok, text = pcall(require("lio.json").encode, value)
  if not ok then misuse.raise(text) end
  self.body, self.kind = text, JSON
  return self
end

-- `res:redirect(url [, status = 302])` → res.
function Response:redirect(url, status)
  set_status(self, "redirect", status or 302)
  misuse.check("redirect", 1, url, "string")
  replace_field(self, "redirect", "Location", url)
  self.body = ""
  return self
end

-- Runs what `on_head` was given, the innermost first; `body` is nil when it comes in pieces.
local function settle_head(self, body)
  local hooks = self.head_hooks
  self.head_hooks = nil
  for index = #hooks, 1, -1 do hooks[index](self, body) end
end

-- `res:file(path [, opts])` → res, or nil, message, code with the answer set to 404 or 403. The path is the
-- program's own; one that comes from a client needs `opts.root`, a folder that it cannot leave. Other
-- options: `type` (media type), `name` (a download of that name), `max_age` (seconds), `immutable`,
-- `cache_control`, `precompressed` (false: no copies `.br` and `.gz` beside the file).
function Response:file(path, opts)
  check_open(self, "file", true)
  -- Not a tail call: its errors count levels.
  local done, message, code = require("lio.web.file").respond(self, path, opts)
  if done then return self end
  return nil, message, code
end

-- The type of a body when no header names one; nil for none.
local function kind_of(self)
  local kind = self.kind
  if kind == nil then return TEXT end
  return kind or nil
end

local function begin(self)
  self[SERVER]:touch(self[ID], true)
  if self.head_hooks then settle_head(self) end
  local code = self.code or 200
  self.sent_code = code
  local mode, length = self[SERVER]:start(self[ID], code, kind_of(self))
  self.mode, self.left = mode, length
end

-- Queues what an encoder let out. → bytes queued, whether the last send failed.
local function queue_encoded(self, bytes)
  return self[SERVER]:chunk(self[ID], bytes)
end

-- Writes a piece of a body that is compressed. All pieces of one moment go into one block.
local function write_encoded(self, piece)
  local exchange, encoder = exchange_of(self), self.encoder
  local queued, failed = queue_encoded(self, encoder:write(piece))
  if queued >= FLUSH_AT or failed then
    if exchange:send() then return true end
    return nil, "closed"
  end
  exchange:flush_later(function()
    if self.encoder == encoder and not exchange.broken then queue_encoded(self, encoder:flush()) end
  end)
  return true
end

-- `res:write(piece)` → true, or nil and a message when the peer is gone. Sends the head first, and
-- pieces at once or together with others of this moment; waits while the peer does not read.
function Response:write(piece)
  check_self(self, "write")
  if type(piece) ~= "string" then
    misuse.argument("write", 1, "string", piece)
  end
  local exchange = exchange_of(self)
  if exchange.broken then
    if not self.mode and not exchange.gone then check_open(self, "write", true) end
    return nil, "closed"
  end
  if not self.mode then
    check_open(self, "write", true)
    begin(self)
  end
  if self.mode == "none" then return true end
  if self.encoder then return write_encoded(self, piece) end
  if self.left then
    self.left = self.left - #piece
    if self.left < 0 then
      exchange.broken = true
      misuse.raise "res:write: more than the Content-Length that was set"
    end
  end
  local queued, failed = self[SERVER]:chunk(self[ID], piece)
  -- What was to be sent later may have failed since the last piece; `flush` finds out.
  if queued < FLUSH_AT and not failed then return true end
  return self:flush()
end

-- `res:flush()` → true when all that was written is taken by the system, or nil and a message.
function Response:flush()
  check_self(self, "flush")
  if not self.mode then
    check_open(self, "flush", true)
    begin(self)
  end
  local exchange = exchange_of(self)
  if exchange.broken then return nil, "closed" end
  if self.encoder then queue_encoded(self, self.encoder:flush()) end
  if not exchange:send() then return nil, "closed" end
  return true
end

-- `res:sse([opts])` → a stream of server-sent events, see web/sse.lua.
function Response:sse(opts)
  check_open(self, "sse", true)
  return require("lio.web.sse")(self, opts)
end

-- `res:on_head(f)` → res: `f(res, body)` runs once, when the answer is settled and before its head goes out:
-- the last moment for headers. `body` is a string, or nil when it comes in pieces. The latest runs first.
function Response:on_head(f)
  check_open(self, "on_head", true)
  misuse.check_function("on_head", 1, f)
  self.head_hooks = self.head_hooks or {}
  table.insert(self.head_hooks, f)
  return self
end

-- `res:on_end(f)` → res: `f(req, res)` runs when the answer is out or its client gone; then `sent()` counts.
-- It must not wait. The latest runs first.
function Response:on_end(f)
  check_self(self, "on_end")
  self[SERVER]:touch(self[ID], true)
  misuse.check_function("on_end", 1, f)
  local exchange = exchange_of(self)
  exchange.hooks = exchange.hooks or { res = self }
  exchange.extras = true
  table.insert(exchange.hooks, f)
  return self
end

-- `res:sent()` → status (nil when there is no answer), bytes of its body that were sent, whether the answer
-- was cut short.
function Response:sent()
  check_self(self, "sent")
  local exchange = known(self)
  if exchange and exchange.taken then return self.sent_code, 0, false end
  local cut = exchange and (exchange.broken or exchange.gone) or false
  return self.sent_code, self[SERVER]:sent(self[ID], cut), cut
end

-- Ends a body that was written in pieces.
local function finish_pieces(self)
  local exchange = known(self)
  if exchange and exchange.broken then return end
  local encoder = self.encoder
  if encoder then
    self.encoder = nil
    queue_encoded(self, encoder:finish())
  end
  if self.left and self.left > 0 then
    exchange_of(self).broken = true
    error("the handler wrote less than the Content-Length that it set", 0)
  end
  self[SERVER]:finish(self[ID], self.trailers and require("lio.web.trailer").text(self))
end

-- Sends what a function gives.
local function send_pieces(self, body)
  -- What an answer to HEAD would have held need not be made.
  if self[SERVER]:is_head(self[ID]) then begin(self) end
  while self.mode ~= "none" do
    local piece = body()
    if piece == nil then break end
    if not self:write(piece) then return end
  end
  if not self.mode then begin(self) end
  return finish_pieces(self)
end

-- `res:trailer(name, value)` → res: a field behind the body, which is sent in chunks then. HTTP/1.0 clients and HEAD
-- do not get it. Raises for a field that is not allowed there, and for what could split the response.
function Response:trailer(name, value)
  check_self(self, "trailer")
  misuse.check("trailer", 1, name, "string")
  self[SERVER]:touch(self[ID], true)
  require("lio.web.trailer").add(self, name, value)
  return self
end

-- Forgets what a handler set, so that another answer can be given.
function Response:reset()
  self.code, self.body, self.kind, self.trailers = nil, nil, nil, nil
  self[SERVER]:clear_fields(self[ID])
  local exchange = known(self)
  if exchange then exchange:keep_file(nil) end
end

-- What may be returned, for the error that names what was.
local FORMS <const> = "a body (string, table or function), or: body, status; body, headers; body, status, headers; "
  .. "status; status, body; status, body, headers; nothing"

local function is_status(value)
  return math.type(value) == "integer" and value >= 200 and value <= 599
end

local function is_body(value)
  local kind = type(value)
  return kind == "string" or kind == "table" or kind == "function"
end

-- Where a function or a callable table was written.
local function place_of(f)
  local meta = type(f) == "table" and getmetatable(f)
  if type(meta) == "table" then f = meta.__call end
  if type(f) ~= "function" then return "" end
  local info = debug.getinfo(f, "S")
  return info.what == "C" and "" or (" (%s:%d)"):format(info.short_src, info.linedefined)
end

-- Raises for values that are no answer. `f`, a `what`, returned them; nil: the handler of the route.
local function refuse(self, what, f, ...)
  local req = self[REQUEST]
  local entry = exchanges.serving(self).app.entries[http.head.route(req)]
  local values, shown = table.pack(...), {}
  while values[values.n] == nil do values.n = values.n - 1 end
  for index = 1, values.n do
    local value = values[index]
    shown[index] = rawequal(value, self) and "res" or type(value) == "number" and tostring(value) or type(value)
  end
  if not f and entry then what = ("%s of %s %s"):format(what, req.method, entry.pattern) end
  error(("the %s%s returned (%s); expected %s"):format(
    what, place_of(f or entry and entry.origin), table.concat(shown, ", "), FORMS), 0)
end

local function set_headers(self, headers)
  for name, value in pairs(headers) do
    if type(name) ~= "string" then error("header: a name must be a string, not a " .. type(name), 0) end
    if type(value) ~= "table" then value = { value } end
    self:header(name, nil)
    for _, one in ipairs(value) do self:add_header(name, one) end
  end
end

-- The parts of an answer in values of one of the FORMS, of which the first is not nil: status, body, headers, each nil
-- when it is not there. → false first for other values.
local function parts_of(res, a, b, c, ...)
  if ... ~= nil or c ~= nil and type(c) ~= "table" then return false end
  if is_status(a) then
    -- `return 404, res`: with the body that was set.
    if b == nil or rawequal(b, res) then return true, a, nil, c end
    return is_body(b), a, b, c
  end
  if not is_body(a) or rawequal(a, res) then return false end
  if b == nil or is_status(b) then return true, b, a, c end
  return type(b) == "table" and c == nil, nil, a, b
end

-- Keeps what `f`, a `what`, returned: nothing, `res` itself, or one of the FORMS. It counts for nothing once the
-- handler has written, or taken the connection over. `f` is nil for the handler of the route.
local function take(self, what, f, a, b, c, ...)
  local exchange = known(self)
  if self.mode or exchange and exchange.taken then return end
  if a == nil then
    if b == nil and c == nil then return end
    -- `return req:body()` and `return res:file(path)` give nil and a reason; the answer is settled then.
    if self.code or self.body ~= nil or exchange and (exchange.problem or exchange.broken) then return end
  elseif rawequal(a, self) and b == nil and c == nil then
    return
  end
  check_open(self, "return")
  local ok, status, body, headers = parts_of(self, a, b, c, ...)
  if not ok then refuse(self, what, f, a, b, c, ...) end
  if status then
    self.code = status
    self.body = self.body or ""
  end
  if headers then set_headers(self, headers) end
  if type(body) == "table" then
    self:json(body)
  elseif body then
    self.body = body
    if self.kind then self.kind = nil end
  end
end

-- `res:take(…)`: keeps what a function of the library gives.
function Response:take(...)
  return take(self, "handler", nil, ...)
end

-- `res:take_from(what, f, …)`: keeps what `f` returned.
function Response:take_from(what, f, ...)
  return take(self, what, f, ...)
end

-- The answer of a handler that gave none is that its body was refused, if it was.
function Response:take_refusal()
  local exchange = known(self)
  local problem = exchange and exchange.problem
  if problem and self.body == nil and self.code == nil and not self.mode then
    self.code, self.body = problem[1], problem[2] .. "\n"
    require("lio.web.handler_error").drop_body_fields(self)
  end
end

-- Sends what the handler gave.
function Response:finish(...)
  if self.mode then return finish_pieces(self) end
  -- A folder's site has answered.
  if rawequal((...), self) and self[SERVER]:is_answered(self[ID]) then return end
  take(self, "handler", nil, ...)
  self:take_refusal()
  local body = self.body
  if self.trailers and type(body) == "string" then
    local whole = body
    function body()
      local piece = whole
      whole = nil
      return piece
    end
  end
  if type(body) == "function" then return send_pieces(self, body) end
  if type(body) == "userdata" then return require("lio.web.file").send(self, begin, finish_pieces) end
  local code = self.code or (body and 200 or 204)
  if self.head_hooks then
    self.code = code
    settle_head(self, body or "")
    body = self.body
  end
  self.sent_code = code
  local taken = self[SERVER]:answer(self[ID], code, kind_of(self), body)
  if taken ~= true then exchange_of(self):send(body, taken) end
end

-- The metatable of responses, which are made in src/modules/http/serve.rs.
M.Response = Response

return M
