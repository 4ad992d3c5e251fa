-- WebSocket connections with callbacks, which have no task while no message arrives. Used by web/websocket.lua.
--
-- The connections that have become readable in a round of the loop are put in a queue. After the events of the round, a
-- task passes their messages to the program, one connection after another. When a callback waits, its task waits too,
-- and another task serves the rest of the queue. So a round starts one task, not one for each message.
--
-- Invariant: a connection is in the queue, or a task serves it, exactly while its `is_busy` is true. Its messages are
-- therefore passed one at a time and in their order.

local handler_error = require "lio.web.handler_error"
local misuse = require "lio.misuse"
local options = require "lio.options"
local pass <const> = require("lio.websocket.connection").pass

local catch <const>, xpcall <const> = handler_error.catch, xpcall
local WRITE <const> = 2
local INTERNAL_ERROR <const> = 1011

local NAMES <const> = { open = true, message = true, close = true }

local M = {}

-- A connection with its callbacks, which is its event handler, has the fields `ws`, `c` (its connection of lio.net),
-- `req`, `message` and `close` (the callbacks, or nil), `on_events`, `is_busy`, `is_receiving` (whether `open` has
-- returned), and `has_ended` (whether `close` must be called when no other callback runs).

-- Logs the error of a callback, and closes the connection with 1011.
local function fail(served, err)
  handler_error.log(served.req, err)
  served.ws:close(INTERNAL_ERROR, "internal error")
end

-- Calls `open` or `close`.
local function call(served, callback, ...)
  local ok, err = xpcall(callback, catch, served.ws, ...)
  if not ok then fail(served, err) end
end

-- Ends the service of a connection by a task. If the connection has ended, calls `close`.
local function release(served)
  served.is_busy = false
  if not (served.has_ended and served.close) then return end
  local ws <const> = served.ws
  ws.driver.scheduler.start(call, served, served.close, ws.code, ws.reason)
end

-- Serving ----------------------------------------------------------------------------------------------

-- The state of a task. Field: `served`, the connection whose messages it passes, or nil.
local ServingTask = {}
ServingTask.__index = ServingTask

-- If the task was killed in a callback, ends the connection, because the program has not completed its work.
function ServingTask.__close(task)
  local served <const> = task.served
  if not served then return end
  served.ws:abort()
  release(served)
end

local function ignore() end

-- Returns the queue of a driver: the functions `serve` (passes the messages of the connections in the queue), `add`
-- (adds a connection) and `on_events` (the method of a connection with callbacks).
local function make_queue(driver)
  local scheduler <const> = driver.scheduler
  -- The connections from `first` to `last`; whether `start_tasks` is deferred; the state of a task that has ended, for
  -- reuse.
  local list <const>, first, last, is_deferred, idle_task = {}, 1, 0, false, nil

  local function pass_messages(task)
    while first <= last do
      local served <const> = list[first]
      list[first] = false
      if first < last then first = first + 1 else first, last = 1, 0 end
      task.served = served
      pass(served.c, served.ws, served.message or ignore)
      task.served, served.is_busy = nil, false
      if served.has_ended then release(served) end
    end
  end

  local function serve()
    local task <close> = idle_task or setmetatable({}, ServingTask)
    idle_task = nil
    while true do
      local ok, err = xpcall(pass_messages, catch, task)
      if ok then break end
      local served <const> = task.served
      fail(served, err)
      task.served = nil
      release(served)
    end
    idle_task = task
  end

  local function start_tasks()
    is_deferred = false
    if scheduler.starts_at_once then
      while first <= last do scheduler.start(serve) end
    else
      for _ = first, last do scheduler.start(serve) end
    end
  end

  local function add(served)
    served.is_busy = true
    last = last + 1
    list[last] = served
  end

  local function on_events(served, events)
    if events & ~WRITE ~= 0 and not served.is_busy then
      add(served)
      if not is_deferred then
        is_deferred = true
        driver:defer(start_tasks)
      end
    end
    if events & WRITE ~= 0 then driver:dispatch(served.c, WRITE) end
  end

  return { serve = serve, add = add, on_events = on_events }
end

-- The queues, by driver.
local queues = setmetatable({}, { __mode = "k" })

-- Beginning and end --------------------------------------------------------------------------------------

-- Called once at the end of the connection.
local function on_closed(ws)
  local served <const> = ws.served
  ws.served = nil
  ws.app_server:remove_websocket(ws)
  served.has_ended = true
  if not served.is_busy then release(served) end
end

-- `serve(req, ws, callbacks)`: calls `callbacks.open`. From then on, passes the messages of the connection to
-- `callbacks.message`, and its end to `callbacks.close`. Called from a task, which returns.
function M.serve(req, ws, callbacks)
  local driver <const> = ws.driver
  local queue = queues[driver]
  if not queue then
    queue = make_queue(driver)
    queues[driver] = queue
  end
  local served <const> = {
    ws = ws, c = ws.c, req = req, message = callbacks.message, close = callbacks.close, on_events = queue.on_events,
    is_busy = true, is_receiving = false, has_ended = false,
  }
  ws.served, ws.on_closed = served, on_closed
  if callbacks.open then
    -- If the task is killed in `open`, the connection ends.
    local task <close> = setmetatable({ served = served }, ServingTask)
    call(served, callbacks.open, req)
    task.served = nil
  end
  if ws.is_closing then return release(served) end
  served.is_receiving = true
  driver:set_event_handler(ws.c, served)
  -- Messages may have arrived together with the request.
  queue.add(served)
  driver.scheduler.start(queue.serve)
end

-- `check(callbacks)`: raises if a table of callbacks is invalid.
function M.check(callbacks)
  for name, f in pairs(callbacks) do
    if not NAMES[name] then options.unknown("app:ws", name, NAMES, "callback") end
    if not misuse.is_callable(f) then options.wrong("app:ws", name, "a function", f, "callback") end
  end
end

return M
