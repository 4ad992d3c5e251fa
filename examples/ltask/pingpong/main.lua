-- One service calls another: `lio examples/ltask/pingpong/main.lua`, or `… main.lua 1000` for 1000 calls.
-- The program prints the number of calls per second, and ends.

local start = require "ltask.start"

local code = start {
  core = { worker = 2 },
  service_path = (arg[0]:match "^.*/" or "./") .. "?.lua",
  bootstrap = { { name = "ping", args = { tonumber((...)) or 200000 } } },
}
os.exit(code, true)
