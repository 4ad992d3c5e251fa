-- A game server in skynet's style: `lio examples/skynet/game/run.lua [CONFIG]`. A stock Lua needs `require "lio"`
-- first. The client of the program uses its servers, and the log shows what the client gets; then the program ends.

local start = require "skynet.start"

local folder = arg[0]:match "^.*/" or "./"
local config = start.config(arg[1] or folder .. "config")
config.luaservice = folder .. "?.lua"
os.exit(start(config), true)
