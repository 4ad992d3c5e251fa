-- Ends a system: makes all services quit, waits until they have ended, and ends root. The logger quits last. With
-- several workers of an app, each worker is a service, which ends when its requests have been answered. Used only by
-- root/services.lua.

local ltask = require "ltask"
local core = require "ltask.core"

-- The default of `grace`: the services must end within this many seconds.
local GRACE <const> = 10
-- The minimum number of seconds that the logger has to end.
local LOGGER_GRACE <const> = 1

local M = {}

-- The token on which `wait_for_death` waits; nil while nothing waits.
local death_token

-- Waits until a service has died, or until `deadline`, in seconds of `ltask.counter`.
local function wait_for_death(deadline)
  local token = {}
  death_token = token
  local left = math.max(1, math.ceil((deadline - ltask.counter()) * 100))
  ltask.timeout(left, function() ltask.wakeup(token) end)
  ltask.wait(token)
  death_token = nil
end

-- `has_died()`: called after a dead service was removed from the table `services` of `run`.
function M.has_died()
  if death_token then ltask.wakeup(death_token) end
end

local function is_only_logger_left(t)
  for id in pairs(t.services) do
    if id ~= t.logger then return false end
  end
  return true
end

-- Posts all quit messages without waiting, so that a service that hangs does not delay the others. The service with the
-- highest address, usually the newest, gets the first message.
local function quit_all_but_logger(t)
  local ids = {}
  for id in pairs(t.services) do
    if id ~= t.logger then ids[#ids + 1] = id end
  end
  table.sort(ids, function(a, b) return a > b end)
  for _, id in ipairs(ids) do t.quit(id) end
end

-- `run(t)`: ends all services, then root. `t.services` has the addresses of the running services as keys; `t.logger` is
-- the address of the logger, or nil; `t.grace` is the number of seconds that the services have to end, or nil for the
-- default; `t.quit(id)` posts the message `quit` to a service.
function M.run(t)
  quit_all_but_logger(t)
  local deadline = ltask.counter() + (t.grace or GRACE)
  while not is_only_logger_left(t) and ltask.counter() <= deadline do wait_for_death(deadline) end
  if t.logger and t.services[t.logger] then
    t.quit(t.logger)
    deadline = math.max(deadline, ltask.counter() + LOGGER_GRACE)
    while t.services[t.logger] and ltask.counter() < deadline do wait_for_death(deadline) end
  end
  core.end_service()
end

return M
