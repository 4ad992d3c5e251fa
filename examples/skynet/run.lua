-- Boots a program of skynet services: `lio examples/skynet/run.lua`. In a stock Lua `require "lio"` is first:
-- `lua5.4 -e 'require "lio"' examples/skynet/run.lua`. The output of main.lua is in lines of the log; then it ends.

local start = require "skynet.start"

os.exit(start {
  start = "main",
  thread = 2,
  luaservice = (arg[0]:match "^.*/" or "./") .. "?.lua",
}, true)
