-- `lio.loop`: the task core driven by a selector and timers, in one VM and without a scheduler; or, in the
-- service that owns a loop (`lio.service`), by that service's main loop.
--
-- `loop.run(f)` runs `f` as a task and then whatever was forked, until all have ended, `loop.stop` is
-- called, or SIGINT or SIGTERM asks for an end. Times are seconds, fractions allowed.

local debug <const> = debug or require "lio.debug"
local lio = require "lio"
local task = require "lio.task"
local misuse = require "lio.misuse"
local timer = require "lio.timer"
local signal = require "lio.signal"
local net = require "lio.net"

local M = {}

-- How long a graceful stop waits for the servers' handlers, unless `stop` says otherwise.
M.grace = 10

local selector = assert(lio.create())
local timers = timer.new()
local active = false
local finished = false
local stopping = false
local stop_hooks = {} -- function → what it waits for, a function
local unfinished = {} -- those of the stop that goes on
local watchers, watcher_count = {}, 0 -- signal name → watcher
local handlers = {} -- signal name → function
local sleeping = {} -- coroutine → id of the timer that ends its sleep
local timeouts, timeout_count = {}, 0 -- ids of `timeout` that have not fired

M.fork = task.fork
M.wait = task.wait
M.wakeup = task.wakeup
M.interrupt = task.interrupt
M.running = task.running
M.kill = task.kill
M.now = lio.now

-- `loop.on_stop(f [, waits_for])` → a function that takes it back. `f(grace_seconds)` runs as a task when a graceful
-- stop begins; the loop ends when all of them have returned. `waits_for()` returns a text for the user who waits: what
-- `f` waits for at that moment; nil when that is not worth a line.
function M.on_stop(f, waits_for)
  misuse.check_function("on_stop", 1, f)
  stop_hooks[f] = waits_for or function() return "a function of loop.on_stop" end
  return function() stop_hooks[f] = nil end
end

-- A task's wait has ended without its waker, or cannot begin: see `task.on_abandon`.
local function on_abandon(f)
  task.on_abandon(function(token)
    local id = sleeping[token]
    if id then
      sleeping[token] = nil
      timers:cancel(id)
    end
    f(token)
  end)
end

local api = net.new(selector, {
  start = task.start,
  wait = task.wait,
  wakeup = task.wakeup,
  fork = task.fork,
  running = task.running,
  on_abandon = on_abandon,
  on_stop = M.on_stop,
  timers = timers,
})
M.net = api

local attached = false -- whether a service owns this loop; a table while `run` waits there
local host -- what the service knows of its tasks; set by `attach`

local INSTEAD <const> = {
  ["loop.sleep"] = "ltask.sleep(centiseconds) waits here; or ",
  ["loop.timeout"] = "ltask.timeout(centiseconds, f) works here; or ",
}
for name in ("listen accept connect udp resolve serve"):gmatch "%a+" do
  INSTEAD["net." .. name] = "net.remote(io) has the calls of a service that owns one; or "
end

-- Raises in a service that owns no loop: nothing would wake a task that waits for this one. `level` as for `error`.
local function check_driven(call, level)
  if active or attached then return end
  local ltask = package.loaded.ltask
  if not (ltask and ltask.call) then return end
  error(("%s: this service owns no loop, so neither I/O nor a timer of lio.loop can wake its tasks; %srun this in a "
    .. "service that owns a loop: `lio --service script.lua`, or the service 'lio' with the script as its argument")
    :format(call, INSTEAD[call] or ""), (level or 1) + 1)
end

api.check_loop = check_driven

-- In a service, calls of the network that would wait, or let others wait, until it is known to own the loop.
local unchecked = {}
if package.loaded.ltask and package.loaded.ltask.call then
  for name in ("listen accept connect udp resolve serve keep wrap rest"):gmatch "%a+" do
    local f = api[name]
    unchecked[name] = f
    api[name] = function(...)
      check_driven("net." .. name, 2)
      return f(...)
    end
  end
end

-- `loop.own()`: this service owns the loop: `attach` follows. For `lio.service`.
function M.own()
  attached = true
  for name, f in pairs(unchecked) do api[name] = f end
  unchecked = {}
  if rawget(net, "instance") == api then net.use(api) end
end

local TIMER <const> = {}

-- What a timer's value does when it fires.
local function fire(value, id)
  if type(value) == "thread" then
    sleeping[value] = nil
    task.wakeup(value, TIMER)
  elseif type(value) == "function" then
    timeouts[id] = nil
    timeout_count = timeout_count - 1
    task.fork(value)
  else
    api.expired(value)
  end
end
api.on_timer(fire)

local function woken(co, id, first, ...)
  if first == TIMER then return end
  sleeping[co] = nil
  timers:cancel(id)
  return first, ...
end

-- `loop.sleep(seconds)` → nothing when the time is over; the waker's values when `wakeup(co)` came
-- first. 0 lets other tasks and I/O go first.
function M.sleep(seconds)
  misuse.check_seconds("sleep", 1, seconds)
  check_driven("loop.sleep", 2)
  local co = task.running()
  local id = timers:add(seconds, co)
  sleeping[co] = id
  return woken(co, id, task.wait(co))
end

-- What a token stands for, for `lio.tasks`.
function M.describe(token)
  if sleeping[token] then return "a sleep" end
  return api.describe(token)
end

-- `loop.timeout(seconds, f)` → an id for `cancel`. Forks `f` when the time is over; `run` waits for that.
function M.timeout(seconds, f)
  misuse.check_seconds("timeout", 1, seconds)
  misuse.check("timeout", 2, f, "function")
  check_driven("loop.timeout", 2)
  local id = timers:add(seconds, f)
  timeouts[id] = true
  timeout_count = timeout_count + 1
  return id
end

-- `loop.cancel(id)` → whether `id` is of a `timeout` that had not fired; now it will not.
function M.cancel(id)
  if not timeouts[id] then return false end
  local was_there = timers:cancel(id)
  -- Not before: what fails there still counts, and is cancelled at the loop's end.
  timeouts[id] = nil
  timeout_count = timeout_count - 1
  return was_there
end

-- `loop.stop([grace_seconds])`: ends the loop gracefully: runs the stop hooks, then cancels what is left
-- (`<close>` variables run), then `run` returns. A second call ends it at once. Nothing when the loop does
-- not run.
function M.stop(grace)
  misuse.check_optional_seconds("stop", 1, grace)
  if not active then return end
  if stopping then
    finished = true
    return
  end
  stopping = true
  unfinished = {}
  for hook, waits_for in pairs(stop_hooks) do
    unfinished[hook] = waits_for
    task.fork(function()
      local done <close> = setmetatable({}, {
        __close = function()
          unfinished[hook] = nil
          if not next(unfinished) then finished = true end
        end,
      })
      hook(grace or M.grace)
      return done
    end)
  end
  if not next(unfinished) then finished = true end
end

local signalled = false -- when it was, in seconds of `now`

-- A signal that comes to a process and to its group, as `timeout` and terminals send it, is one.
local SAME_SIGNAL <const> = 0.2
-- A stop that takes longer says what it waits for, in seconds.
local PATIENCE <const> = 1

local function say_what_is_left()
  local texts = {}
  for _, waits_for in pairs(unfinished) do texts[#texts + 1] = waits_for() end
  if #texts == 0 then return end
  table.sort(texts)
  io.stderr:write(("lio: stopping: waits up to %g s for %s; Ctrl-C ends it at once\n"):format(
    M.grace, table.concat(texts, ", ")))
end

-- Only a person's second signal ends the loop at once: a service manager may repeat SIGTERM while requests are
-- answered.
local function default_handler(name)
  local now = lio.now()
  if not stopping then
    signalled = now
    M.stop()
    if not finished then M.timeout(PATIENCE, say_what_is_left) end
  elseif name == "SIGINT" and not (signalled and now - signalled < SAME_SIGNAL) then
    signalled = now
    M.stop()
  end
end

-- `loop.was_signalled()` → whether SIGINT or SIGTERM has ended a `run`.
function M.was_signalled()
  return signalled ~= false
end

local function watch(name)
  local watcher = assert(misuse.rename("signal", signal.open, name))
  watchers[name] = watcher
  watcher_count = watcher_count + 1
  api.watch(watcher, function()
    if watcher:take() then
      task.fork(handlers[name] or default_handler, name)
    end
  end)
end

local function unwatch(name)
  local watcher = watchers[name]
  if watcher then
    watchers[name] = nil
    watcher_count = watcher_count - 1
    api.unwatch(watcher)
    watcher:close()
  end
end

-- `loop.signal(name, f)`: runs `f(name)` as a task when the signal (`"SIGHUP"` …) comes; nil puts back
-- what was there before: for SIGINT and SIGTERM, while the loop runs, a graceful stop.
function M.signal(name, f)
  misuse.check("signal", 1, name, "string")
  if f ~= nil then misuse.check_function("signal", 2, f) end
  if f then check_driven("loop.signal", 2) end
  handlers[name] = f
  if f then
    if not watchers[name] then watch(name) end
  elseif not (active and (name == "SIGINT" or name == "SIGTERM")) then
    unwatch(name)
  end
end

local function nothing_can_wake()
  return selector:count() <= watcher_count
    and next(handlers) == nil
    and timers:next() == nil
    and not api.is_resolving()
end

local function deadlock()
  local lines = { "every task waits, and nothing is left that could wake one" }
  for _, one in ipairs(lio.tasks()) do
    lines[#lines + 1] = one.waits_for and one.traceback:gsub("^task:", "task, waits for " .. one.waits_for .. ":", 1)
      or one.traceback
  end
  return table.concat(lines, "\n")
end

local function drive(state)
  while true do
    local more = task.run_ready()
    if state.failed or finished or task.count() + timeout_count == 0 then return end
    if not more and nothing_can_wake() then
      -- To look at the tasks may find one whose coroutine somebody closed, so that another goes on.
      local message = deadlock()
      if not task.has_ready() then
        state.failed, state.message = true, message
        return
      end
      more = true
    end
    api.step(more and 0 or nil)
  end
end

-- In a service others go on.
local function kill_own(state)
  for _, co in ipairs(task.list()) do
    if not state.others[co] and not host.is_request(co) then task.kill(co) end
  end
end

local function leave(state)
  finished, stopping, active = true, true, false
  if state.others then kill_own(state) else task.kill_all() end
  for id in pairs(timeouts) do M.cancel(id) end
  unwatch("SIGINT")
  unwatch("SIGTERM")
  for name in pairs(handlers) do unwatch(name) end
  handlers = {}
  finished, stopping = false, false
end

local RUN <const> = {} -- what `run` waits on in a service

-- Nothing is left to be done for who called `run`, be there requests and tasks of before.
local function is_done(state)
  if state.failed or finished then return true end
  if timeout_count > 0 then return false end
  local left = task.count() - host.requests()
  for co in pairs(state.others) do
    if not task.is_alive(co) then
      state.others[co] = nil
    elseif not host.is_request(co) then
      left = left - 1
    end
  end
  return left <= 0
end

-- `loop.attach(descriptor, take, service)` → idle, poll: for `lio.service`, whose main loop drives this VM. The
-- descriptor becomes readable when messages are there, `take` takes that; `service.is_request(co)` tells
-- whether a task answers a request, `service.requests()` how many do. `idle` blocks until there is
-- something to do, `poll` does not.
function M.attach(descriptor, take, service)
  M.own()
  host = service
  api.watch(descriptor, take)
  local function idle()
    if attached ~= true and is_done(attached) then
      attached = true
      task.wakeup(RUN)
    else
      api.step(nil)
    end
  end
  return idle, function() api.step(0) end
end

-- As `drive`: the caller, a task, waits while the service's main loop does the work.
local function wait_in_service(state)
  attached = state
  task.wait(RUN)
end

-- `loop.run(f, …)` → what `f` returned. Runs until every task has ended, or a stop. An error in `f`
-- ends the loop and is raised here, with its traceback; an error in another task is logged.
function M.run(f, ...)
  misuse.check_function("run", 1, f)
  if active then misuse.raise "loop.run: the loop runs already" end
  check_driven("loop.run", 2)
  active = true
  local state = {}
  if attached then
    state.others = {}
    for _, co in ipairs(task.list()) do state.others[co] = true end
  end
  for _, name in ipairs { "SIGINT", "SIGTERM" } do
    if not watchers[name] then watch(name) end
  end
  task.fork(function(...)
    state.results = table.pack(xpcall(f, function(message)
      if type(message) == "string" then
        message = debug.traceback(message, 2)
      end
      return message
    end, ...))
    -- An error for want of memory comes without the message handler.
    if not state.results[1] then state.failed, state.message = true, state.results[2] end
  end, ...)
  local ok, problem = pcall(attached and wait_in_service or drive, state)
  leave(state)
  if not ok then error(problem, 0) end
  if state.failed then error(state.message, 0) end
  if state.results then
    return table.unpack(state.results, 2, state.results.n)
  end
end

-- `loop.drives()` → whether the loop runs, or is that of the service: what waits on it will be woken.
function M.drives()
  return active or attached ~= false
end

-- `loop.is_stopping()` → whether a graceful stop has begun and not ended yet.
function M.is_stopping()
  return active and stopping
end

-- `loop.is_running()` → whether `run` is active in this VM.
function M.is_running()
  return active
end

return M
