-- `require "bee.socket"`: lio.socket under bee's name. Every call keeps bee's results; lio adds a short
-- error code as a third one. Older versions of bee call the module itself: `socket "tcp"`.

local socket = require "lio.socket"

local M = {}
for name, value in pairs(socket) do
  M[name] = value
end

return setmetatable(M, { __call = function(_, protocol) return socket.create(protocol) end })
