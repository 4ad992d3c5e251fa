-- Packed messages: pointers with sizes, which `skynet.pack` returns, and strings with the same bytes. Used by
-- lualib/skynet.lua, skynet.message and skynet.protocol.
--
-- Invariant: a pointer has one owner. A function that takes a message frees it, even if the function raises.

local ltask = require "ltask"
local core = require "ltask.core"

local pack <const>, remove <const>, bytes <const>, pcall <const> = ltask.pack, ltask.remove, core.bytes, pcall

local M = {}

-- Returns the bytes of a message, and frees the message.
local function take_bytes(msg, sz)
  local ok, text = pcall(bytes, msg, sz)
  remove(msg, sz)
  if not ok then error(text, 0) end
  return text
end

-- `packstring(…)`: packs the values into a string, for `unpack` in this process.
function M.packstring(...)
  local ok, msg, sz = pcall(pack, ...)
  if ok then return take_bytes(msg, sz) end
  -- An error that a table's `__pairs` raises is raised unchanged.
  local problem = type(msg) == "string" and msg:match "Unsupport type %w+ to serialize$"
  if problem then require "lio.misuse".raise(problem) end
  error(msg, 0)
end

-- `trash(msg, sz)`: frees a message that `pack` returned. Ignores strings and nil.
function M.trash(msg, sz)
  if type(msg) == "userdata" then ltask.remove(msg, sz) end
end

-- `tostring(msg, sz)`: returns the bytes of a message, and does not free it. For another value, returns what Lua's
-- `tostring` returns; for nil, the empty string.
function M.tostring(msg, sz)
  if msg == nil then return "" end
  if type(msg) ~= "userdata" then return tostring(msg) end
  return core.bytes(msg, sz)
end

-- `take(msg, sz)`: returns the values of a message, and frees the message.
function M.take(msg, sz)
  if type(msg) == "userdata" then return ltask.unpack_remove(msg, sz) end
  return ltask.unpack(msg)
end

-- `take_string(msg, sz)`: returns a message as a string, and frees the message.
function M.take_string(msg, sz)
  if msg == nil then return "" end
  if type(msg) == "string" then return msg end
  if type(msg) ~= "userdata" then
    error(("a message must be a string or a result of pack, not a %s"):format(type(msg)), 0)
  end
  return take_bytes(msg, sz)
end

return M
