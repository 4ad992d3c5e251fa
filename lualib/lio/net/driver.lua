-- The driver of an instance of `lio.net`: the event loop that its calls use. Used by the code that runs the loop
-- (`lio.loop`, lio/service.lua) and by protocol code (`lio.webserver`, `lio.http.client`); programs use `driver.net`.
--
-- A round of the loop (`step`) sends the queued bytes, waits for I/O until the next timer is due, and wakes the tasks
-- whose sockets are ready. Invariant: an event for which no task waits is dropped. This is safe because every call
-- first tries its operation, and arms its socket before it waits.

local connection = require "lio.net.connection"
local idle_memory = require "lio.net.idle_memory"
local lazy = require "lio.net.lazy"
local misuse = require "lio.misuse"
local option = require "lio.net.option"
local schedulers = require "lio.net.scheduler"
local stream = require "lio.stream"
local timer = require "lio.timer"
local wait_queue = require "lio.net.wait_queue"

local READ <const>, WRITE <const>, END <const> = 1, 2, 4

local now <const> = require("lio").now
local send <const>, is_closed <const> = stream.methods.try_send, stream.methods.is_closed
local queued <const> = stream.methods.queued
local holder_of <const>, next <const>, type <const> = wait_queue.holder_of, next, type

local M = {}

-- Fields for other files: `net` (the calls for programs), `selector`, `timers` (a `lio.timer` queue; the value of a
-- timer is an object with a method `expired`), `scheduler` (see net/scheduler.lua), `request_round` (in a service that
-- is attached to an I/O thread: makes the service run a round soon), `round_time` (when the last round received its
-- events, as a time of `lio.now`), the wait queues `read_queue`, `write_queue` and `end_queue`, and `waiter` (nil, or a
-- function that waits instead of `selector:wait`; lio/testing/ sets it).
local Driver = {}
Driver.__index = Driver

-- The kinds of objects that programs may pass to servers (net/server.lua).
Driver.connection_kind, Driver.listener_kind = "connection", "listener"

-- The round of the loop ------------------------------------------------------------------------------

local function flush(driver)
  local unflushed = driver.unflushed
  local c, before = next(unflushed)
  while c do
    unflushed[c] = nil
    if before ~= true then before() end
    -- If the system accepts only a part of the queue, the rest is sent when the socket becomes writable, or together
    -- with the next `send` of a task.
    if not is_closed(c) and send(c, 0) == 0 then driver.flushing[c] = true end
    c, before = next(unflushed)
  end
end

local function run_deferred(deferred)
  while deferred[1] do table.remove(deferred)() end
end

-- Returns the function for one round. The function runs often, so the objects that it needs are upvalues.
local function make_step(driver)
  local selector <const>, timers <const>, hooks <const> = driver.selector, driver.timers, driver.hooks
  local unflushed <const>, deferred <const> = driver.unflushed, driver.deferred
  local memory <const> = idle_memory.new(driver.round_time)
  local next_event <const>, guard <const> = stream.events(selector, driver.is_native)
  return function(seconds)
    for index = #hooks, 1, -1 do hooks[index]:before_wait() end
    local due = timers:next()
    if due and (not seconds or due < seconds) then seconds = due end
    if next(unflushed) then flush(driver) end
    local waiter = driver.waiter
    if waiter then waiter(seconds) else selector:wait(memory:limit(driver.round_time, seconds)) end
    -- The time of a round is the time at which its events arrive, before they are handled.
    driver.round_time = now()
    for x, events in next_event, nil, nil, guard do
      -- If `x` is a table, it is the event handler of a connection.
      if type(x) == "table" then x:on_events(events) else driver:dispatch(x, events) end
    end
    for index = #hooks, 1, -1 do hooks[index]:after_events() end
    if deferred[1] then run_deferred(deferred) end
    if due then
      local value, id = timers:expire()
      while id do
        driver.on_timer(value, id)
        value, id = timers:expire()
      end
    end
  end
end

-- Making ---------------------------------------------------------------------------------------------

-- Returns the class of the tokens that `new_token` creates. A token is also the value of its timer.
local function token_class(wakeup)
  local Token = { stands_for = "its turn" }
  Token.__index = Token
  function Token:expired() wakeup(self, "timeout") end
  return Token
end

local drivers = setmetatable({}, { __mode = "k" }) -- `driver.net`: the driver

-- `new(selector, scheduler)` returns a driver. `net.new` documents the arguments.
function M.new(selector, scheduler)
  local driver = setmetatable({
    net = {},
    selector = selector,
    timers = scheduler.timers or timer.new(),
    round_time = now(),
    is_native = schedulers.is_native(scheduler),
    watched = {}, -- descriptor: function
    hooks = {}, -- the arguments of `add_hooks`
    unflushed = {}, -- connection: true, or a function to call before its queue is sent
    flushing = {}, -- connections whose queue was sent only in part, until they are writable
    deferred = {}, -- the arguments of `defer`
    tagged = {}, -- tag: function, the receivers of transfers for protocol code (net/transfer.lua)
    own_timers = 0, -- how many timers of `call_later` have not fired
    expected = 0, -- how many results of other threads the tasks wait for, besides those of the resolver
  }, Driver)
  driver.scheduler = schedulers.complete(driver, scheduler)
  driver.on_timer = function(value) driver:fire(value) end
  driver.Token = token_class(driver.scheduler.wakeup)
  driver.read_queue = wait_queue.new(driver, "reading")
  driver.write_queue = wait_queue.new(driver, "writing")
  driver.end_queue = wait_queue.new(driver, "the end")
  for _, topic in ipairs { connection, option, lazy } do topic.install(driver) end
  driver.net.step = make_step(driver)
  connection.make_methods(driver)
  -- `of` finds the driver by this field, even through the `__index` of a table that wraps the instance.
  driver.net.instance = driver.net
  drivers[driver.net] = driver
  return driver
end

-- `of(net)` returns the driver of an instance, of the module `lio.net`, or of a table whose `__index` leads to one of
-- these. Raises for any other value, such as a result of `net.remote`.
function M.of(net)
  local driver = type(net) == "table" and drivers[net.instance]
  if not driver then misuse.argument("of", 1, "instance of lio.net", net) end
  return driver
end

-- Running the loop -----------------------------------------------------------------------------------

-- `driver:step([seconds])`: runs one round. Waits for I/O until the next timer is due, but at most `seconds`.
function Driver:step(seconds)
  self.net.step(seconds)
end

-- Returns whether bytes are queued on a connection. TLS may hold bytes back after a `send` that has failed with
-- "timeout", or whose task was killed.
local function has_queued(x)
  return misuse.is_kind(x, "connection") and queued(x) > 0
end

-- `driver:dispatch(x, events)`: wakes the tasks that wait for events of the socket `x`. `events` is 1 for reading, 2
-- for writing, 4 for the end of the peer's side, or a sum of these.
function Driver:dispatch(x, events)
  local wakeup <const> = self.scheduler.wakeup
  if events & READ ~= 0 and not wakeup(x, true) then
    local f = self.watched[x]
    if f then f() end
  end
  if events & WRITE ~= 0 then
    local token = self.write_queue.tokens[x]
    if not (token and wakeup(token, true)) and (self.flushing[x] or has_queued(x)) then
      self.flushing[x] = nil
      self:flush_later(x)
    end
  end
  if events & END ~= 0 then
    local token = self.end_queue.tokens[x]
    if token then wakeup(token, true) end
  end
end

-- `driver:expect(change)`: changes the number of results that other threads compute for tasks of this loop.
function Driver:expect(change)
  self.expected = self.expected + change
end

-- `driver:is_expecting()` returns whether another thread is working for a task, such as resolving a name; if so, the
-- task can be woken without I/O.
function Driver:is_expecting()
  return self.expected > 0 or self.resolver ~= nil and self.resolver:is_resolving()
end

-- `driver:watch(descriptor, f)`: calls `f` whenever the descriptor is readable.
function Driver:watch(descriptor, f)
  self.watched[descriptor] = f
  return self.selector:event_add(descriptor, READ)
end

-- `driver:unwatch(descriptor)`: ends a `watch`.
function Driver:unwatch(descriptor)
  self.watched[descriptor] = nil
  return self.selector:event_del(descriptor)
end

-- `driver:call_later(seconds, f)`: calls `f` after `seconds`, outside of tasks. For the library's own housekeeping: the
-- tests of `lio.testing` may leave such a timer behind.
function Driver:call_later(seconds, f)
  self.own_timers = self.own_timers + 1
  self.timers:add(seconds, { expired = function()
    self.own_timers = self.own_timers - 1
    f()
  end })
end

-- `driver:fire(value)`: handles a timer that has fired with this value. A table is an object with a method `expired`;
-- any other value is a token, whose task is woken with "timeout".
function Driver:fire(value)
  if type(value) == "table" then return value:expired() end
  self.scheduler.wakeup(value, "timeout")
end

-- `driver:set_timer_handler(f)`: makes the loop call `f(value, id)` for each timer that fires. For code that runs the
-- loop and shares `timers`. `f` must pass the values of other timers to `fire`.
function Driver:set_timer_handler(f)
  self.on_timer = f
end

-- `driver:describe(token)` returns a description of the wait on a token, for `lio.tasks`; nil if the token does not
-- belong to this driver.
function Driver:describe(token)
  local meta = getmetatable(token)
  return type(meta) == "table" and rawget(meta, "stands_for") or wait_queue.describe(self, token)
end

-- Protocol code --------------------------------------------------------------------------------------

-- `driver:check_loop(call, …)`: raises if nothing runs the loop, for example in a service that does not own a loop,
-- because a wait would never end. `call:format(…)` is the name of the call for the message.
function Driver:check_loop(call, ...)
  self.scheduler.check(call, ...)
end

-- `driver:take_loop(call)`: makes a service of lio's scheduler the owner of a loop, with a separate thread. `call` is
-- the name of the call for messages. For protocol code with many events, such as a web server.
function Driver:take_loop(call)
  self.scheduler.take_loop(call)
end

-- `driver:set_event_handler(c, handler)`: makes the loop call `handler:on_events(events)` for the events of a
-- connection. The method must not wait, and must pass events that it does not handle to `dispatch`. If `handler` is
-- nil, events wake tasks again.
function Driver:set_event_handler(c, handler)
  return self.selector:set_udata(c, handler or c)
end

-- `driver:add_hooks(hooks)`: the loop calls `hooks:before_wait()` before each wait and `hooks:after_events()` after the
-- events of a round. Neither may wait. For protocol code that serves many connections natively.
function Driver:add_hooks(hooks)
  table.insert(self.hooks, hooks)
  if self.request_round then self.request_round() end
end

-- `driver:remove_hooks(hooks)`: removes hooks that `add_hooks` has added.
function Driver:remove_hooks(hooks)
  for index, other in ipairs(self.hooks) do
    if other == hooks then return table.remove(self.hooks, index) end
  end
end

-- `driver:defer(f)`: calls `f` once, after the events of this round. For event handlers, so that the work for all
-- events of a round is done together.
function Driver:defer(f)
  self.deferred[#self.deferred + 1] = f
end

-- `driver:flush_later(c [, before])`: sends the queued bytes of a connection before the loop's next wait, so that small
-- writes share a system call. If `before` is given, `before()` runs first and may queue more.
function Driver:flush_later(c, before)
  self.unflushed[c] = before or self.unflushed[c] or true
  if self.request_round then self.request_round() end
end

-- `driver:register(c)`: makes the loop report the events of a connection that has no loop yet. Returns the connection.
function Driver:register(c)
  stream.register(self.selector, c)
  return connection.adopt(self, c)
end

-- `driver:forget(x)`: ends all waits for a socket that was closed or now has another owner; the waiting tasks get
-- "closed".
function Driver:forget(x)
  wait_queue.forget(self, x)
  self.unflushed[x], self.flushing[x] = nil, nil
end

-- `driver:wait_readable(c [, seconds])`: waits until a connection that the caller has armed for reading is readable. If
-- another task holds the connection, only waits until the connection is free. `seconds` replaces the connection's time
-- limit. Returns true, "timeout", "closed", or the reason that was passed to `wake_reader`.
function Driver:wait_readable(c, seconds)
  local queue <const>, reason = self.read_queue, true
  if holder_of(queue, c) then
    local problem = queue:acquire(c, seconds)
    if problem then return problem end
  else
    reason = queue:wait_ready(c, seconds)
  end
  queue:release(c)
  return reason
end

-- `driver:wake_reader(c, reason)`: wakes the task that waits to read from a connection. Returns whether a task was
-- waiting.
function Driver:wake_reader(c, reason)
  return self.scheduler.wakeup(c, reason) == true
end

-- `driver:new_token()` returns a token, on which one task can wait with `wait`.
function Driver:new_token()
  return setmetatable({}, self.Token)
end

-- `driver:wait(token [, seconds])`: waits until `wake` is called, but at most `seconds`. Returns the value passed to
-- `wake`, or "timeout".
function Driver:wait(token, seconds)
  local id = seconds and self.timers:add(math.max(seconds, 0), token)
  local value = self.scheduler.wait(token)
  if id then self.timers:cancel(id) end
  return value
end

-- `driver:wake(token, value)`: ends the wait on a token. Returns whether a task was waiting.
function Driver:wake(token, value)
  return self.scheduler.wakeup(token, value) == true
end

-- `driver:sleep(seconds)`: suspends the running task.
function Driver:sleep(seconds)
  self:wait(self:new_token(), seconds)
end

-- `driver:serve(listener, backend)` returns a server like that of `net.serve`, but the backend owns and serves the
-- connections; see lio/net/server.lua.
function Driver:serve(listener, backend)
  return require("lio.net.server").start(self, listener, backend)
end

return M
