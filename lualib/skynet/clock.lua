-- Skynet's clocks. Used by lualib/skynet.lua.
--
-- Invariant: as in skynet, `starttime` is an integer, and `starttime` plus `now` is the exact time: `now` begins at the
-- fraction of the second in which the process began.

local ltask = require "ltask"

local M = {}

-- When the process began: centiseconds since the epoch.
local process_start <const> = ltask.walltime() - math.floor(ltask.counter() * 100)

-- `now()`: returns centiseconds since the second in which the process began.
function M.now()
  return math.floor(ltask.counter() * 100) + process_start % 100
end

-- `starttime()`: returns that second: seconds since the epoch, an integer.
function M.starttime()
  return process_start // 100
end

-- `time()`: returns seconds since the epoch, with centiseconds.
function M.time()
  return M.now() / 100 + M.starttime()
end

-- `hpc()`: returns nanoseconds of a monotonic clock.
function M.hpc()
  return math.floor(ltask.counter() * 1e9)
end

return M
