-- Two services call each other: `lio examples/ltask/pingpong/main.lua`, or `… main.lua 1000` for that number of calls.
-- Prints the calls per second, and ends.

local start = require "ltask.start"

local code = start {
  core = { worker = 2 },
  service_path = (arg[0]:match "^.*/" or "./") .. "?.lua",
  bootstrap = { { name = "ping", args = { tonumber((...)) or 200000 } } },
}
os.exit(code, true)
