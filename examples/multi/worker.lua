-- A service of main.lua: counts the primes of a range, which takes a long time.

local S = {}

local function is_prime(n)
  if n < 4 then return n > 1 end
  if n % 2 == 0 then return false end
  for divisor = 3, math.floor(math.sqrt(n)), 2 do
    if n % divisor == 0 then return false end
  end
  return true
end

-- Returns the number of primes from `first` to `last`.
function S.count(first, last)
  local count = 0
  for n = first, last do
    if is_prime(n) then count = count + 1 end
  end
  return count
end

return S
