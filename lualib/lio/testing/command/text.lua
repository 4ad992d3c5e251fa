-- The output of `lio test` for people: a line for each file, the failed tests with their messages and output, and the
-- summary. Part of `lio.testing`.

local summary <const> = require("lio.testing.text_reporter").summary

local M = {}

local Reporter = {}
Reporter.__index = Reporter

-- `new(opts)` returns a reporter. `opts.verbose`: also shows tests that pass, and what they print.
function M.new(opts)
  return setmetatable({ is_verbose = opts.verbose }, Reporter)
end

local function write_indented(text, indent)
  for line in (text:gsub("\n$", "") .. "\n"):gmatch "(.-)\n" do io.stdout:write(indent, line, "\n") end
end

local function write_output(pieces)
  local text = table.concat(pieces)
  if text == "" then return end
  io.stdout:write "    output:\n"
  write_indented(text, "      ")
end

local MARKS <const> = { passed = "ok", failed = "FAILED", skipped = "skipped" }

function Reporter:write_test(test)
  local is_failed = test.status == "failed"
  if not (is_failed or self.is_verbose or test.status == "skipped") then return end
  local reason = test.reason and test.reason ~= "" and " (" .. test.reason .. ")" or ""
  io.stdout:write("  ", MARKS[test.status], " ", test.name, reason, "\n")
  if is_failed then write_indented(test.problem, "    ") end
  if is_failed or self.is_verbose then write_output(test.output) end
end

-- `reporter:file(result)`: shows the result of a file (command/process.lua).
function Reporter:file(result)
  local counts = result.counts
  io.stdout:write(("%-40s %4d ok"):format(result.path, counts.passed))
  if counts.failed > 0 then io.stdout:write((", %d FAILED"):format(counts.failed)) end
  if counts.skipped > 0 then io.stdout:write((", %d skipped"):format(counts.skipped)) end
  io.stdout:write(("  (%.1f s)\n"):format(result.seconds))
  for _, test in ipairs(result.tests) do self:write_test(test) end
  if self.is_verbose or counts.failed > 0 then write_output(result.output) end
  io.stdout:flush()
end

function Reporter.finish(_, counts)
  io.stdout:write(summary(counts), "\n")
  io.stdout:flush()
end

return M
