-- Measures the work of Lua patterns without a clock: a matcher counts its steps, and works as that of Lua itself does.
-- Used by tests/linear_patterns_test.lua. Captures are ignored, because they do not change what a pattern matches;
-- `%b`, `%f` and back references are not supported.

local M = {}

-- Reading a pattern ------------------------------------------------------------------------------

-- Returns the set of the bytes that a class such as "%a" or "[^/]" matches.
local function set_of(class)
  local set = {}
  for byte = 0, 255 do set[byte] = string.char(byte):find("^" .. class) ~= nil end
  return set
end

-- Returns the position after the class that begins at `at`.
local function after_class(pattern, at)
  local first = pattern:sub(at, at)
  if first == "%" then
    if pattern:find("^[bf%d]", at + 1) then error("cannot measure the pattern " .. pattern, 0) end
    return at + 2
  end
  if first ~= "[" then return at + 1 end
  at = at + (pattern:sub(at + 1, at + 1) == "^" and 2 or 1)
  repeat
    at = at + (pattern:sub(at, at) == "%" and 2 or 1)
  until pattern:sub(at, at) == "]"
  return at + 1
end

-- `compile(pattern, is_iterator)` returns a list of items with a `set`, and maybe a `suffix`: "*", "+", "-" or "?". Its
-- fields `is_anchored` and `has_end` are set for "^" and "$"; `has_repetition`: an item has a suffix other than "?".
-- `is_iterator`: the pattern is one of gmatch, in which "^" is an ordinary character.
function M.compile(pattern, is_iterator)
  local items = { is_anchored = not is_iterator and pattern:sub(1, 1) == "^" }
  local at = items.is_anchored and 2 or 1
  while at <= #pattern do
    local char = pattern:sub(at, at)
    if char == "(" or char == ")" then
      at = at + 1
    elseif char == "$" and at == #pattern then
      items.has_end, at = true, at + 1
    else
      local behind = after_class(pattern, at)
      local class, suffix = pattern:sub(at, behind - 1), pattern:match("^[*+?-]", behind)
      if class:find "^[*+?$^-]$" then class = "%" .. class end
      items[#items + 1] = { set = set_of(class), suffix = suffix }
      items.has_repetition = items.has_repetition or suffix ~= nil and suffix ~= "?"
      at = behind + (suffix and 1 or 0)
    end
  end
  return items
end

-- Counting ---------------------------------------------------------------------------------------

local steps, most

local function count()
  steps = steps + 1
  if steps > most then error "too many steps" end
end

local match

-- Tries the items after the repetition `items[k]`, first with as many bytes as possible.
local function longest_first(bytes, at, items, k)
  local set, matched = items[k].set, 0
  while set[bytes[at + matched]] do
    count()
    matched = matched + 1
  end
  for n = matched, items[k].suffix == "+" and 1 or 0, -1 do
    local last = match(bytes, at + n, items, k + 1)
    if last then return last end
  end
end

-- Tries the items after the repetition `items[k]`, first with as few bytes as possible.
local function shortest_first(bytes, at, items, k)
  while true do
    local last = match(bytes, at, items, k + 1)
    if last then return last end
    if not items[k].set[bytes[at]] then return nil end
    at = at + 1
  end
end

-- Returns the position after the match of the items from `k` on, which begins at `at`; or nil.
function match(bytes, at, items, k)
  count()
  local item = items[k]
  if not item then return (not items.has_end or at > #bytes) and at or nil end
  if item.suffix == "-" then return shortest_first(bytes, at, items, k) end
  if item.suffix == "*" or item.suffix == "+" then return longest_first(bytes, at, items, k) end
  local last = item.set[bytes[at]] and match(bytes, at + 1, items, k + 1)
  return last or item.suffix == "?" and match(bytes, at, items, k + 1) or nil
end

-- Returns the first and the last position of the first match at or after `at`; or nil.
local function find(bytes, at, items)
  repeat
    local behind = match(bytes, at, items, 1)
    if behind then return at, behind - 1 end
    at = at + 1
  until at > #bytes + 1 or items.is_anchored
end

-- Returns the number of matches, as gsub and gmatch find them.
local function find_all(bytes, items)
  local at, behind, matches = 1, 0, 0
  repeat
    local last = match(bytes, at, items, 1)
    if last and last ~= behind then
      at, behind, matches = last, last, matches + 1
    else
      at = at + 1
    end
  until at > #bytes + 1 or items.is_anchored
  return matches
end

-- `run(items, text, is_repeated, limit)` returns the number of steps, and what has been found: the number of matches if
-- `is_repeated` (gmatch and gsub), otherwise the two positions that `string.find` returns. Returns nil if it takes more
-- than `limit` steps.
function M.run(items, text, is_repeated, limit)
  steps, most = 0, limit
  local bytes = { text:byte(1, -1) }
  local ok, first, last = pcall(is_repeated and find_all or find, bytes, is_repeated and items or 1, items)
  if ok then return steps, first, last end
  if steps <= most then error(first, 0) end
end

-- Hostile texts ----------------------------------------------------------------------------------

-- Returns one character for each group of bytes that no set of the items separates, printable ones if possible.
local function alphabet_of(items)
  local found, known = {}, {}
  for offset = 0, 255 do
    local byte = (offset + 97) % 256
    local members = {}
    for k, item in ipairs(items) do members[k] = item.set[byte] and 1 or 0 end
    local group = table.concat(members)
    if not known[group] then
      known[group] = true
      found[#found + 1] = string.char(byte)
    end
  end
  return found
end

-- Returns a short text that the items before `k` match; with `is_longer`, also one character for each repetition that
-- may be empty.
local function beginning(items, k, alphabet, is_longer)
  local parts = {}
  for i = 1, k - 1 do
    local item = items[i]
    if is_longer or item.suffix == nil or item.suffix == "+" then
      for _, char in ipairs(alphabet) do
        if item.set[char:byte()] then
          parts[#parts + 1] = char
          break
        end
      end
    end
  end
  return table.concat(parts)
end

-- Returns the beginnings of texts that a pattern matches up to one of its repetitions, without duplicates.
local function beginnings(items, alphabet)
  local found, known = {}, {}
  for k = 1, #items + 1 do
    for _, is_longer in ipairs { false, true } do
      local text = beginning(items, k, alphabet, is_longer)
      local is_worthy = k > #items or items[k].suffix and items[k].suffix ~= "?"
      if is_worthy and not known[text] then
        known[text] = true
        found[#found + 1] = text
      end
    end
  end
  return found
end

-- `hostile(items, size)` returns an iterator over texts for a pattern. A text is a beginning that the pattern matches
-- up to one of its repetitions, then about `size` bytes of one or two characters, then a last character; or it is a
-- beginning many times.
function M.hostile(items, size)
  local alphabet = alphabet_of(items)
  local firsts, units = beginnings(items, alphabet), {}
  for _, one in ipairs(alphabet) do
    units[#units + 1] = one
    for _, other in ipairs(alphabet) do
      if other ~= one then units[#units + 1] = one .. other end
    end
  end
  return coroutine.wrap(function()
    for _, first in ipairs(firsts) do coroutine.yield(first:rep(size // 2)) end
    for _, first in ipairs(firsts) do
      for _, unit in ipairs(units) do
        local text = first .. unit:rep(size // #unit)
        coroutine.yield(text)
        for _, last in ipairs(alphabet) do coroutine.yield(text .. last) end
      end
    end
  end)
end

return M
