-- Counts the instructions of the cases of cases.lua, which noise of the machine does not touch: the difference
-- between two runs of a case, of which one does it twice as often. Needs valgrind; prints one table.
--
--   lio bench/coroutine/instructions.lua [share=200] [seconds=300] [case ...]
--
-- Each case is done a `share`-th of its times; `seconds` bounds each process; hosts.lua says which programs run
-- them. Exit code 1: a process failed.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. here .. "../?.lua;" .. package.path
local callgrind = require "callgrind"
local rounds = require "rounds"
local hosts = require "hosts"

local options = { share = 200, seconds = 300 }
local list = rounds.chosen(arg, options, require "cases")

-- The instructions for one of a case; nil when a process failed.
local function each(one, host)
  local times = math.max(one.times // options.share, 100)
  local count, problem = callgrind.each(function(n)
    return hosts.command(host, one, n, callgrind.under)
  end, times, options.seconds)
  if not count then io.stderr:write(("%s in %s FAILED: %s\n"):format(one.name, host.name, problem)) end
  return count
end

local failures = 0
print "| case, instructions | plain Lua | ours, module | ratio | ours, executable | ratio |"
print "|---|---|---|---|---|---|"
for _, one in ipairs(list) do
  local cells, plain = { one.what }, nil
  for _, host in ipairs(hosts) do
    local count = each(one, host)
    if not count then failures = failures + 1 end
    cells[#cells + 1] = count and rounds.shown(count // 1) or "failed"
    if host.whose == "plain" then
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
