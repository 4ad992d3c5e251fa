-- A service of tests/chaos/server.lua that waits on its own thread without a limit: a thread that sabotage.lua leaks.

local ltask = require "ltask"

local wait = ltask.eventinit()
ltask.idle_handler(function() wait() end)
return {}
