-- The second service of main.lua: answers the request `ping`.

local word = ... -- the arguments of `spawn` after the name

local S = {}

function S.ping(count)
  return word, count
end

return S
