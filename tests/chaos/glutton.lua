-- A service of tests/chaos/server.lua that exceeds its memory limit.

local ltask = require "ltask"
ltask.mem_limit(4 * 1024 * 1024)

local S = {}

function S.fill()
  local held = {}
  for i = 1, 1000 do held[i] = ("x"):rep(65536) .. i end
  return #held
end

return S
