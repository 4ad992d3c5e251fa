-- Functions of `ltask` for coroutines that `lio.task` does not have: waits that several coroutines share, and rarely
-- used ones.

local core = require "ltask.core"
local task = require "lio.task"
local require <const> = core.require_now

local M = {}

-- `ltask.current_token()`: returns the token of `wait` without arguments.
function M.current_token()
  return (coroutine.running())
end

-- The tokens in `lio.task` of the coroutines in `multi_wait`, by the common token; each coroutine has its own.
local waits = {}

-- `ltask.multi_wait([token])`: waits as `wait` does; several coroutines may wait on one token.
function M.multi_wait(token)
  token = token == nil and coroutine.running() or token
  if token ~= token then require "lio.misuse".raise("multi_wait: the token is not a number") end
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

-- `ltask.multi_wakeup(token, …)`: every `multi_wait` on the token returns the values. Returns true, or nil if no
-- coroutine waits.
function M.multi_wakeup(token, ...)
  return end_waits(token, task.wakeup, ...)
end

-- `ltask.multi_interrupt(token, err)`: every `multi_wait` on the token raises the error. Returns as `multi_wakeup`.
function M.multi_interrupt(token, err)
  return end_waits(token, task.interrupt, err)
end

-- `ltask.dispatch_wakeup()` (G1): runs the coroutines that are in the ready queue.
function M.dispatch_wakeup()
  if task.current() then require "lio.misuse".raise("dispatch_wakeup: called from inside a task") end
  while task.run_ready() do end
end

-- `ltask.thread_info(co)`: returns the coroutine's status and traceback as text.
function M.thread_info(co)
  if type(co) ~= "thread" then require "lio.misuse".argument("thread_info", 1, "coroutine", co) end
  return debug.traceback(co, coroutine.status(co))
end

return M
