-- Measures the cost of `net.remote`: an echo of 64 bytes in a service on another worker, compared with an echo in the
-- service that owns the loop. `lio bench/net_remote.lua [seconds=2] [rounds=3]`; LIO names the executable to measure.
-- Both services run in one server process. A client process uses one of them at a time, in alternating rounds. The CPU
-- time includes all threads of the server. The run takes a few seconds longer than 4 * rounds * seconds.

local SIZE <const> = 64
local CONNECTIONS <const> = { 1, 16 }
local options = { seconds = 2, rounds = 3 }

local role = ...

-- The echo server. `net` is `lio.net` or `net.remote`.
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

local function serve()
  local ltask, loop = require "ltask", require "lio.loop"
  local far = ltask.spawn_service {
    name = "far",
    source = ([[
      local ltask = require "ltask"
      local io, size = ...
      local S = {}
      function S.port() return load(%q)(require "lio.net.remote"(io), size) end
      return S
    ]]):format(ECHO),
    args = { ltask.self(), SIZE },
  }
  loop.run(function()
    local near = load(ECHO)(require "lio.net", SIZE)
    print(near, (ltask.call(far, "port")))
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

local function median(list, field)
  table.sort(list, function(a, b) return a[field] < b[field] end)
  return list[(#list + 1) // 2][field]
end

local server <close> = assert(io.popen(("%s --service %s server & echo $!; wait"):format(measure.lio, script)))
local pid = assert(tonumber(server:read "l"))
local near, far = server:read("l"):match "(%d+)%s+(%d+)"
print "connections\twhere\tround trips/s\tus CPU each"
for _, connections in ipairs(CONNECTIONS) do
  local rows = { ["lio.net"] = {}, ["net.remote"] = {} }
  for _ = 1, options.rounds do
    table.insert(rows["lio.net"], one_round(pid, near, connections))
    table.insert(rows["net.remote"], one_round(pid, far, connections))
  end
  for _, name in ipairs { "lio.net", "net.remote" } do
    print(("%d\t%s\t%.0f\t%.1f"):format(connections, name, median(rows[name], "rate"), median(rows[name], "cpu")))
  end
end
measure.stop(pid)
