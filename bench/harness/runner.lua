-- Runs one case: opens its contenders, measures them in turn in each round (A B C, A B C, …), and closes them. Called
-- by suites.lua. A failure is recorded in the result, and the case and the run continue.

local measure = require "measure"
local process = require "harness.process"

local M = {}

-- A contender is closed after this number of failures in a row.
local MOST_FAILURES <const> = 2

-- Returns the number of rounds of a case.
function M.rounds(case, options)
  return math.min(options.rounds, case.rounds or options.rounds)
end

-- Returns the length of one turn, in seconds.
function M.seconds(case, options)
  return math.max(case.least_seconds or 1, math.floor(options.seconds * (case.share or 1) + 0.5))
end

-- Returns the contenders to measure: all of them, or all except peers.
function M.participants(case, options)
  local list = {}
  for _, one in ipairs(case.contenders) do
    if options.peers or not one.peer then list[#list + 1] = one end
  end
  return list
end

-- Returns the expected duration of the case, in seconds. A turn takes `beyond` seconds (default 0.3) in addition to its
-- load.
function M.planned(case, options)
  local turns = M.rounds(case, options) * #M.participants(case, options)
  return turns * ((case.turn_seconds or M.seconds(case, options)) + (case.beyond or 0.3))
end

-- Returns the medians of all results that are numbers, by name. An element of `rounds` is false if the round failed.
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

-- Calls `f(...)`. Returns its result; if the result is nil, returns nil and the reason. If `f` raised an error, returns
-- nil, the error as a string, and "failed". The error of an interrupt is raised again instead.
local function attempt(f, ...)
  local ok, result, reason = pcall(f, ...)
  if ok then
    if result == nil then return nil, reason or "returned nothing" end
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

-- Opens a contender. Returns the contender's entry, which contains its result and, while the contender is open, its
-- state.
local function open(contender, progress)
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
  if entry.fails == MOST_FAILURES then close(entry) end
end

-- Runs the case, and reports each turn to `progress`. Returns the result: a table with `name`, `what`, `x`, `seconds`
-- and the list `contenders`. Each contender has `name`, `rounds` (results by name, or false for a failed round),
-- `median`, `problem` (nil or a string) and `failed`.
function M.run(case, options, progress)
  local seconds, rounds = M.seconds(case, options), M.rounds(case, options)
  local result = {
    name = case.name, what = case.what, x = case.x, note = case.note, seconds = seconds, contenders = {},
  }
  local entries <close> = setmetatable({}, { __close = function(list)
    for _, entry in ipairs(list) do close(entry) end
  end })
  for i, contender in ipairs(M.participants(case, options)) do
    entries[i] = open(contender, progress)
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
