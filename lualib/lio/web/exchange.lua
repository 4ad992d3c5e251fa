-- An exchange is what Lua keeps of a request whose handler does more than return a body: why its body was refused, its
-- form and its file, hooks, server-sent events, tasks that wait. Made when it is first needed; ends with the request.
--
-- The native server (`http.server`) knows a request by its id, a number, so an exchange that is kept for longer finds
-- that the request has ended. A response has both as fields; `http.head.owner` returns those of a request.

local http = require "lio.http"

local owner <const> = http.head.owner
local setmetatable <const> = setmetatable

local M = {}

-- The app servers (web/app_server.lua), by native server.
local app_servers = setmetatable({}, { __mode = "k" })

-- The fields of a new exchange, besides `id` and `request`, `app_server`, and its `app`, `driver` and native `server`.
local Exchange = {
  refusal = false, -- why the body was refused: `status`, `reason`, and `raised`, the value that form.lua raised
  upload_error = false, -- the error of `on_file`, as `handler_error.catch` returns it
  needs_cleanup = false, -- whether one of the next three is set
  form = false,
  file = false,
  end_hooks = false,
  taken_over = false, -- the program owns the connection
  peer_closed = false, -- the peer has closed, or does not read
  aborted = false, -- the response cannot be completed
  event_stream = false, -- server-sent events
  waiting = false, -- lists of tokens of tasks, by what they wait for
}

-- `register(app_server)`: from now on the exchanges of this server are found.
function M.register(app_server)
  local class = {
    app = app_server.app, driver = app_server.driver, app_server = app_server, server = app_server.server,
  }
  for name, value in pairs(Exchange) do class[name] = value end
  app_server.exchange_class = { __index = class }
  app_server.exchanges = {}
  app_servers[app_server.server] = app_server
end

-- The exchange of request `id`. If the request has ended, the exchange is a new one that is aborted.
local function find(server, id, req)
  local app_server = app_servers[server]
  local exchange = app_server.exchanges[id]
  if exchange then return exchange end
  exchange = setmetatable({ id = id, request = req }, app_server.exchange_class)
  if server:is_open(id) then
    app_server.exchanges[id] = exchange
  else
    exchange.peer_closed, exchange.aborted = true, true
  end
  return exchange
end

-- `of(res)` returns the exchange of a response.
function M.of(res) return find(res.native_server, res.native_id, res.request) end

-- `existing(res)` returns the exchange of a response if there is one, else nil.
function M.existing(res) return app_servers[res.native_server].exchanges[res.native_id] end

-- `of_request(req)` returns the exchange of a request.
function M.of_request(req)
  local server, id = owner(req)
  return find(server, id, req)
end

-- `app_server_of(res)` returns the app server of a response.
function M.app_server_of(res) return app_servers[res.native_server] end

-- Waiting --------------------------------------------------------------------------------------------

-- Waits until the connection is readable ("read") or writable ("write"). Returns true, "timeout" or "closed".
function Exchange:wait(what)
  if not self.server:wait(self.id, what) then return "closed" end
  local token = self.driver:new_token()
  local waiting = self.waiting or {}
  self.waiting = waiting
  waiting[what] = waiting[what] or {}
  table.insert(waiting[what], token)
  return self.driver:wait(token)
end

-- Wakes the tasks that wait for `what`; `reason` is the result of their `wait`.
function Exchange:wake(what, reason)
  local tokens = self.waiting and self.waiting[what]
  if not tokens then return end
  self.waiting[what] = nil
  for _, token in ipairs(tokens) do self.driver:wake(token, reason) end
end

-- The peer of a stream of events has closed.
function Exchange:on_peer_close()
  self.peer_closed, self.aborted = true, true
  self.event_stream:finish()
end

-- Sending and reading --------------------------------------------------------------------------------

-- Sends what is queued, and then `data` without its first `sent` bytes. Returns true; or false and "closed", "timeout",
-- or "truncated" for a file that has become shorter.
function Exchange:send(data, sent)
  local server, id = self.server, self.id
  local reason
  data, sent = data or "", sent or 0
  repeat
    sent, reason = server:send(id, data, sent)
    if sent == true then return true end
    if sent then reason = self:wait "write" end
  until reason ~= true
  self.peer_closed, self.aborted = true, true
  return false, reason
end

-- `f` is called before the loop waits next, just before what is queued is sent: it may queue more.
function Exchange:before_flush(f)
  self.app_server.unflushed[self.id] = f
end

-- Continues after `f`, a method of the native server that reads the body, has returned `value, status, reason`: calls
-- it until it does not block. Returns the results of `f`.
function Exchange:continue_reading(f, limit, value, status, reason)
  local server, id = self.server, self.id
  while value == false do
    local woken = self:wait "read"
    if woken ~= true then
      status, reason = 400, "closed"
      if woken == "timeout" then status, reason = 408, "the body comes in too slowly" end
      self.refusal = { status = status, reason = reason }
      server:close_after(id)
      return nil, status, reason
    end
    value, status, reason = f(server, id, limit)
  end
  if status then self.refusal = { status = status, reason = reason } end
  return value, status, reason
end

-- Calls `f`, a method of the native server that reads the body, until it does not block. Returns its results.
function Exchange:read(f, limit)
  return self:continue_reading(f, limit, f(self.server, self.id, limit))
end

-- `keep_file(f)`: the file of the response, or nil. Closes the previous one; `f` is closed at the end of the request.
function Exchange:keep_file(f)
  if self.file then self.file:close() end
  self.file = f or false
  if f then self.needs_cleanup = true end
end

return M
