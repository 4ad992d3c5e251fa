-- Packs a small message, and unpacks it.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

figures.case(function()
  local n = options.rounds or 1000000
  local pack, unpack_remove = ltask.pack, ltask.unpack_remove
  local message = { 1, 2, 3, "abc", { x = 1, y = 2.5, z = "hello" } }
  if unpack_remove(pack(message))[5].z ~= "hello" then error "the message has changed" end
  return figures.timed(n, function()
    for _ = 1, n do unpack_remove(pack(message)) end
  end)
end)
