-- Sends messages to a mailbox that has room for all of them. Counts the resumes of the sender. Requires queue=200000.

local ltask = require "ltask"
local figures = require "figures"

figures.case(function()
  local n = 100000
  local sender, sink = ltask.spawn "sender", ltask.spawn("sink", n)
  ltask.call(sender, "go", sink, 1, 0)
  local before = ltask.call(1, "stat")[sender].resumes
  local result = figures.timed(n, function() ltask.call(sender, "go", sink, 1, n) end)
  result.resumes = ltask.call(1, "stat")[sender].resumes - before
  return result
end)
