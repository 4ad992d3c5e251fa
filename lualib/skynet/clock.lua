-- Skynet's clocks. Used by lualib/skynet.lua.
--
-- Invariant: as in skynet, `starttime` is an integer, and `starttime` plus `now` is the exact time. So when the process
-- starts, `now` is the fraction of a second that `starttime` omits.

local ltask = require "ltask"

local M = {}

-- When the process began: centiseconds since the epoch.
local process_start <const> = ltask.walltime() - math.floor(ltask.counter() * 100)

-- `now()`: returns the centiseconds since `starttime`.
function M.now()
  return math.floor(ltask.counter() * 100) + process_start % 100
end

-- `starttime()`: returns the second in which the process began: an integer, in seconds since the epoch.
function M.starttime()
  return process_start // 100
end

-- `time()`: returns the time since the epoch in seconds, with a resolution of one centisecond.
function M.time()
  return M.now() / 100 + M.starttime()
end

-- `hpc()`: returns the time of a monotonic clock in nanoseconds.
function M.hpc()
  return math.floor(ltask.counter() * 1e9)
end

return M
