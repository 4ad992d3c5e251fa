-- Values as the prompt shows them: strings with quotes, tables with their content. The size of the text is limited, and
-- no code of the program runs, except `__tostring`. Called by repl.lua, and by services for errors that are tables.

local M = {}

-- A table is written on one line if the line then has at most this number of characters.
local WIDTH <const> = 76
-- Limits: nested tables, elements of one table, bytes of one string, and elements in all.
local DEPTH <const> = 4
local ELEMENTS <const> = 100
local BYTES <const> = 1000
local TOTAL <const> = 1000
-- Limits for `brief`: elements in all, and bytes of the text.
local BRIEF_TOTAL <const> = 30
local BRIEF_BYTES <const> = 1000

local ESCAPES <const> = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\\"] = "\\\\", ['"'] = '\\"' }

local function escape(char)
  return ESCAPES[char] or ("\\x%02x"):format(char:byte())
end

local function show_string(text)
  local rest = #text - BYTES
  if rest > 0 then text = text:sub(1, BYTES) end
  -- The text may contain UTF-8; only invalid text has its bytes escaped.
  local pattern = utf8.len(text) and '[%c"\\\127]' or '[%c"\\\127-\255]'
  local shown = '"' .. text:gsub(pattern, escape) .. '"'
  return rest > 0 and ("%s… (%d more bytes)"):format(shown, rest) or shown
end

local function show_key(key, state, depth)
  if type(key) == "string" and key:find "^[%a_][%w_]*$" then return key end
  return "[" .. M.one(key, state, depth) .. "]"
end

-- Orders keys: numbers, then strings, then other values.
local function comes_before(a, b)
  local kind, other = type(a), type(b)
  if kind == other and (kind == "number" or kind == "string") then return a < b end
  if kind == "number" or other == "number" then return kind == "number" end
  if kind == "string" or other == "string" then return kind == "string" end
  return false
end

-- Returns the keys of a table that are not in its sequence, which has `length` elements.
local function other_keys(t, length)
  local keys = {}
  for key in next, t do
    if not (math.type(key) == "integer" and key >= 1 and key <= length) then keys[#keys + 1] = key end
  end
  table.sort(keys, comes_before)
  return keys
end

-- Returns the shown elements of a table, and how many are left out.
local function elements_of(t, state, depth)
  local items, length = {}, 0
  while rawget(t, length + 1) ~= nil do length = length + 1 end
  local keys = other_keys(t, length)
  for index = 1, length + #keys do
    if #items >= ELEMENTS or state.left <= 0 then return items, length + #keys - #items end
    state.left = state.left - 1
    local key = keys[index - length]
    local value = M.one(rawget(t, key == nil and index or key), state, depth)
    items[index] = key == nil and value or show_key(key, state, depth) .. " = " .. value
  end
  return items, 0
end

local function show_table(t, state, depth)
  if state.open[t] then return "{…} (contains itself)" end
  if depth > DEPTH then return next(t) == nil and "{}" or "{…}" end
  state.open[t] = true
  local items, left = elements_of(t, state, depth + 1)
  state.open[t] = nil
  if left > 0 then items[#items + 1] = ("… (%d more)"):format(left) end
  if #items == 0 then return "{}" end
  local line = "{ " .. table.concat(items, ", ") .. " }"
  if #line <= WIDTH - 2 * depth and not line:find("\n", 1, true) then return line end
  local indent = ("  "):rep(depth)
  return "{\n  " .. indent .. table.concat(items, ",\n  " .. indent) .. ",\n" .. indent .. "}"
end

-- `one(value, state, depth)`: returns a value as text. `state.left` is the number of elements that may still be shown;
-- `state.open` contains the tables around the value.
function M.one(value, state, depth)
  local kind = type(value)
  if kind == "string" then return show_string(value) end
  if kind ~= "table" then return tostring(value) end
  local meta = getmetatable(value)
  if type(meta) == "table" and rawget(meta, "__tostring") then
    local ok, text = pcall(tostring, value)
    return ok and text or "(__tostring: " .. tostring(text) .. ")"
  end
  return show_table(value, state, depth)
end

-- `brief(value)`: returns a value as text of limited length, for an error message.
function M.brief(value)
  local text = M.one(value, { left = BRIEF_TOTAL, open = {} }, 0)
  if #text <= BRIEF_BYTES then return text end
  -- The end of the text is not inside a character.
  local last = BRIEF_BYTES
  while last > 0 and text:find("^[\128-\191]", last + 1) do last = last - 1 end
  return text:sub(1, last) .. "…"
end

-- `all(…)`: returns the values as text, separated by tabs, or by line breaks if a value has several lines.
function M.all(...)
  local list, state = table.pack(...), { left = TOTAL, open = {} }
  local has_lines = false
  for index = 1, list.n do
    list[index] = M.one(list[index], state, 0)
    has_lines = has_lines or list[index]:find("\n", 1, true) ~= nil
  end
  return table.concat(list, has_lines and "\n" or "\t", 1, list.n)
end

return M
