-- Unhandled messages: requests without a handler, answers to sessions that this service has not used, and requests
-- whose handler returns without answering. Used by skynet.callbacks, skynet.message and lualib/skynet.lua.

local ltask = require "ltask"
local core = require "ltask.core"
local message = require "skynet.message"

local M = {}

-- `log(format, …)`: adds an error to the log.
function M.log(format, ...)
  core.log("error", format:format(...))
end
local log <const> = M.log

-- `place_of(f)`: returns where a Lua function is defined, as "file:line".
function M.place_of(f)
  local info = debug.getinfo(f, "S")
  return ("%s:%d"):format(info.short_src, info.linedefined)
end

-- Called when the handler of protocol `p` has returned without answering. As in skynet, the caller gets no answer.
function M.forgotten(p, from, session)
  ltask.no_response()
  log("a response was forgotten: session %d from :%08x; the handler of '%s' is at %s", session, from, p.name,
    M.place_of(p.dispatch))
end

local function log_request(session, from, _, _, name)
  log("no handler for '%s': a message from :%08x, session %d", tostring(name), from, session)
end

local function log_response(session, from)
  log("an answer from :%08x to session %d, which this service has not used", from, session)
end

local on_request, on_response = log_request, log_response

local function check_function(call, f)
  if type(f) == "function" then return f end
  error(("bad argument #1 to '%s' (function expected, got %s)"):format(call, type(f)), 3)
end

-- `dispatch_unknown_request(f)`: makes `f(session, address, msg, sz, protocol)` run for each message that was sent to
-- this service and has no handler. (A call without a handler gets an error.) Returns the previous function.
function M.dispatch_unknown_request(f)
  local before = on_request
  on_request = check_function("dispatch_unknown_request", f)
  return before
end

-- `dispatch_unknown_response(f)`: makes `f(session, address, msg, sz)` run for each answer to a session that this
-- service has never used. Returns the previous function.
function M.dispatch_unknown_response(f)
  local before = on_response
  on_response = check_function("dispatch_unknown_response", f)
  return before
end

-- Passes the values to the function as a packed message, which is freed afterwards.
local function pass(f, session, from, name, ...)
  local msg, size <const> = ltask.pack(...)
  local _ <close> = setmetatable({}, { __close = function() ltask.remove(msg, size) end })
  return f(session, from, msg, size, name)
end

-- Called for a message of protocol `name` that has no handler.
function M.handle_request(session, from, name, ...)
  local p = message.protocols[name]
  if not p or message.plain[name] then return pass(on_request, session, from, name, ...) end
  local text = (...)
  return on_request(session, from, text, type(text) == "string" and #text or nil, name)
end

-- Called for a message of `redirect` that has no handler. `text` is the packed message.
function M.handle_redirected(session, source, text, name)
  return on_request(session, source, text, #text, name)
end

-- Called for an answer to a session that this service has never used.
function M.handle_response(session, from, ...)
  return pass(on_response, session, from, nil, ...)
end

return M
