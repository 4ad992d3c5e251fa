-- What the measuring scripts share: starting pinned servers, reading their CPU time and memory, wrk.

local M = {}

local TICKS <const> = 100 -- USER_HZ, the unit of /proc/PID/stat

M.lio = os.getenv("LIO") or "target/release/lio"
M.examples = os.getenv("EXAMPLES") or "target/release/examples"

-- The output of a shell command.
function M.capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  pipe:close()
  return text
end

-- Starts `command` on core 0; it is to serve on 127.0.0.1:`port`. Returns its process id.
function M.start(command, port)
  local pid = tonumber(M.capture("taskset -c 0 " .. command .. " >/dev/null 2>&1 & echo $!"))
  local probe = ("curl -s -o /dev/null http://127.0.0.1:%d/ && echo up; sleep 0.05"):format(port)
  for _ = 1, 100 do
    if M.capture(probe):find("up") then return pid end
  end
  error("no answer from: " .. command)
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

-- Drives a server with wrk on core 1. Returns microseconds of CPU per request (`user`, `system`,
-- `total`), `rate` and `p99`.
function M.load(pid, port, connections, seconds)
  local user, system = M.cpu(pid)
  local text = M.capture(("taskset -c 1 wrk -t1 -c%d -d%ds --latency http://127.0.0.1:%d/ 2>&1")
    :format(connections, seconds, port))
  local requests = tonumber(text:match("(%d+) requests in"))
  if not requests then error("wrk said: " .. text) end
  local user_after, system_after = M.cpu(pid)
  local row = {
    user = (user_after - user) / requests * 1e6,
    system = (system_after - system) / requests * 1e6,
    rate = tonumber(text:match("Requests/sec:%s*([%d.]+)")),
    p99 = text:match("99%%%s+(%S+)"),
    errors = text:match("Socket errors:[^\n]*") or text:match("Non%-2xx[^\n]*") or "",
  }
  row.total = row.user + row.system
  return row
end

-- The median of one field of a list of rows.
function M.median(rows, field)
  local values = {}
  for _, row in ipairs(rows) do values[#values + 1] = row[field] end
  table.sort(values)
  return values[(#values + 1) // 2]
end

-- Shows progress on standard error.
function M.progress(round, name, row)
  io.stderr:write(("round %d %-22s %6.2f us/request (user %.2f) %8.0f/s p99 %s %s\n"):format(
    round, name, row.total, row.user, row.rate, row.p99, row.errors))
end

-- Prints the table of several servers' rows; ratios are to the first.
function M.report(servers)
  print("| server | CPU µs/request | user µs | requests/s | ratio |")
  print("|---|---|---|---|---|")
  local floor = M.median(servers[1].rows, "total")
  for _, server in ipairs(servers) do
    local total = M.median(server.rows, "total")
    print(("| %s | %.2f | %.2f | %.0f | %.2f |"):format(
      server.name, total, M.median(server.rows, "user"), M.median(server.rows, "rate"), total / floor))
  end
end

return M
