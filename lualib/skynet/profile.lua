-- `require "skynet.profile"`: measures the CPU time of coroutines, without their waits. Used by programs.
--
-- The measured time is the CPU time of the task (a handler or a fork) in which the coroutine runs. If the coroutine was
-- resumed by `resume` or `wrap`, the time during which it is suspended does not count.

local argument = require "skynet.argument"
local task = require "lio.task"

local check_coroutine <const> = argument.check_coroutine

local M = {}

local weak <const> = { __mode = "k" }
-- Maps a measured coroutine to the CPU time of its task at the start, plus the CPU time during the pauses.
local began = setmetatable({}, weak)
-- Maps a coroutine that has yielded to `resume` to the CPU time of its task at the yield.
local paused = setmetatable({}, weak)

local function now(call)
  local seconds = task.busy()
  if not seconds then error(call .. ": called outside of the service's coroutines", 3) end
  return seconds
end

-- `start([co])`: starts measuring a coroutine, by default the running coroutine. Raises if the coroutine is already
-- being measured, or if the caller is not a coroutine of the service.
function M.start(co)
  if co == nil then co = coroutine.running() end
  check_coroutine("start", co)
  if began[co] then error("start: this coroutine is already being measured; call stop first", 2) end
  began[co] = now "start"
end

-- `stop([co])`: ends the measurement. Returns the CPU seconds since `start`, without waits.
function M.stop(co)
  if co == nil then co = coroutine.running() end
  check_coroutine("stop", co)
  local from = began[co]
  if not from then error("stop: this coroutine is not being measured; call start first", 2) end
  local seconds = (paused[co] or now "stop") - from
  began[co], paused[co] = nil, nil
  return seconds
end

local function pause(co, ...)
  if began[co] then paused[co] = task.busy() end
  return ...
end

-- `resume(co, …)`: like `coroutine.resume`.
function M.resume(co, ...)
  local from = paused[co]
  if from then
    began[co] = began[co] + task.busy() - from
    paused[co] = nil
  else
    check_coroutine("resume", co)
  end
  return pause(co, coroutine.resume(co, ...))
end

M.resume_co = M.resume

-- `wrap(f)`: creates a coroutine. Returns a function that resumes the coroutine and raises its errors.
function M.wrap(f)
  argument.check_function("wrap", f)
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
