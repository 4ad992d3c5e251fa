-- `refresh(server)`: reads the files of a result of `tls.server` again if they have changed. If that fails, the server
-- keeps its certificates, and the failure is logged, at most once in MESSAGE_INTERVAL seconds. Called by listeners
-- (net/tls.lua) and web servers (web/app_server.lua), often: the native code checks the files only every few seconds.

local now <const> = require("lio").now

local MESSAGE_INTERVAL <const> = 60

-- When the last failure of a server was logged.
local reported = setmetatable({}, { __mode = "k" })

return function(server)
  local reloaded, message = server:reload_if_changed()
  if reloaded ~= nil or reported[server] and now() - reported[server] < MESSAGE_INTERVAL then return end
  reported[server] = now()
  require "lio.net.report"("cannot read the certificates again: " .. message)
end
