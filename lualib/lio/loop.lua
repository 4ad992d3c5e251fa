-- `lio.loop`: runs the tasks of one VM, with a selector and timers; it needs no scheduler. In a service that owns a
-- loop (lio/service.lua), the service's main loop runs the tasks.
--
-- `loop.run(f)` runs `f` and all forked tasks. It returns when all tasks have ended, or after `loop.stop`, SIGINT or
-- SIGTERM. Times are in seconds and may have a fractional part. The files in loop/ contain the timers, the signals, and
-- the check that something runs the loop.

local debug <const> = debug or require "lio.debug"
local drivers = require "lio.net.driver"
local lio = require "lio"
local misuse = require "lio.misuse"
local net = require "lio.net"
local options = require "lio.options"
local owner = require "lio.loop.owner"
local run_time = require "lio.run_time"
local services = require "lio.loop.service"
local signal_watchers = require "lio.loop.signals"
local task = require "lio.task"
local timers = require "lio.loop.timers"

local M = {}

-- The default argument of `stop`: how many seconds a graceful stop waits for the handlers of servers.
M.grace = 10

-- Limits of the time that a task may run without waiting, in seconds of CPU time; 0: no limit. After `watchdog`, the
-- task and its traceback are reported on standard error; `max_run_time` raises an error in the task. `run` reads both
-- fields. In a service, the fields of the boot table with these names are the defaults, and the report is a log entry.
M.watchdog, M.max_run_time = run_time.system_limits()
if not M.watchdog then M.watchdog, M.max_run_time = 5, 0 end

local selector = assert(lio.create())
local finished = false
local stopping = false
local stop_hooks = {} -- hook: a function that returns a description of what the hook waits for
local unfinished = {} -- the entries of `stop_hooks` whose hooks have not returned in the current stop

M.fork = task.fork
M.wait = task.wait
M.wakeup = task.wakeup
M.interrupt = task.interrupt
M.running = task.running
M.kill = task.kill
M.now = lio.now
M.sleep, M.timeout, M.cancel = timers.sleep, timers.timeout, timers.cancel

-- Stopping -------------------------------------------------------------------------------------------

-- `loop.on_stop(f [, waits_for])` returns a function that removes the hook. `f(grace_seconds)` runs as a task when a
-- graceful stop begins; the loop ends when all hooks have returned. `waits_for()` returns a string that shows the user
-- what `f` is waiting for; nil if there is nothing to report.
function M.on_stop(f, waits_for)
  misuse.check_function("on_stop", 1, f)
  if waits_for ~= nil then misuse.check_function("on_stop", 2, waits_for) end
  local function remove() stop_hooks[f] = nil end
  -- No memory error may follow, because the caller would have no function that removes the hook.
  stop_hooks[f] = waits_for or function() return "a function of loop.on_stop" end
  return remove
end

local function run_hook(hook, grace)
  local done <close> = setmetatable({}, {
    __close = function()
      unfinished[hook] = nil
      if not next(unfinished) then finished = true end
    end,
  })
  hook(grace)
  return done
end

-- `loop.stop([grace_seconds])` ends the loop gracefully: it runs the stop hooks; when they have returned, the remaining
-- tasks are killed (their `<close>` variables are closed), and `run` returns. A second call ends the loop at once. If
-- the loop does not run, `stop` does nothing.
function M.stop(grace)
  misuse.check_optional_seconds("stop", 1, grace)
  if not owner.is_running then return end
  if stopping then
    finished = true
    return
  end
  stopping = true
  unfinished = {}
  for hook, waits_for in pairs(stop_hooks) do
    unfinished[hook] = waits_for
    task.fork(run_hook, hook, grace or M.grace)
  end
  if not next(unfinished) then finished = true end
end

-- `loop.is_stopping()` returns whether a graceful stop is in progress.
function M.is_stopping()
  return owner.is_running and stopping
end

-- Driver ---------------------------------------------------------------------------------------------

local function on_abandon(f)
  task.on_abandon(function(token)
    timers.abandon(token)
    f(token)
  end)
end

local driver = drivers.new(selector, {
  start = task.start,
  wait = task.wait,
  wakeup = task.wakeup,
  fork = task.fork,
  running = task.running,
  on_abandon = on_abandon,
  on_stop = M.on_stop,
  timers = timers.queue,
  check = owner.check,
  take_loop = owner.take,
})
driver:set_timer_handler(timers.timer_handler(driver))

M.net = driver.net

local step <const> = driver.net.step

services.install(M, driver)
local unguard <const> = owner.guard(M.net)

-- `loop.describe(token)` returns a description of the wait on a token, for `lio.tasks`; nil if the token does not
-- belong to this loop.
function M.describe(token)
  if timers.is_sleeping(token) then return "a sleep" end
  return driver:describe(token)
end

-- Signals --------------------------------------------------------------------------------------------

local signalled_at = false -- when a signal last stopped the loop, as a time of `lio.now`; false: never

-- timeout(1) sends a signal to its child and then to the process group, so the signal arrives twice. Two signals within
-- this many seconds count as one.
local SAME_SIGNAL <const> = 0.2
-- If a stop takes more than this many seconds, the loop reports what the stop waits for.
local PATIENCE <const> = 1

local function report_unfinished()
  local texts = {}
  for _, waits_for in pairs(unfinished) do texts[#texts + 1] = waits_for() end
  if #texts == 0 then return end
  table.sort(texts)
  io.stderr:write(("lio: stopping: waiting up to %g s for %s; press Ctrl-C to stop at once\n"):format(
    M.grace, table.concat(texts, ", ")))
end

-- The first signal begins a graceful stop. Only a second SIGINT, which a person sends, ends the loop at once: a service
-- manager may repeat SIGTERM while requests are being answered.
local function stop_by_signal(name)
  local now = lio.now()
  if not stopping then
    signalled_at = now
    M.stop()
    if not finished then M.timeout(PATIENCE, report_unfinished) end
  elseif name == "SIGINT" and not (signalled_at and now - signalled_at < SAME_SIGNAL) then
    signalled_at = now
    M.stop()
  end
end

local signals = signal_watchers.new(driver, stop_by_signal)

-- `loop.signal(name, f)`: runs `f(name)` as a task whenever the signal `name`, such as `"SIGHUP"`, arrives. If `f` is
-- nil, restores the previous effect of the signal; for SIGINT and SIGTERM, while the loop runs, this is a graceful
-- stop.
function M.signal(name, f)
  misuse.check("signal", 1, name, "string")
  if f ~= nil then misuse.check_function("signal", 2, f) end
  if f then owner.check "loop.signal" end
  signals:set(name, f, owner.is_running)
end

-- `loop._on_signal(name, f)`: for the library. Runs `f(name)` as a task whenever the signal arrives and the program has
-- no handler for it. Returns a function that removes `f`.
function M._on_signal(name, f)
  return signals:add(name, f)
end

-- `loop.was_signalled()` returns whether SIGINT or SIGTERM has ended a `run`.
function M.was_signalled()
  return signalled_at ~= false
end

-- Running --------------------------------------------------------------------------------------------

-- `driver.has_io()` returns whether I/O can wake a task: a descriptor is registered, or a thread computes a result.
function driver.has_io()
  return selector:count() > signals.watcher_count or driver:is_expecting()
end

-- Returns whether nothing can wake a task. A signal can wake a task through a stop hook.
local function is_stuck()
  return not driver.has_io() and not signals:has_handlers() and timers.queue:next() == nil and next(stop_hooks) == nil
end

local function deadlock_message()
  local lines = { "every task is waiting, and nothing can wake any of them" }
  for _, one in ipairs(lio.tasks()) do
    lines[#lines + 1] = one.waits_for and one.traceback:gsub("^task:", "task, waits for " .. one.waits_for .. ":", 1)
      or one.traceback
  end
  return table.concat(lines, "\n")
end

local function drive(state)
  while true do
    local has_ready = task.run_ready()
    if state.failed or finished or task.count() + timers.pending == 0 then return end
    if not has_ready and is_stuck() then
      -- A hook of the driver can wake a task without I/O, when it sends what the tasks have queued in memory.
      step(0)
      if is_stuck() and not task.has_ready() then
        -- Listing the tasks can wake a task: the core may find that the program has closed a coroutine.
        local message = deadlock_message()
        if not task.has_ready() then
          state.failed, state.message = true, message
          return
        end
      end
      has_ready = true
    end
    step(has_ready and 0 or nil)
  end
end

local service -- the argument `tasks` of `attach`
local waiting_run -- the state of a `run` that is waiting in a service
local RUN <const> = {} -- the token on which that `run` waits

-- In a service, the task that called `run` waits while the service's main loop does the work.
local function wait_in_service(state)
  waiting_run = state
  task.wait(RUN)
end

-- Returns whether a `run` in a service may return. Tasks that are older than the `run`, and tasks that answer requests,
-- do not count.
local function is_done(state)
  if state.failed or finished then return true end
  if timers.pending > 0 then return false end
  local left = task.count() - service.requests()
  for co in pairs(state.others) do
    if not task.is_alive(co) then
      state.others[co] = nil
    elseif not service.is_request(co) then
      left = left - 1
    end
  end
  return left <= 0
end

-- Kills the tasks that a `run` in a service has started.
local function kill_own(state)
  for _, co in ipairs(task.list()) do
    if not state.others[co] and not service.is_request(co) then task.kill(co) end
  end
end

local seconds <const> = options.seconds_from_0

-- Returns a field of this module that is a number of seconds.
local function seconds_of(name)
  local value = M[name]
  if not seconds.test(value) then
    misuse.raise(("loop.%s: must be %s, got %s"):format(name, seconds.wanted, misuse.shown(value)))
  end
  return value
end

-- `loop._limit_run_time()`: for the library. Applies the fields `watchdog` and `max_run_time` to a running loop.
function M._limit_run_time()
  local watchdog, max_run_time = seconds_of "watchdog", seconds_of "max_run_time"
  if not run_time.limit(watchdog, max_run_time) and max_run_time > 0 then
    misuse.raise("loop.max_run_time: tasks of this program cannot be interrupted: this needs the executable lio, "
      .. "Linux, and a program that does not handle SIGURG; workers (app:run with workers = 2) can be interrupted in "
      .. "a stock interpreter, too")
  end
end

local function leave(state)
  run_time.stop()
  finished, stopping, owner.is_running = true, true, false
  if state.others then kill_own(state) else task.kill_all() end
  timers.cancel_all()
  signals:stop()
  finished, stopping = false, false
end

local function add_traceback(message)
  return type(message) == "string" and debug.traceback(message, 2) or message
end

local function run_main(state, f, ...)
  -- An error that `xpcall` does not catch: `max_run_time` raises again until the task ends.
  local _ <close> = setmetatable({}, { __close = function(_, err)
    if err ~= nil and not state.failed then state.failed, state.message = true, err end
  end })
  state.results = table.pack(xpcall(f, add_traceback, ...))
  -- The failure is recorded here, because Lua does not call the message handler for a memory error.
  if not state.results[1] then state.failed, state.message = true, state.results[2] end
end

-- `loop.run(f, …)` runs the loop until every task has ended or the loop is stopped, and returns the results of `f`. An
-- error in `f` ends the loop, and `run` raises it with its traceback; an error in another task is logged.
function M.run(f, ...)
  misuse.check_function("run", 1, f)
  if owner.is_running then misuse.raise "loop.run: the loop is already running" end
  owner.take "loop.run"
  owner.check "loop.run"
  seconds_of "grace"
  M._limit_run_time()
  owner.is_running = true
  local state = {}
  if owner.is_service then
    state.others = {}
    for _, co in ipairs(task.list()) do state.others[co] = true end
  end
  signals:start()
  task.fork(run_main, state, f, ...)
  local ok, problem = pcall(owner.is_service and wait_in_service or drive, state)
  leave(state)
  if owner.after_run then owner.after_run() end
  if not ok then error(problem, 0) end
  if state.failed then error(state.message, 0) end
  if state.results then return table.unpack(state.results, 2, state.results.n) end
end

-- `loop.is_running()` returns whether `run` is active in this VM.
function M.is_running()
  return owner.is_running
end

-- `loop.drives()` returns whether tasks that wait on the loop will be woken: `run` is active, or a service owns the
-- loop.
function M.drives()
  return owner.is_running or owner.is_service
end

-- Services -------------------------------------------------------------------------------------------

-- `loop.own()`: records that this service owns the loop. lio/service.lua calls `own`, and then `attach`.
function M.own()
  owner.is_service = true
  unguard()
  if rawget(net, "instance") == M.net then net.use(M.net) end
end

-- `loop.attach(descriptor, take, tasks)` returns two functions, idle and poll, for lio/service.lua, whose main loop
-- drives this VM. The descriptor becomes readable when messages arrive; `take` takes them. `tasks.is_request(co)`
-- returns whether a task answers a request; `tasks.requests()` returns the number of such tasks. `idle` and `poll` run
-- one round of the loop: `idle` blocks until there is something to do; `poll` does not block.
function M.attach(descriptor, take, tasks)
  M.own()
  service = tasks
  driver:watch(descriptor, take)
  local function idle()
    if waiting_run and is_done(waiting_run) then
      waiting_run = nil
      task.wakeup(RUN)
    else
      step(nil)
    end
  end
  return idle, function() step(0) end
end

return M
