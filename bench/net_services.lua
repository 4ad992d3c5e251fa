-- Measures many connections that many services hold: a gate accepts them and transfers each to one of the services,
-- which echo 64 bytes. Compared with one service that owns a loop and holds all connections.
--   lio bench/net_services.lua [services=1000] [connections=10000] [seconds=3] [rounds=3]
-- LIO names the executable to measure. Each way has its own server process and its own client process; the clients take
-- turns. During a turn, 64 round trips are under way at a time, each on the next connection. The CPU time includes all
-- threads of the server. Needs a limit of descriptors (`ulimit -n`) of about connections + 2 * services.

local SIZE <const> = 64
local IN_FLIGHT <const> = 64
local options = { services = 1000, connections = 10000, seconds = 3, rounds = 3 }

local role = ...

-- The body of a service that holds connections. It prints nothing, and answers `ready`.
local HOLDER <const> = ([[
  local S = {}
  function S.ready()
    local net = require "lio.net"
    net.on_transfer(function(c)
      for data in function() return (c:recv(%d)) end do
        if not c:send(data) then return end
      end
    end)
  end
  return S
]]):format(SIZE)

-- Prints a line that the driver waits for.
local function report(...)
  io.write(table.concat({ ... }, "\t"), "\n")
  io.stdout:flush()
end

-- The server with a loop: all connections belong to one service.
local function serve_alone()
  local loop, net = require "lio.loop", require "lio.net"
  loop.run(function()
    local listener = assert(net.listen("127.0.0.1", 0, { backlog = 1024 }))
    report("empty")
    report("ready", select(2, listener:address()))
    net.serve(listener, function(c)
      for data in function() return (c:recv(SIZE)) end do
        if not c:send(data) then return end
      end
    end)
    while true do loop.sleep(3600) end
  end)
end

-- The server with services. This service is the gate, which owns a loop.
local function serve_with_services(count)
  local ltask, loop, net = require "ltask", require "lio.loop", require "lio.net"
  local listener = assert(net.listen("127.0.0.1", 0, { backlog = 1024 }))
  local holders = {}
  for i = 1, count do holders[i] = ltask.spawn_service { name = "holder", source = HOLDER } end
  report("empty")
  io.read "l"
  for _, holder in ipairs(holders) do ltask.call(holder, "ready") end
  report("ready", select(2, listener:address()))
  local turn = 0
  net.serve(listener, function(c)
    turn = turn % count + 1
    assert(net.transfer(c, holders[turn]))
  end)
  while true do loop.sleep(3600) end
end

-- The client: opens the connections, and then drives the server for a turn for each line that it reads.
local function drive(count, seconds, port)
  local loop, net = require "lio.loop", require "lio.net"
  local data <const> = ("x"):rep(SIZE)

  local function open()
    local list, started = {}, 0
    for _ = 1, IN_FLIGHT do
      loop.fork(function()
        while started < count do
          started = started + 1
          local c = assert(net.connect("127.0.0.1", port, { timeout = 30 }))
          c:timeout(30)
          -- A transferred connection answers, so it has arrived.
          assert(c:send(data))
          assert(c:recv(SIZE))
          list[#list + 1] = c
        end
      end)
    end
    while #list < count do loop.sleep(0.01) end
    return list
  end

  local function round(list)
    local latencies, turn, under_way = {}, 0, IN_FLIGHT
    local deadline = loop.now() + seconds
    for _ = 1, IN_FLIGHT do
      loop.fork(function()
        while loop.now() < deadline do
          turn = turn % count + 1
          local c, began = list[turn], loop.now()
          assert(c:send(data))
          assert(c:recv(SIZE))
          latencies[#latencies + 1] = loop.now() - began
        end
        under_way = under_way - 1
      end)
    end
    while under_way > 0 do loop.sleep(0.01) end
    table.sort(latencies)
    local n <const> = #latencies
    report(n, latencies[n // 2] * 1e6, latencies[n * 99 // 100] * 1e6, latencies[n] * 1e6)
  end

  loop.run(function()
    local list = open()
    report("open")
    for _ in io.lines() do round(list) end
  end)
end

if role == "alone" then return serve_alone() end
if role == "services" then return serve_with_services(tonumber((select(2, ...)))) end
if role == "client" then
  local _, count, seconds, port = ...
  return drive(tonumber(count), tonumber(seconds), tonumber(port))
end

package.path = arg[0]:match("^(.*/)") .. "?.lua;" .. package.path
local arguments = require "arguments"
local measure = require "measure"
arguments.read({ ... }, options, {})

local script = measure.quote(arg[0])
local limit = options.rounds * options.seconds * 2 + 120

local median <const> = measure.median_of

local NAMES <const> = { "one service, own loop", ("%d services"):format(options.services) }
local servers = {}
for way, words in ipairs { "alone", "services " .. options.services } do
  local process = measure.start(("%s --service %s %s"):format(measure.lio, script, words), limit)
  local pid = process.pid
  assert(process:read() == "empty")
  local memory = { measure.resident(pid) }
  process:write ""
  local port = process:read():match "^ready\t(%d+)"
  memory[2] = measure.resident(pid)
  servers[way] = {
    process = process, pid = pid, port = port, memory = memory, rate = {}, cpu = {}, p50 = {}, p99 = {}, max = {},
  }
end
for _, server in ipairs(servers) do
  server.client = measure.start(("%s %s client %d %s %s"):format(measure.lio, script, options.connections,
    options.seconds, server.port), limit)
  assert(server.client:read() == "open")
  server.memory[3] = measure.resident(server.pid)
end
for _ = 1, options.rounds do
  for _, server in ipairs(servers) do
    local user, system = measure.cpu(server.pid)
    server.client:write "turn"
    local count, p50, p99, max = server.client:read():match "(%S+)\t(%S+)\t(%S+)\t(%S+)"
    local user_after, system_after = measure.cpu(server.pid)
    table.insert(server.rate, count / options.seconds)
    table.insert(server.cpu, (user_after + system_after - user - system) / count * 1e6)
    table.insert(server.p50, tonumber(p50))
    table.insert(server.p99, tonumber(p99))
    table.insert(server.max, tonumber(max))
  end
end

print(("%d connections"):format(options.connections))
print("way\tMiB empty\tMiB with lio.net\tMiB with connections\tKiB a connection\tround trips/s\tus CPU each\tus p50\t"
  .. "us p99\tus max")
for way, server in ipairs(servers) do
  local memory = server.memory
  print(("%s\t%.1f\t%.1f\t%.1f\t%.2f\t%.0f\t%.1f\t%.0f\t%.0f\t%.0f"):format(NAMES[way], memory[1] / 1024,
    memory[2] / 1024, memory[3] / 1024, (memory[3] - memory[2]) / options.connections, median(server.rate),
    median(server.cpu), median(server.p50), median(server.p99), median(server.max)))
end
for _, server in ipairs(servers) do
  measure.stop(server.client.pid)
  measure.stop(server.pid)
end
