-- `skynet.response`: answers that come later. Called through lualib/skynet.lua.
--
-- Invariant: the function that answers does so once; an error while it packs the answer leaves it open.

local ltask = require "ltask"
local core = require "ltask.core"
local message = require "skynet.message"

local M = {}

local RESPONSE <const>, ERROR <const> = 2, 3

-- Functions that have not answered → who waits.
local open = setmetatable({}, { __mode = "k" })

-- Nobody at `addr` waits for an answer any more.
function M.forget(addr)
  for f, from in pairs(open) do
    if from == addr then open[f] = nil end
  end
end

local function respond(from, session, as_string, packer, ok, ...)
  if not ok then
    return core.post(from, session, ERROR, ("{service:%d} answered with an error"):format(ltask.self()))
  end
  if packer then return message.answer(from, session, as_string, packer(...)) end
  if as_string then return message.answer(from, session, true, ltask.pack(...)) end
  return core.post(from, session, RESPONSE, ...)
end

-- `response([pack])` → a function that answers this request, later and anywhere in this service, once: called with
-- true and the values, or with false for an error, it returns whether the answer was taken; with "TEST", whether
-- an answer is still wanted.
function M.response(packer)
  local from, session = core.current()
  if not message.is_asked(from, session) then
    message.not_asked "response"
    return function() end
  end
  local as_string = message.wants_string()
  local answered = false
  ltask.no_response()
  local function answer(ok, ...)
    if ok == "TEST" then return open[answer] ~= nil and ltask.touch_service(from) end
    if answered then error("response: this request was answered already", 2) end
    local taken = open[answer] ~= nil and respond(from, session, as_string, packer, ok, ...)
    answered, open[answer] = true, nil
    return taken
  end
  open[answer] = from
  return answer
end

return M
