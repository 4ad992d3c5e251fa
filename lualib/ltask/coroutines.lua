-- Coroutine functions of `ltask` that `lio.task` does not have: functions with which several coroutines can wait on one
-- token, and rarely used functions.

local core = require "ltask.core"
local task = require "lio.task"
local require <const> = core.require_now

local M = {}

-- `ltask.current_token()`: returns the token on which `wait` without arguments waits.
function M.current_token()
  return (coroutine.running())
end

-- Maps a token of `multi_wait` to a list of tokens of `lio.task`, one for each waiting coroutine.
local waits = {}

-- `ltask.multi_wait([token])`: like `wait`, but several coroutines can wait on the same token.
function M.multi_wait(token)
  token = token == nil and coroutine.running() or token
  if token ~= token then require "lio.misuse".raise("multi_wait: the token is NaN") end
  local list = waits[token]
  if not list then
    list = {}
    waits[token] = list
  end
  local own = {}
  list[#list + 1] = own
  return task.wait(own)
end

local function end_waits(token, wake, ...)
  local list = waits[token]
  if not list then return nil end
  waits[token] = nil
  for _, own in ipairs(list) do wake(own, ...) end
  return true
end

-- `ltask.multi_wakeup(token, …)`: makes every `multi_wait` on the token return the values. Returns true, or nil if no
-- coroutine is waiting.
function M.multi_wakeup(token, ...)
  return end_waits(token, task.wakeup, ...)
end

-- `ltask.multi_interrupt(token, err)`: makes every `multi_wait` on the token raise the error. Returns the same as
-- `multi_wakeup`.
function M.multi_interrupt(token, err)
  return end_waits(token, task.interrupt, err)
end

-- `ltask.dispatch_wakeup()` (G1): runs coroutines until the ready queue is empty.
function M.dispatch_wakeup()
  if task.current() then require "lio.misuse".raise("dispatch_wakeup: called from inside a task") end
  while task.run_ready() do end
end

-- `ltask.thread_info(co)`: returns the coroutine's status and traceback as a string.
function M.thread_info(co)
  if type(co) ~= "thread" then require "lio.misuse".argument("thread_info", 1, "coroutine", co) end
  return debug.traceback(co, coroutine.status(co))
end

return M
