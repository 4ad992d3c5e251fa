-- Measures a game server of skynet's kind: the service `gate`, a watchdog, and an agent for each client, which sends
-- each message back. Compared with one service that owns a loop and answers the same messages with `lio.net`, and with
-- the minimal server `echo_baseline`, which is about the lowest possible cost.
--   lio bench/skynet_gate.lua [clients=1000] [seconds=3] [rounds=3]
-- LIO names the executable to measure; EXAMPLES is the folder with `echo_baseline` (default: `examples` beside it).
-- Each server has a separate process, and one client process drives them in turns. Each client sends a message of 64
-- bytes with a length of two bytes, and waits for the answer. The CPU time includes all threads of the server.

local MESSAGE <const> = string.pack(">s2", ("x"):rep(64))
local options = { clients = 1000, seconds = 3, rounds = 3 }
local role = ...
local here <const> = arg[0]:match "^(.*/)" or "./"

local function serve_skynet()
  require "lio"
  return os.exit(require "skynet.start" { start = "watchdog", luaservice = here .. "skynet/?.lua", thread = 2 })
end

local function serve_net()
  local loop, net = require "lio.loop", require "lio.net"
  loop.run(function()
    local listener = assert(net.listen("127.0.0.1", 0, { backlog = 1024 }))
    io.write(math.tointeger((select(2, listener:address()))), "\n")
    io.stdout:flush()
    net.serve(listener, function(c)
      for head in function() return (c:recv(2)) end do
        local text = c:recv((string.unpack(">I2", head)))
        if not text or not c:send(head, text) then return end
      end
    end)
    loop.wait "forever"
  end)
end

-- The client: opens the connections to all servers, and then drives the server whose number it reads.
local function drive(count, seconds, ...)
  local loop, net = require "lio.loop", require "lio.net"

  local function exchange(c)
    assert(c:send(MESSAGE))
    assert(c:recv(#MESSAGE) == MESSAGE)
  end

  local function open(port)
    local list = {}
    for i = 1, count do
      local c = assert(net.connect("127.0.0.1", port, { timeout = 30 }))
      c:timeout(30)
      exchange(c)
      list[i] = c
    end
    return list
  end

  local function round(list)
    local done, under_way = 0, #list
    local deadline = loop.now() + seconds
    for _, c in ipairs(list) do
      loop.fork(function()
        while loop.now() < deadline do
          exchange(c)
          done = done + 1
        end
        under_way = under_way - 1
      end)
    end
    while under_way > 0 do loop.sleep(0.01) end
    io.write(done, "\n")
    io.stdout:flush()
  end

  local ports = { ... }
  loop.run(function()
    local lists = {}
    for i, port in ipairs(ports) do lists[i] = open(tonumber(port)) end
    io.write "open\n"
    io.stdout:flush()
    for line in io.lines() do round(lists[tonumber(line)]) end
  end)
end

if role == "skynet" then return serve_skynet() end
if role == "net" then return serve_net() end
if role == "client" then
  local _, count, seconds = ...
  return drive(tonumber(count), tonumber(seconds), select(4, ...))
end

package.path = here .. "?.lua;" .. package.path
local arguments = require "arguments"
local measure = require "measure"
arguments.read({ ... }, options, {})

local script = measure.quote(arg[0])
local limit = options.rounds * options.seconds * 4 + 120
local baseline = (os.getenv "EXAMPLES" or measure.lio:match "^(.*/)" .. "examples") .. "/echo_baseline"

local servers = {
  { name = "echo_baseline", command = measure.quote(baseline) .. " 0" },
  { name = "lio.net, one service", command = ("%s --service %s net"):format(measure.lio, script) },
  { name = "gate and agents", command = ("%s %s skynet"):format(measure.lio, script) },
}
local client = { measure.lio, script, "client", options.clients, options.seconds }
for i, server in ipairs(servers) do
  server.process = measure.start(server.command, limit)
  server.pid, server.rate, server.cpu, server.ratio = server.process.pid, {}, {}, {}
  -- The gate logs its address before its port is printed.
  repeat client[5 + i] = server.process:read():match "^[^%[]*%f[%d](%d+)$" until client[5 + i]
end
client = measure.start(table.concat(client, " "), limit)
assert(client:read() == "open")
for round = 1, options.rounds do
  for i, server in ipairs(servers) do
    local user, system = measure.cpu(server.pid)
    client:write(i)
    local count = tonumber(client:read())
    local user_after, system_after = measure.cpu(server.pid)
    server.rate[round] = count / options.seconds
    server.cpu[round] = (user_after + system_after - user - system) / count * 1e6
    server.ratio[round] = server.cpu[round] / servers[1].cpu[round]
  end
end

local median <const> = measure.median_of
print "server\tmessages/s\tus CPU each\tratio of CPU\tMiB"
for _, server in ipairs(servers) do
  print(("%s\t%.0f\t%.1f\t%.2f\t%.1f"):format(server.name, median(server.rate), median(server.cpu),
    median(server.ratio), measure.resident(server.pid) / 1024))
end
measure.stop(client.pid)
for _, server in ipairs(servers) do measure.stop(server.pid) end
