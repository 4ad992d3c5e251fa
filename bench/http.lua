-- CPU time per request of the hello server beside the bare baseline, in turn, medians of several rounds.
--
--   lio bench/http.lua [rounds = 5] [seconds = 10] [connections = 64]
--
-- Needs `wrk` and `taskset`. The servers run on core 0, wrk on core 1. LIO and BASELINE name the
-- executables (default: target/release/lio and target/release/examples/baseline).

local rounds = tonumber(arg[1]) or 5
local seconds = tonumber(arg[2]) or 10
local connections = tonumber(arg[3]) or 64
local lio = os.getenv("LIO") or "target/release/lio"
local baseline = os.getenv("BASELINE") or "target/release/examples/baseline"
local TICKS <const> = 100 -- USER_HZ, the unit of /proc/PID/stat

local servers = {
  { name = "baseline", port = 18101, command = baseline .. " 18101" },
  { name = "lio hello", port = 18102, command = lio .. " examples/hello.lua 18102" },
}

local function capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a")
  pipe:close()
  return text
end

local function start(server)
  local pipe = assert(io.popen("taskset -c 0 " .. server.command .. " >/dev/null 2>&1 & echo $!"))
  server.pid = pipe:read("n")
  pipe:close()
  for _ = 1, 50 do
    local probe = "curl -s -o /dev/null http://127.0.0.1:" .. server.port .. "/ && echo up; sleep 0.05"
    if capture(probe):find("up") then return end
  end
  error(server.name .. " does not answer")
end

local function cpu(pid)
  local file = assert(io.open("/proc/" .. pid .. "/stat"))
  local text = file:read("a"):match("%)%s+(.*)")
  file:close()
  local fields = {}
  for field in text:gmatch("%S+") do fields[#fields + 1] = field end
  return tonumber(fields[12]) / TICKS, tonumber(fields[13]) / TICKS
end

local function measure(server)
  local user, system = cpu(server.pid)
  local text = capture(("taskset -c 1 wrk -t1 -c%d -d%ds --latency http://127.0.0.1:%d/ 2>&1")
    :format(connections, seconds, server.port))
  local requests = tonumber(text:match("(%d+) requests in"))
  if not requests then error("wrk said: " .. text) end
  local user_after, system_after = cpu(server.pid)
  return {
    user = (user_after - user) / requests * 1e6,
    system = (system_after - system) / requests * 1e6,
    rate = tonumber(text:match("Requests/sec:%s*([%d.]+)")),
    p99 = text:match("99%%%s+(%S+)"),
    errors = text:match("Socket errors:[^\n]*") or text:match("Non%-2xx[^\n]*"),
  }
end

local function median(list, field)
  local values = {}
  for _, row in ipairs(list) do values[#values + 1] = row[field] end
  table.sort(values)
  return values[(#values + 1) // 2]
end

for _, server in ipairs(servers) do
  start(server)
  server.rows = {}
end
for round = 1, rounds do
  for _, server in ipairs(servers) do
    local row = measure(server)
    row.total = row.user + row.system
    server.rows[round] = row
    io.stderr:write(("round %d %-10s %6.2f us/request (user %.2f) %8.0f/s p99 %s %s\n"):format(
      round, server.name, row.total, row.user, row.rate, row.p99, row.errors or ""))
  end
end
print("| server | CPU µs/request | user µs | requests/s | ratio |")
print("|---|---|---|---|---|")
local floor = median(servers[1].rows, "total")
for _, server in ipairs(servers) do
  local total = median(server.rows, "total")
  print(("| %s | %.2f | %.2f | %.0f | %.2f |"):format(
    server.name, total, median(server.rows, "user"), median(server.rows, "rate"), total / floor))
  os.execute("kill " .. server.pid)
end
