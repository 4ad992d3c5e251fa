-- Runs commands and reads the results that they print; measures the CPU time and the memory of processes; calculates
-- medians. Used by the harness and by the scripts of the suites.

local M = {}

local TICKS <const> = 100 -- USER_HZ, the unit of /proc/PID/stat

-- The path of the measured executable, for scripts that run without the harness.
M.lio = os.getenv("LIO") or "target/release/lio"

-- Returns a word quoted for the shell.
function M.quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- Returns the output of a shell command.
function M.capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  pipe:close()
  return text
end

-- Runs a shell command that prints `name<TAB>value` lines, for at most `seconds`. Returns the values by name, or nil
-- and the reason if the command failed.
function M.figures(command, seconds)
  local text = M.capture(("timeout -k 1 %d %s; echo \"code\t$?\""):format(seconds, command))
  local figures = {}
  for name, value in text:gmatch "([%w_]+)\t([%d.e+-]+)" do figures[name] = tonumber(value) end
  if figures.code == 0 then return figures end
  return nil, figures.code == 124 and "not finished in time" or ("exit code %s"):format(figures.code)
end

function M.stop(pid)
  os.execute("kill " .. pid)
end

-- A program that runs beside the measuring script: `pid`, `read()`, which returns a line of its output and raises when
-- it has ended, and `write(line)`.
local Process = {}
Process.__index = Process

function Process:read()
  return self.output:read "l" or error("a process has ended: " .. self.command, 0)
end

function Process:write(line)
  self.input:write(line, "\n")
  self.input:flush()
end

-- Starts a program, for at most `seconds`. Keep the result: the collector would wait for the end of the program.
function M.start(command, seconds)
  local fifo = os.tmpname()
  os.remove(fifo)
  assert(os.execute("mkfifo " .. fifo))
  local output = assert(io.popen(("timeout -k 1 %d %s < %s & echo $!; wait"):format(seconds, command, fifo)))
  local input = assert(io.open(fifo, "w"))
  os.remove(fifo)
  local timeout = tonumber(output:read "l")
  local children = ("cat /proc/%d/task/%d/children"):format(timeout, timeout)
  local pid
  repeat pid = tonumber((M.capture(children):match "%d+")) until pid
  return setmetatable({ pid = pid, command = command, input = input, output = output }, Process)
end

-- Returns the user and system seconds of CPU that a process has used.
function M.cpu(pid)
  local file = assert(io.open("/proc/" .. pid .. "/stat"))
  local text = file:read("a"):match("%)%s+(.*)")
  file:close()
  local fields = {}
  for field in text:gmatch("%S+") do fields[#fields + 1] = field end
  return tonumber(fields[12]) / TICKS, tonumber(fields[13]) / TICKS
end

-- Returns the resident memory of a process in KiB, or nil.
function M.resident(pid)
  for line in io.lines("/proc/" .. pid .. "/status") do
    local size = line:match("^VmRSS:%s+(%d+)")
    if size then return tonumber(size) end
  end
end

-- Returns the median of a list, which is sorted.
function M.median_of(values)
  table.sort(values)
  return values[(#values + 1) // 2]
end

-- Returns the median of the field `field` in a list of rows.
function M.median(rows, field)
  local values = {}
  for _, row in ipairs(rows) do values[#values + 1] = row[field] end
  return M.median_of(values)
end

return M
