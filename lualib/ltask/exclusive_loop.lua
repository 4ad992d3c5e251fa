-- The main loop of an exclusive service (G1): it is resumed right after each yield, and blocks by itself,
-- in `ltask.on_idle` or until a message comes. Invariant: it blocks only when it has found no message.

local ltask = require "ltask"
local core = require "ltask.core"

while not core.serve(pcall(core.schedule)) do
  if core.is_idle() then
    if ltask.on_idle then ltask.on_idle() else core.idle_wait() end
  end
  coroutine.yield()
end
