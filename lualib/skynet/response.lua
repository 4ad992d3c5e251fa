-- `skynet.response`: answers after the handler has returned. Used by lualib/skynet.lua.
--
-- Invariant: the function that `response` returns answers once. If it raises because it cannot pack the answer, it can
-- be called again.

local ltask = require "ltask"
local core = require "ltask.core"
local message = require "skynet.message"

local M = {}

local RESPONSE <const>, ERROR <const> = 2, 3

-- Maps a function that has not answered yet to the address of its caller.
local callers = setmetatable({}, { __mode = "k" })

-- `forget(addr)`: drops the answers to that service.
function M.forget(addr)
  for f, from in pairs(callers) do
    if from == addr then callers[f] = nil end
  end
end

local function post_answer(from, session, as_string, packer, ok, ...)
  if not ok then
    return core.post(from, session, ERROR, ("{service:%d} answered with an error"):format(ltask.self()))
  end
  if packer then return message.answer(from, session, as_string, packer(...)) end
  if as_string then return message.answer(from, session, true, ltask.pack(...)) end
  return core.post(from, session, RESPONSE, ...)
end

-- `response([pack])`: returns a function that can answer the current request later, once, from any coroutine of this
-- service. The function takes true and the values, or false for an error, and returns whether the answer was delivered.
-- If the argument is "TEST", the function only returns whether the caller is still waiting.
function M.response(packer)
  local from, session = core.current()
  if not message.is_asked(from, session) then
    message.not_asked "response"
    return function() end
  end
  local as_string = message.wants_string()
  local is_answered = false
  ltask.no_response()
  local function answer(ok, ...)
    if ok == "TEST" then return callers[answer] ~= nil and ltask.touch_service(from) end
    if is_answered then error("response: this request has already been answered", 2) end
    local is_delivered = callers[answer] ~= nil and post_answer(from, session, as_string, packer, ok, ...)
    is_answered, callers[answer] = true, nil
    return is_delivered
  end
  callers[answer] = from
  return answer
end

return M
