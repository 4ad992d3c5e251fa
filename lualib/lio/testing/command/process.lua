-- Runs a file of tests in a child process, and collects its results. Part of `lio.testing`.
--
-- A shell starts the child, prints the child's process id, and prints its exit code when it has ended; so the pipe to
-- the shell becomes readable at the end, and the loop can wait for it. The output of the child is a temporary file.

local defer = require "lio.defer"
local drivers = require "lio.net.driver"
local events = require "lio.testing.command.events"
local lio = require "lio"
local loop = require "lio.loop"

local M = {}

-- How often, in seconds, the output of a child is checked for a test that hangs; and how long a test may run after its
-- time limit. The child itself ends a test that only waits too long.
local INTERVAL <const>, GRACE <const> = 1, 5

local driver = drivers.of(loop.net)

local function quote(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- Returns the command that runs the file: with this executable and its search paths.
local function command_of(path, opts)
  local index = 0
  while arg[index - 1] do index = index - 1 end
  local words = { quote(arg[index]), "test", "--run-file", quote(path) }
  if opts.filter then words[#words + 1] = "--filter " .. quote(opts.filter) end
  if opts.seconds then words[#words + 1] = ("--seconds %g"):format(opts.seconds) end
  return table.concat(words, " ")
end

-- Reading the results ------------------------------------------------------------------------------------

local function read_file(path)
  local f <close> = io.open(path, "rb")
  return f and f:read "a" or ""
end

-- Returns the result of a file: `path`, `tests` (a list: `name`, `status`, `seconds`, `problem`, `reason`, `output`),
-- `output` (the text that the file has printed outside of tests), `counts`, `loaded` (the files that it has loaded),
-- `problem` (why it could not be run to its end), `current` (the test that was running at the end of the output).
local function result_of(path, output)
  local result = { path = path, tests = {}, output = {}, loaded = {}, counts = { passed = 0, failed = 0, skipped = 0 } }
  local current
  local function add(status, name, seconds)
    local test = current or { name = name, output = {} }
    current = nil
    test.status, test.seconds = status, tonumber(seconds) or 0
    result.tests[#result.tests + 1] = test
    result.counts[status] = result.counts[status] + 1
    return test
  end
  local handlers = {}
  function handlers.begin(name) current = { name = name, output = {} } end
  function handlers.passed(name, seconds) add("passed", name, seconds) end
  function handlers.failed(name, seconds, problem) add("failed", name, seconds).problem = problem end
  function handlers.skipped(name, seconds, reason) add("skipped", name, seconds).reason = reason or "" end
  function handlers.broken(problem) result.problem = problem end
  function handlers.loaded(file) result.loaded[file] = true end
  handlers["end"] = function() result.has_ended = true end
  events.parse(output, function(text)
    table.insert((current or result).output, text)
  end, function(kind, ...)
    if handlers[kind] then handlers[kind](...) end
  end)
  result.current = current
  return result
end

-- Adds a failed test if the file could not be run to its end.
local function complete(result, code, hung)
  local problem = result.problem
  if not problem and hung then
    problem = ("the process was killed, because this test ran %g s longer than its time limit"):format(GRACE)
  elseif not problem and not (result.has_ended and code == (result.counts.failed > 0 and 1 or 0)) then
    local how = code and code > 128 and ("with signal %d"):format(code - 128)
      or ("with exit code %s"):format(code or "?")
    problem = ("the process ended %s %s"):format(how, result.has_ended and "after its last test"
      or result.current and "in this test" or "before the end of the file")
  end
  if not problem and #result.tests == 0 and not result.is_filtered then problem = "the file contains no test" end
  if not problem then return end
  local test = result.current or { name = "(the file)", output = {} }
  test.status, test.seconds, test.problem = "failed", 0, problem
  table.insert(result.tests, test)
  result.counts.failed = result.counts.failed + 1
end

-- Running --------------------------------------------------------------------------------------------------

-- Waits until the shell has printed the exit code. Kills the child if a test hangs. Returns whether it was killed.
local function await_end(pipe, path, output, pid, limit)
  local token = driver:new_token()
  driver:watch(pipe, function() driver:wake(token, true) end)
  local _ <close> = defer(function() driver:unwatch(pipe) end)
  local name, since, hung = nil, 0, false
  while driver:wait(token, INTERVAL) == "timeout" do
    local current = result_of(path, read_file(output)).current
    if not current or current.name ~= name then
      name, since = current and current.name, lio.now()
    elseif not hung and lio.now() - since > limit + GRACE then
      hung = true
      os.execute(("kill -s KILL %d 2>/dev/null"):format(pid))
    end
  end
  return hung
end

-- `run(path, opts)` runs a file and returns its result. Must be called in a task. If the task is killed, the child is
-- killed too.
function M.run(path, opts)
  local output, began = os.tmpname(), lio.now()
  local pipe = assert(io.popen(("%s </dev/null >%s 2>&1 & echo $!; wait $!; echo $?"):format(
    command_of(path, opts), quote(output))))
  local pid = math.tointeger(tonumber(pipe:read "l"))
  local _ <close> = defer(function()
    if pid then os.execute(("kill -s KILL %d 2>/dev/null"):format(pid)) end
    pipe:close()
    os.remove(output)
  end)
  local hung = await_end(pipe, path, output, pid, opts.seconds or 10)
  local code = tonumber(pipe:read "l")
  pid = nil
  local result = result_of(path, read_file(output))
  result.is_filtered = opts.filter ~= nil
  result.seconds = lio.now() - began
  complete(result, code, hung)
  lio.watch(path)
  for file in pairs(result.loaded) do lio.watch(file) end
  return result
end

return M
