-- Counts instructions with valgrind. Other load on the machine does not affect the counts. Used by the scripts
-- instructions.lua in the folders of suites, and by instructions/run.lua.

local measure = require "measure"

local M = {}

-- The prefix of a command line whose instructions are counted.
M.prefix = "valgrind --tool=callgrind --callgrind-out-file=/dev/null"

-- Runs a command that contains `prefix`, for at most `seconds`. Returns the number of instructions, or nil and the
-- output if the command fails.
local function counted(command, seconds)
  local text = measure.capture(("timeout -k 1 %d %s 2>&1; echo code $?"):format(seconds, command))
  local count = tonumber(text:match "Collected : (%d+)")
  if count and text:find "code 0\n" then return count end
  return nil, text
end

-- Returns the number of instructions of one operation. `command(times)` must return a command that repeats the
-- operation `times` times. The result is the difference between a run with `times` and a run with twice as many
-- repetitions, divided by `times`. Returns nil and the output if a run fails.
function M.each(command, times, seconds)
  local once, problem = counted(command(times), seconds)
  if not once then return nil, problem end
  local twice, other = counted(command(2 * times), seconds)
  if not twice then return nil, other end
  return (twice - once) / times
end

return M
