-- Gets the events of the gate, and starts an agent for each connection.

local skynet = require "skynet"

local gate
local agents = {} -- by socket

local function close(fd)
  skynet.send(gate, "lua", "kick", fd)
  local agent = agents[fd]
  agents[fd] = nil
  if agent then skynet.send(agent, "lua", "stop") end
end

local SOCKET = { close = close, error = close }

function SOCKET.open(fd, address)
  skynet.error(("a client from %s"):format(address))
  agents[fd] = skynet.newservice "agent"
  skynet.call(agents[fd], "lua", "start", gate, fd)
end

local CMD = {}

function CMD.start(conf)
  return skynet.call(gate, "lua", "open", conf)
end

skynet.start(function()
  skynet.dispatch("lua", function(_, _, command, ...)
    if command ~= "socket" then return skynet.retpack(CMD[command](...)) end
    local event = SOCKET[(...)]
    if event then event(select(2, ...)) end
  end)
  gate = skynet.newservice "gate"
end)
