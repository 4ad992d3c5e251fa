-- Prints the progress to standard error: the current case, the results, and the remaining time. There is one object per
-- run: suites.lua creates the object; suites.lua and runner.lua call its methods.

local format = require "format"
local shown = format.number

local Progress = {}
Progress.__index = Progress

local M = {}

-- Creates the object. `planned` is the expected duration of the whole run, in seconds.
function M.new(planned)
  return setmetatable({ planned = planned, done = 0, began = os.time(), where = "" }, Progress)
end

-- Returns the expected remaining seconds: the planned seconds, corrected by the pace so far.
function Progress:left()
  local pace = 1
  if self.done > 10 then pace = (os.time() - self.began) / self.done end
  return math.max(0, self.planned - self.done) * pace
end

local function clock(seconds)
  return ("%d:%02d"):format(seconds // 60, seconds % 60)
end

function Progress:say(text)
  io.stderr:write(("[%s left] %s\n"):format(clock(math.floor(self:left())), text))
end

-- Called when a case begins. `planned` is its expected duration in seconds, `turns` its number of turns, and `columns`
-- are the results to print.
function Progress:case(suite, case, planned, turns, columns)
  self.step, self.columns, self.suite, self.ends = planned / math.max(1, turns), columns, suite, self.done + planned
  self:say(("%s/%s: %s"):format(suite, case.name, case.what))
end

function Progress:round(case, round, of)
  self.where = ("%s/%s %d/%d"):format(self.suite, case, round, of)
end

-- Called when a turn of the contender `name` has ended. `figures` are its results.
function Progress:turn(name, figures)
  self.done = math.min(self.ends, self.done + self.step)
  local words = {}
  for _, column in ipairs(self.columns) do
    local value = figures[column[1]]
    if value then words[#words + 1] = column[2] .. " " .. (type(value) == "number" and shown(value) or value) end
  end
  if figures.errors then words[#words + 1] = "ERRORS: " .. figures.errors end
  self:say(("%-22s %-16s %s"):format(self.where, name, table.concat(words, "  ")))
end

-- Called when the contender `name` could not be measured. `text` is the reason.
function Progress:problem(name, text)
  self:say(("%-22s %-16s %s"):format(self.where, name, text:gsub("\n+$", ""):gsub("\n", "\n    ")))
end

-- Called when the case has ended, even if turns have failed.
function Progress:case_ended()
  self.done, self.where = self.ends, ""
end

return M
