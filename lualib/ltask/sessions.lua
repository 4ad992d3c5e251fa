-- Functions for requests and their sessions: the request that the running coroutine handles, and requests that this
-- service has sent.

local ltask = require "ltask"
local core = require "ltask.core"
local task = require "lio.task"
local require <const> = core.require_now

local RESPONSE <const>, ERROR <const> = 2, 3

local M = {}

-- `ltask.current_session()`: returns `{ from=, session= }` of the request that the running coroutine handles.
function M.current_session()
  local from, session = core.current()
  return { from = from, session = session }
end

-- `ltask.suspend(session, co_or_f)`: waits in a new coroutine for the answer to the request with that session. Then
-- calls the function with the answer's type, pointer and size; or wakes the coroutine, whose `wait` returns these three
-- values.
function M.suspend(session, receiver)
  local is_coroutine <const> = type(receiver) == "thread"
  if not math.tointeger(session) then require "lio.misuse".argument("suspend", 1, "session", session) end
  if not is_coroutine and type(receiver) ~= "function" then
    require "lio.misuse".check_function("suspend", 2, receiver)
  end
  task.fork(function()
    local answer = table.pack(pcall(core.await, session))
    local kind = answer[1] and RESPONSE or ERROR
    local pointer, size = ltask.pack(table.unpack(answer, 2, answer.n))
    if is_coroutine then
      task.wakeup(receiver, kind, pointer, size)
    else
      receiver(kind, pointer, size)
    end
  end)
end

return M
