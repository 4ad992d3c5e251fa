-- Counts instructions with valgrind. The counts do not depend on the machine's noise. Used by the scripts
-- instructions.lua of the suites.

local measure = require "measure"

local M = {}

-- The command to put before a program to count its instructions.
M.prefix = "valgrind --tool=callgrind --callgrind-out-file=/dev/null"

-- Runs a command that contains `prefix`, for at most `seconds`. Returns its instructions, or nil and its output if it
-- fails.
local function counted(command, seconds)
  local text = measure.capture(("timeout -k 1 %d %s 2>&1; echo code $?"):format(seconds, command))
  local count = tonumber(text:match "Collected : (%d+)")
  if count and text:find "code 0\n" then return count end
  return nil, text
end

-- `command(times)` returns a command that repeats an operation `times` times. Returns the instructions of one
-- operation: the difference of a run with `times` and a run with twice as many, divided by `times`. Returns nil and the
-- output if a run fails.
function M.each(command, times, seconds)
  local once, problem = counted(command(times), seconds)
  if not once then return nil, problem end
  local twice, other = counted(command(2 * times), seconds)
  if not twice then return nil, other end
  return (twice - once) / times
end

return M
