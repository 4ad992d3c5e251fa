-- A service that owns an event descriptor and blocks in its wait function whenever nothing is there.
-- `linger`: milliseconds that it stays away after each wake, as a selector busy with sockets does.

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

-- Messages received and waits taken so far.
function S.state() return received, waits end

return S
