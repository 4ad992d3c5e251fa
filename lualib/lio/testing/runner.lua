-- Runs tests: their names, groups, hooks and results. Used by `lio.testing`, and by the project's own test kit, which
-- runs its tests outside of a loop. Therefore this file loads neither the loop nor the network.
--
-- A reporter is an object with the methods `begin(name)`, `passed(name, seconds)`, `failed(name, problem, seconds)`,
-- `skipped(name, reason)` and `finish(counts)`. A problem is a text: the error's message, which begins with the
-- position, and below it the traceback and the notes.

local program_traceback = require "lio.program_traceback"
local show <const> = require("lio.testing.show").show

local M = {
  counts = { passed = 0, failed = 0, skipped = 0 },
  reporter = nil, -- set by `lio.testing`, by the command, or by the kit
  filter = nil, -- run only tests whose full name contains this text, which is in lower case
  seconds = 10, -- the time limit of a test
}

-- The group of the tests that are being defined: `name` (with the names of the outer groups), `before` and `after`
-- (lists of functions), and `outer`.
local group = { name = "", before = {}, after = {} }

-- The running test: `name`, `notes` (a list of texts), `endings` (functions to call at its end).
local running

-- The errors that `skip` raises.
local Skip = { __name = "lio.testing.skip" }

-- Errors -----------------------------------------------------------------------------------------------

-- `clean(text)` returns a text with tracebacks, without the lines that belong to the runner and to the assertions.
function M.clean(text)
  local lines, is_below = {}, false
  for line in text:gmatch "[^\n]*" do
    local is_frame = line:find "^%s+%S+: in " or line:find "^%s+%(%.%.%.tail calls%.%.%.%)"
    -- Below a function of this file are the functions that run the test.
    is_below = is_frame and (is_below or line:find("lio/testing/runner.lua:", 1, true) ~= nil)
    local is_own = line:find("lio/testing/", 1, true) or line:find("lio/testing.lua:", 1, true)
      or line:find "%[C%]: in %a+ 'error'" or line:find "%[C%]: in %a+ 'xpcall'" -- Lua 5.5: "in global"
    if not (is_frame and (is_below or is_own)) then lines[#lines + 1] = line end
  end
  return (table.concat(lines, "\n"):gsub("\nstack traceback:$", ""))
end

local function traceback(text, level)
  return M.clean(text .. program_traceback.of(text, level + 1))
end

-- `catch(err)`: the message handler for the functions of tests: returns a text, or the object that `skip` has raised.
function M.catch(err)
  if getmetatable(err) == Skip then return err end
  if type(err) == "string" then return traceback(err, 2) end
  local meta = getmetatable(err)
  local has_text = type(meta) == "table" and meta.__tostring
  return traceback(has_text and tostring(err) or show(err) .. " " .. tostring(err), 2)
end

-- Tests ------------------------------------------------------------------------------------------------

-- Adds a problem to the problems of a test. Both are texts or nil.
local function join(problem, other)
  if not (problem and other) then return problem or other end
  return problem .. "\n" .. other
end

local function with_notes(problem, notes)
  for _, note in ipairs(notes) do problem = problem .. "\nduring the test: " .. note end
  return problem
end

-- `now()` returns the time for durations: CPU time, unless `lio.testing` has set a better clock.
M.now = os.clock

-- `record(name, body)`: runs a test with `body(test)`, which returns nil if the test has passed, a problem, or an
-- object of `skip`; counts and reports the result.
function M.record(name, body)
  local counts, reporter = M.counts, M.reporter
  local test = { name = name, notes = {}, endings = {} }
  reporter:begin(name)
  running = test
  local began = M.now()
  local problem = body(test)
  local seconds = M.now() - began
  running = nil
  if problem == nil then
    counts.passed = counts.passed + 1
    reporter:passed(name, seconds)
  elseif getmetatable(problem) == Skip then
    counts.skipped = counts.skipped + 1
    reporter:skipped(name, problem.reason)
  else
    counts.failed = counts.failed + 1
    reporter:failed(name, with_notes(problem, test.notes), seconds)
  end
end

-- `call(f, …)` calls a function of a test. Returns nil, or the problem.
function M.call(f, ...)
  local ok, problem = xpcall(f, M.catch, ...)
  if not ok then return problem end
end

-- `end_test(test)`: calls the functions of `on_test_end`, the last one first. Returns nil, or the problem.
function M.end_test(test)
  local problem
  while test.endings[1] do problem = join(problem, M.call(table.remove(test.endings))) end
  return problem
end

-- `on_test_end(f)`: calls `f` at the end of the running test. Returns false if no test is running.
function M.on_test_end(f)
  if not running then return false end
  table.insert(running.endings, f)
  return true
end

-- `note(text)`: adds a text to the message if the running test fails. Returns false if no test is running.
function M.note(text)
  if not running then return false end
  table.insert(running.notes, text)
  return true
end

-- `is_running()` returns whether a test is running.
function M.is_running() return running ~= nil end

-- Skipping ---------------------------------------------------------------------------------------------

-- `raise_skip(reason)`: ends the running test, which then counts as skipped.
function M.raise_skip(reason)
  error(setmetatable({ reason = reason or "" }, Skip), 0)
end

-- `record_skipped(name, reason)`: reports a test that is not run.
function M.record_skipped(name, reason)
  M.counts.skipped = M.counts.skipped + 1
  M.reporter:skipped(name, reason or "")
end

-- Groups -----------------------------------------------------------------------------------------------

-- `full_name(name)` returns a name with the names of its groups, without control characters.
function M.full_name(name)
  return ((group.name .. name):gsub("%c", "?"))
end

-- `is_selected(name)` returns whether the filter selects the test with this full name.
function M.is_selected(name)
  return not M.filter or name:lower():find(M.filter, 1, true) ~= nil
end

-- `describe(name, f)`: calls `f`, whose tests and hooks form a group.
function M.describe(name, f)
  local outer = group
  group = { name = outer.name .. name .. ": ", before = {}, after = {}, outer = outer }
  local ok, err = xpcall(f, M.catch)
  group = outer
  if not ok then error(err, 0) end
end

-- `add_hook(kind, f)`: adds a function that runs before or after ("before", "after") each test of the group.
function M.add_hook(kind, f)
  table.insert(group[kind], f)
end

-- Returns the functions to call before each test of the group, and after it, in order.
local function hooks_of(of)
  local before, after = {}, {}
  while of do
    for index = #of.before, 1, -1 do table.insert(before, 1, of.before[index]) end
    for index = #of.after, 1, -1 do after[#after + 1] = of.after[index] end
    of = of.outer
  end
  return before, after
end

-- `body_of(f)` returns the function of a test with the hooks of its group: `body(test)` returns nil, a problem or an
-- object of `skip`.
function M.body_of(f)
  local before, after = hooks_of(group)
  return function(test)
    local problem
    for _, hook in ipairs(before) do problem = problem or M.call(hook) end
    problem = problem or M.call(f)
    for _, hook in ipairs(after) do
      local another = M.call(hook)
      problem = type(problem) == "table" and problem or join(problem, another)
    end
    local another = M.end_test(test)
    return type(problem) == "table" and problem or join(problem, another)
  end
end

-- `finish()`: reports the counts. Returns whether no test has failed.
function M.finish()
  M.reporter:finish(M.counts)
  return M.counts.failed == 0
end

return M
