-- Scopes of `lio.thread`: threads that do not outlive a block.
-- Invariant: the threads of a scope that have not ended are linked by `before` and `after`, the oldest first.

local task = require "lio.task"
local core = require "lio.thread.core"

local wait <const>, wakeup <const> = task.wait, task.wakeup
local remove <const> = table.remove
local internal <const> = core.internal
local check_function <const>, start <const>, end_parent <const> =
  internal.check_function, internal.start, internal.end_parent
local new <const>, kill_soon <const> = internal.new, internal.kill_soon

local M = {}

local Scope = { __name = "lio.scope" }
Scope.__index = Scope
local WAIT <const> = { __name = "lio.scope.wait" }

-- Removes an ended thread from its scope. Allocates nothing but stack space, and can be called again if it raises.
function Scope:forget(t, ok, err)
  if t.linked then
    t.linked = false
    local before, after = t.before, t.after
    if before then before.after = after else self.first = after end
    if after then after.before = before else self.last = before end
    self.count = self.count - 1
    if not ok and not t.killed and not self.problem then self.problem, self.reason = true, err end
  end
  local waiters = self.waiters
  while self.count == 0 and waiters[1] do
    wakeup(waiters[1])
    remove(waiters, 1)
  end
  t.scope, t.before, t.after = nil, nil, nil
end

local function add(self)
  local t = new(self, self, self.last)
  if self.last then self.last.after = t else self.first = t end
  self.last = t
  self.count = self.count + 1
  return t
end

local function check_scope(self, call)
  if getmetatable(self) ~= Scope then require("lio.misuse").argument("scope:" .. call, 1, "scope", self) end
end

-- `scope:spawn(f, …)` returns a thread that does not outlive the scope; see `thread.spawn`.
function Scope:spawn(f, ...)
  check_scope(self, "spawn")
  check_function(f, 1, "spawn")
  if self.ended then require("lio.misuse").raise "scope:spawn: the scope is closed" end
  return start(add(self), f, ...)
end

-- `collect(scope, collector, place, f, …)`: like `spawn`, for a thread to which the program has no reference. When the
-- thread ends, `collector:collect(place, ok, …)` is called.
function M.collect(self, collector, place, f, ...)
  local t = add(self)
  t.collector, t.place = collector, place
  return start(t, f, ...)
end

-- `scope:wait()`: waits until all threads of the scope have ended. Returns true, or false and the error from the first
-- thread that failed.
function Scope:wait()
  check_scope(self, "wait")
  while self.count > 0 do
    local token = setmetatable({}, WAIT)
    self.waiters[#self.waiters + 1] = token
    wait(token)
  end
  if not self.problem then return true end
  for t in pairs(self.failed or {}) do t.reported = true end
  return false, self.reason
end

-- `scope:close()`: kills the remaining threads, the oldest first. Also called when the block of `local scope <close>`
-- ends. If a thread of the scope calls `close`, the thread is killed as soon as the call has ended.
function Scope:close()
  check_scope(self, "close")
  if self.ended then return end
  self.ended = true
  local t = self.first
  while t do
    local after = t.after
    kill_soon(t)
    -- A `<close>` variable of `t` may have ended the next thread.
    t = after and (after.scope and after or self.first)
  end
  end_parent(self)
end

Scope.__close = Scope.close

-- `describe(token)` returns a description of the wait on a token of this file, for `lio.tasks`; nil for other tokens.
function M.describe(token)
  if getmetatable(token) == WAIT then return "the threads of a scope" end
end

-- `thread.scope()` returns a scope, for `local scope <close> = thread.scope()`.
function M.scope()
  return setmetatable({ count = 0, waiters = {}, problem = false, reason = false }, Scope)
end

return M
