-- Counts the instructions of the cases of cases.lua. Needs valgrind; prints one table.
--
--   lio bench/micro/instructions.lua [times=1000] [seconds=120] [case ...]
--
-- Instructions of the program itself: what the system does for it is not counted. `times` should be a multiple of
-- 500, as some cases do theirs in blocks. `seconds` bounds each process.
-- Exit code 1: a process failed.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. here .. "../?.lua;" .. package.path
local callgrind = require "callgrind"
local hosts = require "hosts"
local rounds = require "rounds"

local options = { times = 1000, seconds = 120 }

local list = rounds.chosen(arg, options, require "cases")

local failures = 0

-- A cell of the table: the instructions for one of a case in a host.
local function cell(host, one)
  if host.missing then return "" end
  local count, problem = callgrind.each(function(n)
    return host.command(one.name, "times=" .. n, callgrind.under)
  end, options.times, options.seconds)
  if count then return rounds.shown(count // 1) end
  failures = failures + 1
  io.stderr:write(("%s in %s FAILED: %s\n"):format(one.name, host.name, problem))
  return "failed"
end

local programs = hosts.list(arg[-1], here .. "../")
local names = {}
for i, host in ipairs(programs) do
  names[i] = host.name
  if host.missing then io.stderr:write(host.name, ": ", host.missing, "\n") end
end
print("| instructions | " .. table.concat(names, " | ") .. " |")
print("|---" .. ("|---"):rep(#names) .. "|")
for _, one in ipairs(list) do
  local cells = {}
  for i, host in ipairs(programs) do cells[i] = cell(host, one) end
  print(("| %s | %s |"):format(one.what, table.concat(cells, " | ")))
  io.stdout:flush()
end
if failures > 0 then os.exit(1) end
