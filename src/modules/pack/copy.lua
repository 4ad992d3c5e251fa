-- Copies values for packing, so that packing itself runs no code of the program: a table with `__pairs` becomes a plain
-- table of the pairs that `__pairs` returns. src/modules/pack/packing.rs runs this file with two functions and the
-- values as arguments. Returns an error message, or nil and the copies.
--
-- While a plain table of the program is read, from its first pair to its last, no code of the program runs.

local pairs_of, refusal = ...
local values, count = { select(3, ...) }, select("#", ...) - 2
local copies, queue, length = {}, {}, 0

local function copy(value)
  if type(value) ~= "table" then return value end
  local made = copies[value]
  if not made then
    made, length = {}, length + 1
    copies[value], queue[length] = made, value
  end
  return made
end

-- Fills `made` with the pairs that `iterate` returns for `original`. Returns an error message, or nothing.
local function fill(made, original, iterate)
  local following, state, key = iterate(original)
  local value
  while true do
    key, value = following(state, key)
    if key == nil then return end
    if key ~= key then return "cannot pack NaN as a key" end
    local wrong = refusal(key) or refusal(value)
    if wrong then return wrong end
    made[copy(key)] = copy(value)
  end
end

for i = 1, count do values[i] = copy(values[i]) end
local done = 0
while done < length do
  done = done + 1
  local original = queue[done]
  local made, iterate = copies[original], pairs_of(original)
  if iterate ~= nil then
    local wrong = fill(made, original, iterate)
    if wrong then return wrong end
  else
    for key, value in next, original do made[copy(key)] = copy(value) end
  end
end
return nil, table.unpack(values, 1, count)
