-- A service that keeps the system of web/workers.lua running until the last worker has ended, and then ends the system,
-- even if other services exist. After a signal, the first worker that ends waits for the other workers, and then makes
-- root end the system (web/worker.lua). If a worker is blocked, for example by an endless loop, this service
-- asks the other workers to accept the connections of the blocked worker. The argument of the service is the number of
-- workers. The workers' addresses follow root's address.

local ltask = require "ltask"
local core = require "ltask.core"
local count = ...

local ROOT <const> = 1

-- Called when a worker has not returned to its loop for 0.2 seconds, and when it has returned or ended.
core.system_calls().blocked = function(id, is_blocked)
  local index = id - ROOT
  if index < 1 or index > count then return end
  for i = 1, count do
    if i ~= index then ltask.send(ROOT + i, "accept_for", index, is_blocked) end
  end
end
core.set_blocked_listener()

ltask.fork(function()
  for i = 1, count do pcall(ltask.call, ROOT + i, "ended") end
  ltask.send(ROOT, "quit_ltask")
end)

return {}
