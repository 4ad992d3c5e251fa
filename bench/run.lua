-- The bench: `lio bench/run.lua [suite | suite/case ...] [rounds=5] [seconds=4] [peers=no] [write=no]`
--
--   lio bench/run.lua                                     every suite
--   lio bench/run.lua http                                one suite
--   lio bench/run.lua http/hello64 rounds=3 seconds=3     one case: its table is printed, no file changes
--   lio bench/run.lua list                                the suites and their cases
--
-- Whole suites are written to bench/results.json, between the markers of bench/RESULTS.md, and to bench/plots/;
-- `write=no` prints their tables alone. README.md tells what is needed, what is measured, and how a suite is
-- written. Exit code 1: something that was to be measured failed (a peer that is not installed has not).

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. here .. "../?.lua;" .. package.path

local command = require "frame.command"
local suites = require "frame.suites"

local ok, wanted = pcall(command.parse, arg, suites.names)
if not ok then
  io.stderr:write("bench: ", wanted, "\n", command.usage, "\n")
  os.exit(1)
end
if wanted.list then
  suites.list()
  os.exit(0)
end
os.exit(suites.run(wanted), true)
