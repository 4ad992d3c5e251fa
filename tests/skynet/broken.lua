-- A service that cannot start; for unique.lua and tests/skynet_api_test.lua.

local skynet = require "skynet"

skynet.start(function()
  skynet.sleep(1)
  error "not today"
end)
