-- The second service of main.lua in this folder: answers the request `ping`.

local word = ... -- the second argument of `spawn`

local S = {}

function S.ping(count)
  return word, count
end

return S
