-- The callbacks of ltask.callbacks for a service of skynet: they write the log entries that skynet writes. skynet.boot
-- passes the name of this module to `core.use_callbacks`.

local ltask = require "ltask"
local errors = require "ltask.errors"
local callbacks = require "ltask.callbacks"
local boot = require "skynet.boot"
local message = require "skynet.message"
local unhandled = require "skynet.unhandled"

local fork <const> = require "lio.task".fork
local log <const> = unhandled.log

local ROOT <const> = 1

-- Returns the error's message, and the tracebacks that no service has logged yet.
local function text_to_log(object, suffix)
  local lines = { object.message .. (suffix or "") }
  table.move(object, (object.logged or 0) + 1, #object, 2, lines)
  object.logged = #object
  return table.concat(lines, "\n")
end

-- Logs an error even if it is sent to the caller as the answer, because the caller might not log it.
function callbacks.task_failed(co, err, from, session)
  local object = errors.describe(err, co)
  if boot.trace then boot.trace.failed(co) end
  if session == 0 then
    local is_sent = from ~= 0 and from ~= ltask.self()
    log("%s", text_to_log(object, is_sent and (" (a message from service %d)"):format(from)))
  elseif from == ROOT then
    -- The only request that root sends is the one that starts the service.
    log("the service could not start: %s", text_to_log(object))
  else
    log("error in a request from :%08x, session %d: %s", from, session, text_to_log(object))
  end
  return object
end

local refuse_request <const> = callbacks.unknown_request

function callbacks.unknown_request(name, from, session, ...)
  if session ~= 0 then return refuse_request(name, from, session) end
  fork(unhandled.handle_request, session, from, name, ...)
end

function callbacks.unknown_response(from, session, ...)
  fork(unhandled.handle_response, session, from, ...)
end

local log_unanswered <const> = callbacks.unanswered_request

function callbacks.unanswered_request(name, from)
  if boot.exiting then return end
  local p = message.protocols[name]
  if not p or not p.dispatch then return log_unanswered(name, from) end
  log("a request from :%08x was closed before it was answered; the handler of '%s' is at %s", from, name,
    unhandled.place_of(p.dispatch))
end

return callbacks
