-- Gives lio's objects bee's methods, for bee.select, bee.epoll and bee.socket. Lio's own functions still accept these
-- objects, because the functions read the type from the object's memory, not from its metatable.

local debug <const> = debug or require "lio.debug"

-- `object(name, methods)` returns a function that gives an object bee's methods and returns the object. `methods` maps
-- the names of bee's methods to lio's names. All objects passed to the returned function must have the same type.
return function(name, methods)
  local metatable
  return function(value)
    if not metatable then
      local copy, index = {}, {}
      for key, field in pairs(debug.getmetatable(value)) do copy[key] = field end
      for theirs, ours in pairs(methods) do index[theirs] = copy.__index[ours] end
      copy.__index, copy.__name, copy.__close = index, name, index.close
      -- A memory error above must not leave behind a metatable that lacks fields.
      metatable = copy
    end
    return debug.setmetatable(value, metatable)
  end
end
