-- Counts the instructions of one request or message of each kind, in user space of the server's process: the table
-- that a change may not make worse. Needs valgrind.
--
--   lio bench/instructions/run.lua [rounds=60] [seconds=300] [only=WORD] [EXECUTABLE ...]
--
-- One column for each executable (default: the one that runs this). A server is counted over `rounds` and over twice
-- as many; the difference, by the requests between, is the row. All 64 connections send while the server is stopped,
-- so that their requests come in one round. `seconds` bounds each process; `only` chooses the rows whose name has it.
-- Exit code 1: a process failed.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "../?.lua;" .. package.path
local rounds = require "rounds"

local options = { rounds = 60, seconds = 300, only = "" }
local programs = {}
for _, word in ipairs(arg) do
  local name, value = word:match "^(%w+)=(.*)$"
  if not name then
    programs[#programs + 1] = word
  elseif options[name] == nil then
    error("no such option: " .. name, 0)
  else
    options[name] = tonumber(value) or value
  end
end
if #programs == 0 then programs[1] = arg[-1] end

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local UNDER <const> = "valgrind --tool=callgrind --callgrind-out-file=/dev/null "

-- What `command` counts, with what was printed when it failed. It is ended after a while.
local function counted(command)
  local pipe = assert(io.popen(("timeout -k 1 %d sh -c %s 2>&1"):format(options.seconds, quote("echo $$; exec " .. UNDER
    .. command))))
  return pipe, tonumber(pipe:read "l")
end

-- The rest of what a counted process prints; its instructions, or nil.
local function rest(pipe, before)
  local text = before .. pipe:read "a"
  pipe:close()
  return tonumber(text:match "Collected : (%d+)"), text
end

-- Instructions of a server that answers `times` rounds of a kind of request.
local function served(lio, row, times)
  local pipe, pid = counted(row.command(quote(lio)))
  local text, port = ""
  repeat
    local line = pipe:read "L"
    if not line then return nil, text end
    text = text .. line
    port = line:match "127%.0%.0%.1:(%d+)"
  until port
  local client = os.execute(("timeout -k 1 %d %s %s %s %s %d %d"):format(options.seconds, quote(arg[-1]),
    quote(here .. "client.lua"), row.kind, port, pid, times))
  os.execute("kill -TERM " .. pid)
  local count, all = rest(pipe, text)
  return client and count, all
end

local function ran(lio, row, times)
  local pipe = counted(row.command(quote(lio), times))
  return rest(pipe, "")
end

local function http(lio) return ("%s %s../servers/http.lua 0 /tmp"):format(lio, here) end

-- `times`: how many requests a round has.
local ROWS <const> = {
  { name = "hello", kind = "hello", times = 64, command = http, count = served },
  { name = "hello, 16 pipelined", kind = "pipelined", times = 1024, command = http, count = served },
  { name = "a connection for each request", kind = "connections", times = 64, command = http, count = served },
  { name = "POST of 1 KiB, sent back with a Content-Type", kind = "post", times = 64, command = http, count = served },
  { name = "JSON route with two parameters", kind = "json", times = 64, command = http, count = served },
  { name = "lio.net, an echo of 64 B", kind = "echo", times = 64, count = served,
    command = function(lio) return ("%s %s../../examples/echo.lua 0"):format(lio, here) end },
  { name = "a call between two services, there and back", times = 100, count = ran,
    command = function(lio, times)
      return ("%s %s../ltask/child.lua pingpong plain=1 worker=1 calls=%d"):format(lio, here, times * 100)
    end },
}

local failures = 0

local function cell(lio, row)
  local once, problem = row.count(lio, row, options.rounds)
  local twice
  if once then twice, problem = row.count(lio, row, 2 * options.rounds) end
  if twice then return rounds.shown((twice - once) // (options.rounds * row.times)) end
  failures = failures + 1
  io.stderr:write(("%s of %s FAILED: %s\n"):format(row.name, lio, problem))
  return "failed"
end

print("| instructions | " .. table.concat(programs, " | ") .. " |")
print("|---" .. ("|---"):rep(#programs) .. "|")
for _, row in ipairs(ROWS) do
  if row.name:find(options.only, 1, true) then
    local cells = {}
    for i, lio in ipairs(programs) do cells[i] = cell(lio, row) end
    print(("| %s | %s |"):format(row.name, table.concat(cells, " | ")))
    io.stdout:flush()
  end
end
if failures > 0 then os.exit(1) end
