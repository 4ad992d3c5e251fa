-- A skynet service that responds with the arguments of a request: to `ret` with `ret(pack(…))`, to `retpack` with
-- `retpack`. The request `leave` ends the service.

local skynet = require "skynet"

local CMD = {}

function CMD.ret(...)
  skynet.ret(skynet.pack(...))
end

function CMD.retpack(...)
  skynet.retpack(...)
end

function CMD.leave()
  skynet.retpack()
  skynet.exit()
end

skynet.start(function()
  skynet.dispatch("lua", function(_, _, command, ...) CMD[command](...) end)
end)
