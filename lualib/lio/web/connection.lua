-- One HTTP connection: reads requests, finds and runs their handlers, sends the answers, in turn.
--
-- `serving(app, net)` gives what `net.serve` needs for one listener. A connection has a task only while it
-- works on requests: the loop calls `ready`, which reads a head and starts one; between requests there
-- are a table and a timer. Every wait has an end: header time, idle time, body rate, write time, a stop.

local http = require "lio.http"
local lio = require "lio"
local watched <const> = require "lio.watched"
local find_handler <const> = require "lio.web.lookup"
local mount = require "lio.web.mount"
local wrap <const> = require "lio.web.middleware"
local request = require "lio.web.request"
local response = require "lio.web.response"

local now <const> = lio.now
local exchange <const> = http.exchange
local next_request <const> = http.next
local answer <const> = http.answer
local Request <const>, Response <const> = request.Request, response.Response
local xpcall <const> = xpcall
local setmetatable <const> = setmetatable
local type <const> = type

local TEXT <const> = response.TEXT
-- Seconds a connection must have been idle to be closed for others.
local SHED_AFTER <const> = 1

local M = {}

local Connection = {}
Connection.__index = Connection

-- Sends what is queued, and `data` behind it. → whether the peer still takes it.
function Connection:send(...)
  local ok = self.net.send(self.c, ...)
  if not ok then
    self.gone, self.broken = true, true
    return false
  end
  return true
end

-- Sends what is queued before the loop waits next; `before` may queue more then.
function Connection:flush_later(before)
  self.net.flush_later(self.c, before)
end

-- Waits for more of a body; the rate must not fall below the minimum. What the handler does between two
-- pieces is not the client's time. → true, or nil, status, reason.
function Connection:wait_body()
  local options = self.app.settings
  local waited = self.body_waited
  local seconds = options.body_time + self.x:received() / options.body_rate - waited
  local began = now()
  local reason = self.net.wait_armed(self.c, false, math.max(seconds, 0))
  self.body_waited = waited + now() - began
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

-- An error and where it came from: `value` as it was raised, and `text` with the traceback.
local function caught(value)
  local shown = value
  if type(value) ~= "string" then
    local ok, text = pcall(tostring, value)
    shown = "(error object is a " .. type(value) .. (ok and ": " .. text .. ")" or ")")
  end
  return { value = value, text = debug.traceback(shown, 2) }
end

local function log_error(req, text)
  io.stderr:write("lio: error in ", req.method, " ", req.target, ": ", text, "\n")
end

-- Answers for a handler that raised.
local function fail(self, req, res, problem)
  local x = self.x
  -- One that gave up because the body was refused has no fault of its own.
  if not self.problem then log_error(req, problem.text) end
  if self.taken then return end
  if x:is_answered() then
    -- The answer has begun: cutting it short is all that tells the client. What came before goes out.
    if not self.gone then self:send("") end
    self.broken = true
    return
  end
  res:reset()
  if self.problem then return res:finish() end
  local custom = mount.error_handler(self.app, req)
  if custom then
    local ok, second = xpcall(function()
      res:finish(custom(problem.value, req, res, problem.text))
    end, caught)
    if ok then return end
    log_error(req, second.text)
    if x:is_answered() then
      self.broken = true
      return
    end
    res:reset()
  end
  res:finish(require("lio.web.page").failure(req, problem.text, self.app.settings.debug))
end

-- The request is over: tells whom `res:on_end` has named.
local function tell_end(self, req, res)
  local hooks = self.hooks
  self.hooks = false
  for index = #hooks, 1, -1 do
    local ok, problem = xpcall(hooks[index], caught, req, res)
    if not ok then log_error(req, problem.text) end
  end
end

-- Calls the handler and gives its answer to the connection. Runs protected.
local function process(self, handler, req, res)
  local a, b, c = handler(req, res)
  if b == nil and type(a) == "string" and not (res.touched or self.problem or self.taken) then
    if not answer(self.x, 200, TEXT, a) then self:send(a) end
    return
  end
  if not self.taken then res:finish(a, b, c) end
end

-- The temporary files of a form end with its request.
local function close_form(self)
  self.form:close()
  self.form = false
end

-- An answer's file ends with its request. `keep_file(f)` closes the one before; nil: only that.
function Connection:keep_file(f)
  if self.file then self.file:close() end
  self.file = f or false
  if f then self.extras = true end
end

-- What only some requests have, and what ends with them: whoever sets one of these sets `extras`.
local function end_extras(self, req, res)
  self.extras = false
  if self.form then close_form(self) end
  if self.file then self:keep_file(nil) end
  if self.hooks then tell_end(self, req, res) end
end

-- Ends the connection.
local function finish(self)
  local c, serving = self.c, self.serving
  self.busy = true -- whatever comes now is nobody's
  if self.form then close_form(self) end
  if self.file then self:keep_file(nil) end
  serving.connections[c] = nil
  if self.timer then
    serving.timers:free(self.timer)
    self.timer = nil
  end
  if self.taken then return end
  serving.server:release(c)
  self.net.close(c)
end

-- Lets the peer read the last answer before the connection is closed under it: ends our side, and reads
-- on for a moment, since closing with unread bytes resets the connection (RFC 9112 section 9.6).
local function linger(self)
  local c, x = self.c, self.x
  if self:send("") then
    c:cut("w")
    local deadline = now() + 2
    while x:discard() == false do
      local left = deadline - now()
      if left <= 0 or self.net.wait_armed(c, false, left) ~= true then break end
    end
  end
  return finish(self)
end

-- Acts at `due` at the latest. The timer is moved only when it would fire too late; one that fires too
-- early is set again then, so a connection that goes from request to request costs no timer call.
local function act_by(self, due)
  self.due = due
  if due < self.timer_due then
    self.timer_due = due
    self.serving.timers:set(self.timer, due - now())
  end
end

-- What comes after `next` had no request: waits without a task, or ends. Called with its results.
local function rest(self, what, status, reason)
  if status == "idle" then
    self.busy, self.waits = false, "idle"
    local serving = self.serving
    if serving.settled then return finish(self) end
    local due = self.net.clock + serving.keep_alive_time
    self.due = due
    if due < self.timer_due then act_by(self, due) end
    return
  end
  if what == false then
    self.busy, self.waits = false, status
    local options = self.app.settings
    if status == "partial" then
      self.head_since = self.head_since or now()
      return act_by(self, self.head_since + options.header_time)
    elseif status == "unread" then
      self.head_since = self.head_since or now()
      return act_by(self, self.head_since + options.body_time)
    end
    return act_by(self, now() + options.write_time)
  end
  self.busy = true
  if status then
    self.x:refuse(status, reason)
  elseif not self.x:leaves_unread() then
    return finish(self)
  end
  return self.net.start(linger, self)
end

-- What is not the same for every request, before it runs.
local function prepare(self, more)
  if self.left then
    self.left = self.left - 1
    if self.left <= 0 then self.x:close_after() end
  end
  -- What has come before a stop is answered; behind a body the end shows when the connection falls idle.
  if self.serving.stopping and self.x:is_last_arrived() then self.x:close_after() end
  if more then self.net.flush_later(self.c) end
end

-- A task's work: this request, and those that have come with it.
local function serve(work, self, head, id, more)
  work[1] = self
  local app = self.app
  repeat
    self.head_since, self.body_waited, self.problem = false, 0, false
    self.served = true
    if more or self.left or self.serving.stopping then prepare(self, more) end
    local handler
    if id ~= 0 then
      handler = app.handlers[id]
    else
      handler, id = find_handler(app, head)
    end
    local req = setmetatable({ head, self, id }, Request)
    local res = setmetatable({ connection = self, touched = false }, Response)
    self.current = req
    if app.wrappers[1] then handler = wrap(app, req, res, handler) end
    local ok, problem = xpcall(process, caught, self, handler, req, res)
    if not ok and not pcall(fail, self, req, res, problem) then self.broken = true end
    if self.extras then end_extras(self, req, res) end
    if self.taken or self.broken then
      work[1] = false
      return finish(self)
    end
    head, id, more = next_request(self.x)
  until not head
  work[1], self.current = false, false
  return rest(self, head, id, more)
end

-- What a task works on: `{ connection }`, or `{ false }` between two. A task that is killed meanwhile takes its
-- connection with it, as nobody would answer there any more.
local Work = {}

function Work.__close(work)
  local self = work[1]
  if not self then return end
  if not self.taken then self.broken = true end
  if self.hooks then tell_end(self, self.current, self.hooks.res) end
  finish(self)
end

-- One that no task works on now: most rounds of the loop need no new one.
local spare_work = false

local function new_work()
  local work = spare_work or setmetatable({ false }, Work)
  spare_work = false
  return work
end

-- `serve` as a task of its own.
local function serve_alone(self, head, id, more)
  local work <close> = new_work()
  serve(work, self, head, id, more)
  spare_work = work
end

-- Looks what has come to a new connection. Called in the accept loop's task.
local function begin(self)
  local head, id, more = next_request(self.x)
  if not head then return rest(self, head, id, more) end
  self.busy = true
  return self.net.start(serve_alone, self, head, id, more)
end

-- The connections whose requests are to be served in this round of the loop.
local due, first_due, last_due = {}, 1, 0

local function take_due()
  local self = due[first_due]
  due[first_due] = nil
  first_due = first_due + 1
  return self
end

-- A task that serves one after another. When a handler waits, the task is that handler's, and the next
-- one goes on behind it: so there is one change of coroutine a round, not one a request.
local function serve_due()
  local work <close> = new_work()
  while first_due <= last_due do
    local self = take_due()
    local head = self.head
    self.head = false
    serve(work, self, head, self.route, self.more)
  end
  spare_work = work
end

-- The loop has events. While a task works on a request, they are for what it waits on.
function Connection:ready(events)
  if self.busy then
    if self.events then self.events:ready() end
    return self.net.ready(self.c, events)
  end
  local head, id, more = next_request(self.x)
  if not head then return rest(self, head, id, more) end
  self.busy, self.head, self.route, self.more = true, head, id, more
  if last_due < first_due then
    first_due, last_due = 1, 0
    self.net.defer(self.serving.serve_due)
  end
  last_due = last_due + 1
  due[last_due] = self
end

-- The timer fired.
function Connection:expired()
  self.timer_due = math.huge
  if self.busy then
    return act_by(self, now() + self.app.settings.keep_alive_time)
  end
  if now() < self.due then return act_by(self, self.due) end
  if self.waits == "partial" then
    self.busy = true
    self.x:refuse(408, "the request comes in too slowly")
    return self.net.start(linger, self)
  end
  return finish(self)
end

-- What one listener's server needs: `handle(c)`, which does not wait, `stop()` and `shed()`.
function M.serving(app, net)
  local serving = {
    connections = {},
    timers = net.timers,
    keep_alive_time = app.settings.keep_alive_time,
    stopping = false,
    settled = false,
  }
  function serving.serve_due()
    while first_due <= last_due do
      if net.starts then
        net.start(serve_due)
      else
        local self = take_due()
        net.start(serve_alone, self, self.head, self.route, self.more)
      end
    end
  end

  local options = app.settings
  local limited = options.requests < math.huge and options.requests or nil

  function serving.handle(c)
    net.timeout(c, nil, options.write_time)
    local self = setmetatable({
      app = app,
      net = net,
      serving = serving,
      c = c,
      x = exchange(c, app.routes, options.request_line, options.headers, options.fields),
      busy = false,
      served = false,
      waits = "idle",
      due = 0,
      timer_due = math.huge,
      left = limited or false,
      head_since = false,
      body_waited = 0,
      problem = false,
      extras = false, -- whether there is one of the next three
      form = false,
      file = false,
      hooks = false, -- of the current request
      current = false, -- the request, whose head is its [1]
      taken = false,
      gone = false,
      events = false, -- its server-sent events
      broken = false,
    }, Connection)
    self.timer = net.timers:create(self)
    serving.connections[c] = self
    net.attend(c, self)
    return begin(self)
  end

  -- A stop: what has arrived by now is answered, then connections close as they fall idle.
  function serving.stop()
    serving.stopping = true
    -- Lets the loop take what the system holds. Where another process listens by now, clients have the time to
    -- learn from an answer that the connection ends.
    net.rest(watched and watched.is_replaced() and 1 or 0.05)
    serving.settled = true
    local idle = {}
    for _, self in pairs(serving.connections) do
      if not self.busy and self.waits == "idle" then idle[#idle + 1] = self end
      -- These have no end of their own.
      if self.events then self.events:finish() end
    end
    for _, self in ipairs(idle) do finish(self) end
  end

  -- Out of descriptors: connections that have had an answer and are idle for a while make room for
  -- those that wait, a few at a time.
  function serving.shed()
    local idle = {}
    local before = net.clock - SHED_AFTER + serving.keep_alive_time
    for _, self in pairs(serving.connections) do
      if self.served and not self.busy and self.waits == "idle" and self.due < before then
        idle[#idle + 1] = self
        if #idle == 16 then break end
      end
    end
    for _, self in ipairs(idle) do finish(self) end
  end

  return serving
end

return M
