-- The reporter of a file of tests that runs by itself, without `lio test`: prints the tests that fail or are skipped,
-- and the counts. Part of `lio.testing`; the project's own test kit uses it too. It loads no other module.

local M = {}

local Reporter = {}
Reporter.__index = Reporter

local function indent(text)
  return (text:gsub("\n", "\n  "))
end

-- `new(label, is_verbose)` returns a reporter. `label` names the file in the lines of failed tests.
function M.new(label, is_verbose)
  return setmetatable({ label = label, is_verbose = is_verbose }, Reporter)
end

function Reporter.begin() end

function Reporter:passed(name)
  if self.is_verbose then print("ok - " .. name) end
end

function Reporter:failed(name, problem)
  print("FAILED " .. self.label .. ": " .. name)
  print("  " .. indent(problem))
  io.stdout:flush()
end

function Reporter:skipped(name, reason)
  print("skipped " .. self.label .. ": " .. name .. (reason ~= "" and " (" .. reason .. ")" or ""))
end

-- `summary(counts)` returns the closing line: "N passed, N failed", and ", N skipped" if a test was skipped.
function M.summary(counts)
  local text = ("%d passed, %d failed"):format(counts.passed, counts.failed)
  return counts.skipped > 0 and ("%s, %d skipped"):format(text, counts.skipped) or text
end

function Reporter.finish(_, counts)
  print(M.summary(counts))
  io.stdout:flush()
end

return M
