-- Measures the scheduler case by case, each in a fresh process of this executable, and prints one table of
-- medians beside the targets. Cases take turns, so that a machine's drift meets all of them.
--
--   lio bench/ltask/run.lua [rounds=3] [seconds=60] [case ...]
--
-- Cases are those of cases.lua, by name; `seconds` bounds each process. Exit code 1: a process failed.

local here = arg[0]:match "^(.*/)" or "./"
package.path = here .. "?.lua;" .. here .. "../?.lua;" .. package.path
local cases = require "cases"
local measure = require "measure"

local options = { rounds = 3, seconds = 60 }
local wanted = {}
for _, word in ipairs(arg) do
  local name, value = word:match "^(%w+)=(%d+)$"
  if not name then
    wanted[#wanted + 1] = word
  elseif options[name] then
    options[name] = tonumber(value)
  else
    error("unknown value: " .. word, 0)
  end
end

local function chosen()
  if #wanted == 0 then return cases end
  local list = {}
  for _, name in ipairs(wanted) do
    local found
    for _, one in ipairs(cases) do found = found or one.name == name and one end
    if not found then error("no such case: " .. name, 0) end
    list[#list + 1] = found
  end
  return list
end

local function quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- The figures of one process by name; nil when it failed.
local function measured(one)
  local words = {}
  for i, value in ipairs(one.values) do words[i] = quote(value) end
  local text = measure.capture(("timeout -k 1 %d %s %schild.lua %s %s; echo \"code\t$?\""):format(
    options.seconds, quote(arg[-1]), quote(here), one.case, table.concat(words, " ")))
  local figures = {}
  for name, value in text:gmatch "([%w_]+)\t([%d.e+-]+)" do figures[name] = tonumber(value) end
  if figures.code ~= 0 then
    return nil, figures.code == 124 and "not done in time" or ("exit code %s"):format(figures.code)
  end
  if figures.each then figures.share = figures.each * figures.switch / 1e6 end
  return figures
end

local function shown(value)
  if value == 0 then return "0" end
  if math.abs(value) >= 10000 then
    local text = ("%.0f"):format(value)
    return (text:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", ""))
  end
  return (("%.4g"):format(value):gsub("%.0+$", ""))
end

local function target(row)
  if row.least then return "≥ " .. shown(row.least) end
  if row.most then return row.most == 0 and "0" or "≤ " .. shown(row.most) end
  return ""
end

-- How `value` stands to the row's target.
local function verdict(row, value)
  if row.least then return value >= row.least and "yes" or ("no: %.2f of it"):format(value / row.least) end
  if row.most then return value <= row.most and "yes" or "**no**" end
  return ""
end

local function line(one, row)
  if #one.results == 0 then return ("| %s | failed | %s | no | | |"):format(row[1], target(row)) end
  local value = measure.median(one.results, row[2])
  local each, share = "", ""
  if row[2] == "rate" then
    each = shown(measure.median(one.results, "each"))
    share = shown(measure.median(one.results, "share"))
  end
  return ("| %s | %s%s | %s | %s | %s | %s |"):format(row[1], shown(value), row[3] == "" and "" or " " .. row[3],
    target(row), verdict(row, value), each, share)
end

local list = chosen()
local failures, yardsticks = 0, {}
for _, one in ipairs(list) do one.results = {} end
for round = 1, options.rounds do
  for _, one in ipairs(list) do
    local figures, problem = measured(one)
    local text = { ("round %d %-10s"):format(round, one.name) }
    if figures then
      table.insert(one.results, figures)
      table.insert(yardsticks, figures)
      for _, row in ipairs(one.rows) do text[#text + 1] = row[2] .. " " .. shown(figures[row[2]]) end
    else
      failures = failures + 1
      text[2] = "FAILED: " .. problem
    end
    io.stderr:write(table.concat(text, "  "), "\n")
  end
end

print("| case | measured | target | met | CPU µs each | in plain switches |")
print("|---|---|---|---|---|---|")
for _, one in ipairs(list) do
  for _, row in ipairs(one.rows) do print(line(one, row)) end
end
if #yardsticks > 0 then
  print(("\nPlain Lua beside them: %s coroutine switches/s (a resume and a yield), %s function calls/s.")
    :format(shown(measure.median(yardsticks, "switch")), shown(measure.median(yardsticks, "call"))))
end
if failures > 0 then
  print(("%d processes failed."):format(failures))
  os.exit(1)
end
