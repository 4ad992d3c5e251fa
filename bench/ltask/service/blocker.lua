-- A service that owns an event descriptor, and blocks in its wait function while it has no message. After each wakeup
-- it is busy for `linger` milliseconds, like a selector with ready sockets.

local ltask = require "ltask"
local linger = ...

local S = {}
local received, waits = 0, 0
local wait = ltask.eventinit()

ltask.idle_handler(function()
  wait()
  waits = waits + 1
  if linger then ltask.timer_sleep(linger) end
end)

function S.message() received = received + 1 end

-- Returns the numbers of received messages and of waits.
function S.state() return received, waits end

return S
