-- Skynet's clocks. Called through lualib/skynet.lua.
--
-- Invariant: `starttime` is whole and `time` exact, as in skynet: the clock's first centisecond is the fraction of the
-- second that the process began in.

local ltask = require "ltask"

local M = {}

-- When the process began: centiseconds since the epoch.
local epoch <const> = ltask.walltime() - math.floor(ltask.counter() * 100)

-- `now()` → centiseconds since the process began.
function M.now()
  return math.floor(ltask.counter() * 100) + epoch % 100
end

-- `starttime()` → when that was: seconds since the epoch, an integer.
function M.starttime()
  return epoch // 100
end

-- `time()` → seconds since the epoch, with centiseconds.
function M.time()
  return M.now() / 100 + M.starttime()
end

-- `hpc()` → nanoseconds of a clock that only goes forward.
function M.hpc()
  return math.floor(ltask.counter() * 1e9)
end

return M
