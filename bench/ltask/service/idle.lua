-- A service that waits for requests and, here, never gets any.

local ltask = require "ltask"

local S = {}

function S.ping() end

function S.leave()
  ltask.quit()
end

return S
