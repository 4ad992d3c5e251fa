-- `local _ <close> = defer(f)`: calls `f` at the end of the block, even after an error or when the task is killed.

local Deferred = {}

function Deferred.__close(deferred)
  deferred.f()
end

return function(f)
  return setmetatable({ f = f }, Deferred)
end
