-- Counts the server's instructions in user space for each kind of request or message. A change should not increase any
-- count. Needs valgrind.
--
--   lio bench/instructions/run.lua [rounds=60] [seconds=300] [only=WORD] [EXECUTABLE ...]
--
-- Prints a table with a column for each executable (default: the executable that runs this script). A server is counted
-- twice, over `rounds` rounds and over twice as many; a value is the difference, divided by the number of additional
-- requests. All 64 connections send while the server is stopped, so their requests arrive in one round of its loop.
-- `seconds` is the time limit of each process; `only` selects the rows whose names contain the word. The exit code is 1
-- if a process failed.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "../?.lua;" .. package.path
local callgrind = require "callgrind"
local format = require "format"
local measure = require "measure"
local quote = measure.quote

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

-- Starts `command` under valgrind with the time limit. Returns a pipe from which its output can be read, and its
-- process id.
local function start_counting(command)
  local pipe = assert(io.popen(("timeout -k 1 %d sh -c %s 2>&1"):format(options.seconds,
    quote(("echo $$; exec %s %s"):format(callgrind.prefix, command)))))
  return pipe, tonumber(pipe:read "l")
end

-- Waits until a counted process ends. `text` is the part of its output that has been read. Returns the number of its
-- instructions or nil, and its whole output.
local function finish_counting(pipe, text)
  text = text .. pipe:read "a"
  pipe:close()
  return tonumber(text:match "Collected : (%d+)"), text
end

-- Counts a server during `times` rounds of requests. Returns the number of its instructions or nil, and its output.
local function count_server(lio, row, times)
  local pipe, pid = start_counting(row.command(quote(lio)))
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
  local count, all = finish_counting(pipe, text)
  return client and count, all
end

-- Counts a program that repeats the operation itself. Returns the number of its instructions or nil, and its output.
local function count_program(lio, row, times)
  local pipe = start_counting(row.command(quote(lio), times))
  return finish_counting(pipe, "")
end

local function http(lio) return ("%s %s../servers/http.lua 0 /tmp"):format(lio, here) end

-- The rows of the table. `times` is the number of requests in a round.
local ROWS <const> = {
  { name = "hello", kind = "hello", times = 64, command = http, count = count_server },
  { name = "hello, 16 pipelined", kind = "pipelined", times = 1024, command = http, count = count_server },
  { name = "a connection for each request", kind = "connections", times = 64, command = http, count = count_server },
  { name = "POST of 1 KiB, echoed with a Content-Type", kind = "post", times = 64, command = http,
    count = count_server },
  { name = "JSON route with two parameters", kind = "json", times = 64, command = http, count = count_server },
  { name = "lio.net, an echo of 64 B", kind = "echo", times = 64, count = count_server,
    command = function(lio) return ("%s %s../../examples/echo.lua 0"):format(lio, here) end },
  { name = "a call between two services, there and back", times = 100, count = count_program,
    command = function(lio, times)
      return ("%s %s../ltask/child.lua pingpong plain=1 worker=1 calls=%d"):format(lio, here, times * 100)
    end },
}

local failures = 0

local function cell(lio, row)
  local once, problem = row.count(lio, row, options.rounds)
  local twice
  if once then twice, problem = row.count(lio, row, 2 * options.rounds) end
  if twice then return format.number((twice - once) // (options.rounds * row.times)) end
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
