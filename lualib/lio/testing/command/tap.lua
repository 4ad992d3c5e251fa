-- The output of `lio test --tap`: version 13 of the Test Anything Protocol. Part of `lio.testing`.

local summary <const> = require("lio.testing.text_reporter").summary

local M = {}

local Reporter = {}
Reporter.__index = Reporter

function M.new()
  io.stdout:write "TAP version 13\n"
  return setmetatable({ count = 0 }, Reporter)
end

-- A description must not contain "#", which begins a directive, and no line break.
local function description(text)
  return (text:gsub("\\", "\\\\"):gsub("#", "\\#"):gsub("%c", " "))
end

-- Writes a text as a block of YAML.
local function write_block(name, text)
  io.stdout:write("  ", name, ": |\n")
  for line in (text:gsub("\n$", "") .. "\n"):gmatch "(.-)\n" do
    io.stdout:write("    ", (line:gsub("[%c\127]", function(c) return c == "\t" and "  " or "?" end)), "\n")
  end
end

function Reporter:file(result)
  for _, test in ipairs(result.tests) do
    self.count = self.count + 1
    io.stdout:write(test.status == "failed" and "not ok " or "ok ", self.count, " - ",
      description(result.path .. ": " .. test.name))
    if test.status == "skipped" then io.stdout:write(" # SKIP ", (test.reason:gsub("%c", " "))) end
    io.stdout:write "\n"
    if test.status == "failed" then
      io.stdout:write "  ---\n"
      write_block("message", test.problem)
      local output = table.concat(test.output)
      if output ~= "" then write_block("output", output) end
      io.stdout:write "  ...\n"
    end
  end
  io.stdout:flush()
end

function Reporter:finish(counts)
  io.stdout:write("1..", self.count, "\n# ", summary(counts), "\n")
  io.stdout:flush()
end

return M
