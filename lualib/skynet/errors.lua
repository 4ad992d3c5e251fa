-- What the log hears of requests that went wrong: errors of handlers, and answers that never come. Called by
-- skynet.launch and skynet.message.

local ltask = require "ltask"
local core = require "ltask.core"
local launch = require "skynet.launch"
local message = require "skynet.message"

local M = {}

local ROOT <const> = 1

-- Where a function of the program begins.
local function place_of(f)
  local info = debug.getinfo(f, "S")
  return ("%s:%d"):format(info.short_src, info.linedefined)
end

local function log(format, ...)
  core.log("error", format:format(...))
end

-- The handler of protocol `p` returned, and nobody answered: who asked goes on waiting, as in skynet.
function M.forgotten(p, from, session)
  ltask.no_response()
  log("a response was forgotten: session %d of :%08x; the handler of '%s' is at %s", session, from, p.name,
    place_of(p.dispatch))
end

-- `extend(hooks)`: from now on errors of requests are logged here as well, and a request whose coroutine was closed
-- tells the program's line.
function M.extend(hooks)
  local failed, closed = hooks.failed, hooks.forgotten
  function hooks.failed(co, err, from, session)
    local object = failed(co, err, from, session)
    if launch.trace then launch.trace.failed(co) end
    if session == 0 then return object end
    -- Root asks for one thing: that the service starts.
    local what = "the service could not start"
    if from ~= ROOT then what = ("error in a request of :%08x, session %d"):format(from, session) end
    log("%s: %s", what, tostring(object))
    return object
  end
  function hooks.forgotten(name, from)
    if launch.exiting then return end
    local p = message.protocols[name]
    if not p or not p.dispatch then return closed(name, from) end
    log("a request of :%08x was closed before it was answered; the handler of '%s' is at %s", from, name,
      place_of(p.dispatch))
  end
end

return M
