-- Handles errors in handlers, middleware and `on_error`: writes a log entry, and sets a response.
--
-- Called by web/dispatch.lua for the outermost function of a request, and by web/middleware.lua for the functions
-- that `next()` runs. Invariant: the log has one entry per error.

local describe <const> = require("lio.web.handler_result").describe
local mount_scopes = require "lio.web.mount_scope"
local program_traceback = require "lio.program_traceback"
local texts = require "lio.web.error_text"
local http = require "lio.http"
local run_time = require "lio.run_time"

local native <const>, owner <const> = http.request, http.head.owner

local M = {}

-- For native servers whose errors a test wants to see: the function that gets them.
local observers = setmetatable({}, { __mode = "k" })

-- `observe(server, f)`: calls `f(req, err)` for each error in a handler of this native server. If `f` returns true, the
-- error is not written to standard error. `err` is a caught error.
function M.observe(server, f)
  observers[server] = f
end

-- `catch(value)`: the message handler of `xpcall` for handlers. Returns a caught error, which is a table: `value` (the
-- raised value), `message`, `text` (the message and the traceback), and `has_no_place`: whether the library has raised
-- the error without the position of the program's line.
function M.catch(value)
  local message = texts.message_of(value)
  local trace, is_of_library = program_traceback.of(message, 2)
  local has_no_place = is_of_library and type(value) == "string" and not value:find "^[^\n]-:%d+: "
  run_time.pause()
  return { value = value, message = message, text = message .. trace, has_no_place = has_no_place }
end

-- Adds the function that has failed to an error that would not show where the mistake is: the function has called the
-- library in a tail call, or what it has returned cannot be sent. `role` and `f` are those of `describe`.
local function add_place(err, res, role, f)
  if not err.has_no_place then return end
  err.has_no_place = false
  local place = describe(res, role, f)
  if err.message:find(place, 1, true) then return end
  place = ("in %s: "):format(place)
  err.message, err.text = place .. err.message, place .. err.text
end

-- `as_caught(err)` returns the error from an `xpcall` with `catch` as a caught error. If memory runs out, Lua does not
-- call `catch`, and `err` is a string. There is no traceback then, so `respond` adds the place of the function.
function M.as_caught(err)
  if type(err) ~= "string" then return err end
  return { value = err, message = err, text = err, has_no_place = true }
end

-- `log(req, err)`: writes a log entry to standard error, unless the server's observer takes it.
function M.log(req, err)
  err = M.as_caught(err)
  local observe = observers[owner(req)]
  if observe and observe(req, err) then return end
  local trace = err.text:sub(#err.message + 1)
  io.stderr:write("lio: error in ", req.method, " ", texts.on_one_line(req.target), ": ",
    texts.on_one_line(err.message), trace, "\n")
end

-- Reports whether the raised `value` is the refusal of the request's body: the refusal object, or its reason as a
-- message.
local function is_refusal(refusal, value)
  if type(value) ~= "string" then return refusal.raised ~= nil and rawequal(refusal.raised, value) end
  local bare = value:gsub("^[^\n]-:%d+: ", ""):gsub("^request body: ", "")
  return value == refusal.reason or bare == refusal.reason
end

-- Removes what the handler has set. Fields that middleware had set before `next()` stay, unless they describe a body.
local function start_anew(res)
  local req = res.request
  res:reset()
  native.restore_fields(req)
  native.drop_body_fields(req)
end

-- `respond_plainly(exchange, req, res, err)`: sets the library's own response to an error.
function M.respond_plainly(exchange, req, res, err)
  start_anew(res)
  local error_page = require "lio.web.error_page"
  if run_time.has_exceeded() then return res:set_result(error_page.for_status(req, 503)) end
  res:set_result(error_page.for_error(req, err, exchange.app.settings.debug))
end

-- Calls the app's `on_error`. Returns true if `on_error` has set the response, or if the exchange is aborted.
local function call_on_error(exchange, req, res, err)
  local place = mount_scopes.place(req)
  local on_error = mount_scopes.error_handler(exchange.app, req)
  if not on_error then return false end
  local status <const> = run_time.has_exceeded() and 503 or 500
  res.code = status
  local ok, second = xpcall(function()
    res:set_result_of("on_error", on_error, on_error(err.value, req, res, err.text))
  end, M.catch)
  mount_scopes.restore(req, place)
  if ok then return res.body ~= nil or res.framing or res.code ~= status end
  M.log(req, second)
  if native.response_has_begun(exchange.request) then exchange.aborted = true end
  return exchange.aborted
end

-- `respond(exchange, req, res, err [, role, f])`: logs an error, and sets the response to it. If the response has
-- begun, aborts the exchange, so that the client sees the connection close early. `role` and `f` describe the function
-- that has failed, as for `describe`, if it is known.
function M.respond(exchange, req, res, err, role, f)
  err = M.as_caught(err)
  -- If `on_file` raised the error, `req:form` has raised it again. The first traceback is the useful one.
  local upload_error = exchange.upload_error
  if upload_error and rawequal(upload_error.value, err.value) then err = upload_error end
  local refusal = exchange.refusal
  -- A handler that raises because the body was refused is not at fault.
  if refusal and not is_refusal(refusal, err.value) then refusal = false end
  if not refusal then
    if role then add_place(err, res, role, f) end
    M.log(req, err)
  end
  res.error = err.value
  if exchange.taken_over then return end
  if native.record_effect(exchange.request, true) then
    -- Sends what the handler has written.
    if not exchange.peer_closed then exchange:send() end
    exchange.aborted = true
    return
  end
  start_anew(res)
  if refusal then
    res:respond_with_refusal(refusal)
  elseif not call_on_error(exchange, req, res, err) then
    M.respond_plainly(exchange, req, res, err)
  end
end

return M
