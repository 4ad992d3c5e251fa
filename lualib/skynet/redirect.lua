-- `skynet.redirect`: sends a message with another source and another session. Used by lualib/skynet.lua; skynet.boot
-- passes the messages that arrive to `receive`.
--
-- The payload is a string, which the receiver's protocol unpacks. Answers to such a message go nowhere: `ret` returns
-- false.

local ltask = require "ltask"
local message = require "skynet.message"
local packed_message = require "skynet.packed_message"
local unhandled = require "skynet.unhandled"

local from_string <const> = require "skynet.protocol".from_string
local protocols <const>, send <const>, take_string <const> = message.protocols, ltask.send, packed_message.take_string
local type <const> = type

local M = {}

-- The name of the requests that carry such messages.
local REQUEST <const> = "skynet.redirect"

-- `redirect(addr, source, protocol, session, msg[, sz])`: sends a message, which it takes over, in the name of
-- `source`: the handler gets that session and that source. `msg` is a string, or a result of `pack`. Returns the same
-- as `send`.
function M.redirect(addr, source, typename, session, msg, sz)
  local p = message.protocol(typename, "redirect")
  local to, problem = message.find(addr)
  if not to then
    packed_message.trash(msg, sz)
    return false, problem
  end
  if type(msg) ~= "string" then msg = take_string(msg, sz) end
  if math.type(source) ~= "integer" then source = message.address(source, "redirect") end
  return send(to, REQUEST, p.name, source, session, msg)
end

-- `receive(name, source, session, text)`: handles a message of `redirect`.
local function receive(name, source, session, text)
  local p = protocols[name]
  if not p or not p.dispatch then return unhandled.handle_redirected(session, source, text, name) end
  message.handle_without_session(p.dispatch, session, source, from_string(p, text))
end

-- `first(…)`: handles the first such message, and makes the service pass the others to `receive` directly.
function M.first(...)
  ltask.dispatch { [REQUEST] = receive }
  receive(...)
end

return M
