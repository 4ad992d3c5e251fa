-- Runs a test as a task of `lio.loop`: with a time limit, and with a check that the test leaves nothing behind. Part of
-- `lio.testing`. Invariant: the time limit counts real time, even while a test has paused the clock.

local debug <const> = debug or require "lio.debug"
local clocks = require "lio.testing.clock"
local descriptors = require "lio.testing.descriptors"
local drivers = require "lio.net.driver"
local lio = require "lio"
local loop = require "lio.loop"
local runner = require "lio.testing.runner"
local task = require "lio.task"
local timer = require "lio.timer"
local timers = require "lio.loop.timers"

local M = {}

-- How long the check waits for tasks that are about to end, in seconds.
local PATIENCE <const> = 0.2
-- An endless loop in the function of a test is detected after this number of instructions of the VM.
local INSTRUCTIONS <const> = 1000000

local driver = drivers.of(loop.net)

-- The check that nothing is left behind ------------------------------------------------------------------

-- Returns what exists now, except descriptors if `checks_descriptors` is false.
local function take_stock(checks_descriptors)
  local tasks = {}
  for _, co in ipairs(task.list()) do tasks[co] = true end
  return {
    tasks = tasks,
    timeouts = timers.list(),
    timers = timers.queue:count() - driver.own_timers,
    registrations = driver.selector:count(),
    descriptors = checks_descriptors and descriptors.open(),
  }
end

local function add(list, text, ...)
  list[#list + 1] = text:format(...)
end

-- Returns a list of texts: what exists now and is not in the stock `before`.
local function left_since(before)
  local list = {}
  for _, one in ipairs(lio.tasks()) do
    if not before.tasks[one.thread] then
      add(list, "a task that %s\n    %s", one.waits_for and "waits for " .. one.waits_for or "is " .. one.status,
        (runner.clean(one.traceback):gsub("\n", "\n    ")))
    end
  end
  local timeouts = 0
  for id, f in pairs(timers.list()) do
    if not before.timeouts[id] then
      timeouts = timeouts + 1
      local info = debug.getinfo(f, "S")
      add(list, "a timeout whose function is defined in %s:%d", info.short_src, info.linedefined)
    end
  end
  local others = timers.queue:count() - driver.own_timers - before.timers - timeouts
  if others > 0 then add(list, "timers (%d), such as those of sleeps, connections and servers", others) end
  local registered = driver.selector:count() - before.registrations
  if registered > 0 then add(list, "registrations of sockets or other descriptors with the loop (%d)", registered) end
  local open = before.descriptors and descriptors.new_since(before.descriptors)
  if open and open[1] then add(list, "open descriptors: %s", descriptors.describe(open)) end
  return list
end

-- Returns the problem if the test has left something behind; nil otherwise. Tasks that are about to end get the time to
-- do so, and the collector closes what is not referenced.
local function check_left(before)
  local deadline = timer.real() + PATIENCE
  while true do
    local list = left_since(before)
    if not list[1] then return nil end
    if timer.real() > deadline then return "the test left behind:\n  " .. table.concat(list, "\n  ") end
    collectgarbage()
    collectgarbage()
    loop.sleep(0.002)
  end
end

-- The library's own objects that live as long as the process, and would count as left behind.
local function prepare()
  local http = package.loaded["lio.http.client"]
  if http then http.close_idle() end
  driver.selector:waker()
end

-- The time limit ---------------------------------------------------------------------------------------

local function describe_tasks()
  local lines = {}
  for _, one in ipairs(lio.tasks()) do
    local what = one.waits_for and "task, waits for " .. one.waits_for or "task, " .. one.status
    lines[#lines + 1] = (one.traceback:gsub("^task:", what .. ":", 1))
  end
  return runner.clean(table.concat(lines, "\n"))
end

local function too_long(seconds)
  return ("the test ran longer than %g s"):format(seconds)
end

-- Returns the function that waits for the loop while a test runs.
local function make_waiter(state)
  local selector <const> = driver.selector
  return function(seconds)
    local left = state.deadline - timer.real()
    if left <= 0 then
      if not state.late then
        state.late = too_long(state.seconds) .. "\n" .. describe_tasks()
        -- The second call ends the loop at once.
        loop.stop(0)
        loop.stop(0)
      end
      return selector:wait(0)
    end
    if clocks.is_paused() then return clocks.wait(seconds, left) end
    if not seconds or seconds > left then seconds = left end
    selector:wait(seconds)
  end
end

-- Makes the running coroutine raise an error after the time limit, even if it never waits.
local function guard_against_endless_loop(state)
  if not debug.sethook then return end
  debug.sethook(function()
    if timer.real() > state.deadline then error(too_long(state.seconds), 2) end
  end, "", INSTRUCTIONS)
end

-- Running ----------------------------------------------------------------------------------------------

local function run_in_task(state, test, body, opts)
  prepare()
  local before = take_stock(not opts.leaks)
  guard_against_endless_loop(state)
  local problem = body(test)
  if debug.sethook then debug.sethook() end
  prepare()
  if not opts.leaks and type(problem) ~= "table" then
    local left = check_left(before)
    if left then problem = problem and problem .. "\n" .. left or left end
  end
  state.problem, state.is_done = problem, true
  -- The tasks that the test has left behind must not delay the next test.
  loop.stop(0)
end

-- `run(test, body, opts)`: runs `body(test)` as a task. `opts`: `seconds` (the time limit), `leaks` (whether the test
-- may leave something behind). Returns nil, a problem, or an object of `skip`.
function M.run(test, body, opts)
  local seconds = opts.seconds or runner.seconds
  local state = { seconds = seconds, deadline = timer.real() + seconds }
  driver.waiter = make_waiter(state)
  local ok, message = pcall(loop.run, run_in_task, state, test, body, opts)
  driver.waiter = nil
  clocks.reset()
  if state.is_done then return state.problem end
  local problem = state.late or not ok and runner.clean(tostring(message))
    or "the loop was stopped before the end of the test"
  local another = runner.end_test(test)
  if loop.was_signalled() then os.exit(1, true) end
  return another and problem .. "\n" .. another or problem
end

return M
