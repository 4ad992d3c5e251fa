-- A random generator with a seed, for each part of a run its own: the choices of one part do not depend on how often
-- another part draws. Used by all programs of tests/chaos.

local Random = {}
Random.__index = Random

local M = {}

--- Creates a generator for a seed and the name of a part.
function M.new(seed, part)
  local state = 0x9E3779B97F4A7C15 ~ seed
  for i = 1, #part do state = (state ~ part:byte(i)) * 0x100000001B3 end
  return setmetatable({ state = state | 1 }, Random)
end

-- xorshift64*
function Random:bits()
  local x = self.state
  x = x ~ (x >> 12)
  x = x ~ (x << 25)
  x = x ~ (x >> 27)
  self.state = x
  return (x * 0x2545F4914F6CDD1D) >> 11
end

--- Returns a number from 0 to below 1, or an integer from `low` to `high`.
function Random:draw(low, high)
  if low then return low + self:bits() % (high - low + 1) end
  return self:bits() / (1 << 53)
end

--- Returns a key of a table of weights.
function Random:choose(weights)
  local names, sum = {}, 0
  for name, weight in pairs(weights) do
    names[#names + 1] = name
    sum = sum + weight
  end
  table.sort(names)
  local left = self:draw(0, sum - 1)
  for _, name in ipairs(names) do
    left = left - weights[name]
    if left < 0 then return name end
  end
end

return M
