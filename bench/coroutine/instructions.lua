-- Counts the instructions of the cases in cases.lua, and prints a table. Other load on the machine does not affect the
-- counts. Needs valgrind.
--
--   lio bench/coroutine/instructions.lua [share=200] [seconds=300] [case ...]
--
-- Each case is repeated `times / share` times, but at least 100 times. `seconds` is the time limit of each process.
-- hosts.lua defines the programs. The exit code is 1 if a process failed.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. here .. "../?.lua;" .. package.path
local arguments = require "arguments"
local callgrind = require "callgrind"
local format = require "format"
local hosts = require "hosts"

local options = { share = 200, seconds = 300 }
local list = arguments.read(arg, options, require "cases")

-- Returns the number of instructions of one repetition of a case, or nil if a process failed.
local function each(one, host)
  local times = math.max(one.times // options.share, 100)
  local count, problem = callgrind.each(function(n)
    return hosts.command(host, one, n, callgrind.prefix)
  end, times, options.seconds)
  if not count then io.stderr:write(("%s in %s FAILED: %s\n"):format(one.name, host.name, problem)) end
  return count
end

local failures = 0
print "| case, instructions | plain Lua | lio, module | ratio | lio, executable | ratio |"
print "|---|---|---|---|---|---|"
for _, one in ipairs(list) do
  local cells, plain = { one.what }, nil
  for _, host in ipairs(hosts) do
    local count = each(one, host)
    if not count then failures = failures + 1 end
    cells[#cells + 1] = count and format.number(count // 1) or "failed"
    if host.library == "plain" then
      plain = count
    else
      cells[#cells + 1] = count and plain and ("%.2f"):format(count / plain) or ""
    end
  end
  print("| " .. table.concat(cells, " | ") .. " |")
  io.stdout:flush()
end
if failures > 0 then
  print(("\n%d measurements failed."):format(failures))
  os.exit(1)
end
