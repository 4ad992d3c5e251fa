-- The file of the service `lio.webservice`, for `spawn` and `bootstrap`: it owns a loop and answers the requests of
-- webservice.lua. The service ends with the request `quit`.

local ltask = require "ltask"
local core = require "ltask.core"

-- The loop, without a script.
core.load_embedded "lio.service"()

local webservice = require "lio.webservice"

local S = {}

-- The last three are requests of a tunnel.
for _, name in ipairs { "start", "tunnel_data", "tunnel_shutdown", "tunnel_close" } do S[name] = webservice[name] end

function S.quit()
  webservice.quit()
  ltask.fork(ltask.quit)
end

return S
