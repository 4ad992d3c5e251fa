-- The main loop of an exclusive service (G1). The service's own thread resumes the loop after each yield. Invariant:
-- the loop blocks only if there is nothing to do: in `ltask.on_idle`, or in `idle_wait` until a message arrives if
-- `on_idle` is nil.

local ltask = require "ltask"
local core = require "ltask.core"

while not core.loop_ended(pcall(core.schedule)) do
  if core.is_idle() then
    if ltask.on_idle then ltask.on_idle() else core.idle_wait() end
  end
  coroutine.yield()
end
