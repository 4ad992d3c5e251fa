-- A skynet service: responds with the arguments of the request, by `ret(pack(…))` or by `retpack`. Ends on the request
-- `leave`.

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
