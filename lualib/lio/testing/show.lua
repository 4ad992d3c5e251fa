-- Shows values in the messages of failed assertions, compares them, and describes how they differ. Used by
-- testing/assertions.lua and by the project's own test kit. It loads no other module.

local M = {}

-- Limits on what is shown of a value, in bytes, and on the number of differences that are listed.
local LONGEST_STRING <const>, LONGEST <const>, MOST <const> = 400, 2000, 8
-- The number of equal lines shown around different lines, and of bytes around a different byte.
local CONTEXT_LINES <const>, CONTEXT_BYTES <const> = 2, 20

-- Showing ----------------------------------------------------------------------------------------------

local function key_order(a, b)
  local ta, tb = type(a), type(b)
  if ta ~= tb then return ta < tb end
  if ta == "number" or ta == "string" then return a < b end
  return tostring(a) < tostring(b)
end

local function sorted_keys(t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys, key_order)
  return keys
end

local function quote(s)
  return (string.format("%q", s):gsub("\\\n", "\\n"):gsub("\r", "\\r"))
end

local function show_into(out, v, seen)
  if type(v) == "string" then
    out[#out + 1] = quote(#v <= LONGEST_STRING and v or v:sub(1, LONGEST_STRING))
    if #v > LONGEST_STRING then out[#out + 1] = string.format("… (%d bytes)", #v) end
    return
  end
  if type(v) ~= "table" or seen[v] then
    out[#out + 1] = tostring(v)
    return
  end
  seen[v] = true
  local keys = sorted_keys(v)
  out[#out + 1] = "{"
  for i, k in ipairs(keys) do
    out[#out + 1] = i > 1 and ", " or " "
    if type(k) == "string" and k:match "^[%a_][%w_]*$" then
      out[#out + 1] = k .. " = "
    elseif k ~= i then
      out[#out + 1] = "[" .. tostring(k) .. "] = "
    end
    show_into(out, v[k], seen)
  end
  out[#out + 1] = #keys > 0 and " }" or "}"
end

-- `show(v)` formats a value. The keys of tables are sorted, and long strings are truncated.
function M.show(v)
  local out = {}
  show_into(out, v, {})
  local s = table.concat(out)
  return #s <= LONGEST and s or s:sub(1, LONGEST) .. "…"
end

-- Comparing --------------------------------------------------------------------------------------------

local function same(a, b, seen)
  if a == b or (a ~= a and b ~= b) then return true end
  if type(a) ~= "table" or type(b) ~= "table" then return false end
  -- The comparison of `a` with `b` has already begun: either it found no difference, or `a` contains itself and the
  -- comparison is still in progress.
  if seen[a] == b then return true end
  seen[a] = b
  for k, v in pairs(a) do
    if not same(v, b[k], seen) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

-- `same(a, b)` returns whether two values are equal: tables by content, other values by ==, and NaN equals NaN.
function M.same(a, b) return same(a, b, {}) end

-- Describing differences -------------------------------------------------------------------------------

local function split_lines(text)
  local lines = {}
  for line in (text:gsub("\n$", "") .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  return lines
end

-- Returns the number of equal elements at the start of two lists, and at their end.
local function equal_ends(a, b)
  local most, first, last = math.min(#a, #b), 0, 0
  while first < most and a[first + 1] == b[first + 1] do first = first + 1 end
  while last < most - first and a[#a - last] == b[#b - last] do last = last + 1 end
  return first, last
end

local function add_lines(out, mark, lines, from, to)
  for at = math.max(from, 1), math.min(to, #lines) do
    if #out == 40 then
      out[41] = "  …"
      return
    end
    out[#out + 1] = mark .. lines[at]
  end
end

local function line_difference(got, want)
  local a, b = split_lines(got), split_lines(want)
  local first, last = equal_ends(a, b)
  if first == #a and first == #b then return "they differ only in the newline at the end" end
  local out = { ("lines that differ, from line %d on (- want, + got):"):format(first + 1) }
  add_lines(out, "    ", b, first + 1 - CONTEXT_LINES, first)
  add_lines(out, "  - ", b, first + 1, #b - last)
  add_lines(out, "  + ", a, first + 1, #a - last)
  add_lines(out, "    ", b, #b - last + 1, #b - last + CONTEXT_LINES)
  return table.concat(out, "\n  ")
end

local function excerpt(text, at)
  local from, to = math.max(at - CONTEXT_BYTES, 1), at + CONTEXT_BYTES
  return (from > 1 and "…" or "") .. quote(text:sub(from, to)) .. (to < #text and "…" or "")
end

local function byte_difference(got, want)
  local at = 1
  while got:byte(at) == want:byte(at) do at = at + 1 end
  return ("the strings (%d and %d bytes) differ from byte %d on\n   got: %s\n  want: %s"):format(
    #got, #want, at, excerpt(got, at), excerpt(want, at))
end

local function step_of(k)
  if type(k) == "string" and k:match "^[%a_][%w_]*$" then return "." .. k end
  return "[" .. M.show(k) .. "]"
end

-- Adds a line to `out` for each place at which two tables differ.
local function list_differences(out, got, want, path, seen)
  if same(got, want, {}) then return end
  if type(got) ~= "table" or type(want) ~= "table" or seen[got] then
    out[#out + 1] = ("at %s: got %s, want %s"):format(path, M.show(got), M.show(want))
    return
  end
  seen[got] = true
  local keys = {}
  for k in pairs(got) do keys[k] = true end
  for k in pairs(want) do keys[k] = true end
  for _, k in ipairs(sorted_keys(keys)) do
    if #out > MOST then return end
    list_differences(out, got[k], want[k], path .. step_of(k), seen)
  end
end

local function table_difference(got, want)
  local out = {}
  list_differences(out, got, want, "", {})
  if #out > MOST then out[MOST + 1] = "…" end
  return table.concat(out, "\n  ", 1, math.min(#out, MOST + 1))
end

-- `difference(got, want)` describes two values that are not the same: both values, and where they differ if that is
-- hard to see.
function M.difference(got, want)
  local text = "values differ\n   got: " .. M.show(got) .. "\n  want: " .. M.show(want)
  if type(got) == "string" and type(want) == "string" then
    if got:find "\n" and want:find "\n" then return text .. "\n  " .. line_difference(got, want) end
    if #got > 3 * CONTEXT_BYTES and #want > 3 * CONTEXT_BYTES then
      return text .. "\n  " .. byte_difference(got, want)
    end
  elseif type(got) == "table" and type(want) == "table" then
    return text .. "\n  " .. table_difference(got, want)
  end
  if type(got) == type(want) or tostring(got) ~= tostring(want) then return text end
  return text .. ("\n  the types differ: got a %s, want a %s"):format(type(got), type(want))
end

return M
