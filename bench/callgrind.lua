-- Counts instructions, which noise of the machine does not touch, with valgrind. For the scripts instructions.lua of
-- the suites.

local measure = require "measure"

local M = {}

-- The words before a program whose instructions are to be counted.
M.under = "valgrind --tool=callgrind --callgrind-out-file=/dev/null"

-- The instructions of a command with `under` in it; nil and what it printed when it failed. It is ended after
-- `seconds`.
local function counted(command, seconds)
  local text = measure.capture(("timeout -k 1 %d %s 2>&1; echo code $?"):format(seconds, command))
  local count = tonumber(text:match "Collected : (%d+)")
  if count and text:find "code 0\n" then return count end
  return nil, text
end

-- The instructions for one time of what `command(times)` does: the difference of two runs, of which one does it twice
-- as often. nil and what was printed when one of them failed.
function M.each(command, times, seconds)
  local once, problem = counted(command(times), seconds)
  if not once then return nil, problem end
  local twice, other = counted(command(2 * times), seconds)
  if not twice then return nil, other end
  return (twice - once) / times
end

return M
