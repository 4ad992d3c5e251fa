-- `lio.testing`: tests of programs. A file of tests calls `testing.test` for each behaviour; `lio test` runs such files
-- (lio/test.lua). Each test runs as a task of the loop, so that it can wait, with a time limit, and must not leave
-- anything behind. `app:test()` returns a client for the tests of an app (testing/client.lua).

local assertions = require "lio.testing.assertions"
local misuse = require "lio.misuse"
local options = require "lio.options"
local runner = require "lio.testing.runner"

local M = {}

for name, assertion in pairs(assertions) do M[name] = assertion end

local TEST_OPTIONS <const> = {
  seconds = options.seconds,
  leaks = options.boolean,
  skip = options.either(options.string, options.boolean),
}

-- The reporter of a file that `lio test` does not run.
if not runner.reporter then
  local name = (arg and arg[0] or "?"):match "[^/]*$"
  runner.reporter = require("lio.testing.text_reporter").new(name, os.getenv "VERBOSE")
end
runner.now = require("lio.timer").real

-- Defining tests ---------------------------------------------------------------------------------------

-- `test(name, f [, opts])`: runs a test immediately, as a task. The test fails if `f` raises an error, if it runs
-- longer than `opts.seconds` (default 10), or if it leaves a task, a timer, a registration or a descriptor behind,
-- unless `opts.leaks` is true. If `opts.skip` is true or a reason, the test does not run.
function M.test(name, f, opts)
  misuse.check("test", 1, name, "string")
  misuse.check_function("test", 2, f)
  opts = options.check("testing.test", 3, opts, TEST_OPTIONS)
  if runner.is_running() then misuse.raise "testing.test: a test cannot contain another test" end
  local full_name = runner.full_name(name)
  if not runner.is_selected(full_name) then return end
  if opts.skip then return runner.record_skipped(full_name, opts.skip ~= true and opts.skip or nil) end
  if require("lio.loop").drives() then
    misuse.raise "testing.test: the loop is already running; call it in the main chunk of a program"
  end
  local body = runner.body_of(f)
  local run <const> = require("lio.testing.in_loop").run
  runner.record(full_name, function(test) return run(test, body, opts) end)
end

-- `skip(name, f)`: a test that does not run. In a test, `skip([reason])` ends the test, which counts as skipped.
function M.skip(name, _)
  if name ~= nil then misuse.check("skip", 1, name, "string") end
  if runner.is_running() then runner.raise_skip(name) end
  misuse.check("skip", 1, name, "string")
  local full_name = runner.full_name(name)
  if runner.is_selected(full_name) then runner.record_skipped(full_name) end
end

-- `describe(name, f)`: calls `f`. The names of the tests that `f` defines begin with `name`; the hooks that `f` adds
-- apply to them only.
function M.describe(name, f)
  misuse.check("describe", 1, name, "string")
  misuse.check_function("describe", 2, f)
  runner.describe(name, f)
end

-- `before(f)`, `after(f)`: `f` runs in the task of each test of the group that is defined later, before or after it.
-- `after` runs even if the test fails.
for _, kind in ipairs { "before", "after" } do
  M[kind] = function(f)
    misuse.check_function(kind, 1, f)
    if runner.is_running() then misuse.raise(("testing.%s: call it outside of tests"):format(kind)) end
    runner.add_hook(kind, f)
  end
end

-- In a test ---------------------------------------------------------------------------------------------

-- `defer(f)`: calls `f` at the end of the running test, even if the test fails.
function M.defer(f)
  misuse.check_function("defer", 1, f)
  if not runner.on_test_end(f) then misuse.raise "testing.defer: no test is running" end
end

-- `note(text)`: adds a text to the message of the running test, if the test fails.
function M.note(text)
  misuse.check("note", 1, text, "string")
  runner.note(text)
end

-- `clock()`: pauses the clock of this VM until the end of the test, and returns it. See testing/clock.lua.
function M.clock()
  return require("lio.testing.clock").pause()
end

-- `events(res)` returns an iterator over the server-sent events of a response with the option `stream`. See
-- testing/events.lua.
function M.events(res)
  misuse.check("events", 1, res, "table")
  return require "lio.testing.events"(res)
end

-- The end -----------------------------------------------------------------------------------------------

-- `finish()`: prints the counts and ends the process, with the exit code 0 if no test has failed and 1 otherwise. The
-- last line of a file of tests that also runs without `lio test`.
function M.finish()
  if runner.is_running() then misuse.raise "testing.finish: call it outside of tests" end
  os.exit(runner.finish())
end

return M
