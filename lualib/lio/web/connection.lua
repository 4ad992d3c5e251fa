-- One HTTP connection: reads requests, finds and runs their handlers, sends the answers, in turn.
--
-- `serving(app, net)` gives what `net.serve` needs for one listener. A connection has a task only while it
-- works on requests; between requests there are its exchange and a timer. Every wait has an end: header time, idle
-- time, body rate, write time, a stop. What every connection and every request needs is native (src/http/keeper.rs,
-- life.rs, serve.rs), which calls the functions in here for what only some need. These know a connection by a
-- table, `{ request, c = stream, x = exchange }`, that is made when it is first asked for.

local http = require "lio.http"
local lio = require "lio"
local watched <const> = require "lio.watched"
local find_handler <const> = require "lio.web.lookup"
local failure = require "lio.web.failure"
local wrap <const> = require("lio.web.middleware").wrap
require "lio.web.request"
local response = require "lio.web.response"

local now <const> = lio.now
local caught <const> = failure.caught
local serve <const> = http.serve
local set_route <const> = http.head.route
local xpcall <const> = xpcall
local setmetatable <const> = setmetatable

-- Where a connection keeps its current request.
local CURRENT <const> = 1
-- Seconds a connection must have been idle to be closed for others.
local SHED_AFTER <const> = 1

local M = {}

-- What a connection has none of until it needs it. `serving` adds what the connections of one server share.
local Connection = {
  body_waited = 0,
  limited = false, -- whether its sends have their time limit
  problem = false, -- why the body could not be read: `{ status, text }`
  caught = false, -- what `on_file` raised, as `failure.caught` gives it
  extras = false, -- whether there is one of the next three
  form = false,
  file = false,
  hooks = false, -- of the current request
  taken = false,
  gone = false,
  events = false, -- its server-sent events
  broken = false,
}

-- A wait for the peer to read has an end from now on.
function Connection:limit()
  if self.limited then return end
  self.limited = true
  self.net.timeout(self.c, nil, self.app.settings.write_time)
end

-- Sends what is queued, and `data` behind it. → whether the peer still takes it.
function Connection:send(...)
  self:limit()
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

-- Goes on after a reading function of the exchange has given `value, status, reason`: calls it until it does not
-- block. → its results.
function Connection:go_on_reading(f, limit, value, status, reason)
  while value == false do
    local ok
    ok, status, reason = self:wait_body()
    if not ok then
      self.problem = { status, reason }
      self.x:close_after()
      return nil, status, reason
    end
    value, status, reason = f(self.x, limit)
  end
  if status then self.problem = { status, reason } end
  return value, status, reason
end

-- Calls a reading function of the exchange until it does not block. → its results.
function Connection:read(f, limit)
  return self:go_on_reading(f, limit, f(self.x, limit))
end

-- Answers for a handler that raised, or whose answer cannot be sent.
local function fail(self, req, res, problem)
  failure.answer(self, req, res, problem)
  if self.taken or self.broken then return end
  local ok, second = xpcall(res.finish, caught, res)
  if ok then return end
  failure.log(req, second)
  if self.x:is_answered() then
    self.broken = true
    return
  end
  failure.plain(self, req, res, problem)
  res:finish()
end

-- The request is over: tells whom `res:on_end` has named.
local function tell_end(self, req, res)
  local hooks = self.hooks
  self.hooks = false
  for index = #hooks, 1, -1 do
    local ok, problem = xpcall(hooks[index], caught, req, res)
    if not ok then failure.log(req, problem) end
  end
end

-- Gives the answer of a handler that has returned. Runs protected.
local function settle(self, res, a, b, c)
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
  local x = self.x
  x:work() -- whatever comes now is nobody's
  if self.form then close_form(self) end
  if self.file then self:keep_file(nil) end
  x:leave()
  if not self.taken then self.net.close(self.c) end
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

-- No request comes any more; or one is refused, with `status` and `reason`.
local function over(self, _, status, reason)
  local x = self.x
  x:work()
  if status then
    x:refuse(status, reason)
  elseif not x:leaves_unread() then
    return finish(self)
  end
  return self.net.start(linger, self)
end

-- The handler of a request whose route alone does not tell. Also the place for what a stop, or a limit of
-- requests, asks for before the handler runs.
local function choose(self, req, res, route)
  if self.left then
    self.left = self.left - 1
    if self.left <= 0 then self.x:close_after() end
  end
  -- What has come before a stop is answered; behind a body the end shows when the connection falls idle.
  if self.serving.stopping and self.x:is_last_arrived() then self.x:close_after() end
  local app = self.app
  local handler = app.handlers[route]
  if not handler then
    handler, route = find_handler(app, req)
    set_route(req, route or 0)
  end
  if app.wrappers[1] then handler = wrap(app, req, res, handler) end
  return handler
end

-- Ends a request whose handler did more than return a string, or failed. → whether the connection goes on.
local function conclude(self, req, res, ok, a, b, c)
  if ok then ok, a = xpcall(settle, caught, self, res, a, b, c) end
  if not ok and not pcall(fail, self, req, res, a) then self.broken = true end
  if self.extras then end_extras(self, req, res) end
  if self.taken or self.broken then
    finish(self)
    return false
  end
  self.body_waited, self.problem, self.caught = 0, false, false
  return true
end

-- What a task works on: `{ exchange }`, or `{ false }` between two. A task that is killed meanwhile takes its
-- connection with it, as nobody would answer there any more.
local Work = {}

function Work.__close(work)
  local x = work[1]
  if not x then return end
  local self = x:table()
  if not self then return end
  if not self.taken then self.broken = true end
  if self.hooks then tell_end(self, self[CURRENT], self.hooks.res) end
  finish(self)
end

-- One that no task works on now: most rounds of the loop need no new one.
local spare_work = false

local function new_work()
  local work = spare_work or setmetatable({ false }, Work)
  spare_work = false
  return work
end

local tools

-- Serves one connection, which was taken out of those that are due, as a task of its own.
local function serve_alone(x)
  local work <close> = new_work()
  serve(work, tools, x)
  spare_work = work
end

-- A task that serves one connection after another. When a handler waits, the task is that handler's, and the
-- next one goes on behind it: so there is one change of coroutine a round, not one a request.
local function serve_due()
  local work <close> = new_work()
  serve(work, tools)
  spare_work = work
end

-- The same for connections that become due outside a round, in a task that accepts: forked, with another behind it
-- for those that are left when a handler waits.
local function serve_behind(start)
  if http.due() > 1 then start(serve_behind, start) end
  serve_due()
end

tools = http.tools {
  {}, response.Response,
  -- Has the connections that are due served, when the loop has gone through its events.
  function(serving) serving.net.defer(serving.serve_due) end,
  caught, choose,
  function(self) self.net.flush_later(self.c) end,
  conclude, over,
  function(serving, c) serving.net.close(c) end,
  function(serving) serving.left() end,
}

-- The loop has events while a task works on a request: they are for what it waits on.
function Connection:ready(events)
  if self.events then self.events:ready() end
  return self.net.ready(self.c, events)
end

-- What one listener's server needs, see `keeper` in lio/net/serve.lua.
function M.serving(app, net)
  local serving = { net = net, stopping = false }
  local kind = {}
  for name, value in pairs(Connection) do kind[name] = value end
  kind.app, kind.net, kind.serving = app, net, serving
  kind.left = app.settings.requests < math.huge and app.settings.requests or false
  local keeper = http.keeper(app.settings, app.routes, tools, app.handlers, serving,
    { __index = kind }, net.timers, net.adopts)

  function serving.serve_due()
    while http.due() > 0 do
      if net.starts then
        net.start(serve_due)
      else
        net.start(serve_alone, http.take_due(tools))
      end
    end
  end

  -- The same in a task.
  local function serve_soon()
    if not net.starts then return serving.serve_due() end
    if http.due() > 0 then net.start(serve_behind, net.start) end
  end

  function serving.count() return keeper:count() end
  function serving.is_full() return keeper:is_full() end

  -- Somebody waits for a connection to leave: `serving.left` is called then.
  function serving.watch() keeper:watch() end

  function serving.listen(selector, socket)
    keeper:listen(socket)
    selector:set_udata(socket, keeper)
  end

  function serving.accept(selector, all)
    local more, message, code = keeper:accept(selector, all)
    if more then serve_soon() end
    return more, message, code
  end

  function serving.admit(selector, c)
    keeper:admit(selector, c)
    serve_soon()
  end

  function serving.release(c)
    local x = keeper:find(c)
    if x then x:leave() end
  end

  -- A stop: what has arrived by now is answered, then connections close as they fall idle.
  function serving.stop()
    serving.stopping = true
    keeper:begin_stop()
    -- Lets the loop take what the system holds. Where another process listens by now, clients have the time to
    -- learn from an answer that the connection ends.
    net.rest(watched and watched.is_replaced() and 1 or 0.05)
    keeper:settle()
    for _, x in ipairs(keeper:list()) do
      local self = x:known()
      -- These have no end of their own.
      if self and self.events then self.events:finish() end
    end
  end

  -- The end of a stop: who waits on a connection learns that it is closed.
  function serving.close()
    for _, x in ipairs(keeper:list()) do
      local self = x:table()
      net.close(self.c)
    end
  end

  -- Out of descriptors: connections that have had an answer and are idle for a while make room for
  -- those that wait, a few at a time.
  function serving.shed()
    keeper:shed(net.clock - SHED_AFTER + app.settings.keep_alive_time)
  end

  return serving
end

return M
