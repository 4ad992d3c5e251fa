-- Serves an app's requests: `serving(app, driver)` makes the backend of one listener's server
-- (lio/net/server.lua).
--
-- Connections, requests and answers are native (`http.server`, whose machine is src/http/server). A task calls
-- `http.serve`, which calls the handlers and answers with what they return; the functions in here do what only some
-- requests need: choosing a handler, concluding an answer, errors, hooks. They know a request by its exchange
-- (web/exchange.lua), which is made when it is first asked for.

local http = require "lio.http"
local watched <const> = require "lio.watched"
local find_handler <const> = require "lio.web.routing"
local exchanges = require "lio.web.exchange"
local failure = require "lio.web.handler_error"
local wrap <const> = require("lio.web.middleware").wrap
require "lio.web.request"
local response = require "lio.web.response"

local caught <const> = failure.caught
local serve <const> = http.serve
local set_route <const> = http.head.route
local xpcall <const> = xpcall
local setmetatable <const> = setmetatable

-- Where a response keeps its request's number.
local ID <const> = 2
-- The selector's word for "something to read".
local READ <const> = 1

local M = {}

-- Answers for a handler that raised, or whose answer cannot be sent.
local function fail(exchange, req, res, problem)
  failure.answer(exchange, req, res, problem)
  if exchange.taken or exchange.broken then return end
  local ok, second = xpcall(res.finish, caught, res)
  if ok then return end
  failure.log(req, second)
  if exchange.server:is_answered(exchange.id) then
    exchange.broken = true
    return
  end
  failure.plain(exchange, req, res, problem)
  res:finish()
end

-- The request is over: calls what `res:on_end` was given.
local function tell_end(exchange, req, res)
  local hooks = exchange.hooks
  exchange.hooks = false
  for index = #hooks, 1, -1 do
    local ok, problem = xpcall(hooks[index], caught, req, res)
    if not ok then failure.log(req, problem) end
  end
end

-- The temporary files of a form, an answer's file and the hooks end with the request: whoever sets one of these sets
-- `extras`.
local function end_extras(exchange, req, res)
  exchange.extras = false
  if exchange.form then
    exchange.form:close()
    exchange.form = false
  end
  if exchange.file then exchange:keep_file(nil) end
  if exchange.hooks then tell_end(exchange, req, res) end
end

-- The handler of a request whose route alone does not tell.
local function choose(serving, req, res, route)
  local app = serving.app
  local handler = app.handlers[route]
  if not handler then
    handler, route = find_handler(app, req)
    set_route(req, route or 0)
  end
  if app.wrappers[1] then handler = wrap(app, req, res, handler) end
  return handler
end

-- Gives the answer of a handler that has returned. Runs protected.
local function settle(serving, res, a, b, c)
  local exchange = serving.exchanges[res[ID]]
  if not (exchange and exchange.taken) then res:finish(a, b, c) end
end

-- Ends a request whose handler did more than return a body, or failed. → whether the connection goes on.
local function conclude(serving, req, res, ok, a, b, c)
  if ok then ok, a = xpcall(settle, caught, serving, res, a, b, c) end
  if not ok then
    local exchange = exchanges.of(res)
    if not pcall(fail, exchange, req, res, a) then exchange.broken = true end
  end
  local id = res[ID]
  local exchange = serving.exchanges[id]
  if not exchange then return true end
  if exchange.extras then end_extras(exchange, req, res) end
  serving.exchanges[id] = nil
  return not (exchange.taken or exchange.broken)
end

-- What a task that waits for a connection is told, by the number that the server gives: for what, and why.
local WHY <const> = {
  [0] = { "read", true }, { "write", true }, { "end", true }, { "read", "timeout" }, { "write", "timeout" },
}

-- The tasks that wait on request `id` go on, for a reason; without a request: a connection has left.
local function tell(serving, id, why)
  if not id then return serving.left() end
  local exchange = serving.exchanges[id]
  if not exchange then return end
  local what = WHY[why]
  if not what or what[1] == "end" then
    if exchange.events then exchange.events:gone() end
  end
  if what then return exchange:wake(what[1], what[2]) end
  exchange:wake("read", "closed")
  exchange:wake("write", "closed")
end

-- What a task serves with, as a closing value: one that is killed in the middle of a request takes the connection with
-- it, as nobody would answer there any more.
local Work = {}
Work.__index = Work

function Work.__close(work)
  local id = work.run:abandon()
  local exchange = id and work.serving.exchanges[id]
  if not exchange then return end
  if not exchange.taken then exchange.broken = true end
  if exchange.extras then end_extras(exchange, exchange.request, exchange.hooks and exchange.hooks.res) end
  work.serving.exchanges[id] = nil
end

-- A task that serves what is due, one request after another. When a handler waits, the task is that handler's, and
-- another one serves what is left: so there is one change of coroutine a round, not one a request.
local function serve_due(serving)
  local work <close> = serving.spare or setmetatable({ serving = serving, run = serving.server:run() }, Work)
  serving.spare = nil
  serve(work.run, serving.server, serving, caught, serving.app.handlers, response.Response, choose, conclude, tell,
    "code", "kind")
  serving.spare = work
end

-- The same in a task that others start: behind it comes another one for what is left when a handler waits.
local function serve_behind(serving)
  if serving.server:due() > 1 then serving.driver.scheduler.start(serve_behind, serving) end
  serve_due(serving)
end

local Serving = {}
Serving.__index = Serving

-- Serves what is due.
function Serving:serve()
  local scheduler, server = self.driver.scheduler, self.server
  if not scheduler.starts_at_once then
    for _ = 1, server:due() do scheduler.start(serve_due, self) end
  else
    while server:due() > 0 do scheduler.start(serve_due, self) end
  end
end

-- The same in a task.
function Serving:serve_soon()
  local scheduler = self.driver.scheduler
  if not scheduler.starts_at_once then return self:serve() end
  if self.server:due() > 0 then scheduler.start(serve_behind, self) end
end

-- The loop is about to wait.
function Serving:before_wait()
  local id, before = next(self.unflushed)
  while id do
    self.unflushed[id] = nil
    before()
    id, before = next(self.unflushed)
  end
  local seconds = self.server:flush()
  if seconds then self.driver.timers:set(self.timer, seconds) end
  if self.closed then self:leave() end
end

-- The server has been stopped: the loop forgets it with its last connection.
function Serving:leave()
  if self.server:count() > 0 then return end
  self.driver:remove_hooks(self)
  self.driver.timers:free(self.timer)
end

-- The loop has gone through its events.
function Serving:after_events()
  local due, look = self.server:arrived()
  if look then self.driver:dispatch(self.socket, READ) end
  if due then self:serve() end
end

-- The timer has fired.
function Serving:expired()
  if self.server:expire() then self:serve() end
end

-- The backend of one listener's server, see lio/net/server.lua.
function M.serving(app, driver)
  local server = http.server(app.settings, app.routes, driver.selector)
  local serving = setmetatable({
    app = app, driver = driver, server = server, stopping = false, unflushed = {},
  }, Serving)
  serving.timer = driver.timers:create(serving)
  exchanges.serve(serving)
  driver:add_hooks(serving)

  local backend = {}
  function serving.left() backend.on_leave() end
  function backend.count() return server:count() end
  function backend.is_full() return server:is_full() end

  -- `on_leave` is called when the next connection leaves.
  function backend.notify_leave() server:watch() end

  function backend.listen(_, socket)
    serving.socket = socket
    server:listen(socket)
  end

  function backend.accept()
    local more, message, code = server:accept()
    serving:serve_soon()
    return more, message, code
  end

  function backend.accept_waiting()
    local more = server:accept(true)
    serving:serve_soon()
    return more
  end

  function backend.admit(_, c)
    driver:forget(c)
    server:admit(c)
    serving:serve_soon()
  end

  function backend.release() end

  -- A stop: what has arrived by now is answered, then connections close as they fall idle.
  function backend.stop()
    serving.stopping = true
    server:stop()
    -- Lets the loop take what the system holds. Where another process listens by now, clients have the time to
    -- learn from an answer that the connection ends.
    driver:sleep(watched and watched.is_replaced() and 1 or 0.05)
    server:settle()
    for _, exchange in pairs(serving.exchanges) do
      -- These have no end of their own.
      if exchange.events then exchange.events:finish() end
    end
    serving:serve_soon()
  end

  -- The end of a stop: who waits on a connection learns that it is closed.
  function backend.close()
    server:close()
    serving.closed = true
    serving:serve_soon()
    serving:leave()
  end

  -- Out of descriptors: connections that have had an answer and are idle for a while make room for
  -- those that wait, a few at a time.
  function backend.shed() server:shed() end

  return backend
end

return M
