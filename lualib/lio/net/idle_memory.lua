-- Returns memory to the system when a loop has become idle after a burst: the collector runs only when a program
-- allocates, so an idle program would keep its garbage. Used by net/driver.lua.

local release <const> = require("lio.memory").release

local collectgarbage <const> = collectgarbage

local M = {}

-- The number of seconds between two checks; tests change it. An idle loop without garbage is woken once, this long
-- after its last round.
M.interval = 10

-- A loop is idle if it has had at most this many rounds since the last check, and has allocated at most this many KiB.
local ROUNDS <const> = 200
local ALLOCATED <const> = 1024
-- Memory is returned if the VM's memory has grown by this many KiB, and by half, since it was last returned.
local GROWTH <const> = 8 * 1024

-- `new(now)` returns an object with the methods below, for a loop that begins at the time `now`.
local Watch = {}
Watch.__index = Watch

function M.new(now)
  return setmetatable({
    next_check = now,
    rounds = 0, -- since the last check
    count = 0, -- the VM's memory at the last check, in KiB
    kept = 0, -- the VM's memory after it was last returned, in KiB
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

-- Returns whether the loop is idle. If it is, and the VM's memory has grown, returns memory to the system.
function Watch:check(now)
  local count <const>, rounds <const> = collectgarbage "count", self.rounds
  local is_idle <const> = rounds <= ROUNDS and count - self.count <= ALLOCATED
  self.next_check, self.rounds, self.count = now + M.interval, 0, count
  if not is_idle then return false end
  if count < self.kept + math.max(GROWTH, self.kept / 2) or not collectgarbage "isrunning" then return true end
  -- An object with a finalizer is freed by the second collection.
  collectgarbage()
  collectgarbage()
  release()
  self.count = collectgarbage "count"
  self.kept = self.count
  return true
end

return M
