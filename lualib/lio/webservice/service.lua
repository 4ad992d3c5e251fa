-- The file of the service `lio.webservice`, for `spawn` and `bootstrap`: owns a loop, and answers the requests
-- of lualib/lio/webservice.lua, which has all the rest. With its `quit` the service ends.

local ltask = require "ltask"
local core = require "ltask.core"

-- The loop, without a script.
core.chunk "lio.service"()

local webservice = require "lio.webservice"

local S = {}

-- The requests, by name; the last three are for a tunnel.
for _, name in ipairs { "start", "tunnel_data", "tunnel_shutdown", "tunnel_close" } do S[name] = webservice[name] end

function S.quit()
  webservice.quit()
  ltask.fork(ltask.quit)
end

return S
