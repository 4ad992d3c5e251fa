-- `ltask.mainthread_run` (G2): runs code of services on the process's main thread.

local ltask = require "ltask"
local core = require "ltask.core"
local require <const> = core.require_now

local M = {}

-- The number of coroutines of this service that need the main thread.
local users = 0

-- `ltask.mainthread_run(f, …)`: runs `f` on the main thread. Returns the results of `f`. Raises any error that `f`
-- raises; an error message includes a traceback.
function M.mainthread_run(f, ...)
  if type(f) ~= "function" then require "lio.misuse".check_function("mainthread_run", 1, f) end
  users = users + 1
  ltask.mainthread_enter()
  -- Waits for the next slice, which runs on the main thread.
  ltask.sleep(0)
  local result = table.pack(xpcall(f, debug.traceback, ...))
  users = users - 1
  if users == 0 then
    ltask.mainthread_leave()
    ltask.sleep(0)
  end
  if not result[1] then error(result[2], 0) end
  return table.unpack(result, 2, result.n)
end

return M
