-- A short-lived service of tests/chaos/server.lua: one timer, one timeout, one wait, and a send to the ledger.

local ltask = require "ltask"
local ledger = ...
local noted

local S = {}

function S.note(id)
  noted = id
  ltask.send(ledger, "note")
end

function S.answer(id)
  local token = {}
  ltask.timeout(2, function() ltask.wakeup(token, noted) end)
  ltask.sleep(1)
  local answer = ltask.wait(token)
  return answer == id and id or "another request: " .. tostring(answer)
end

return S
