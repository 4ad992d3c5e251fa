-- Boots a skynet program: `lio examples/skynet/run.lua`. A stock Lua needs `require "lio"` first:
-- `lua5.4 -e 'require "lio"' examples/skynet/run.lua`. The output of main.lua is written to the log; then the program
-- ends.

local start = require "skynet.start"

os.exit(start {
  start = "main",
  thread = 2,
  luaservice = (arg[0]:match "^.*/" or "./") .. "?.lua",
}, true)
