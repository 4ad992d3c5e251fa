-- One HTTP connection: reads requests, finds and runs their handlers, sends the answers, in turn.
--
-- `serving(app, net)` gives what `net.serve` needs for one listener. The task of a connection is kept
-- across its requests. Every wait has an end: header time, idle time, body rate, write time, or a stop.

local http = require "lio.http"
local lio = require "lio"
local request = require "lio.web.request"
local response = require "lio.web.response"

local now <const> = lio.now
local exchange <const> = http.exchange
local xpcall <const> = xpcall
local type <const> = type

local M = {}

local Connection = {}
Connection.__index = Connection

-- Sends what is queued, and `data` behind it. → whether the peer still takes it.
function Connection:send(...)
  local ok = self.net.send(self.c, ...)
  if not ok then
    self.broken = true
    return false
  end
  return true
end

-- Sends what is queued before the loop waits next.
function Connection:flush_later()
  self.net.flush_later(self.c)
end

-- Waits for more of a body; the rate must not fall below the minimum. → true, or nil, status, reason.
function Connection:wait_body()
  local options = self.app.options
  self.body_since = self.body_since or now()
  local allowed = options.body_time + self.x:received() / options.body_rate
  local seconds = self.body_since + allowed - now()
  local reason = self.net.wait_armed(self.c, false, math.max(seconds, 0))
  if reason == "timeout" then return nil, 408, "the body comes in too slowly" end
  if reason == "closed" then return nil, 400, "closed" end
  return true
end

-- Calls a reading function of the exchange until it does not block. → its results.
function Connection:read(f, limit)
  while true do
    local value, status, reason = f(self.x, limit)
    if value ~= false then
      if status then self.problem = { status, reason } end
      return value, status, reason
    end
    local ok
    ok, status, reason = self:wait_body()
    if not ok then
      self.problem = { status, reason }
      self.x:close_after()
      return nil, status, reason
    end
  end
end

local function traceback(message)
  if type(message) == "string" then return debug.traceback(message, 2) end
  if type(message) == "table" and not (getmetatable(message) or {}).__tostring then
    return debug.traceback("(error object is a table)", 2)
  end
  return debug.traceback(tostring(message), 2)
end

-- The methods a path has, for `Allow` (RFC 9110 section 10.2.1).
local function allow_text(allowed)
  if allowed.GET then allowed.HEAD = true end
  allowed.OPTIONS = true
  local names = {}
  for name in pairs(allowed) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, ", ")
end

local function not_found()
  return 404, "Not Found\n"
end

local function options_handler(allowed)
  local text = allow_text(allowed)
  return function() return 204, nil, { Allow = text } end
end

local function not_allowed_handler(allowed)
  local text = allow_text(allowed)
  return function() return 405, "Method Not Allowed\n", { Allow = text } end
end

-- Whether a route's parameters satisfy its constraints.
local function satisfies(app, head, id)
  local constraints = app.routes:constraints(id)
  if not constraints then return true end
  local params = head:params(app.routes, id)
  for name, pattern in pairs(constraints) do
    if not (params[name] or ""):find("^" .. pattern .. "$") then return false end
  end
  return true
end

-- The handler for a request that the routes could not settle at once, and its route's id.
local function look_closer(app, head)
  local method = head:method()
  local allowed, found = {}, false
  local fallback, fallback_id
  if head:target() == "*" then
    for _, entry in pairs(app.entries) do
      if entry.method ~= "" then allowed[entry.method] = true end
    end
    return options_handler(allowed)
  end
  for _, id in ipairs(head:matches(app.routes)) do
    if satisfies(app, head, id) then
      local entry = app.entries[id]
      if entry.method == method then return entry.handler, id end
      local serves = entry.method == "" or (method == "HEAD" and entry.method == "GET")
      if serves and not fallback then fallback, fallback_id = entry.handler, id end
      if entry.method ~= "" then allowed[entry.method] = true end
      found = true
    end
  end
  if fallback then return fallback, fallback_id end
  if not found then return app.not_found_handler or not_found end
  if method == "OPTIONS" then return options_handler(allowed) end
  return not_allowed_handler(allowed)
end

-- Wraps the middleware whose prefix fits around a handler.
local function wrap(app, req, res, handler)
  local path = req.path
  for index = #app.wrappers, 1, -1 do
    local wrapper = app.wrappers[index]
    if app.is_below(path, wrapper.prefix) then
      local inner = handler
      handler = function()
        return wrapper.run(req, res, function()
          res:take(inner(req, res))
        end)
      end
    end
  end
  return handler
end

local function log_error(req, message)
  io.stderr:write("lio: error in ", req.method, " ", req.target, ": ", message, "\n")
end

-- Answers for a handler that raised.
local function fail(self, req, res, message)
  local x = self.x
  if self.problem and not x:is_answered() then
    -- It gave up because the body was refused: that is what the client should hear.
    x:refuse(self.problem[1], self.problem[2])
    return
  end
  log_error(req, message)
  if x:is_answered() then
    -- The answer has begun: cutting it short is all that tells the client.
    self.broken = true
    return
  end
  local custom = self.app.error_handler
  if custom then
    res:reset()
    local ok, problem = xpcall(function() res:finish(custom(message, req, res)) end, traceback)
    if ok then return end
    log_error(req, problem)
    if x:is_answered() then
      self.broken = true
      return
    end
  end
  res:reset()
  if self.app.options.debug then
    res:finish(500, response.error_page(req, message), { ["Content-Type"] = "text/html; charset=utf-8" })
  else
    res:finish(500, "Internal Server Error\n")
  end
end

-- Runs one request's handler and sends what it gave.
local function run(self, head, id)
  local app = self.app
  local handler
  if id ~= 0 then
    handler = app.entries[id].handler
  else
    handler, id = look_closer(app, head)
  end
  local req = request.new(head, self, id)
  local res = response.new(self)
  if app.wrappers[1] then handler = wrap(app, req, res, handler) end
  local ok, a, b, c = xpcall(handler, traceback, req, res)
  if ok then
    if self.taken then return end
    if type(a) == "string" and b == nil and res.code == nil and res.fields == nil
      and res.body == nil and not res.mode and not self.problem
    then
      ok, a = pcall(res.plain, res, a)
    else
      ok, a = xpcall(res.finish, traceback, res, a, b, c)
    end
  end
  if not ok then fail(self, req, res, a) end
end

-- Lets the peer read the last answer before the connection is closed under it: ends our side, and reads
-- on for a moment, since closing with unread bytes resets the connection (RFC 9112 section 9.6).
local function linger(self)
  local c, x = self.c, self.x
  c:cut("w")
  local deadline = now() + 2
  while x:discard() == false do
    local left = deadline - now()
    if left <= 0 or self.net.wait_armed(c, false, left) ~= true then return end
  end
end

-- Sends a refusal and ends the connection.
local function refuse(self, status, reason)
  self.x:refuse(status, reason)
  if self:send("") then linger(self) end
end

-- Waits as `what` says. → whether to go on.
local function wait(self, what)
  local options, net = self.app.options, self.net
  if what == "blocked" then
    return net.wait_armed(self.c, true, options.write_time) == true
  end
  local seconds = options.keep_alive_time
  if what == "partial" then
    self.head_since = self.head_since or now()
    seconds = math.max(self.head_since + options.header_time - now(), 0)
  elseif self.serving.stopping then
    return false
  else
    self.idle = true
  end
  local reason = net.wait_armed(self.c, false, seconds)
  self.idle = false
  if reason == "stop" then
    -- What has arrived by now is still answered.
    self.x:close_after()
    return true
  end
  if reason == "timeout" and what == "partial" then
    refuse(self, 408, "the request comes in too slowly")
  end
  return reason ~= "timeout" and reason ~= "closed"
end

local function serve(self)
  local x, c = self.x, self.c
  local left = self.app.options.requests
  while true do
    local head, what, more = x:next()
    if head then
      self.head_since, self.body_since, self.problem = nil, nil, nil
      left = left - 1
      if left <= 0 or self.serving.stopping then x:close_after() end
      if more then self.net.flush_later(c) end
      run(self, head, what)
      if self.taken then return end
      if self.broken then return end
    elseif head == false then
      if not wait(self, what) then return end
    else
      if what then return refuse(self, what, more) end
      if c:buffered() > 0 then linger(self) end
      return
    end
  end
end

-- What one listener's server needs: `handle(c)`, `stop()`, `shed()`.
function M.serving(app, net)
  local serving = { connections = {}, stopping = false }
  local options = app.options

  function serving.handle(c)
    net.timeout(c, nil, options.write_time)
    local self = setmetatable({
      app = app,
      net = net,
      serving = serving,
      c = c,
      x = exchange(c, app.routes, options.request_line, options.headers, options.fields),
    }, Connection)
    serving.connections[c] = self
    serve(self)
    serving.connections[c] = nil
  end

  -- A stop: idle connections close, the others after their answer.
  function serving.stop()
    serving.stopping = true
    for c, self in pairs(serving.connections) do
      if self.idle then net.wake_reader(c, "stop") end
    end
  end

  -- Out of descriptors: idle connections make room for those that wait.
  function serving.shed()
    local left = 16
    for c, self in pairs(serving.connections) do
      if self.idle then
        net.wake_reader(c, "stop")
        left = left - 1
        if left == 0 then return end
      end
    end
  end

  return serving
end

return M
