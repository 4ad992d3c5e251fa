-- Counts the instructions of the cases in cases.lua, and prints a table. Needs valgrind.
--
--   lio bench/micro/instructions.lua [times=1000] [seconds=120] [case ...]
--
-- The kernel's instructions are not counted. `times` should be a multiple of 500, because some cases repeat their
-- operation in blocks. `seconds` is the time limit of each process. The exit code is 1 if a process failed.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. here .. "../?.lua;" .. package.path
local arguments = require "arguments"
local callgrind = require "callgrind"
local format = require "format"
local hosts = require "hosts"

local options = { times = 1000, seconds = 120 }

local list = arguments.read(arg, options, require "cases")

local failures = 0

-- Returns a cell of the table: the number of instructions of one repetition of a case in a host.
local function cell(host, one)
  if host.missing then return "" end
  local count, problem = callgrind.each(function(n)
    return host.command(one.name, "times=" .. n, callgrind.prefix)
  end, options.times, options.seconds)
  if count then return format.number(count // 1) end
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
