-- Checks a Lua pattern without a subject. `string.find` reports a mistake only if the match reaches it. Used by
-- web/validate.lua.

local M = {}

-- Returns the position after the set that begins at `position`, which is that of `[`; nil if it has no end.
local function end_of_set(pattern, position)
  position = position + 1
  if pattern:sub(position, position) == "^" then position = position + 1 end
  repeat
    local char = pattern:sub(position, position)
    if char == "" then return nil end
    position = position + (char == "%" and 2 or 1)
  until pattern:sub(position, position) == "]"
  return position + 1
end

local NO_END <const> = "malformed pattern (missing ']')"

-- For the characters after `%` that are not a class: a function that returns the position after them, or nil and a
-- problem. `position` is that of the character.
local ESCAPES <const> = {}

ESCAPES[""] = function() return nil, "malformed pattern (ends with '%')" end

function ESCAPES.b(pattern, position)
  if #pattern < position + 2 then return nil, "malformed pattern (missing arguments to '%b')" end
  return position + 3
end

function ESCAPES.f(pattern, position)
  if pattern:sub(position + 1, position + 1) ~= "[" then return nil, "missing '[' after '%f' in pattern" end
  local after = end_of_set(pattern, position + 1)
  return after, not after and NO_END or nil
end

-- The captures of a pattern: a list of whether each one is closed.
local function close_capture(captures)
  for index = #captures, 1, -1 do
    if not captures[index] then
      captures[index] = true
      return true
    end
  end
end

-- Reads the item at `position`. Returns the position after it, or nil and a problem.
local function item(pattern, position, captures)
  local char = pattern:sub(position, position)
  if char == "[" then
    local after = end_of_set(pattern, position)
    return after, not after and NO_END or nil
  elseif char == "(" then
    captures[#captures + 1] = false
    if #captures > 32 then return nil, "too many captures" end
  elseif char == ")" then
    if not close_capture(captures) then return nil, "invalid pattern capture" end
  elseif char == "%" then
    local escaped = pattern:sub(position + 1, position + 1)
    if escaped:find "%d" and not captures[tonumber(escaped)] then
      return nil, ("invalid capture index %%%s"):format(escaped)
    end
    local escape = ESCAPES[escaped]
    if escape then return escape(pattern, position + 1) end
    return position + 2
  end
  return position + 1
end

-- `problem(pattern)` returns what is wrong with a pattern that must match a whole string; nil if it is right.
function M.problem(pattern)
  local captures, position, last = {}, 1, nil
  while position <= #pattern do
    last = position
    local after, problem = item(pattern, position, captures)
    if not after then return problem end
    position = after
  end
  for _, is_closed in ipairs(captures) do
    if not is_closed then return "unfinished capture" end
  end
  if pattern:sub(1, 1) == "^" or last and pattern:sub(last) == "$" then
    return "it matches the whole string, so leave out '^' and '$' ('%^' and '%$' are these characters)"
  end
end

return M
