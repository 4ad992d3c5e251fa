-- What the log hears of requests that went wrong: errors of handlers, and answers that never come. Called by
-- skynet.boot and skynet.message.

local ltask = require "ltask"
local core = require "ltask.core"
local boot = require "skynet.boot"
local message = require "skynet.message"

local fork <const> = require "lio.task".fork

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

-- Messages that nothing handles ---------------------------------------------------------------

local function check_function(call, f)
  if type(f) == "function" then return f end
  error(("bad argument #1 to '%s' (function expected, got %s)"):format(call, type(f)), 3)
end

local function unknown_request(session, from, _, _, name)
  log("nothing handles '%s' here: a message of :%08x, session %d", tostring(name), from, session)
end

local function unknown_response(session, from)
  log("an answer of :%08x to session %d, which nobody has asked with", from, session)
end

local on_request, on_response = unknown_request, unknown_response

-- `dispatch_unknown_request(f)` → the function before: `f(session, address, msg, sz, protocol)` runs for a message
-- that is sent and that nothing handles. One that is asked for is refused.
function M.dispatch_unknown_request(f)
  local before = on_request
  on_request = check_function("dispatch_unknown_request", f)
  return before
end

-- `dispatch_unknown_response(f)` → the function before: `f(session, address, msg, sz)` runs for an answer to a session
-- that this service has never asked with.
function M.dispatch_unknown_response(f)
  local before = on_response
  on_response = check_function("dispatch_unknown_response", f)
  return before
end

-- Passes the values as a message, which is freed afterwards.
local function pass(f, session, from, name, ...)
  local p = message.protocols[name]
  if p and not message.plain[name] then
    local text = (...)
    return f(session, from, text, type(text) == "string" and #text or nil, name)
  end
  local msg, size = ltask.pack(...)
  local _ <close> = setmetatable({}, { __close = function() ltask.remove(msg, size) end })
  return f(session, from, msg, size, name)
end

-- The error's message, with the tracebacks that no service has logged yet.
local function news(object, suffix)
  local first = object.message .. (suffix or "")
  local lines = table.move(object, (object.logged or 0) + 1, #object, 2, { first })
  object.logged = #object
  return table.concat(lines, "\n")
end

-- `extend(hooks)`: from now on errors of requests are logged here as well, and a request whose coroutine was closed
-- tells the program's line.
function M.extend(hooks)
  local failed, closed = hooks.failed, hooks.forgotten
  function hooks.failed(co, err, from, session)
    -- As if somebody waited, so that it is not logged there.
    local object = failed(co, err, from, 1)
    if boot.trace then boot.trace.failed(co) end
    if session == 0 then
      local sent = from ~= 0 and from ~= ltask.self()
      log("%s", news(object, sent and (" (a message from service %d)"):format(from)))
    elseif from == ROOT then
      -- Root asks for one thing: that the service starts.
      log("the service could not start: %s", news(object))
    else
      log("error in a request of :%08x, session %d: %s", from, session, news(object))
    end
    return object
  end
  local unknown = hooks.unknown
  function hooks.unknown(name, from, session, ...)
    if session ~= 0 then return unknown(name, from, session) end
    fork(pass, on_request, session, from, name, ...)
  end
  function hooks.strange_answer(from, session, ...)
    fork(pass, on_response, session, from, nil, ...)
  end
  function hooks.forgotten(name, from)
    if boot.exiting then return end
    local p = message.protocols[name]
    if not p or not p.dispatch then return closed(name, from) end
    log("a request of :%08x was closed before it was answered; the handler of '%s' is at %s", from, name,
      place_of(p.dispatch))
  end
end

return M
