-- Returns memory to the system when a loop has become idle after a burst: the collector runs only when a program
-- allocates, so an idle program would keep its garbage. Used by net/driver.lua.

local memory <const> = require "lio.memory"

local collectgarbage <const>, clock <const> = collectgarbage, os.clock

local M = {}

-- The number of seconds between two checks; tests change it. An idle loop without garbage is woken once, this long
-- after its last round.
M.interval = 10

-- A loop is idle if it has had at most this many rounds since the last check, and has allocated at most this many KiB.
local ROUNDS <const> = 200
local ALLOCATED <const> = 1024
-- Memory is returned if the VM's memory, or the unused memory of the process, has grown by this many KiB, and by half,
-- since it was last returned.
local GROWTH <const> = 8 * 1024
-- The unused memory is returned only if the process has used at most this share of a processor since the last check:
-- its other threads may otherwise need that memory again at once.
local SHARE <const> = 0.05

-- Returns the KiB from which on memory is returned, if it was `kept` KiB after the last time.
local function limit_of(kept) return kept + math.max(GROWTH, kept / 2) end

-- `new(now)` returns an object with the methods below, for a loop that begins at the time `now`.
local Watch = {}
Watch.__index = Watch

function M.new(now)
  return setmetatable({
    next_check = now,
    checked = now, -- when the last check was
    used = clock(), -- the processor time of the process at the last check, in seconds
    rounds = 0, -- since the last check
    count = 0, -- the VM's memory at the last check, in KiB
    kept = 0, -- the VM's memory after it was last returned, or less if it has shrunk since, in KiB
    kept_unused = 0, -- the same of the unused memory of the process
  }, Watch)
end

-- `watch:limit(now, seconds)`: called before each wait of the loop. `seconds` is the longest wait; nil means that there
-- is no limit. Returns the longest wait: unless the loop is idle, until the next check.
function Watch:limit(now, seconds)
  self.rounds = self.rounds + 1
  if now >= self.next_check and self:check(now) then return seconds end
  local left <const> = self.next_check - now
  return seconds and seconds < left and seconds or left
end

-- Returns whether the loop is idle, and the process uses little processor time. If the memory has grown, returns memory
-- to the system: that of the VM, and that of native buffers, such as request bodies, which the VM does not count.
function Watch:check(now)
  local count <const>, rounds <const>, used <const> = collectgarbage "count", self.rounds, clock()
  local is_idle <const> = rounds <= ROUNDS and count - self.count <= ALLOCATED
  local is_quiet <const> = used - self.used <= SHARE * (now - self.checked)
  self.next_check, self.checked, self.used, self.rounds, self.count = now + M.interval, now, used, 0, count
  self.kept = math.min(self.kept, count)
  if not is_idle then return false end
  local has_grown <const> = count >= limit_of(self.kept)
  if collectgarbage "isrunning" and (has_grown or is_quiet and self:is_unused()) then self:release(has_grown) end
  return is_quiet
end

-- Returns whether the process has much more unused memory than when it was last returned.
function Watch:is_unused()
  local unused <const> = (memory.unused() or 0) / 1024
  self.kept_unused = math.min(self.kept_unused, unused)
  return unused >= limit_of(self.kept_unused)
end

-- Returns memory to the system; collects garbage before, if the VM's memory has grown.
function Watch:release(has_grown)
  if has_grown then
    -- An object with a finalizer is freed by the second collection.
    collectgarbage()
    collectgarbage()
    self.count = collectgarbage "count"
    self.kept = self.count
  end
  memory.release()
  self.kept_unused = (memory.unused() or 0) / 1024
end

return M
