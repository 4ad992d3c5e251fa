-- Counts the instructions of the cases of cases.lua, which noise of the machine does not touch: the difference
-- between two runs of a case, of which one does it twice as often. Needs valgrind; prints one table.
--
--   lio bench/coroutine/instructions.lua [share=200] [seconds=300] [case ...]
--
-- Each case is done a `share`-th of its times; `seconds` bounds each process; hosts.lua says which programs run
-- them. Exit code 1: a process failed.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. here .. "../?.lua;" .. package.path
local measure = require "measure"
local rounds = require "rounds"
local hosts = require "hosts"

local options = { share = 200, seconds = 300 }
local list = rounds.chosen(arg, options, require "cases")

local UNDER <const> = "valgrind --tool=callgrind --callgrind-out-file=/dev/null"

-- The instructions of a process; nil when it failed.
local function counted(one, host, times)
  local text = measure.capture(("timeout -k 1 %d %s 2>&1; echo code $?"):format(
    options.seconds, hosts.command(host, one, times, UNDER)))
  local count = tonumber(text:match "Collected : (%d+)")
  if count and text:find "code 0\n" then return count end
  io.stderr:write(("%s in %s FAILED: %s\n"):format(one.name, host.name, text))
end

-- The instructions for one of a case.
local function each(one, host)
  local times = math.max(one.times // options.share, 100)
  local once, twice = counted(one, host, times), counted(one, host, 2 * times)
  return once and twice and (twice - once) / times
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
