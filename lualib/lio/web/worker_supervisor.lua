-- Keeps the system of web/workers.lua alive until its last worker has ended, and ends it then, whatever other services
-- there are. Argument: how many workers; exclusive services have the addresses behind root's.
-- When a worker is held up, by an endless loop say, it asks the others to accept for it, until it goes on.

local ltask = require "ltask"
local core = require "ltask.core"
local count = ...

local ROOT <const> = 1

core.system_calls().held = function(id, is_held)
  local index = id - ROOT
  if index < 1 or index > count then return end
  for i = 1, count do
    if i ~= index then ltask.send(ROOT + i, "cover", index, is_held) end
  end
end
core.held_reader()

ltask.fork(function()
  for i = 1, count do pcall(ltask.call, ROOT + i, "ended") end
  ltask.send(ROOT, "quit_ltask")
end)

return {}
