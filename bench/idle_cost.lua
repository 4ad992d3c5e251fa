-- What 10,000 idle keep-alive connections cost 64 busy ones, and in memory: two hello servers in turn, one
-- of them with the idle connections.
--
--   lio bench/idle_cost.lua [rounds = 5] [seconds = 5] [idle = 10000]
--
-- Needs what bench/http.lua needs, and room for the descriptors (`ulimit -n` above the number).

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local measure = require "measure"

local rounds = tonumber(arg[1]) or 5
local seconds = tonumber(arg[2]) or 5
local idle = tonumber(arg[3]) or 10000

local program = ([[
local web = require 'lio.webserver'
local app = web.new { connections = %d, keep_alive_time = 3600 }
app:get('/', function() return 'Hello, World!\n' end)
app:run(PORT, { addr = '127.0.0.1' })
]]):format(idle + 1000):gsub("\n", " ")

local function server(name, port)
  local code = program:gsub("PORT", port)
  return {
    name = name,
    port = port,
    pid = measure.start(('%s -e "%s"'):format(measure.lio, code:gsub("\\", "\\\\")), port),
    rows = {},
  }
end

local servers = { server("64 busy", 18131), server(("64 busy, %d idle"):format(idle), 18132) }
for _, one in ipairs(servers) do measure.load(one.pid, one.port, 64, 2) end

local before = measure.resident(servers[2].pid)
local holder = assert(io.popen(("%s/idle 127.0.0.1:18132 %d --send-first >/tmp/lio-idle.$$ & echo $!; "
  .. "for i in $(seq 200); do grep -q ready /tmp/lio-idle.$$ && break; sleep 0.1; done; rm /tmp/lio-idle.$$")
  :format(measure.examples, idle)))
local holder_pid = holder:read("n")
holder:close()
local grown = measure.resident(servers[2].pid) - before

for round = 1, rounds do
  for _, one in ipairs(servers) do
    local row = measure.load(one.pid, one.port, 64, seconds)
    one.rows[round] = row
    measure.progress(round, one.name, row)
  end
end
measure.report(servers)
print(("memory: %.2f KiB per idle connection"):format(grown / idle))
local user, system = measure.cpu(servers[2].pid)
os.execute("sleep 3")
local user_after, system_after = measure.cpu(servers[2].pid)
print(("CPU of the server with idle connections only, in 3 s: %.2f s"):format(
  user_after + system_after - user - system))
os.execute("kill " .. holder_pid)
for _, one in ipairs(servers) do measure.stop(one.pid) end
