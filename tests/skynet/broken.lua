-- A service whose start fails; tests/skynet/unique.lua starts it.

local skynet = require "skynet"

skynet.start(function()
  skynet.sleep(1)
  error "not today"
end)
