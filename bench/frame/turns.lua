-- Runs one case: opens its contenders, lets them take turns for the rounds (A B C, A B C …), and closes them. Called
-- by suites.lua for each case. What fails is noted in the result and ends neither the case nor the run.

local measure = require "measure"
local process = require "frame.process"

local M = {}

-- A contender that fails so often in a row is given up.
local PATIENCE <const> = 2

-- How many rounds a case has under the options, and how many seconds a turn of a contender is.
function M.rounds(case, options)
  return math.min(options.rounds, case.rounds or options.rounds)
end

function M.seconds(case, options)
  return math.max(case.least_seconds or 1, math.floor(options.seconds * (case.share or 1) + 0.5))
end

-- Who takes part: all, or those that are no peers.
function M.entrants(case, options)
  local list = {}
  for _, one in ipairs(case.contenders) do
    if options.peers or not one.peer then list[#list + 1] = one end
  end
  return list
end

-- About how long the case takes, in seconds; what a turn takes beyond its load is in `beyond` (0.3).
function M.planned(case, options)
  local turns = M.rounds(case, options) * #M.entrants(case, options)
  return turns * ((case.turn_seconds or M.seconds(case, options)) + (case.beyond or 0.3))
end

-- The medians of all figures that are numbers, by name; `rounds` may have holes (false).
function M.medians(rounds)
  local rows, medians = {}, {}
  for _, row in ipairs(rounds) do
    if row then rows[#rows + 1] = row end
  end
  for _, row in ipairs(rows) do
    for name, value in pairs(row) do
      if type(value) == "number" and not medians[name] then
        local having = {}
        for _, other in ipairs(rows) do
          if type(other[name]) == "number" then having[#having + 1] = other end
        end
        medians[name] = measure.median(having, name)
      end
    end
  end
  return medians
end

-- Calls f(...): true and its results, or nil and the problem as text. An interrupt goes on.
local function attempt(f, ...)
  local ok, result, reason = pcall(f, ...)
  if ok then
    if result == nil then return nil, reason or "gave nothing" end
    return result
  end
  if process.interrupted(result) then error(result, 0) end
  return nil, tostring(result), "failed"
end

local function close(entry)
  local state = entry.state
  entry.state = nil
  if type(state) == "table" and state.close then state:close() end
end

-- One contender as it takes part: its result, and its state while that is open.
local function enter(contender, progress)
  local entry = { contender = contender, fails = 0, result = {
    name = contender.name, series = contender.series, x = contender.x, peer = contender.peer, rounds = {},
  } }
  if not contender.open then
    entry.state = {}
    return entry
  end
  local problem, failed
  entry.state, problem, failed = attempt(contender.open)
  if not entry.state then
    entry.result.problem, entry.result.failed = problem, failed and true or nil
    progress:problem(contender.name, problem)
  end
  return entry
end

local function turn(entry, seconds, round, progress)
  local contender, result = entry.contender, entry.result
  local figures, problem = attempt(contender.turn, entry.state, seconds)
  result.rounds[round] = figures or false
  if figures then
    entry.fails = 0
    progress:turn(contender.name, figures)
    return
  end
  entry.fails = entry.fails + 1
  result.problem, result.failed = problem, true
  progress:problem(contender.name, problem)
  if entry.fails == PATIENCE then close(entry) end
end

-- Runs the case. `progress` is told of each turn. Returns the result: `name`, `what`, `x`, `seconds`, `contenders` in
-- order, each with `name`, `rounds` (figures by name, or false for a round that failed), `median`, `problem`
-- (text, when something went wrong), `failed`.
function M.run(case, options, progress)
  local seconds, rounds = M.seconds(case, options), M.rounds(case, options)
  local result = {
    name = case.name, what = case.what, x = case.x, note = case.note, seconds = seconds, contenders = {},
  }
  local entries <close> = setmetatable({}, { __close = function(list)
    for _, entry in ipairs(list) do close(entry) end
  end })
  for i, contender in ipairs(M.entrants(case, options)) do
    entries[i] = enter(contender, progress)
    result.contenders[i] = entries[i].result
  end
  for round = 1, rounds do
    progress:round(case.name, round, rounds)
    for _, entry in ipairs(entries) do
      process.check()
      if entry.state then turn(entry, seconds, round, progress) else entry.result.rounds[round] = false end
    end
  end
  for _, entry in ipairs(entries) do entry.result.median = M.medians(entry.result.rounds) end
  return result
end

return M
