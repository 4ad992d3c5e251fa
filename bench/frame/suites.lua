-- Finds the suites, runs those that are wanted, and prints and keeps the results. Called by run.lua; README.md says
-- what a suite is.

local machine = require "frame.machine"
local process = require "frame.process"
local progress = require "frame.progress"
local results = require "frame.results"
local tables = require "frame.tables"
local turns = require "frame.turns"

local M = {}

-- In the order in which they run. One without a file is not there.
local ORDER <const> = { "http", "net", "selector", "micro", "ltask", "coroutine" }

local function exists(name)
  local file = io.open(process.here .. "suites/" .. name .. ".lua")
  if file then file:close() end
  return file ~= nil
end

-- The names of the suites that there are.
M.names = {}
for _, name in ipairs(ORDER) do
  if exists(name) then table.insert(M.names, name) end
end

local function load(name)
  return require("suites." .. name)
end

-- Prints the suites and their cases.
function M.list()
  for _, name in ipairs(M.names) do
    local suite = load(name)
    print(name .. ": " .. suite.title)
    for _, case in ipairs(suite.cases) do print(("  %-22s %s"):format(name .. "/" .. case.name, case.what)) end
  end
end

-- The cases of a suite that are wanted, in the suite's order. An unknown name raises.
local function chosen(suite, entry)
  if not entry.cases then return suite.cases end
  local list, wanted = {}, {}
  for _, name in ipairs(entry.cases) do wanted[name] = true end
  for _, case in ipairs(suite.cases) do
    if wanted[case.name] then
      list[#list + 1] = case
      wanted[case.name] = nil
    end
  end
  local unknown = next(wanted)
  if unknown then error(("no such case: %s/%s (lio bench/run.lua list)"):format(entry.name, unknown), 0) end
  return list
end

-- What is to be done: `{ name, suite, cases, whole, planned }` for each suite.
local function plan(wanted)
  local jobs, sum = {}, 0
  for _, entry in ipairs(wanted.suites) do
    local suite = load(entry.name)
    local job = { name = entry.name, suite = suite, cases = chosen(suite, entry), whole = not entry.cases }
    for _, case in ipairs(job.cases) do sum = sum + turns.planned(case, wanted.options) end
    jobs[#jobs + 1] = job
  end
  return jobs, sum
end

-- Runs the cases of one suite. Returns its result.
local function measure_suite(job, options, teller)
  local suite = job.suite
  local result = {
    title = suite.title, date = machine.date(), options = { rounds = options.rounds, seconds = options.seconds },
    command = machine.command(), plots = suite.plots, cases = {},
  }
  for i, case in ipairs(job.cases) do
    local columns = case.columns or suite.columns
    local count = turns.rounds(case, options) * #turns.entrants(case, options)
    teller:case(job.name, case, turns.planned(case, options), count, columns)
    local one = turns.run(case, options, teller)
    teller:over()
    one.targets = tables.verdicts(case, one)
    result.cases[i] = one
  end
  return result
end

local function any_failed(result)
  for _, case in ipairs(result.cases) do
    for _, contender in ipairs(case.contenders) do
      if contender.failed then return true end
    end
  end
  return false
end

local function run(wanted)
  local options = wanted.options
  local jobs, planned = plan(wanted)
  local teller = progress.new(planned)
  teller:say(("%d rounds; servers and clients on cores %s"):format(options.rounds, machine.pinned()))
  local failed = false
  for _, job in ipairs(jobs) do
    local missing = job.suite.needs and job.suite.needs()
    if missing then
      io.stderr:write(("bench: suite %s: %s\n"):format(job.name, missing))
      failed = true
    else
      local result = measure_suite(job, options, teller)
      failed = any_failed(result) or failed
      io.stdout:write(tables.suite(job.suite, result), "\n")
      io.stdout:flush()
      if job.whole and options.write then results.write(job.name, result) end
    end
  end
  return not failed
end

-- Runs what command.parse read. Returns whether nothing failed.
function M.run(wanted)
  local ok, result = xpcall(run, function(problem)
    if type(problem) == "string" and not problem:find "^[^:]+:%d+:" then return problem end
    return debug.traceback(tostring(problem))
  end, wanted)
  process.finish()
  if ok then return result end
  io.stderr:write("bench: ", result, "\n")
  return false
end

return M
