-- Compares three ways in which a service can use sockets, with an echo of 64 bytes: the service that owns a loop, an
-- ordinary service whose sockets an I/O thread watches, and a service that uses another's loop through `net.remote`.
--   lio bench/net_remote.lua [seconds=2] [rounds=3]
-- LIO names the executable to measure. The three services run in one server process. A client process uses one of them
-- at a time, in turns. The CPU time includes all threads of the server. A ratio is the median of the ratios to the
-- service with the loop within each round. The run takes a few seconds longer than 9 * rounds * seconds.

local SIZE <const> = 64
local CONNECTIONS <const> = { 1, 16, 64 }
local WAYS <const> = { "own loop", "I/O thread", "net.remote" }
local options = { seconds = 2, rounds = 3 }

local role = ...

-- The echo server. `net` is `lio.net`, or what `net.remote` returns.
local ECHO <const> = [[
  local net, size = ...
  local listener = assert(net.listen("127.0.0.1", 0))
  net.serve(listener, function(c)
    for data in function() return (c:recv(size)) end do
      if not c:send(data) then return end
    end
  end)
  return select(2, listener:address())
]]

-- An ordinary service with the echo server. `io` is the service whose loop it uses; if it is nil, an I/O thread watches
-- its sockets.
local SERVICE <const> = ([[
  local io, size = ...
  local S = {}
  function S.port()
    local net = io and require "lio.net.remote"(io) or require "lio.net"
    return load(%q)(net, size)
  end
  return S
]]):format(ECHO)

local function serve()
  local ltask, loop = require "ltask", require "lio.loop"
  local function echo_service(name, io)
    local address = ltask.spawn_service { name = name, source = SERVICE, args = table.pack(io, SIZE) }
    return (ltask.call(address, "port"))
  end
  local watched, far = echo_service("watched"), echo_service("far", ltask.self())
  loop.run(function()
    local near = load(ECHO)(require "lio.net", SIZE)
    print(near, watched, far)
    io.stdout:flush()
    while true do loop.sleep(3600) end
  end)
end

local function drive(port, connections, seconds)
  local loop, net = require "lio.loop", require "lio.net"
  local data, count = ("x"):rep(SIZE), 0
  loop.run(function()
    local deadline = loop.now() + seconds
    for _ = 1, connections do
      loop.fork(function()
        local c <close> = assert(net.connect("127.0.0.1", port))
        while loop.now() < deadline do
          assert(c:send(data))
          assert(c:recv(SIZE))
          count = count + 1
        end
      end)
    end
  end)
  print(count)
end

if role == "server" then return serve() end
if role == "client" then
  local _, port, connections, seconds = ...
  return drive(tonumber(port), tonumber(connections), tonumber(seconds))
end

package.path = arg[0]:match("^(.*/)") .. "?.lua;" .. package.path
local arguments = require "arguments"
local measure = require "measure"
arguments.read({ ... }, options, {})

local script = measure.quote(arg[0])

local function one_round(pid, port, connections)
  local user, system = measure.cpu(pid)
  local count = tonumber(measure.capture(("%s %s client %d %d %d"):format(
    measure.lio, script, port, connections, options.seconds)))
  local user_after, system_after = measure.cpu(pid)
  return {
    rate = count / options.seconds,
    cpu = (user_after + system_after - user - system) / count * 1e6,
  }
end

local median <const> = measure.median_of

local server <close> = assert(io.popen(("%s --service %s server & echo $!; wait"):format(measure.lio, script)))
local pid = assert(tonumber(server:read "l"))
local ports = table.pack(server:read("l"):match "(%d+)%s+(%d+)%s+(%d+)")
print "connections\tway\tround trips/s\tus CPU each\tratio of CPU"
for _, connections in ipairs(CONNECTIONS) do
  local rates, costs, ratios = { {}, {}, {} }, { {}, {}, {} }, { {}, {}, {} }
  for round = 1, options.rounds do
    for way, port in ipairs(ports) do
      local result = one_round(pid, port, connections)
      rates[way][round], costs[way][round] = result.rate, result.cpu
      ratios[way][round] = result.cpu / costs[1][round]
    end
  end
  for way, name in ipairs(WAYS) do
    print(("%d\t%s\t%.0f\t%.1f\t%.2f"):format(connections, name, median(rates[way]), median(costs[way]),
      median(ratios[way])))
  end
end
measure.stop(pid)
