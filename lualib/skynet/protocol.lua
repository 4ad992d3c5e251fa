-- The rarely used functions for skynet messages: functions for messages that are already packed, and protocols that are
-- not plain. The messages of such a protocol are sent as strings. A protocol without `pack` and `unpack` is used only
-- with `rawcall`, `rawsend` and `redirect`: its messages are bytes, which the receiver's protocol of that name unpacks.
-- Used by lualib/skynet.lua, and by skynet.message for such protocols.

local ltask = require "ltask"
local callbacks = require "ltask.callbacks"
local core = require "ltask.core"
local boot = require "skynet.boot"
local message = require "skynet.message"
local packed_message = require "skynet.packed_message"
local unhandled = require "skynet.unhandled"

local M = {}

-- The numbers of the protocols, as in skynet.
local NUMBERS <const> = {
  TEXT = 0, RESPONSE = 1, MULTICAST = 2, CLIENT = 3, SYSTEM = 4, HARBOR = 5, SOCKET = 6, ERROR = 7, QUEUE = 8,
  DEBUG = 9, LUA = 10, SNAX = 11, TRACE = 12,
}
for name, number in pairs(NUMBERS) do M["PTYPE_" .. name] = number end

local protocols <const>, plain <const> = message.protocols, message.plain

local function check(ok, ...)
  if not ok then error("register_protocol: " .. string.format(...), 3) end
end

-- Returns whether a protocol has no functions but those of the scheduler, and at least one of these.
local function is_plain(class)
  local pack, unpack = class.pack, class.unpack
  return (pack or unpack) ~= nil and (pack or ltask.pack) == ltask.pack and (unpack or ltask.unpack) == ltask.unpack
end

-- `register_protocol{ name=, id=, pack=, unpack=, dispatch= }`: registers a protocol. `pack` returns a string, or a
-- message that `skynet.pack` returned; `unpack` is called with a string and its length. There are no default functions.
function M.register_protocol(class)
  check(type(class) == "table", "a table expected, got %s", type(class))
  local name, id = class.name, class.id
  check(type(name) == "string", "the name is not a string")
  check(math.type(id) == "integer" and id >= 0 and id <= 255, "%s: the id is not an integer from 0 to 255", name)
  check(not protocols[name] and not protocols[id], "%s, %d: the name or the id is taken", name, id)
  for _, field in ipairs { "pack", "unpack", "dispatch" } do
    local kind = type(class[field])
    check(kind == "nil" or kind == "function", "%s: %s is not a function", name, field)
  end
  protocols[name], protocols[id] = class, class
  if is_plain(class) then
    plain[name], plain[id] = name, name
  else
    message.strings = M
  end
  if class.dispatch then message.dispatch(name, class.dispatch) end
end

-- `to_string(p, call, …)`: packs the values into a string, with the `pack` of protocol `p`. `call` is "call" or "send".
function M.to_string(p, call, ...)
  if not p.pack then
    local problem <const> = "%s: the protocol '%s' has no function pack: pass one to register_protocol, or use raw%s"
    require "lio.misuse".raise(problem:format(call, p.name, call))
  end
  return packed_message.take_string(p.pack(...))
end

-- `from_string(p, text)`: returns the values of a message of protocol `p`.
function M.from_string(p, text)
  if not p.unpack then
    error(("the protocol '%s' has no function unpack: pass one to register_protocol"):format(p.name), 0)
  end
  if text == nil then text = "" end
  if type(text) ~= "string" then
    error(("a string expected for the protocol '%s', got %s"):format(p.name, type(text)), 0)
  end
  return p.unpack(text, #text)
end

-- Returns the answer to a `rawcall` as a string and its length.
local function pack_answer(p, tag, ...)
  if tag then boot.trace.event "resume" end
  local text
  if plain[p.name] then text = packed_message.packstring(...) else text = (...) or "" end
  return text, #text
end

-- The name of the requests that carry messages of protocols without functions.
local RAW <const> = "skynet.raw"

-- Returns the name and the arguments of the request for a packed message, and takes over the message.
local function take_request(p, msg, sz)
  if plain[p.name] then return p.name, packed_message.take(msg, sz) end
  if p.pack or p.unpack then return p.name, packed_message.take_string(msg, sz) end
  return RAW, p.name, packed_message.take_string(msg, sz)
end

-- `rawcall(addr, protocol, msg, sz)`: sends a packed message, which it takes over, and waits for the answer. Returns
-- the answer as a string, and its length.
function M.rawcall(addr, typename, msg, sz)
  local p = message.protocol(typename, "rawcall")
  local to = message.address(addr, "rawcall")
  local tag = boot.trace and boot.trace.call(to, 2)
  return pack_answer(p, tag, ltask.call(to, take_request(p, msg, sz)))
end

-- `rawsend(addr, protocol, msg, sz)`: sends a packed message, which it takes over. Returns the same as `send`.
function M.rawsend(addr, typename, msg, sz)
  local p = message.protocol(typename, "rawsend")
  local to, problem = message.find(addr)
  if not to then
    packed_message.trash(msg, sz)
    return false, problem
  end
  return ltask.send(to, take_request(p, msg, sz))
end

-- Answers a request of `RAW` without a handler.
local function refuse(name, text)
  local from, session = core.current()
  if session == 0 then return unhandled.handle_redirected(session, from, text, name) end
  callbacks.unknown_request(name, from, session, text)
  ltask.no_response()
end

-- `receive(name, text)`: handles a message of `rawcall` or `rawsend` whose protocol has no functions in the sender.
function M.receive(name, text)
  local p = protocols[name]
  if not p or not p.dispatch then return refuse(name, text) end
  message.strings = M
  message.handle_string(p, text)
end

return M
