-- Gives lio's objects bee's methods, for bee.select, bee.epoll and bee.socket. Lio's own functions still accept these
-- objects, because the functions read the type from the object's memory, not from its metatable.

local debug <const> = debug or require "lio.debug"

-- `object(name, methods)` returns a function that gives an object bee's methods and returns the object. `methods` maps
-- the names of bee's methods to lio's names. All objects passed to the returned function must have the same type.
return function(name, methods)
  local metatable
  return function(value)
    if not metatable then
      metatable = {}
      for key, field in pairs(debug.getmetatable(value)) do metatable[key] = field end
      local index = {}
      for theirs, ours in pairs(methods) do index[theirs] = metatable.__index[ours] end
      metatable.__index, metatable.__name, metatable.__close = index, name, index.close
    end
    return debug.setmetatable(value, metatable)
  end
end
