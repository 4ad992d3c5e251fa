-- Decides which task may read from a socket, and which may write to it. The other tasks queue. Part of `lio.net`.
--
-- A driver has three wait queues: for reading, for writing, and for the end of the peer's side. In each wait queue, a
-- socket is a lock: a task holds it from its first wait until its call ends, so that messages of two senders are not
-- mixed and the first receiver gets the first bytes. Invariant: `holders[x]` is the token on which the holder of the
-- socket `x` waits or has waited; tasks queue only for a socket that is held. If a task is killed or interrupted while
-- it waits, the next task gets the lock (`abandon`).
--
-- If the tasks are those of `lio.task`, `recv` is native (src/modules/stream/recv.rs). A native `recv` that waits has
-- an entry only in the connection. In each connection, this file records which wait queues have entries for the
-- connection. If there are such entries, `forget` must be called when the connection closes.

local stream = require "lio.stream"

local record_holder <const>, set_native_limit <const> = stream.set_holder, stream.set_recv_timeout
local has_native_reader <const>, set_reader_queued <const> = stream.has_native_reader, stream.set_reader_queued
local setmetatable <const>, getmetatable <const> = setmetatable, getmetatable

local M = {}

local WaitQueue = {}
WaitQueue.__index = WaitQueue

-- A token on which a task waits, unless it waits on the socket itself. The token is also the value of the timer that
-- ends the wait.
local Token = {}
Token.__index = Token

function Token:expired()
  self.queue.wakeup(self, "timeout")
end

local function new_token(queue, x)
  return setmetatable({ queue = queue, x = x }, Token)
end

-- `new(driver, direction)` returns a wait queue. `direction` is "reading", "writing" or "the end".
function M.new(driver, direction)
  local is_reading = direction == "reading"
  return setmetatable({
    driver = driver,
    wait = driver.scheduler.wait,
    wakeup = driver.scheduler.wakeup,
    timers = driver.timers,
    direction = direction,
    is_reading = is_reading,
    is_writing = direction == "writing",
    has_native_holders = driver.is_native and is_reading,
    records_holders = driver.is_native and direction ~= "the end",
    -- By socket:
    holders = {}, -- the token of the task that holds the socket
    waiting = {}, -- the tokens of the tasks that queue for the socket, from `first` to `last`
    limits = {}, -- the time limit for a wait, in seconds
    alarms = {}, -- the timer for the limit
    tokens = {}, -- the token on which the holder waits, if it is not the socket itself
  }, WaitQueue)
end

local function set_holder(self, x, token)
  self.holders[x] = token
  if self.records_holders then record_holder(x, self.is_writing, token ~= nil) end
end

-- `holder_of(queue, x)` returns the token of the task that holds the socket; nil or false if the socket is free.
local function holder_of(queue, x)
  return queue.holders[x] or queue.has_native_holders and has_native_reader(x) and x
end

M.holder_of = holder_of

-- `queue:release(x)`: releases a socket that the caller holds. The next task in the queue then holds the socket.
function WaitQueue:release(x)
  local waiting = self.waiting[x]
  if waiting then
    while waiting.first <= waiting.last do
      local token = waiting[waiting.first]
      waiting[waiting.first] = nil
      waiting.first = waiting.first + 1
      if self.wakeup(token, true) then return set_holder(self, x, token) end
    end
    self.waiting[x] = nil
  end
  set_holder(self, x, nil)
end

-- Removes a token from its queue.
local function remove(token)
  local waiting = token.queue.waiting[token.x]
  if not waiting then return end
  local to = waiting.first
  for at = waiting.first, waiting.last do
    local other = waiting[at]
    waiting[at] = nil
    if other ~= token then
      waiting[to] = other
      to = to + 1
    end
  end
  waiting.last = to - 1
end

-- `queue:acquire(x [, seconds])`: waits until the caller holds a socket that another task holds now. `seconds` has the
-- same meaning as for `wait_ready`. Returns nil if the caller now holds the socket; otherwise "timeout" or "closed".
function WaitQueue:acquire(x, seconds)
  local waiting = self.waiting[x]
  if not waiting then
    waiting = { first = 1, last = 0 }
    self.waiting[x] = waiting
  end
  if self.has_native_holders then set_reader_queued(x) end
  local token = new_token(self, x)
  waiting.last = waiting.last + 1
  waiting[waiting.last] = token
  seconds = seconds or self.limits[x]
  if seconds then token.timer = self.timers:add(seconds, token) end
  local reason = self.wait(token)
  if reason == "timeout" then
    remove(token)
    return reason
  end
  if token.timer then self.timers:cancel(token.timer) end
  if reason == "closed" then return reason end
end

-- `queue:wait_ready(x [, seconds])`: waits until a socket that the caller has armed is ready. The caller then holds the
-- socket, and must release it. `seconds` replaces the time limit of the socket. Returns true, "timeout", "closed", or
-- the reason that was passed to `driver:wake_reader`.
function WaitQueue:wait_ready(x, seconds)
  local token = x
  if not self.is_reading then
    token = self.tokens[x]
    if not token then
      token = new_token(self, x)
      self.tokens[x] = token
    end
  end
  set_holder(self, x, token)
  seconds = seconds or self.limits[x]
  if not seconds then return self.wait(token) end
  local alarm = self.alarms[x]
  if not alarm then
    alarm = self.timers:create(token)
    self.alarms[x] = alarm
  end
  self.timers:set(alarm, seconds)
  local reason = self.wait(token)
  self.timers:clear(alarm)
  return reason
end

-- `queue:set_limit(x, seconds)`: limits how long a wait for the socket may last; nil: no limit. For the native `recv`,
-- also stores the limit and its timer in the connection.
function WaitQueue:set_limit(x, seconds)
  self.limits[x] = seconds
  if not self.has_native_holders or getmetatable(x) ~= stream.metatable then return end
  local alarm = self.alarms[x]
  if seconds and not alarm then
    alarm = self.timers:create(x)
    self.alarms[x] = alarm
  end
  set_native_limit(x, seconds, alarm)
end

local function forget(queue, x)
  local holder = holder_of(queue, x)
  if holder then
    set_holder(queue, x, nil)
    queue.wakeup(holder, "closed")
  end
  local waiting = queue.waiting[x]
  if waiting then
    queue.waiting[x] = nil
    for at = waiting.first, waiting.last do queue.wakeup(waiting[at], "closed") end
  end
  local alarm = queue.alarms[x]
  if alarm then
    queue.alarms[x] = nil
    queue.timers:free(alarm)
    if queue.has_native_holders then set_native_limit(x, nil) end
  end
  queue.limits[x] = nil
  queue.tokens[x] = nil
end

-- `forget(driver, x)`: ends all waits for a socket that was closed or now has another owner; the waiting tasks get
-- "closed".
function M.forget(driver, x)
  forget(driver.read_queue, x)
  forget(driver.write_queue, x)
  forget(driver.end_queue, x)
end

-- `abandon(driver, token)`: releases the token's socket, or removes the token from its queue. Called when a wait on the
-- token has ended without a wakeup, or could not begin.
function M.abandon(driver, token)
  local queue, x = driver.read_queue, token
  local is_token = getmetatable(token) == Token
  if is_token then
    queue, x = token.queue, token.x
    if queue.driver ~= driver then return end
    if token.timer then queue.timers:cancel(token.timer) end
  end
  if holder_of(queue, x) == token then
    local alarm = queue.alarms[x]
    if alarm then queue.timers:clear(alarm) end
    queue:release(x)
  elseif is_token then
    remove(token)
  end
end

-- `describe(driver, token)` returns a description of the wait on a token, for `lio.tasks`; nil if no queue of the
-- driver has the token.
function M.describe(driver, token)
  local queue, x = driver.read_queue, token
  if getmetatable(token) == Token then queue, x = token.queue, token.x end
  local holder = holder_of(queue, x)
  if not holder then return nil end
  return ("%s of %s%s"):format(queue.direction, tostring(x), holder == token and "" or " (its turn)")
end

return M
