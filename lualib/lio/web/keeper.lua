-- Keeps the system of web/workers.lua alive until its last worker has ended, and ends it then, whatever other services
-- there are. Argument: how many workers; exclusive services have the addresses behind root's.

local ltask = require "ltask"
local count = ...

local ROOT <const> = 1

ltask.fork(function()
  for i = 1, count do pcall(ltask.call, ROOT + i, "ended") end
  ltask.send(ROOT, "quit_ltask")
end)

return {}
