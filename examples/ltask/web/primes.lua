-- A service of main.lua: counts primes, which takes a long time.

local S = {}

-- Returns the number of primes up to `limit`, with the sieve of Eratosthenes.
function S.count(limit)
  local composite, count = {}, 0
  for n = 2, limit do
    if not composite[n] then
      count = count + 1
      for multiple = n * n, limit, n do composite[multiple] = true end
    end
  end
  return count
end

return S
