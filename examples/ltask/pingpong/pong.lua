-- The second service of main.lua beside it: answers the request `ping`.

local word = ... -- what `spawn` was given behind the name

local S = {}

function S.ping(count)
  return word, count
end

return S
