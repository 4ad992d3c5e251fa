-- What the drivers of cases share: words of the command line, a child process's figures, numbers as text,
-- and how a figure stands to its target. A case is `{ name = … }`, a row may have `least` or `most`.

local measure = require "measure"

local M = {}

-- Sorts the words of a command line: `name=number` replaces that value of `options`, every other word is
-- the name of a case. Returns the cases that are wanted, all of them when none is named.
function M.chosen(words, options, cases)
  local list = {}
  for _, word in ipairs(words) do
    local name, value = word:match "^(%w+)=(%d+)$"
    if name then
      if not options[name] then error("unknown value: " .. word, 0) end
      options[name] = tonumber(value)
    else
      local found
      for _, one in ipairs(cases) do found = found or one.name == word and one end
      if not found then error("no such case: " .. word, 0) end
      list[#list + 1] = found
    end
  end
  return #list > 0 and list or cases
end

-- A word for the shell.
function M.quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- Runs a shell command, for `seconds` at most. Returns the figures that it printed, by name; nil and what
-- went wrong when it failed.
function M.figures(command, seconds)
  local text = measure.capture(("timeout -k 1 %d %s; echo \"code\t$?\""):format(seconds, command))
  local figures = {}
  for name, value in text:gmatch "([%w_]+)\t([%d.e+-]+)" do figures[name] = tonumber(value) end
  if figures.code == 0 then return figures end
  return nil, figures.code == 124 and "not done in time" or ("exit code %s"):format(figures.code)
end

-- A number with four digits, or with commas from 10,000 on.
function M.shown(value)
  if value == 0 then return "0" end
  if math.abs(value) >= 10000 then
    local text = ("%.0f"):format(value)
    return (text:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", ""))
  end
  return (("%.4g"):format(value):gsub("%.0+$", ""))
end

-- A row's target as text.
function M.target(row)
  if row.least then return "≥ " .. M.shown(row.least) end
  if row.most then return row.most == 0 and "0" or "≤ " .. M.shown(row.most) end
  return ""
end

-- How `value` stands to the row's target.
function M.verdict(row, value)
  if row.least then return value >= row.least and "yes" or ("no: %.2f of it"):format(value / row.least) end
  if row.most then return value <= row.most and "yes" or "**no**" end
  return ""
end

return M
