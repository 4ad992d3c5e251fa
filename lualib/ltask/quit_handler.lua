-- Runs a service's handler `quit` in a task, then ends the main loop. Called by `ltask.quit`.

local ltask = require "ltask"
local core = require "ltask.core"

local handlers = ltask.dispatch()
local quit = handlers.quit
handlers.quit = nil
ltask.fork(function()
  local ok, err = xpcall(quit, debug.traceback)
  if not ok then ltask.log.error("error in quit: " .. core.require_now "lio.traceback".shorten(tostring(err))) end
  core.end_service()
end)
