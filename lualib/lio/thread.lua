-- `lio.thread`: light threads: tasks that can be waited for, killed, and bound to a scope. For `lio.loop` and for
-- services. This file only collects the functions of thread/: core.lua has `spawn`, `wait`, `kill` and `status`.

local core = require "lio.thread.core"
local scope = require "lio.thread.scope"
local group = require "lio.thread.group"

local M = {
  spawn = core.spawn,
  wait = core.wait,
  kill = core.kill,
  status = core.status,
  scope = scope.scope,
  all = group.all,
  race = group.race,
  timeout = group.timeout,
}

-- `describe(token)` returns a description of the wait on a token of this module, for `lio.tasks`; nil for other tokens.
function M.describe(token)
  if core.internal.is_thread(token) then return "the end of a thread" end
  return scope.describe(token)
end

return M
