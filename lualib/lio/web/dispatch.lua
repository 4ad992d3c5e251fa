-- The functions that the native server calls while it serves requests. The server itself calls the handlers and sends
-- the bodies that the handlers return; it calls the functions of this file to choose a handler that the route alone
-- does not determine, to complete a request whose handler did more than return a body, and to wake tasks. Used by
-- web/app_server.lua.
--
-- Invariant: an exchange (web/exchange.lua), with its temporary files and hooks, ends with its request.

local exchanges = require "lio.web.exchange"
local find_handler <const> = require "lio.web.routing"
local handler_error = require "lio.web.handler_error"
local http = require "lio.http"
local wrap <const> = require("lio.web.middleware").wrap

local by_request <const> = exchanges.by_request
local catch <const> = handler_error.catch
local native <const> = http.request
local set_route <const> = http.head.route
local xpcall <const> = xpcall

local M = {}

-- Before the handler -----------------------------------------------------------------------------------

-- `choose_handler(app_server, req, res, route)` returns the handler of a request. `route`: the id of the route, or 0 if
-- no route was found.
function M.choose_handler(app_server, req, res, route)
  local app = app_server.app
  local handler = app.handlers[route]
  if not handler then
    handler, route = find_handler(app, req)
    set_route(req, route or 0)
  end
  if app.wrappers[1] then handler = wrap(app, req, res, handler) end
  return handler
end

-- After the handler ------------------------------------------------------------------------------------

-- Calls the functions added by `res:on_end`, the last one first.
local function run_end_hooks(exchange, req, res)
  local hooks = exchange.end_hooks
  exchange.end_hooks = false
  for index = #hooks, 1, -1 do
    local ok, err = xpcall(hooks[index], catch, req, res)
    if not ok then handler_error.log(req, err) end
  end
end

-- Deletes the form's temporary files, closes the response's file, and calls the functions added by `res:on_end`.
local function clean_up(exchange, req, res)
  exchange.needs_cleanup = false
  if exchange.form then
    exchange.form:close()
    exchange.form = false
  end
  if exchange.file then exchange:keep_file(nil) end
  if exchange.end_hooks then run_end_hooks(exchange, req, res) end
end

-- Sends an error response, because the handler has raised or its response could not be sent.
local function send_error(exchange, req, res, err)
  -- With middleware, the function that has failed is not known.
  handler_error.respond(exchange, req, res, err, not exchange.app.wrappers[1] and "handler" or nil)
  if exchange.taken_over or exchange.aborted then return end
  local ok, second = xpcall(res.finish, catch, res)
  if ok then return end
  handler_error.log(req, second)
  if native.response_has_begun(req) then
    exchange.aborted = true
    return
  end
  handler_error.respond_plainly(exchange, req, res, err)
  res:finish()
end

-- Ends the exchange of a request. Returns whether the connection stays open.
local function end_exchange(exchange, res)
  if exchange.needs_cleanup then clean_up(exchange, res.request, res) end
  exchange:end_waits()
  exchanges.remove(exchange)
  return not (exchange.taken_over or exchange.aborted)
end

local function finish_response(res, a, b, c)
  local exchange = by_request[res.request]
  if not (exchange and exchange.taken_over) then res:finish(a, b, c) end
end

-- `fail(res, err)`: ends a request whose handler has raised `err`. Returns whether its connection stays
-- open.
function M.fail(res, err)
  local exchange = exchanges.of(res)
  if not pcall(send_error, exchange, res.request, res, err) then exchange.aborted = true end
  return not by_request[res.request] or end_exchange(exchange, res)
end

-- `complete(res, a, b, c)`: ends a request whose handler has returned `a, b, c`. Returns whether its
-- connection stays open.
function M.complete(res, a, b, c)
  local ok, err = xpcall(finish_response, catch, res, a, b, c)
  if not ok then return M.fail(res, err) end
  local exchange = by_request[res.request]
  return not exchange or end_exchange(exchange, res)
end

-- `abandon(app_server, id)`: ends a request whose task was killed. Its connection is closed.
function M.abandon(app_server, id)
  local exchange = app_server.exchanges[id]
  if not exchange then return end
  if not exchange.taken_over then exchange.aborted = true end
  if exchange.needs_cleanup then
    clean_up(exchange, exchange.request, exchange.end_hooks and exchange.end_hooks.res)
  end
  exchange:end_waits()
  exchanges.remove(exchange)
end

-- Waking -----------------------------------------------------------------------------------------------

-- For each reason of `notify`, by its number in the native server: the `event` whose waiting tasks are woken, and the
-- `result` of their wait. The list does not contain the reason "connection closed".
local WAKE_UPS <const> = {
  [0] = { event = "read", result = true }, { event = "write", result = true }, { event = "end", result = true },
  { event = "read", result = "timeout" }, { event = "write", result = "timeout" },
}

-- `notify(app_server, id, reason)`: wakes the tasks that wait on request `id`. If `id` is nil, a connection has been
-- removed: calls `on_leave`.
function M.notify(app_server, id, reason)
  if not id then return app_server.on_leave() end
  local exchange = app_server.exchanges[id]
  if not exchange then return end
  local wake_up = WAKE_UPS[reason]
  if (not wake_up or wake_up.event == "end") and exchange.event_stream then exchange:on_peer_close() end
  if wake_up then return exchange:wake(wake_up.event, wake_up.result) end
  exchange:end_waits()
end

return M
