-- What everything that measures here shares: the output of a command, CPU time and memory of a process, medians.

local M = {}

local TICKS <const> = 100 -- USER_HZ, the unit of /proc/PID/stat

M.lio = os.getenv("LIO") or "target/release/lio"

-- The output of a shell command.
function M.capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  pipe:close()
  return text
end

function M.stop(pid)
  os.execute("kill " .. pid)
end

-- User and system seconds that a process has used.
function M.cpu(pid)
  local file = assert(io.open("/proc/" .. pid .. "/stat"))
  local text = file:read("a"):match("%)%s+(.*)")
  file:close()
  local fields = {}
  for field in text:gmatch("%S+") do fields[#fields + 1] = field end
  return tonumber(fields[12]) / TICKS, tonumber(fields[13]) / TICKS
end

-- Resident KiB of a process.
function M.resident(pid)
  for line in io.lines("/proc/" .. pid .. "/status") do
    local size = line:match("^VmRSS:%s+(%d+)")
    if size then return tonumber(size) end
  end
end

-- The median of one field of a list of rows.
function M.median(rows, field)
  local values = {}
  for _, row in ipairs(rows) do values[#values + 1] = row[field] end
  table.sort(values)
  return values[(#values + 1) // 2]
end

return M
