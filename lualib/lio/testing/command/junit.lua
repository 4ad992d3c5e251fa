-- The file of `lio test --junit FILE`: the results as XML in the format of JUnit, which build servers read. Part of
-- `lio.testing`.

local M = {}

local Reporter = {}
Reporter.__index = Reporter

-- `new(path)` returns a reporter; nil and a message if the file cannot be written.
function M.new(path)
  local out, message = io.open(path, "wb")
  if not out then return nil, "--junit: " .. message end
  return setmetatable({ out = out, suites = {} }, Reporter)
end

local ENTITIES <const> = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }

-- XML cannot contain control characters, and must be UTF-8.
local function escape(text)
  if not utf8.len(text) then text = text:gsub("[\128-\255]", "?") end
  return (text:gsub("[%c\127]", function(c) return (c == "\n" or c == "\t") and c or "?" end):gsub('[&<>"]', ENTITIES))
end

-- Returns the first line of a problem, without its position.
local function headline(problem)
  return problem:match "^[^\n]*"
end

local function test_case(result, test)
  local class = result.path:gsub("%.lua$", ""):gsub("/", ".")
  local parts = { ('    <testcase classname="%s" name="%s" file="%s" time="%.3f">\n'):format(
    escape(class), escape(test.name), escape(result.path), test.seconds) }
  if test.status == "failed" then
    parts[#parts + 1] = ('      <failure message="%s">%s</failure>\n'):format(
      escape(headline(test.problem)), escape(test.problem))
  elseif test.status == "skipped" then
    parts[#parts + 1] = ('      <skipped message="%s"/>\n'):format(escape(test.reason))
  end
  local output = table.concat(test.output)
  if output ~= "" then parts[#parts + 1] = ("      <system-out>%s</system-out>\n"):format(escape(output)) end
  parts[#parts + 1] = "    </testcase>\n"
  return table.concat(parts)
end

function Reporter:file(result)
  local parts = { ('  <testsuite name="%s" tests="%d" failures="%d" skipped="%d" time="%.3f">\n'):format(
    escape(result.path), #result.tests, result.counts.failed, result.counts.skipped, result.seconds) }
  for _, test in ipairs(result.tests) do parts[#parts + 1] = test_case(result, test) end
  parts[#parts + 1] = "  </testsuite>\n"
  self.suites[#self.suites + 1] = { path = result.path, text = table.concat(parts) }
end

function Reporter:finish(counts)
  -- With --jobs, the files end in any order.
  table.sort(self.suites, function(a, b) return a.path < b.path end)
  self.out:write('<?xml version="1.0" encoding="UTF-8"?>\n', ('<testsuites tests="%d" failures="%d" skipped="%d">\n')
    :format(counts.passed + counts.failed + counts.skipped, counts.failed, counts.skipped))
  for _, suite in ipairs(self.suites) do self.out:write(suite.text) end
  self.out:write "</testsuites>\n"
  self.out:close()
end

return M
