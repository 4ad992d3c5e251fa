-- Answers the messages of one connection, which the gate forwards.

local skynet = require "skynet"
local socket = require "skynet.socket"

skynet.register_protocol {
  name = "client",
  id = skynet.PTYPE_CLIENT,
  unpack = skynet.tostring,
  -- The session of a message from the gate is the socket.
  dispatch = function(fd, _, text)
    skynet.ignoreret()
    socket.write(fd, string.pack(">s2", "echo: " .. text))
  end,
}

local CMD = {}

function CMD.start(gate, fd)
  skynet.retpack(skynet.call(gate, "lua", "forward", fd))
end

function CMD.stop()
  skynet.exit()
end

skynet.start(function()
  skynet.dispatch("lua", function(_, _, command, ...) CMD[command](...) end)
end)
