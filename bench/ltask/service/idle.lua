-- A service that waits for requests.

local ltask = require "ltask"

local S = {}

function S.ping() end

function S.leave()
  ltask.quit()
end

return S
