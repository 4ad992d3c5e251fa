-- Logs errors from threads that no task has waited for, when the thread's parent ends, or when the thread is
-- garbage-collected. Part of `lio.thread`.
--
-- A parent is the handle of a thread, a scope, or a table for another task. Its field `failed` maps each of its failed
-- threads to the failure's sequence number. Invariant: an error is logged at most once, and never if a task has got the
-- result.

local task = require "lio.task"

local M = {}

-- The metatable of a thread that has failed; core.lua adds to it.
local Failed = { __name = "lio.thread" }
M.Failed = Failed

local count = 0 -- the number of failures so far

local function log(t)
  t.reported = true
  local message = t.traceback or t.result[2]
  t.traceback = nil
  local ltask = package.loaded.ltask
  if ltask and ltask.log then
    ltask.log.error(tostring(message))
  else
    task.on_error(message)
  end
end

function Failed.__gc(t)
  if t.result and not t.reported then log(t) end
end

-- `record(t, waited)`: records that a thread has failed. `waited`: whether a waiting task was woken.
function M.record(t, waited)
  setmetatable(t, Failed)
  local parent = t.parent
  if parent.ended then
    if not waited then log(t) end
    return
  end
  parent.failed = parent.failed or setmetatable({}, { __mode = "k" })
  count = count + 1
  parent.failed[t] = count
end

-- `end_parent(parent)`: records that a parent has ended. Logs, in order, the errors from the parent's threads that no
-- task has waited for.
function M.end_parent(parent)
  parent.ended = true
  local failed = parent.failed
  if not failed then return end
  parent.failed = nil
  local list = {}
  for t in pairs(failed) do
    if t.result and not t.reported and not t.waited then list[#list + 1] = t end
  end
  table.sort(list, function(a, b) return failed[a] < failed[b] end)
  for _, t in ipairs(list) do log(t) end
end

return M
