-- The rarely used functions for skynet messages: functions for messages that are already packed, and protocols with
-- their own `pack` and `unpack`. The messages of such a protocol are sent as strings. Used by lualib/skynet.lua, and by
-- skynet.message for such protocols.

local ltask = require "ltask"
local boot = require "skynet.boot"
local message = require "skynet.message"
local packed_message = require "skynet.packed_message"

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

-- `register_protocol{ name=, id=, pack=, unpack=, dispatch= }`: registers a protocol. `pack` returns a string, or a
-- message that `skynet.pack` returned; `unpack` is called with a string and its length.
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
  local is_plain = (class.pack or ltask.pack) == ltask.pack and (class.unpack or ltask.unpack) == ltask.unpack
  if is_plain then
    plain[name], plain[id] = name, name
  else
    message.strings = M
  end
  if class.dispatch then message.dispatch(name, class.dispatch) end
end

-- `to_string(p, …)`: packs the values into a string, with the `pack` of protocol `p`.
function M.to_string(p, ...)
  if not p.pack then error(("the protocol '%s' has no function pack"):format(p.name), 0) end
  return packed_message.take_string(p.pack(...))
end

-- `from_string(p, text)`: returns the values of a message of protocol `p`.
function M.from_string(p, text)
  if not p.unpack then error(("the protocol '%s' has no function unpack"):format(p.name), 0) end
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

-- Returns the arguments of the request for a packed message, and takes over the message.
local function take_arguments(p, msg, sz)
  if plain[p.name] then return packed_message.take(msg, sz) end
  return packed_message.take_string(msg, sz)
end

-- `rawcall(addr, protocol, msg, sz)`: sends a packed message, which it takes over, and waits for the answer. Returns
-- the answer as a string, and its length.
function M.rawcall(addr, typename, msg, sz)
  local p = message.protocol(typename, "rawcall")
  local to = message.address(addr, "rawcall")
  local tag = boot.trace and boot.trace.call(to, 2)
  return pack_answer(p, tag, ltask.call(to, p.name, take_arguments(p, msg, sz)))
end

-- `rawsend(addr, protocol, msg, sz)`: sends a packed message, which it takes over. Returns the same as `send`.
function M.rawsend(addr, typename, msg, sz)
  local p = message.protocol(typename, "rawsend")
  local to, problem = message.find(addr)
  if not to then
    packed_message.trash(msg, sz)
    return false, problem
  end
  return ltask.send(to, p.name, take_arguments(p, msg, sz))
end

return M
