-- Runs the body of a case as a task of the main service, prints the results that the body returns, and ends the system.
-- A failed case prints no results. Other functions measure this process.

local ltask = require "ltask"
local measure = require "measure"

local M = {}

-- Runs `body`, which returns a table of results by name, and prints the results.
function M.case(body)
  ltask.fork(function()
    local ok, result = xpcall(body, function(problem) return debug.traceback(tostring(problem)) end)
    if ok then
      for name, value in pairs(result) do io.stdout:write(name, "\t", tostring(value), "\n") end
      io.stdout:flush()
    else
      io.stderr:write(result, "\n")
      ltask.call(1, "exit_code", 1)
    end
    ltask.send(1, "quit_ltask")
  end)
end

-- Calls `f`, which repeats an operation `n` times and returns when all operations have ended. Returns a table: `rate`
-- is the number of operations per second, `each` the microseconds of CPU of all threads per operation. Other load on
-- the machine affects `each` less than `rate`.
function M.timed(n, f)
  local start, cpu = ltask.counter(), os.clock()
  f()
  return { rate = n / (ltask.counter() - start), each = (os.clock() - cpu) / n * 1e6 }
end

-- Spawns `n` services. Returns their addresses.
function M.spawn(n, name, ...)
  local list = {}
  for i = 1, n do list[i] = ltask.spawn(name, ...) end
  return list
end

-- Returns the resident memory of this process, in KiB.
function M.resident()
  return measure.resident "self"
end

-- Returns the CPU seconds of this process, user and system together, in steps of 10 ms.
function M.cpu()
  local user, system = measure.cpu "self"
  return user + system
end

local function field(path, pattern)
  local file = io.open(path)
  if not file then return 0 end
  local value = file:read("a"):match(pattern)
  file:close()
  return tonumber(value) or 0
end

-- Returns a function that counts voluntary context switches: it returns the number of switches since the call of
-- `M.switches`, in the threads that existed at that time. Each wakeup of a thread causes one switch. `M.switches`
-- itself causes switches; the returned function does not.
function M.switches()
  local pid = io.open("/proc/self/stat"):read "n"
  local paths = {}
  for tid in measure.capture("ls /proc/" .. pid .. "/task"):gmatch "%d+" do
    paths[#paths + 1] = "/proc/" .. pid .. "/task/" .. tid .. "/status"
  end
  local function sum()
    local n = 0
    for _, path in ipairs(paths) do n = n + field(path, "\nvoluntary_ctxt_switches:%s+(%d+)") end
    return n
  end
  local before = sum()
  return function() return sum() - before end
end

-- Returns the number of `write` calls of this process. Each signal to an event descriptor is one such call.
function M.writes()
  return field("/proc/self/io", "syscw: (%d+)")
end

-- Returns the percentile `p` (0 to 1) of a sorted list.
function M.percentile(sorted, p)
  return sorted[math.max(1, math.ceil(#sorted * p))]
end

return M
