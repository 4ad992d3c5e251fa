-- CPU time per request of the hello server beside the bare baseline, in turn, medians of several rounds.
--
--   lio bench/http.lua [rounds = 5] [seconds = 10] [connections = 64]
--
-- Needs `wrk`, `curl` and `taskset`. The servers run on core 0, wrk on core 1. LIO names the executable,
-- EXAMPLES the folder of the Rust programs (default: below target/release).

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local measure = require "measure"

local rounds = tonumber(arg[1]) or 5
local seconds = tonumber(arg[2]) or 10
local connections = tonumber(arg[3]) or 64

local servers = {
  { name = "baseline", port = 18101, command = measure.examples .. "/baseline 18101" },
  { name = "lio hello", port = 18102, command = measure.lio .. " examples/hello.lua 18102" },
}
for _, server in ipairs(servers) do
  server.pid = measure.start(server.command, server.port)
  server.rows = {}
end
for round = 1, rounds do
  for _, server in ipairs(servers) do
    local row = measure.load(server.pid, server.port, connections, seconds)
    server.rows[round] = row
    measure.progress(round, server.name, row)
  end
end
measure.report(servers)
for _, server in ipairs(servers) do measure.stop(server.pid) end
