-- The first service of the gate server that bench/skynet_gate.lua measures: opens the gate, prints its port, and starts
-- an agent for each client.

local skynet = require "skynet"

skynet.start(function()
  local gate = skynet.newservice "gate"
  skynet.dispatch("lua", function(_, _, _, event, fd)
    if event == "close" then skynet.send(gate, "lua", "kick", fd) end
    if event ~= "open" then return end
    local agent = skynet.newservice "agent"
    skynet.call(agent, "lua", gate, fd)
  end)
  local _, port = skynet.call(gate, "lua", "open",
    { watchdog = skynet.self(), address = "127.0.0.1", port = 0, maxclient = 100000, nodelay = true })
  io.write(port, "\n")
  io.stdout:flush()
end)
