-- Boots five hundred systems in one process, one after another; each system does some work and shuts down. After the
-- last boot the process must have as many threads and descriptors as after the fifth, and at most 4 MiB more memory.
-- Called by tests/run.sh --long, by ltask_memcheck.sh, or by hand:
--   lio tests/long/ltask_boots.lua [boots (500)]

local t = require "tests.kit"
local start = require "ltask.start"

local boots = tonumber(arg[1]) or 500
local settled <const> = 5
-- The process may grow by this number of KiB from the fifth boot to the last, because of malloc's fragmentation.
local growth <const> = 4 << 10

local main <const> = [[
local ltask = require "ltask"
local worker = ...
ltask.fork(function()
  local list = {}
  for i = 1, 4 do list[i] = ltask.spawn("echo", i == 4) end
  ltask.uniqueservice "unique"
  for i, addr in ipairs(list) do assert(ltask.call(addr, "echo", i) == i) end
  ltask.call(list[1], "quit_now")
  assert(not pcall(ltask.call, list[1], "echo", 1))
  assert(ltask.call(1, "kill", list[2]))
  -- The system ends during these calls and timers.
  for _ = 1, 3 do ltask.fork(ltask.call, list[3], "nap", 100) end
  for _ = 1, 3 do ltask.timeout(100, function() end) end
  ltask.sleep(0)
  ltask.send(1, "exit_code", 40 + worker)
  ltask.send(1, "quit_ltask")
end)
return {}
]]

local echo <const> = [[
local ltask = require "ltask"
local event = ...
local S = {}
function S.echo(...) return ... end
function S.nap(time) ltask.sleep(time) end
function S.quit_now() ltask.quit() end
if event then
  local wait = ltask.eventinit()
  ltask.idle_handler(wait)
end
return S
]]

local function read(path)
  local f = assert(io.open(path))
  local s = f:read "a"
  f:close()
  return s
end

local function threads()
  return tonumber(read "/proc/self/status":match "Threads:%s*(%d+)")
end

-- Returns the resident memory of this process in KiB.
local function resident()
  return tonumber(read "/proc/self/status":match "VmRSS:%s*(%d+)")
end

-- Returns the number of threads; waits up to one second until it is at most `most`, because a joined thread may still
-- be counted.
local function threads_at_most(most)
  local deadline = os.clock() + 1
  local count
  repeat count = threads() until count <= most or os.clock() > deadline
  return count
end

local function measure(most)
  collectgarbage()
  collectgarbage()
  local _, descriptors = t.descriptors()
  return { threads = threads_at_most(most), descriptors = descriptors, resident = resident() }
end

t.test(boots .. " boots leave no thread, no descriptor and no memory", function()
  local dir = t.tmp()
  t.write(dir .. "/main.lua", main)
  t.write(dir .. "/echo.lua", echo)
  t.write(dir .. "/unique.lua", "return {}")
  local before, after
  for i = 1, boots do
    local worker = 1 + i % 3
    local code = start {
      core = { worker = worker, queue = 64 },
      service_path = dir .. "/?.lua",
      bootstrap = { { name = "main", args = { worker } } },
    }
    t.eq(code, 40 + worker, "exit code of boot " .. i)
    if i == settled then before = measure(1) end
  end
  after = measure(before.threads)
  print(("after boot %d: %d threads, %d descriptors, %d KiB; after boot %d: %d, %d, %d KiB"):format(
    settled, before.threads, before.descriptors, before.resident,
    boots, after.threads, after.descriptors, after.resident))
  t.eq(after.threads, before.threads, "threads")
  t.eq(after.descriptors, before.descriptors, "descriptors")
  if not os.getenv "LIO_MEMCHECK" then
    t.ok(after.resident - before.resident < growth, "grown by " .. after.resident - before.resident .. " KiB")
  end
end, { leaks = true })

t.finish()
