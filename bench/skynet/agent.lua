-- The agent of one client of bench/skynet_gate.lua: sends each message back.

local skynet = require "skynet"
local socket = require "skynet.socket"

skynet.register_protocol {
  name = "client", id = skynet.PTYPE_CLIENT, unpack = skynet.tostring,
  dispatch = function(fd, _, text)
    skynet.ignoreret()
    socket.write(fd, string.pack(">s2", text))
  end,
}

skynet.start(function()
  skynet.dispatch("lua", function(_, _, gate, fd)
    skynet.retpack(skynet.call(gate, "lua", "forward", fd))
  end)
end)
