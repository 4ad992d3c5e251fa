-- Starts programs on their cores, measures them through /proc, and stops them with all processes that they started.
-- Used by suites. The programs never outlive this process: run_until_eof.sh stops them at the end of a pipe that only
-- this process writes to.

local loop = require "lio.loop"
local measure = require "measure"
local signal = require "lio.signal"
local socket = require "lio.socket"

local quote = measure.quote

local M = {}

local START_SECONDS <const> = 10 -- does not include the time that calls of `ready` take
local TICKS <const> = 100 -- USER_HZ, the unit of /proc/PID/stat

local first = 0
while arg and arg[first - 1] do first = first - 1 end

-- `lio` is the path of the measured executable, `examples` the folder of the Rust programs.
M.lio = os.getenv "LIO" or arg[first]
M.examples = os.getenv "EXAMPLES" or (M.lio:match "^(.*/)" or "./") .. "examples"
-- The path of the folder `bench`, with a slash at the end.
M.here = debug.getinfo(1, "S").source:match "^@(.*)harness/process%.lua$"

-- Returns a word quoted for the shell.
M.quote = quote

-- -----------------------------------------------------------------------------------------------------------
-- Interrupts, which are checked between two measurements

local interrupts = assert(signal.open("SIGINT", "SIGTERM", "SIGHUP"))
local INTERRUPTED <const> = "interrupted"

-- Raises an error if this process has received SIGINT, SIGTERM or SIGHUP.
function M.check()
  if interrupts:take() then error(INTERRUPTED, 0) end
end

-- Reports whether `problem` is the error that `check` raises.
function M.interrupted(problem)
  return problem == INTERRUPTED
end

-- Waits for `seconds`, which may be fractional.
function M.sleep(seconds)
  loop.run(function() loop.sleep(seconds) end)
  M.check()
end

-- -----------------------------------------------------------------------------------------------------------
-- Cores

local function allowed_cores()
  local list = {}
  for line in io.lines "/proc/self/status" do
    for first_core, last in (line:match "^Cpus_allowed_list:(.*)" or ""):gmatch "(%d+)%-?(%d*)" do
      for core = tonumber(first_core), tonumber(last) or tonumber(first_core) do list[#list + 1] = core end
    end
  end
  return list
end

-- The numbers of the cores that this process may use.
M.cores = allowed_cores()

-- Returns the command prefixes that pin a server with `workers` threads (default 1) and its client to cores; and true
-- if both share all cores, because there are too few.
function M.pinning(workers)
  workers = workers or 1
  local all = table.concat(M.cores, ",")
  if #M.cores <= workers then
    return "taskset -c " .. all .. " ", "taskset -c " .. all .. " ", true
  end
  return "taskset -c " .. table.concat(M.cores, ",", 1, workers) .. " ",
    "taskset -c " .. table.concat(M.cores, ",", workers + 1, math.min(#M.cores, 2 * workers)) .. " ", false
end

-- -----------------------------------------------------------------------------------------------------------
-- Commands that end

-- Runs a shell command for at most `seconds` (default 60). Returns its output, including standard error, and its exit
-- code.
function M.run(command, seconds)
  local text = measure.capture(("timeout -k 1 %d sh -c %s 2>&1; echo \"code $?\""):format(
    seconds or 60, quote(command)))
  M.check()
  local output, code = text:match "^(.-)code (%d+)\n$"
  return output, tonumber(code)
end

-- Runs a shell command, and reports whether its exit code is 0.
function M.succeeds(command)
  return select(2, M.run(command)) == 0
end

-- Returns the values that a command prints as `name<TAB>value` lines, by name. Raises an error if the command fails.
function M.figures(command, seconds)
  local figures, problem = measure.figures(command, seconds)
  M.check()
  return figures or error(problem, 0)
end

-- -----------------------------------------------------------------------------------------------------------
-- Programs that run during measurements

-- Returns a free port of 127.0.0.1.
function M.port()
  local one <close> = assert(socket.create "tcp")
  assert(one:option("reuseaddr", true))
  assert(one:bind("127.0.0.1", 0))
  return (select(2, assert(one:info "socket"):value()))
end

local folder, remover
-- Returns a temporary folder for the files of this run. It is removed when the run ends.
function M.folder()
  if not folder then
    folder = measure.capture("mktemp -d /tmp/lio-bench.XXXXXX"):match "%S+"
    os.execute("chmod 755 " .. folder)
    remover = assert(io.popen(("exec setsid sh -c 'read _; rm -rf %s'"):format(folder), "w"))
  end
  return folder
end

local Program = {}
Program.__index = Program

local started = 0

-- Starts a program. The options are `command` (one simple shell command), `cores` (a prefix "taskset … "; default: the
-- prefix of a server), `ready`, and `seconds` (default 10). Calls `ready(program)` until it returns true, for at most
-- `seconds`. Returns the program, with the fields `pid` and `log` (the path of its output). If the program is not ready
-- in time, raises an error with the first part of its output.
function M.start(options)
  started = started + 1
  local log = ("%s/program-%d"):format(M.folder(), started)
  local cores = options.cores or M.pinning()
  local self = setmetatable({ log = log, command = options.command }, Program)
  self.pipe = assert(io.popen(("exec setsid sh %s %s %s"):format(
    quote(M.here .. "harness/run_until_eof.sh"), log, quote(cores .. options.command)), "w"))
  for _ = 1, (options.seconds or START_SECONDS) * 50 do
    self.pid = self.pid or tonumber((M.text(log .. ".pid")))
    if self.pid and not options.ready or self.pid and options.ready(self) then return self end
    if self.pid and self:ended() then break end
    local ok, problem = pcall(M.sleep, 0.02)
    if not ok then
      self:close()
      error(problem, 0)
    end
  end
  self:close()
  error(("did not start: %s\n%s"):format(options.command, M.text(log):sub(1, 500)), 0)
end

-- Returns the content of a file, or "" if it does not exist.
function M.text(path)
  local file = io.open(path, "rb")
  if not file then return "" end
  local text = file:read "a"
  file:close()
  return text
end

-- Returns a list of the processes in the program's process group: `{ pid, user, system }`. The times are seconds of
-- CPU.
function Program:processes()
  local list = {}
  for pid, fields in measure.capture("cat /proc/[0-9]*/stat 2>/dev/null"):gmatch "(%d+) %(.-%) (%a [^\n]+)" do
    local words = {}
    for word in fields:gmatch "%S+" do words[#words + 1] = word end
    if tonumber(words[3]) == self.pid and words[1] ~= "Z" then
      list[#list + 1] = { pid = pid, user = words[12] / TICKS, system = words[13] / TICKS }
    end
  end
  return list
end

-- Reports whether the program's first process has ended. `processes` cannot show this, because a process that has just
-- started is not in the group yet.
function Program:ended()
  local state = M.text(("/proc/%d/stat"):format(self.pid)):match "%) (%a)"
  return not state or state == "Z"
end

-- Returns the user and system seconds of CPU that all processes of the program have used. Raises an error if all of
-- them have ended.
function Program:cpu()
  local user, system = 0, 0
  local processes = self:processes()
  if #processes == 0 then error("ended by itself: " .. M.text(self.log):sub(-500), 0) end
  for _, one in ipairs(processes) do user, system = user + one.user, system + one.system end
  return user, system
end

-- Returns the resident memory of all processes of the program, in KiB.
function Program:resident()
  local sum = 0
  for _, one in ipairs(self:processes()) do sum = sum + (measure.resident(one.pid) or 0) end
  return sum
end

-- Stops the program and all processes that it started. A second call does nothing.
function Program:close()
  if not self.pipe then return end
  self.pipe:close()
  self.pipe = nil
end

Program.__close = Program.close
Program.__gc = Program.close

-- Calls `f()`. Returns the user and system seconds of CPU that the program used during the call, and the result of `f`.
function M.during(program, f)
  local user, system = program:cpu()
  local result = f()
  local user_after, system_after = program:cpu()
  return user_after - user, system_after - system, result
end

-- Removes the temporary folder of this run.
function M.finish()
  if remover then remover:close() end
  folder, remover = nil, nil
end

return M
