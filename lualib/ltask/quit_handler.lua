-- The end of a service that has a handler `quit`: it runs, then the main loop ends.

local ltask = require "ltask"
local core = require "ltask.core"

local requests = ltask.dispatch()
local f = requests.quit
requests.quit = nil
ltask.fork(function()
  local ok, err = xpcall(f, debug.traceback)
  if not ok then ltask.log.error("error in quit: " .. tostring(err)) end
  core.finish()
end)
