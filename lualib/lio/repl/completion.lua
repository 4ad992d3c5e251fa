-- Completions at the prompt: the names of globals, fields and methods, and keywords. No code of the program runs:
-- fields are found in tables and in the tables of `__index`, never by functions. Called by repl.lua.

local debug <const> = debug or require "lio.debug"

local M = {}

local KEYWORDS <const> = {}
for word in ([[
  and break do else elseif end false for function goto if in local nil not or repeat return then true until while
]]):gmatch "%a+" do
  KEYWORDS[word] = true
end

-- The number of tables that `__index` may lead to.
local MAX_STEPS <const> = 10

-- Returns the table with the fields of a value; nil if there is none.
local function fields_of(value)
  if type(value) == "table" then return value end
  local meta = debug.getmetatable(value)
  local index = type(meta) == "table" and rawget(meta, "__index")
  return type(index) == "table" and index or nil
end

-- Returns the next table in a chain of `__index`.
local function inherited(fields)
  local meta = debug.getmetatable(fields)
  local index = type(meta) == "table" and rawget(meta, "__index")
  return type(index) == "table" and index or nil
end

-- Iterates over the table of a value's fields, and the tables from which it inherits.
local function chain(value)
  local fields, steps = nil, 0
  return function()
    steps = steps + 1
    if steps > MAX_STEPS then return nil end
    if steps == 1 then fields = fields_of(value) else fields = inherited(fields) end
    return fields
  end
end

local function get(value, name)
  for fields in chain(value) do
    local found = rawget(fields, name)
    if found ~= nil then return found end
  end
end

-- Returns the value of `a.b.c`, whose names are in `path`; nil if there is no such value.
local function resolve(path, globals)
  local value = globals
  for name in path:gmatch "[%w_]+" do
    value = get(value, name)
    if value == nil then return nil end
  end
  return value
end

-- Adds the names that begin with `word` to the set `found`. Names that begin with an underscore are hidden, unless
-- `word` begins with one.
local function collect(found, fields, word, only_functions)
  for name, value in next, fields do
    local fits = type(name) == "string" and name:sub(1, #word) == word and name:find "^[%a_][%w_]*$"
    if fits and not KEYWORDS[name] and (word ~= "" or name:sub(1, 1) ~= "_")
      and (not only_functions or type(value) == "function") then
      found[name] = true
    end
  end
end

-- `of(text, globals, most)`: returns the position where the last word of a text begins, and a sorted list of at most
-- `most` words that can replace it.
function M.of(text, globals, most)
  local start, path, separator, word = text:match "()([%w_.]*)([.:])([%w_]*)$"
  if not start then
    path, separator, word = "", "", text:match "[%w_]*$"
  elseif path == "" or path:find "^[%d.]" or path:find("..", 1, true) or path:sub(-1) == "." then
    return #text + 1, {}
  end
  local found = {}
  local value = resolve(path, globals)
  if value ~= nil and not word:find "^%d" then
    for fields in chain(value) do collect(found, fields, word, separator == ":") end
  end
  if separator == "" and word ~= "" then
    for keyword in pairs(KEYWORDS) do
      if keyword:sub(1, #word) == word then found[keyword] = true end
    end
  end
  local words = {}
  for name in pairs(found) do words[#words + 1] = name end
  table.sort(words)
  return #text - #word + 1, table.move(words, 1, math.min(#words, most), 1, {})
end

return M
