-- The file of the service `lio.webservice`, for `spawn` and `bootstrap`. The service owns a loop and answers the
-- requests that webservice.lua defines. The request `quit` ends the service.

local ltask = require "ltask"
local core = require "ltask.core"

-- Starts the loop, without a script.
core.load_embedded "lio.service"()

local webservice = require "lio.webservice"

local S = {}

-- A tunnel sends the last three of these requests.
for _, name in ipairs { "start", "tunnel_data", "tunnel_shutdown", "tunnel_close" } do S[name] = webservice[name] end

function S.quit()
  webservice.quit()
  ltask.fork(ltask.quit)
end

return S
