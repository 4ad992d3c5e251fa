-- Starts and signals the processes of a run. Used by director.lua and tests/soak. The output of a process goes to
-- NAME.log in the folder of the run, its exit code to NAME.rc.

local loop = require "lio.loop"

local M = { folder = nil, loopback = false }

local Process = {}
Process.__index = Process

local function read(path, what)
  local file <close> = io.open(path)
  return file and file:read(what or "a")
end

--- Runs a shell command; raises if it fails.
function M.run(command, ...)
  command = command:format(...)
  assert(os.execute(command), "failed: " .. command)
end

--- Starts `command` in a network namespace. `options`: `namespace`, `shim` (a control file: the process gets faults of
-- system calls), `library`, `seed`, `shim_grace` (seconds without these faults).
function M.start(name, command, options)
  local prefix = M.loopback and "" or "ip netns exec " .. options.namespace .. " "
  local variables = ""
  if options.shim then
    variables = ("LD_PRELOAD=%s CHAOS_CONTROL=%s CHAOS_SEED=%d CHAOS_GRACE=%d "):format(options.library, options.shim,
      options.seed, options.shim_grace or 0)
  end
  local base = M.folder .. "/" .. name
  os.remove(base .. ".pid")
  os.remove(base .. ".rc")
  M.run("( %senv %s%s >>%s.log 2>&1 </dev/null & echo $! >%s.pid; wait $!; echo $? >%s.rc ) >/dev/null 2>&1 &",
    prefix, variables, command, base, base, base)
  local pid
  repeat
    loop.sleep(0.01)
    pid = math.tointeger(read(base .. ".pid", "n"))
  until pid
  return setmetatable({ name = name, pid = pid, base = base, watched = options.watched }, Process)
end

--- Returns the exit code, or nil while the process runs. A signal N results in 128 + N.
function Process:code() return math.tointeger(read(self.base .. ".rc", "n")) end

--- Returns the pid of the program: under `lio --watch` that of the supervisor's child, or nil if there is none.
function Process:program()
  if not self.watched then return not self:code() and self.pid or nil end
  local children = read(("/proc/%d/task/%d/children"):format(self.pid, self.pid)) or ""
  local last
  for pid in children:gmatch "%d+" do last = math.tointeger(pid) end
  return last
end

--- Sends a signal to a pid, by default that of the process.
function Process:signal(name, pid) os.execute(("kill -%s %d 2>/dev/null"):format(name, pid or self.pid)) end

--- Waits until the process has ended, at most `seconds`. Returns its exit code, or nil.
function Process:wait(seconds)
  local stop_at = loop.now() + seconds
  while not self:code() and loop.now() < stop_at do loop.sleep(0.02) end
  return self:code()
end

--- Returns the output so far.
function Process:output() return read(self.base .. ".log") or "" end

--- Returns the open descriptors of a pid: their number, and numbers by kind.
function M.descriptors(pid)
  local number, kinds = 0, {}
  local pipe <close> = assert(io.popen(("ls -l /proc/%d/fd 2>/dev/null"):format(pid)))
  for line in pipe:lines() do
    local target = line:match "%-> (.*)$"
    if target then
      number = number + 1
      target = target:gsub("%[%d+%]", ""):gsub("%d+", "N")
      kinds[target] = (kinds[target] or 0) + 1
    end
  end
  return number, kinds
end

--- Returns a number of /proc/PID/status, such as "Threads", or "VmRSS" in KiB.
function M.status(pid, field)
  return math.tointeger((read(("/proc/%d/status"):format(pid)) or ""):match(field .. ":%s*(%d+)") or 0)
end

--- Writes the queues of all sockets, and what the threads of some processes do, to late.txt: for a client that is late.
function M.dump(spaces, ...)
  local late = M.folder .. "/late.txt"
  for _, name in ipairs { "c", "p", "s" } do
    local prefix = M.loopback and "" or ("ip netns exec %s%s "):format(spaces, name)
    os.execute(("{ echo %s; %sss -tnoi; } >>%s 2>&1"):format(name, prefix, late))
  end
  for _, pid in ipairs { ... } do
    local threads = "for t in /proc/%d/task/*; do cat $t/comm $t/syscall $t/wchan; echo; done"
    os.execute(("{ echo process %d; %s; } >>%s 2>&1"):format(pid, threads:format(pid), late))
  end
end

M.read = read

return M
