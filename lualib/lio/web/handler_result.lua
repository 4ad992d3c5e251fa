-- Makes a response from the results of a handler: a body, a status and headers, in one of a few orders. The methods
-- defined here are called by web/response_sending.lua, web/middleware.lua and web/handler_error.lua. If the request's
-- body was refused and the handler sets nothing, the refusal is the response.
--
-- Invariant: the results of a handler that has begun to send, or has taken over the connection, are not sent. If they
-- have the form of a response, the log contains an entry about them.

local debug <const> = debug or require "lio.debug"
local classes = require "lio.web.response_class"
local exchanges = require "lio.web.exchange"
local html = require "lio.web.html"
local http = require "lio.http"

local native <const> = http.request
local on_one_line <const> = require("lio.web.error_text").on_one_line
local text_of <const> = html.text_of
local whole_body <const> = http.head.whole_body
local existing_exchange <const> = exchanges.existing
local check_open <const> = classes.check_open
local Response <const> = classes.Response

-- The valid results of a handler, for the error about invalid results.
local FORMS <const> = "a body (string, web.html, table or function), or: body, status; body, headers; "
  .. "body, status, headers; status; status, body; status, body, headers; nothing"

local function is_status(value)
  return math.type(value) == "integer" and value >= 200 and value <= 599
end

local function is_body(value)
  local kind = type(value)
  return kind == "string" or kind == "table" or kind == "function" or kind == "userdata" and text_of(value) ~= nil
end

-- Parses the results of a handler; the first result is not nil. If they have one of the FORMS, returns true, status,
-- body, headers; each of the three is nil if it is absent. Otherwise returns false.
local function parse(res, a, b, c, ...)
  if ... ~= nil or c ~= nil and type(c) ~= "table" then return false end
  if is_status(a) then
    -- `return 404, res` keeps the body that was set.
    if b == nil or rawequal(b, res) then return true, a, nil, c end
    return is_body(b), a, b, c
  end
  if not is_body(a) or rawequal(a, res) then return false end
  if b == nil or is_status(b) then return true, b, a, c end
  return type(b) == "table" and c == nil, nil, a, b
end

-- Returns where a function, or the `__call` of a callable table, is defined, as text for an error message.
local function location_of(f)
  local meta = type(f) == "table" and getmetatable(f)
  if type(meta) == "table" then f = meta.__call end
  if type(f) ~= "function" then return "" end
  local info = debug.getinfo(f, "S")
  return info.what == "C" and "" or (" (%s:%d)"):format(info.short_src, info.linedefined)
end

-- Returns a description of a function that returns results: what it is and where it is defined. The arguments are those
-- of `set_result`.
local function describe(res, role, f)
  local req = res.request
  local entry = exchanges.app_server_of(res).app.entries[http.head.route(req)]
  if not f and entry then role = ("%s of %s %s"):format(role, req.method, entry.pattern) end
  return ("the %s%s"):format(role, location_of(f or entry and entry.origin))
end

-- Returns a description of the handler of a response's request.
local function describe_handler(res) return describe(res, "handler", nil) end

-- Raises for values that have none of the FORMS. The arguments are those of `set_result`.
local function refuse(res, role, f, ...)
  local values, shown = table.pack(...), {}
  while values[values.n] == nil do values.n = values.n - 1 end
  for index = 1, values.n do
    local value = values[index]
    shown[index] = rawequal(value, res) and "res" or type(value) == "number" and tostring(value) or type(value)
  end
  error(("%s returned (%s); expected %s"):format(describe(res, role, f), table.concat(shown, ", "), FORMS), 0)
end

-- Writes a log entry if a function has returned a response although it had begun to send one: the value is not sent.
-- Other values, such as the result of `return res:write(piece)`, are ignored.
local function report_unsent(res, role, f, a)
  if rawequal(a, res) or not (is_body(a) or is_status(a)) then return end
  local req = res.request
  io.stderr:write(("lio: error in %s %s: %s returned a %s after it had begun to send a response with res:write; "
    .. "the value is not sent\n"):format(req.method, on_one_line(req.target), describe(res, role, f), type(a)))
end

local function set_headers(res, headers)
  for name, value in pairs(headers) do
    if type(name) ~= "string" then error("header: a name must be a string, not a " .. type(name), 0) end
    if type(value) ~= "table" then value = { value } end
    res:header(name, nil)
    for _, one in ipairs(value) do res:add_header(name, one) end
  end
end

-- Sets the response to what `f` returned: nothing, `res` itself, or one of the FORMS. `role` describes `f`, such as
-- "middleware"; `f` is nil for the handler of the route.
local function set_result(res, role, f, a, b, c, ...)
  local exchange = existing_exchange(res)
  if exchange and exchange.taken_over then return end
  if res.framing then return report_unsent(res, role, f, a) end
  if a == nil then
    if b == nil and c == nil then return end
    -- `return req:body()` and `return res:file(path)` may return nil and a reason. The response is then already set.
    if res.code or res.body ~= nil or exchange and (exchange.refusal or exchange.aborted) then return end
  elseif rawequal(a, res) and b == nil and c == nil then
    return
  end
  check_open(res, "return")
  local ok, status, body, headers = parse(res, a, b, c, ...)
  if not ok then refuse(res, role, f, a, b, c, ...) end
  if status then
    res.code = status
    res.body = res.body or ""
  end
  if headers then set_headers(res, headers) end
  if type(body) == "table" then
    res:json(body)
  elseif type(body) == "userdata" then
    res:html(text_of(body))
  elseif body then
    res.body = body
    if res.content_type then res.content_type = nil end
  end
end

-- `res:set_result(…)`: sets the response to what a function of the library returned.
function Response:set_result(...)
  return set_result(self, "handler", nil, ...)
end

-- `res:set_result_of(role, f, …)`: sets the response to what `f` returned.
Response.set_result_of = set_result

-- Sets the response to a refusal of the request: its reason, or its description as JSON.
function Response:respond_with_refusal(refusal)
  self.code, self.body = refusal.status, refusal.json or refusal.reason .. "\n"
  if refusal.json then self.content_type = "application/json" end
end

-- If the request's body was refused and the handler has set no response, the refusal is the response.
function Response:set_refusal()
  local exchange = existing_exchange(self)
  local refusal = exchange and exchange.refusal
  -- After a refused call, another one with a larger limit may have read the body.
  if refusal and refusal.is_of_read and whole_body(self.request) then return end
  if refusal and self.body == nil and self.code == nil and not self.framing then
    self:respond_with_refusal(refusal)
    native.drop_body_fields(self.request)
  end
end

return {
  set_result = set_result, report_unsent = report_unsent, describe = describe, describe_handler = describe_handler,
}
