-- Boots a program of skynet's: `lio examples/skynet/run.lua`. In a stock Lua `require "lio"` comes first:
-- `lua5.4 -e 'require "lio"' examples/skynet/run.lua`. What main.lua prints are lines of the log; then it ends.

local start = require "skynet.start"

os.exit(start {
  start = "main",
  thread = 2,
  luaservice = (arg[0]:match "^.*/" or "./") .. "?.lua",
}, true)
