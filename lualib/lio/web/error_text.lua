-- Converts raised values to text, for the log of web/handler_error.lua. `__tostring` is the only metamethod that is
-- called. Invariant: the result of `on_one_line` has no control characters, so a value from a client cannot start a new
-- line in the log.

local debug <const> = debug or require "lio.debug"

local M = {}

-- Limits on what is shown of a value.
local DEPTH <const> = 3 -- levels of nested tables
local ENTRIES <const> = 20 -- elements of one list; also the maximum number of other entries of a table
local LONGEST <const> = 200 -- bytes of one string

local ESCAPES <const> = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function escape_control(bytes)
  return ESCAPES[bytes] or (bytes:gsub(".", function(byte) return ("\\x%02X"):format(byte:byte()) end))
end

-- `on_one_line(text)` returns the text with its control characters escaped (ASCII and U+0080 to U+009F).
function M.on_one_line(text)
  if not text:find "[%c\127\xC2]" then return text end
  return (text:gsub("[%c\127]", escape_control):gsub("\xC2[\x80-\x9F]", escape_control))
end

local describe

local function describe_key(key)
  if type(key) == "string" and key:find "^[%a_][%w_]*$" and #key <= LONGEST then return key .. " = " end
  return "[" .. describe(key, DEPTH) .. "] = "
end

-- Orders keys by type, then by value.
local function is_before(a, b)
  local kind, other = type(a), type(b)
  if kind ~= other then return kind < other end
  if kind == "number" or kind == "string" then return a < b end
  return false
end

local function describe_table(value, depth)
  if next(value) == nil then return "{}" end
  if depth == DEPTH then return "{ … }" end
  local length = rawlen(value)
  local parts, keys = {}, {}
  for index = 1, math.min(length, ENTRIES) do parts[index] = describe(rawget(value, index), depth + 1) end
  local is_cut = length > ENTRIES
  for key in next, value do
    if not (math.type(key) == "integer" and key >= 1 and key <= length) then
      if #keys == ENTRIES then
        is_cut = true
        break
      end
      keys[#keys + 1] = key
    end
  end
  table.sort(keys, is_before)
  for _, key in ipairs(keys) do
    parts[#parts + 1] = describe_key(key) .. describe(rawget(value, key), depth + 1)
  end
  if is_cut then parts[#parts + 1] = "…" end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

-- Returns a value as text, without calling metamethods. Tables are shown down to `DEPTH` levels, so a cyclic table does
-- not cause endless recursion.
function describe(value, depth)
  local kind = type(value)
  if kind == "string" then
    local shown = #value > LONGEST and value:sub(1, LONGEST) .. "…" or value
    return '"' .. shown:gsub('["\\]', "\\%0") .. '"'
  end
  if kind == "table" then return describe_table(value, depth) end
  if kind == "number" or kind == "boolean" or kind == "nil" then return tostring(value) end
  return kind
end

local function has_text(value)
  local meta = debug.getmetatable(value)
  return type(meta) == "table" and rawget(meta, "__tostring") ~= nil
end

-- `message_of(value)` returns the message of a raised value: a string unchanged, or a description of any other value.
function M.message_of(value)
  local kind = type(value)
  if kind == "string" then return value end
  if has_text(value) or kind ~= "table" then
    local ok, text = pcall(tostring, value)
    if ok then return "(error object is a " .. kind .. ": " .. text .. ")" end
  end
  return "(error object is a " .. kind .. (kind == "table" and ": " .. describe(value, 0) or "") .. ")"
end

return M
