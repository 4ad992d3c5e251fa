-- `require "skynet.profile"`: the CPU time that a coroutine takes, without that of its waits. Called by programs.
--
-- Time is that of the task (the handler or fork) which the coroutine runs in. While `resume` and `wrap` have not
-- resumed a coroutine that is measured, its time stands.

local task = require "lio.task"

local M = {}

local weak <const> = { __mode = "k" }
local began = setmetatable({}, weak) -- coroutine → the task's time when its measuring began
local paused = setmetatable({}, weak) -- the same, when it yielded to `resume`

local function now(call)
  local seconds = task.busy()
  if not seconds then error(call .. ": called where no coroutine of the service runs", 3) end
  return seconds
end

-- `start([co])`: measures the coroutine, by default the running one, from now on. Raises when it is measured.
function M.start(co)
  co = co or coroutine.running()
  if began[co] then error("start: this coroutine is measured already; stop comes first", 2) end
  began[co] = now "start"
end

-- `stop([co])` → seconds that it took since `start`, without its waits.
function M.stop(co)
  co = co or coroutine.running()
  local from = began[co]
  if not from then error("stop: this coroutine is not measured; start comes first", 2) end
  local seconds = (paused[co] or now "stop") - from
  began[co], paused[co] = nil, nil
  return seconds
end

local function returned(co, ...)
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
  return returned(co, coroutine.resume(co, ...))
end

M.resume_co = M.resume

-- `wrap(f)` → a function that resumes a coroutine, and raises its errors.
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
