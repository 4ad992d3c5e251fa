-- `require "skynet.profile"`: the CPU time of a coroutine, without its waits. Used by programs.
--
-- The result is the time of the task, a handler or a fork, in which the coroutine runs. The time of a coroutine that
-- was resumed by `resume` or `wrap` stops when it yields.

local task = require "lio.task"

local M = {}

local weak <const> = { __mode = "k" }
-- The task's time at the start, by measured coroutine; pauses are added to it.
local began = setmetatable({}, weak)
-- The task's time at the yield, by coroutine that has yielded to `resume`.
local paused = setmetatable({}, weak)

local function now(call)
  local seconds = task.busy()
  if not seconds then error(call .. ": called where no coroutine of the service runs", 3) end
  return seconds
end

-- `start([co])`: begins to measure the coroutine, by default the running one. Raises if it is measured already.
function M.start(co)
  co = co or coroutine.running()
  if began[co] then error("start: this coroutine is measured already; stop comes first", 2) end
  began[co] = now "start"
end

-- `stop([co])`: returns the seconds since `start`, without waits.
function M.stop(co)
  co = co or coroutine.running()
  local from = began[co]
  if not from then error("stop: this coroutine is not measured; start comes first", 2) end
  local seconds = (paused[co] or now "stop") - from
  began[co], paused[co] = nil, nil
  return seconds
end

local function pause(co, ...)
  if began[co] then paused[co] = task.busy() end
  return ...
end

-- `resume(co, …)`: as `coroutine.resume`.
function M.resume(co, ...)
  local from = paused[co]
  if from then
    began[co] = began[co] + task.busy() - from
    paused[co] = nil
  end
  return pause(co, coroutine.resume(co, ...))
end

M.resume_co = M.resume

-- `wrap(f)`: returns a function that resumes a coroutine, and raises its errors.
function M.wrap(f)
  local co = coroutine.create(f)
  local function check(ok, ...)
    if ok then return ... end
    error((...), 0)
  end
  return function(...)
    return check(M.resume(co, ...))
  end
end

M.yield = coroutine.yield
M.yield_co = coroutine.yield

return M
