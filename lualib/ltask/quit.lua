-- The end of a service, by `ltask.quit()` or from outside: its handler `quit` runs, then the main loop ends.
-- Requests that it has not answered get an error.

local ltask = require "ltask"
local core = require "ltask.core"

local requests = ltask.dispatch()
local f = requests.quit
requests.quit = nil
if not f then return core.finish() end
ltask.fork(function()
  local ok, err = xpcall(f, debug.traceback)
  if not ok then ltask.log.error("error in quit: " .. tostring(err)) end
  core.finish()
end)
