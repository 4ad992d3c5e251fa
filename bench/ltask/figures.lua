-- The frame of a case: runs its body as a task of the main service, prints the figures that it returns, and
-- ends the system. Also what a process can read about itself. A failed case prints no figure.

local ltask = require "ltask"
local measure = require "measure"

local M = {}

-- Runs `body`, which returns a table of figures by name.
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

-- Times `f`, which does a thing `n` times and returns when all are done: how many a second (`rate`), and
-- microseconds of CPU for each, of all threads (`each`), which tells more while others use the machine.
function M.timed(n, f)
  local start, cpu = ltask.counter(), os.clock()
  f()
  return { rate = n / (ltask.counter() - start), each = (os.clock() - cpu) / n * 1e6 }
end

-- Addresses of `n` new services.
function M.spawn(n, name, ...)
  local list = {}
  for i = 1, n do list[i] = ltask.spawn(name, ...) end
  return list
end

-- Resident KiB of this process.
function M.resident()
  return measure.resident "self"
end

-- CPU seconds, user and system, of this process, in steps of 10 ms.
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

-- A function that counts how often the threads of this process, as they are now, went to sleep by themselves
-- since: once for each wake of a thread. Only making it costs switches.
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

-- How many `write` calls this process has made: each signal of an event descriptor is one.
function M.writes()
  return field("/proc/self/io", "syscw: (%d+)")
end

-- The value below which the share `p` of a sorted list lies.
function M.percentile(sorted, p)
  return sorted[math.max(1, math.ceil(#sorted * p))]
end

return M
