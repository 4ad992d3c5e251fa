-- A service of skynet's: answers with what it was sent, by `ret(pack(…))` or by `retpack`, and ends when it is told to.

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
