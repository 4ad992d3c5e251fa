-- The task core: coroutines that wait on tokens and are woken. `lio.loop` drives it; the scheduler's
-- service library drives the same core from Rust.
--
-- What speed demands is in `lio.task.core` (src/task/lua.rs), whose table this file completes: what
-- happens to tasks that fail or are killed. It is loaded into every service, so it is kept small.

local M = require "lio.task.core"
local close <const> = coroutine.close
local drop <const> = M.drop
M.drop = nil

local function complain(what, problem)
  io.stderr:write("lio: ", what, tostring(problem), "\n")
end

-- Called with a task's error message and its coroutine, which still has its stack. Replace it to log
-- elsewhere. Default: message and traceback on standard error.
function M.on_error(message, co)
  if type(message) ~= "string" then
    local meta = getmetatable(message)
    message = meta and meta.__tostring and tostring(message)
      or "(error object is a " .. type(message) .. " value)"
  end
  complain("", debug.traceback(co, message))
end

M.on_failure(function(message, co)
  local ok, problem = pcall(M.on_error, message, co)
  if not ok then complain("error in on_error: ", problem) end
  local closed, close_error = close(co)
  if not closed and close_error ~= message then
    complain("error while closing a task: ", close_error)
  end
end)
M.on_failure = nil

-- true; nil when `co` is no living task, false when it is the running one.
local function end_task(co)
  local dropped = drop(co)
  if not dropped then return dropped end
  local ok, message = close(co)
  if not ok then complain("error while closing a task: ", message) end
  return true
end

-- `task.kill(co)` → true; nil when it is no living task. Closes it at its wait; its `<close>` variables
-- run. A task cannot kill itself.
function M.kill(co)
  local ended = end_task(co)
  if ended == false then error("kill: a task cannot kill itself", 2) end
  return ended
end

-- Kills every task (but the running one, if any), and those that they fork while they end.
function M.kill_all()
  repeat
    local again = false
    for _, co in ipairs(M.list()) do again = end_task(co) or again end
  until not again
end

return M
