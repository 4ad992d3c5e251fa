-- The first service of main.lua: spawns the second one, calls it repeatedly, and ends the system.

local ltask = require "ltask"

local rounds = ...

-- A service answers requests only after its file has returned, so long work is forked.
ltask.fork(function()
  local pong = ltask.spawn("pong", "pong")
  local began = ltask.counter()
  local answer, count
  for i = 1, rounds do
    answer, count = ltask.call(pong, "ping", i)
    assert(count == i)
  end
  local seconds = ltask.counter() - began
  print(("%d times %s, %.0f a second"):format(rounds, answer, rounds / seconds))
  ltask.send(1, "quit_ltask")
end)
