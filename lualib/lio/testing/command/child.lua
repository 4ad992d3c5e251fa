-- Runs one file of tests in this process, for `lio test`: the results are events on standard output. Part of
-- `lio.testing`.

local events = require "lio.testing.command.events"
local runner = require "lio.testing.runner"

local write <const> = events.write

local Reporter = {}

function Reporter.begin(_, name) write("begin", name) end
function Reporter.passed(_, name, seconds) write("passed", name, seconds) end
function Reporter.failed(_, name, problem, seconds) write("failed", name, seconds, problem) end
function Reporter.skipped(_, name, reason) write("skipped", name, 0, reason) end
function Reporter.finish(_, counts) write("end", counts.passed, counts.failed, counts.skipped) end

-- Sets the global `arg` and the search path to those of a script with this path.
local function prepare(path)
  local index = 0
  while arg[index - 1] do index = index - 1 end
  _G.arg = { [-1] = arg[index], [0] = path }
  local folder = path:match "^(.*/)" or "./"
  package.path = folder .. "?.lua;" .. folder .. "?/init.lua;" .. package.path
end

-- `(path, opts)`: runs the file and ends the process. `opts`: `filter`, `seconds`.
return function(path, opts)
  io.stdout:setvbuf "line"
  runner.reporter = Reporter
  runner.filter = opts.filter and opts.filter:lower()
  runner.seconds = opts.seconds or runner.seconds
  prepare(path)
  require "lio.watch_hooks"(function(file) write("loaded", file) end, function(file) write("loaded", file) end)
  local chunk, message = loadfile(path)
  if not chunk then
    write("broken", message)
    os.exit(1, true)
  end
  local ok, problem = xpcall(chunk, runner.catch, path)
  if not ok then
    write("broken", problem)
    os.exit(1, true)
  end
  os.exit(runner.finish(), true)
end
