-- Serves an app's requests on the connections of one listener: the backend of the server that `app:listen` returns (see
-- lio/net/server.lua). Used by webserver.lua.
--
-- Connections, requests and responses are native (`http.server`, see src/http/server). Tasks run `http.serve`, which
-- calls the handlers. A task serves one request after another; when a handler waits, its task waits too, and another
-- task serves the remaining requests. So the server switches coroutines once per round of the loop, not once per
-- request.

local defer = require "lio.defer"
local dispatch = require "lio.web.dispatch"
local exchanges = require "lio.web.exchange"
local handler_error = require "lio.web.handler_error"
local http = require "lio.http"
local supervisor <const> = require "lio.supervisor"
require "lio.web.request"
local Response <const> = require("lio.web.response").Response

local serve <const> = http.serve
local setmetatable <const> = setmetatable

-- The selector's bit for "readable".
local READ <const> = 1

local M = {}

-- Fields: `app`, `driver`, `server` (the native server), `stopping`, `closed`, `socket` (the listening socket), `tls`
-- (a result of `tls.server`, or nil), `on_leave` (called when a connection has been removed), `awaits_leave` (whether a
-- full server waits for the end of a connection), `websockets` (a set), `guests` (the number of connections that are or
-- become WebSocket connections), `timer`, `idle_task` (the state of a serving task that has ended, for reuse),
-- `unflushed` (functions to call before the loop waits, by request id), and `exchanges`, by request id.
local AppServer = {}
AppServer.__index = AppServer

-- Tasks ------------------------------------------------------------------------------------------------

-- The state of a serving task: a native dispatcher. If the task is killed during a request, `__close` closes the
-- connection, because no other task would answer the request.
local ServingTask = {}
ServingTask.__index = ServingTask

function ServingTask.__close(task)
  local id = task.dispatcher:abandon()
  if id then dispatch.abandon(task.app_server, id) end
end

-- The function of a serving task: serves requests until none is ready.
local function serve_ready(app_server)
  local task <close> = app_server.idle_task
    or setmetatable({ app_server = app_server, dispatcher = app_server.server:dispatcher() }, ServingTask)
  app_server.idle_task = nil
  serve(task.dispatcher)
  app_server.idle_task = task
end

-- The function of a serving task that `serve_soon` starts. If there is more work, first starts another such task, which
-- serves the remaining requests if a handler waits in this one.
local function serve_later(app_server)
  if app_server.server:work_count() > 1 then app_server.driver.scheduler.start(serve_later, app_server) end
  serve_ready(app_server)
end

-- Serves the requests that are ready. Called outside of tasks, where a started task runs at once if the scheduler
-- supports that.
function AppServer:serve()
  local scheduler, server = self.driver.scheduler, self.server
  if not scheduler.starts_at_once then
    for _ = 1, server:work_count() do scheduler.start(serve_ready, self) end
  else
    while server:work_count() > 0 do scheduler.start(serve_ready, self) end
  end
end

-- Like `serve`, but called from a task, where a started task runs later.
function AppServer:serve_soon()
  local scheduler = self.driver.scheduler
  if not scheduler.starts_at_once then return self:serve() end
  if self.server:work_count() > 0 then scheduler.start(serve_later, self) end
end

-- The loop ---------------------------------------------------------------------------------------------

-- Called when the loop is about to wait.
function AppServer:before_wait()
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

-- Called when the loop has handled the events of a round.
function AppServer:after_events()
  local has_work, needs_accept, has_arrivals = self.server:take_events()
  -- The new connections begin their handshakes in `serve`.
  if has_arrivals and self.tls then self.refresh_tls(self.tls) end
  if needs_accept then self.driver:dispatch(self.socket, READ) end
  if has_work then self:serve() end
end

-- Called when the timer fires.
function AppServer:expired()
  if self.server:expire() then self:serve() end
end

-- Removes a closed server from the loop when its last connection has ended.
function AppServer:leave()
  if self.server:count() > 0 then return end
  self.driver:remove_hooks(self)
  if self.timer then self.driver.timers:free(self.timer) end
end

-- Connections ------------------------------------------------------------------------------------------

function AppServer:count() return self.server:count() + self.guests end

-- `app_server:change_guests(change)`: changes the number of connections that the native server no longer serves, but
-- which count as connections of this server.
function AppServer:change_guests(change)
  self.guests = self.guests + change
  self.server:set_guests(self.guests)
  if change < 0 and (self.stopping or self.awaits_leave) then
    self.awaits_leave = false
    self.on_leave()
  end
end

-- `app_server:add_websocket(ws)`: makes the server close a WebSocket connection when it stops. The caller has counted
-- the connection as a guest.
function AppServer:add_websocket(ws) self.websockets[ws] = true end

-- `app_server:remove_websocket(ws)`: removes a WebSocket connection that has ended.
function AppServer:remove_websocket(ws)
  self.websockets[ws] = nil
  self:change_guests(-1)
end

function AppServer:is_full() return self.server:is_full() end

-- Makes the server call `on_leave` when the next connection has been removed.
function AppServer:notify_leave()
  self.awaits_leave = true
  self.server:notify_next_close()
end

function AppServer:listen(socket)
  self.socket = socket
  self.server:listen(socket)
end

-- Accepts waiting peers. Returns true if it has accepted connections or the server is full. If no peer is waiting,
-- returns false, and the selector reports the next peer. On failure, returns nil, message, code.
function AppServer:accept()
  local more, message, code = self.server:accept()
  if more and self.tls then self.refresh_tls(self.tls) end
  self:serve_soon()
  return more, message, code
end

-- Accepts waiting peers even if the server is full. Returns whether more peers might be waiting.
function AppServer:accept_waiting()
  local more = self.server:accept(true)
  self:serve_soon()
  return more
end

-- `app_server:use_tls(tls)`: puts TLS on the connections that are accepted from now on. `tls` is a result of
-- `tls.server`.
function AppServer:use_tls(tls)
  self.tls, self.refresh_tls = tls, require "lio.tls.refresh"
  local settings = require("lio.tls").settings_of(tls)
  self.server:set_tls(tls, settings.handshake_timeout, settings.max_handshakes)
end

function AppServer:admit(c)
  self.driver:forget(c)
  self.server:admit(c)
  self:serve_soon()
end

-- Does nothing, because a connection that a program takes over has already been removed.
function AppServer.release() end

-- Called when the process is out of descriptors: closes a few idle connections that have already received a response,
-- so that waiting peers can be accepted.
function AppServer:close_some_idle() self.server:close_some_idle() end

-- Stopping ---------------------------------------------------------------------------------------------

-- Starts to stop the server: requests that have arrived are answered, and connections are closed when they are idle.
function AppServer:stop()
  self.stopping = true
  self.server:stop()
  -- During this sleep, the loop receives the data that has arrived. If another process is already listening, a longer
  -- sleep lets more clients learn from a response that their connection will be closed.
  self.driver:sleep(supervisor and supervisor.is_replaced() and 1 or 0.05)
  self.server:drain()
  if next(self.websockets) then
    require("lio.web.websocket").close_all(self.websockets, self.driver.scheduler.fork)
    -- A stop without a grace period ends the connections at once, after these tasks have sent the close frames.
    self.driver:sleep(0)
  end
  for _, exchange in pairs(self.exchanges) do
    -- A stream of events does not end by itself.
    if exchange.event_stream then exchange.event_stream:finish() end
  end
  self:serve_soon()
end

-- Completes the stop: closes all connections. Tasks that are waiting on a connection get "closed".
function AppServer:close()
  self.server:close()
  if next(self.websockets) then require("lio.web.websocket").end_all(self.websockets) end
  self.closed = true
  self:serve_soon()
  self:leave()
end

-- `app_server:abort()`: closes all connections, and removes the server from the loop, without tasks.
function AppServer:abort()
  self.server:close()
  self.closed = true
  self:leave()
end

-- `new(app, driver)` returns an app server on a driver of `lio.net`.
function M.new(app, driver)
  local server = http.server(app.settings, app.routes, driver.selector)
  local self = setmetatable({
    app = app, driver = driver, server = server, stopping = false, unflushed = {}, websockets = {}, guests = 0,
    timer = false,
  }, AppServer)
  local is_complete = false
  -- After an error, such as a lack of memory, nothing may keep the server.
  local _ <close> = defer(function()
    if not is_complete then self:abort() end
  end)
  server:set_callbacks {
    app_server = self,
    catch = handler_error.catch,
    handlers = app.handlers,
    response_class = Response,
    choose_handler = dispatch.choose_handler,
    complete = dispatch.complete,
    fail = dispatch.fail,
    notify = dispatch.notify,
  }
  self.timer = driver.timers:create(self)
  exchanges.register(self)
  driver:add_hooks(self)
  is_complete = true
  return self
end

return M
