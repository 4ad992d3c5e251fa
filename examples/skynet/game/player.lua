-- Answers the requests of one login.

local skynet = require "skynet"

local uid <const> = ...
local count = 0

skynet.register_protocol { name = "client", id = skynet.PTYPE_CLIENT, unpack = skynet.tostring }

skynet.start(function()
  skynet.dispatch("lua", function(_, _, command)
    assert(command == "stop")
    skynet.exit()
  end)
  skynet.dispatch("client", function(_, _, text)
    count = count + 1
    skynet.ret(("%s, request %d: %s"):format(uid, count, text))
  end)
end)
