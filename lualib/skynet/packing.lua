-- Messages as skynet programs pack them: pointers, which `skynet.pack` makes and sending takes, and strings,
-- which may be kept. Called by lualib/skynet.lua and by skynet.message.
--
-- Invariant: a string of `packstring` begins with HEAD, so that `unpack` refuses any other.

local ltask = require "ltask"

local M = {}

local HEAD <const> = "\27P"
-- A table that contains itself would have no end.
local DEEPEST <const> = 64

-- Strings -------------------------------------------------------------------------------------

local encode

local encoders = {
  ["nil"] = function(out) out[#out + 1] = "N" end,
  boolean = function(out, value) out[#out + 1] = value and "T" or "F" end,
  string = function(out, value) out[#out + 1] = string.pack("<c1s4", "S", value) end,
  number = function(out, value)
    local integer = math.type(value) == "integer"
    out[#out + 1] = string.pack(integer and "<c1i8" or "<c1d", integer and "I" or "D", value)
  end,
  table = function(out, value, depth)
    if depth == DEEPEST then error("packstring: a table nested too deeply, or in itself", 0) end
    out[#out + 1] = "{"
    for k, v in pairs(value) do
      encode(out, k, depth + 1)
      encode(out, v, depth + 1)
    end
    out[#out + 1] = "}"
  end,
}

function encode(out, value, depth)
  local f = encoders[type(value)]
  if not f then error(("packstring: a %s cannot be packed into a string"):format(type(value)), 0) end
  return f(out, value, depth)
end

-- `packstring(…)` → the values as one string, for `unpack` in this process or another.
function M.packstring(...)
  local out = { HEAD }
  for i = 1, select("#", ...) do encode(out, (select(i, ...)), 1) end
  return table.concat(out)
end

local decode

local decoders = {
  N = function(_, at) return nil, at end,
  T = function(_, at) return true, at end,
  F = function(_, at) return false, at end,
  S = function(text, at) return string.unpack("<s4", text, at) end,
  I = function(text, at) return string.unpack("<i8", text, at) end,
  D = function(text, at) return string.unpack("<d", text, at) end,
  ["{"] = function(text, at)
    local value = {}
    while text:sub(at, at) ~= "}" do
      local k, v
      k, at = decode(text, at)
      v, at = decode(text, at)
      value[k] = v
    end
    return value, at + 1
  end,
}

-- The value at a place of the text, and the place behind it.
function decode(text, at)
  local f = decoders[text:sub(at, at)]
  if not f then error("unpack: the packed string is damaged", 0) end
  return f(text, at + 1)
end

local function unpack_string(text)
  if text == "" then return end
  if text:sub(1, #HEAD) ~= HEAD then error("unpack: this string is not one of packstring", 0) end
  local list, n, at = {}, 0, #HEAD + 1
  while at <= #text do
    n = n + 1
    list[n], at = decode(text, at)
  end
  return table.unpack(list, 1, n)
end

-- Both ----------------------------------------------------------------------------------------

-- `pack(…)` → pointer, size: the caller's, to be passed to `ret`, `rawsend` or `rawcall`, or to `trash`.
M.pack = ltask.pack

-- `unpack(msg, sz)` → the values of a pointer, which is not freed, or of a string of `packstring`.
function M.unpack(msg, sz)
  if type(msg) == "string" then return unpack_string(msg) end
  if msg == nil then return end
  return ltask.unpack(msg, sz)
end

-- `trash(msg, sz)`: frees what `pack` made; strings and nil are fine.
function M.trash(msg, sz)
  if type(msg) == "userdata" then ltask.remove(msg, sz) end
end

-- `tostring(msg, sz)` → a message as a string: a string as it is, a pointer as `packstring` would make it.
function M.tostring(msg, sz)
  if msg == nil then return "" end
  if type(msg) ~= "userdata" then return tostring(msg) end
  return M.packstring(ltask.unpack(msg, sz))
end

-- The values of a message, which is taken.
function M.take(msg, sz)
  if type(msg) == "userdata" then return ltask.unpack_remove(msg, sz) end
  return M.unpack(msg)
end

-- A message as a string; it is taken.
function M.take_string(msg, sz)
  if msg == nil then return "" end
  if type(msg) == "string" then return msg end
  if type(msg) ~= "userdata" then
    error(("a message is a string or what pack gave, not a %s"):format(type(msg)), 0)
  end
  return M.packstring(ltask.unpack_remove(msg, sz))
end

return M
