-- Finds the suites, runs the chosen suites, and prints and writes the results. Called by run.lua. README.md describes
-- the table of a suite.

local machine = require "harness.machine"
local process = require "harness.process"
local progress = require "harness.progress"
local results = require "harness.results"
local tables = require "harness.tables"
local runner = require "harness.runner"

local M = {}

-- The suites in the order in which they run. A name without a file is skipped.
local ORDER <const> = { "http", "tls", "websocket", "net", "selector", "micro", "ltask", "coroutine" }

local function exists(name)
  local file = io.open(process.here .. "suites/" .. name .. ".lua")
  if file then file:close() end
  return file ~= nil
end

-- The names of the existing suites.
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

-- Returns the chosen cases of a suite, in the suite's order. Raises an error for an unknown name.
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

-- Returns a list with `{ name, suite, cases, whole }` for each chosen suite, and the expected duration of all suites in
-- seconds.
local function plan(wanted)
  local jobs, sum = {}, 0
  for _, entry in ipairs(wanted.suites) do
    local suite = load(entry.name)
    local job = { name = entry.name, suite = suite, cases = chosen(suite, entry), whole = not entry.cases }
    for _, case in ipairs(job.cases) do sum = sum + runner.planned(case, wanted.options) end
    jobs[#jobs + 1] = job
  end
  return jobs, sum
end

-- Runs the cases of one suite. Returns its result.
local function measure_suite(job, options, display)
  local suite = job.suite
  local result = {
    title = suite.title, date = machine.date(), options = { rounds = options.rounds, seconds = options.seconds },
    command = machine.command(), plots = suite.plots, cases = {},
  }
  for i, case in ipairs(job.cases) do
    local columns = case.columns or suite.columns
    local count = runner.rounds(case, options) * #runner.participants(case, options)
    display:case(job.name, case, runner.planned(case, options), count, columns)
    local one = runner.run(case, options, display)
    display:case_ended()
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
  local display = progress.new(planned)
  display:say(("%d rounds; servers and clients on cores %s"):format(options.rounds, machine.pinned()))
  local failed = false
  for _, job in ipairs(jobs) do
    local missing = job.suite.needs and job.suite.needs()
    if missing then
      io.stderr:write(("bench: suite %s: %s\n"):format(job.name, missing))
      failed = true
    else
      local result = measure_suite(job, options, display)
      failed = any_failed(result) or failed
      io.stdout:write(tables.suite(job.suite, result), "\n")
      io.stdout:flush()
      if job.whole and options.write then results.write(job.name, result) end
    end
  end
  return not failed
end

-- Runs the suites in `wanted`, a result of `command.parse`. Returns true if no measurement failed.
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
