-- An exchange is the data that Lua keeps for a request whose handler does more than return a body: why the request's
-- body was refused, its form, the file of the response, hooks, server-sent events, waiting tasks. It is created when it
-- is first needed, and ends with the request.
--
-- An exchange may be used after its request has ended: the functions of `http.request` then have no effect. If the
-- native server has no request object, it passes the request's id, a number, instead.

local http = require "lio.http"

local native <const> = http.request
local owner <const> = http.head.owner
local setmetatable <const> = setmetatable

local M = {}

-- The app servers (web/app_server.lua), by native server.
local app_servers = setmetatable({}, { __mode = "k" })

-- The exchanges of requests that have not ended, by request. Each app server has a table of its exchanges by id.
local by_request = setmetatable({}, { __mode = "k" })
M.by_request = by_request

-- The fields of a new exchange, in addition to `id`, `request`, `app_server`, and the app server's `app` and `driver`.
local Exchange = {
  -- Why the body was refused: `status`, `reason`; `raised`, the value that form.lua raised; `is_of_read`, whether a
  -- read was refused, so that a later one with a larger limit may succeed.
  refusal = false,
  upload_error = false, -- the error raised by `on_file`, as `handler_error.catch` returns it
  needs_cleanup = false, -- whether one of the next three fields is set
  form = false,
  file = false,
  end_hooks = false,
  taken_over = false, -- the program owns the connection
  peer_closed = false, -- the peer has closed the connection, or is not reading
  aborted = false, -- the response cannot be completed
  event_stream = false, -- server-sent events
  waiting = false, -- for each event, a list of the tokens of waiting tasks
}

-- `register(app_server)`: adds an app server. Must be called before its first exchange is created.
function M.register(app_server)
  local class = { app = app_server.app, driver = app_server.driver, app_server = app_server }
  for name, value in pairs(Exchange) do class[name] = value end
  app_server.exchange_class = { __index = class }
  app_server.exchanges = {}
  app_servers[app_server.server] = app_server
end

-- Creates the exchange of a request. If the request has ended, the exchange is aborted.
local function create(req)
  local server, id = owner(req)
  local app_server = app_servers[server]
  local exchange = setmetatable({ id = id, request = req }, app_server.exchange_class)
  if native.is_open(req) then
    -- From now on, `dispatch.complete` ends the request and its exchange, regardless of what the handler does next.
    native.record_effect(req, true)
    app_server.exchanges[id], by_request[req] = exchange, exchange
  else
    exchange.peer_closed, exchange.aborted = true, true
  end
  return exchange
end

-- `of(res)` returns the exchange of a response. Creates it if the response has none.
function M.of(res) return by_request[res.request] or create(res.request) end

-- `existing(res)` returns the exchange of a response; nil if it has none.
function M.existing(res) return by_request[res.request] end

-- `of_request(req)` returns the exchange of a request. Creates it if the request has none.
function M.of_request(req) return by_request[req] or create(req) end

-- `remove(exchange)`: forgets an exchange whose request has ended.
function M.remove(exchange)
  exchange.app_server.exchanges[exchange.id], by_request[exchange.request] = nil, nil
end

-- `app_server_of(res)` returns the app server of a response.
function M.app_server_of(res) return app_servers[owner(res.request)] end

-- Waiting --------------------------------------------------------------------------------------------

-- A wait. If its task is killed, and no other task waits for the event, the native server must not count it any longer.
local Waiting = {}

function Waiting.__close(waiting)
  local exchange, event <const> = waiting.exchange, waiting.event
  if not exchange then return end
  local tokens = exchange.waiting[event] or {}
  for i, token in ipairs(tokens) do
    if token == waiting.token then table.remove(tokens, i) break end
  end
  if tokens[1] then return end
  exchange.waiting[event] = nil
  native.end_wait(exchange.request, event)
end

-- Waits until the connection is readable ("read") or writable ("write"). Returns true, "timeout" or "closed".
function Exchange:wait(what)
  if not native.wait(self.request, what) then return "closed" end
  local token = self.driver:new_token()
  local waiting = self.waiting or {}
  self.waiting = waiting
  waiting[what] = waiting[what] or {}
  local wait <close> = setmetatable({ exchange = self, event = what, token = token }, Waiting)
  table.insert(waiting[what], token)
  local result = self.driver:wait(token)
  wait.exchange = false
  return result
end

-- Wakes the tasks that wait for `what`; `reason` is the result of their `wait`.
function Exchange:wake(what, reason)
  local tokens = self.waiting and self.waiting[what]
  if not tokens then return end
  self.waiting[what] = nil
  for _, token in ipairs(tokens) do self.driver:wake(token, reason) end
end

-- Wakes all tasks that wait, because the request or its connection has ended.
function Exchange:end_waits()
  if not self.waiting then return end
  self:wake("read", "closed")
  self:wake("write", "closed")
end

-- Ends the event stream, because its peer has closed.
function Exchange:on_peer_close()
  self.peer_closed, self.aborted = true, true
  self.event_stream:finish()
end

-- Sending and reading --------------------------------------------------------------------------------

-- Sends the queued bytes, and then `data` without its first `sent` bytes. Returns true; or false and "closed",
-- "timeout", or "truncated" for a file that has become shorter.
function Exchange:send(data, sent)
  local reason
  data, sent = data or "", sent or 0
  repeat
    sent, reason = native.send(self.request, data, sent)
    if sent == true then return true end
    if sent then reason = self:wait "write" end
  until reason ~= true
  self.peer_closed, self.aborted = true, true
  return false, reason
end

-- Calls `f` once before the loop waits again, just before the queued bytes are sent, so `f` may queue more bytes.
function Exchange:before_flush(f)
  self.app_server.unflushed[self.id] = f
end

-- Continues after `f`, a function of `http.request` that reads the body, has returned `value, status, reason`. While
-- `value` is false, `f` would block: waits until the connection is readable, and calls `f` again. Returns the results
-- of `f`; or nil, status, reason if waiting fails.
function Exchange:continue_reading(f, limit, value, status, reason)
  while value == false do
    local woken = self:wait "read"
    if woken ~= true then
      status, reason = 400, "closed"
      if woken == "timeout" then status, reason = 408, "the body arrives too slowly" end
      self.refusal = { status = status, reason = reason }
      native.close_after(self.request)
      return nil, status, reason
    end
    value, status, reason = f(self.request, limit)
  end
  if status then
    self.refusal = { status = status, reason = reason, is_of_read = true }
  elseif self.refusal and self.refusal.is_of_read then
    self.refusal = false
  end
  return value, status, reason
end

-- Calls `f`, a function of `http.request` that reads the body, and waits for data while `f` returns false. Returns the
-- results of `f`.
function Exchange:read(f, limit)
  return self:continue_reading(f, limit, f(self.request, limit))
end

-- `keep_file(f)`: replaces the file of the response, and closes the previous file. The exchange closes `f`, which may
-- be nil, at the end of the request.
function Exchange:keep_file(f)
  if self.file then self.file:close() end
  self.file = f or false
  if f then self.needs_cleanup = true end
end

return M
