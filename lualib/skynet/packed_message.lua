-- Messages as skynet programs pack them: pointers, which `skynet.pack` makes and sending takes, and strings of the same
-- bytes, which may be kept. Called through lualib/skynet.lua, and by skynet.message and skynet.protocol.
--
-- Invariant: a pointer has one owner. What takes a message frees it, also when it raises.

local ltask = require "ltask"
local core = require "ltask.core"

local M = {}

-- The bytes at a pointer, which is taken.
local function take_bytes(msg, sz)
  local ok, text = pcall(core.bytes, msg, sz)
  ltask.remove(msg, sz)
  if not ok then error(text, 0) end
  return text
end

-- `packstring(…)` → the values as one string, for `unpack` in this process.
function M.packstring(...)
  return take_bytes(ltask.pack(...))
end

-- `trash(msg, sz)`: frees what `pack` made; strings and nil are fine.
function M.trash(msg, sz)
  if type(msg) == "userdata" then ltask.remove(msg, sz) end
end

-- `tostring(msg, sz)` → the bytes of a pointer, which is not freed; anything else as text, nil as the empty string.
function M.tostring(msg, sz)
  if msg == nil then return "" end
  if type(msg) ~= "userdata" then return tostring(msg) end
  return core.bytes(msg, sz)
end

-- The values of a message, which is taken.
function M.take(msg, sz)
  if type(msg) == "userdata" then return ltask.unpack_remove(msg, sz) end
  return ltask.unpack(msg)
end

-- A message as a string; it is taken.
function M.take_string(msg, sz)
  if msg == nil then return "" end
  if type(msg) == "string" then return msg end
  if type(msg) ~= "userdata" then
    error(("a message is a string or what pack gave, not a %s"):format(type(msg)), 0)
  end
  return take_bytes(msg, sz)
end

return M
