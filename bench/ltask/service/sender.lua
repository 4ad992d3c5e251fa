-- A service that sends numbered messages to a sink, without waiting for answers.

local ltask = require "ltask"

local S = {}

function S.go(sink, me, n)
  local send = ltask.send
  for i = 1, n do send(sink, "message", me, i) end
end

return S
