-- Programs under measurement: started on their cores, watched through /proc, and stopped with all they started.
-- For suites. What is started here ends with this process, however that ends: hold.sh waits for the end of a pipe
-- that only this process writes to.

local loop = require "lio.loop"
local measure = require "measure"
local rounds = require "rounds"
local signal = require "lio.signal"
local socket = require "lio.socket"

local quote = rounds.quote

local M = {}

local START_SECONDS <const> = 10 -- and the time that asking takes
local TICKS <const> = 100 -- USER_HZ, the unit of /proc/PID/stat

local first = 0
while arg and arg[first - 1] do first = first - 1 end

-- The executable that is measured, and the folder of the Rust programs.
M.lio = os.getenv "LIO" or arg[first]
M.examples = os.getenv "EXAMPLES" or (M.lio:match "^(.*/)" or "./") .. "examples"
-- The folder of the bench, with a slash at its end.
M.here = debug.getinfo(1, "S").source:match "^@(.*)frame/process%.lua$"

-- A shell word, for suites that write command lines.
M.quote = quote

-- -----------------------------------------------------------------------------------------------------------
-- Interrupts: noticed between two measurements

local interrupts = assert(signal.open("SIGINT", "SIGTERM", "SIGHUP"))
local INTERRUPTED <const> = "interrupted"

-- Raises once a signal has asked this process to end.
function M.check()
  if interrupts:take() then error(INTERRUPTED, 0) end
end

-- Whether an error is that of `check`, and so not the measured program's fault.
function M.interrupted(problem)
  return problem == INTERRUPTED
end

-- Waits; seconds may be a fraction.
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

-- The cores that may be used, as numbers.
M.cores = allowed_cores()

-- Words that pin the programs of one measurement: for a server with `workers` threads (1), for its client, and
-- whether they share cores, as they must on a machine with too few.
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
-- Commands that run to their end

-- The output of a shell command, errors with it, and its exit code. It is ended after `seconds` (60).
function M.run(command, seconds)
  local text = measure.capture(("timeout -k 1 %d sh -c %s 2>&1; echo \"code $?\""):format(
    seconds or 60, quote(command)))
  M.check()
  local output, code = text:match "^(.-)code (%d+)\n$"
  return output, tonumber(code)
end

-- Whether the shell command `command` ends with 0.
function M.succeeds(command)
  return select(2, M.run(command)) == 0
end

-- The figures that a command prints as `name<TAB>value` lines, by name. Raises what went wrong.
function M.figures(command, seconds)
  local figures, problem = rounds.figures(command, seconds)
  M.check()
  return figures or error(problem, 0)
end

-- -----------------------------------------------------------------------------------------------------------
-- Programs that run meanwhile

-- A port of 127.0.0.1 that is free now.
function M.port()
  local one <close> = assert(socket.create "tcp")
  assert(one:option("reuseaddr", true))
  assert(one:bind("127.0.0.1", 0))
  return (select(2, assert(one:info "socket"):value()))
end

local folder, keeper
-- A folder for the files of this run, removed at its end.
function M.folder()
  if not folder then
    folder = measure.capture("mktemp -d /tmp/lio-bench.XXXXXX"):match "%S+"
    os.execute("chmod 755 " .. folder)
    keeper = assert(io.popen(("exec setsid sh -c 'read _; rm -rf %s'"):format(folder), "w"))
  end
  return folder
end

local Program = {}
Program.__index = Program

local started = 0

-- Starts a program: `command` (one simple command of the shell), `cores` ("taskset … ", the server's), `ready`. It
-- counts as up when `ready(program)` returns true, which is asked for `seconds` (10). Returns the program: `pid`, `log`
-- (the path of what it prints). Raises, with the beginning of what it printed, when it is not up by then.
function M.start(options)
  started = started + 1
  local log = ("%s/program-%d"):format(M.folder(), started)
  local cores = options.cores or M.pinning()
  local self = setmetatable({ log = log, command = options.command }, Program)
  self.pipe = assert(io.popen(("exec setsid sh %s %s %s"):format(
    quote(M.here .. "frame/hold.sh"), log, quote(cores .. options.command)), "w"))
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

-- What a file holds; "" when there is none.
function M.text(path)
  local file = io.open(path, "rb")
  if not file then return "" end
  local text = file:read "a"
  file:close()
  return text
end

-- The numbers in the stat lines of all processes of the program, which are a process group.
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

-- Whether the program's first process is no more. It is not in its group yet when it has just begun.
function Program:ended()
  local state = M.text(("/proc/%d/stat"):format(self.pid)):match "%) (%a)"
  return not state or state == "Z"
end

-- Seconds of CPU that all processes of the program have used: user, system. Raises when it is gone.
function Program:cpu()
  local user, system = 0, 0
  local processes = self:processes()
  if #processes == 0 then error("ended by itself: " .. M.text(self.log):sub(-500), 0) end
  for _, one in ipairs(processes) do user, system = user + one.user, system + one.system end
  return user, system
end

-- Resident KiB of all processes of the program.
function Program:resident()
  local sum = 0
  for _, one in ipairs(self:processes()) do sum = sum + (measure.resident(one.pid) or 0) end
  return sum
end

-- Stops the program and all that it started. Doing it again does nothing.
function Program:close()
  if not self.pipe then return end
  self.pipe:close()
  self.pipe = nil
end

Program.__close = Program.close
Program.__gc = Program.close

-- Seconds of the program's CPU, user and system, while `f()` runs, and what that returns.
function M.during(program, f)
  local user, system = program:cpu()
  local result = f()
  local user_after, system_after = program:cpu()
  return user_after - user, system_after - system, result
end

-- Removes the folder of this run.
function M.finish()
  if keeper then keeper:close() end
  folder, keeper = nil, nil
end

return M
