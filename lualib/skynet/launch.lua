-- A service that `newservice` makes begins here: its file runs, then the function that the file gave to
-- `skynet.start`, as skynet does it. A file without that is one of the scheduler's own.
--
-- Invariant: who made the service hears of it when all that has run, or when it calls `skynet.exit` before.

local core = require "ltask.core"

local M = {}

local RESPONSE <const> = 2

-- Whether the file runs now, and the function that is to run behind it.
M.loading, M.first = false, nil

-- The begin of this service is a request, of root's: its session, until it is answered.
local from
M.session = nil

-- The begin of this service is the running request: who made it waits for its end. False in a task that
-- answers nobody.
function M.enter()
  from, M.session = core.current()
  if M.session == 0 then M.leave() end
  return M.session ~= nil
end

-- It has begun.
function M.leave()
  from, M.session = nil, nil
end

-- The service ends now; if it had not begun, that is no failure.
function M.answer()
  if M.session then core.post(from, M.session, RESPONSE) end
  M.leave()
end

-- `run(file, name, …)` → what the file returned.
function M.run(file, name, ...)
  rawset(_G, "SERVICE_NAME", name)
  M.enter()
  M.loading = true
  local f, problem = loadfile(file)
  if not f then error(problem, 0) end
  local handlers = f(...)
  M.loading = false
  if M.first then M.first() end
  M.leave()
  return handlers
end

return M
