-- Runs the benchmarks: `lio bench/run.lua [suite | suite/case ...] [rounds=5] [seconds=4] [peers=no] [write=no]`
--
--   lio bench/run.lua                                     all suites
--   lio bench/run.lua http                                one suite
--   lio bench/run.lua http/hello64 rounds=3 seconds=3     one case: prints its table, and changes no file
--   lio bench/run.lua list                                lists suites and cases
--
-- Writes the results of whole suites to bench/results.json, between the markers of bench/RESULTS.md, and to
-- bench/plots/; with `write=no` only prints their tables. README.md lists the required tools, and describes what is
-- measured and how a suite is written. The exit code is 1 if a measurement failed. A peer that is not installed is not
-- a failure.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. here .. "../?.lua;" .. package.path

local command = require "harness.command"
local suites = require "harness.suites"

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
