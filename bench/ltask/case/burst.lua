-- Sends bursts of messages to a service that blocks on its event descriptor. Counts the system calls that wake the
-- service.

local ltask = require "ltask"
local figures = require "figures"
local options = ...

figures.case(function()
  local bursts, n = options.bursts or 100, options.messages or 1000
  local target = ltask.spawn("blocker", options.linger)
  local writes, waits_before = 0, select(2, ltask.call(target, "state"))
  local send = ltask.send
  for _ = 1, bursts do
    -- After this sleep the service waits again.
    ltask.sleep(2 + (options.linger or 0) // 5)
    local before = figures.writes()
    for i = 1, n do send(target, "message", i) end
    writes = writes + figures.writes() - before
  end
  local received, waits = ltask.call(target, "state")
  return {
    writes = writes / bursts,
    per_wake = writes / (waits - waits_before),
    lost = bursts * n - received,
  }
end)
