-- Raises errors for misuse of the library. An error contains the name of the call, and the position of the program's
-- line. Used by every file of the library that checks arguments. The functions that raise are in misuse/raise.lua.
-- That file is loaded when the first error is raised; only then is the program's line determined.

local require <const> = require

local M = {}

-- `raise(message)`: raises an error at the program's line. Native code finds this function in the table
-- (src/task/refuse.rs).
function M.raise(message)
  return require "lio.misuse.raise".raise(message)
end

-- `check(call, index, value, kind)`: raises unless the type of the argument is `kind`.
function M.check(call, index, value, kind)
  if type(value) ~= kind then M.argument(call, index, kind, value) end
end

-- `is_callable(value)` returns whether a value is a function or has `__call`.
function M.is_callable(value)
  if type(value) == "function" then return true end
  local meta = getmetatable(value)
  return type(meta) == "table" and meta.__call ~= nil
end

-- `check_function(call, index, value)`: raises unless the argument is a function or has `__call`.
function M.check_function(call, index, value)
  if not M.is_callable(value) then M.argument(call, index, "function", value) end
end

-- `rename(call, f, …)` calls `f(…)` and returns the results. Errors from `f` are raised with the name of the call, at
-- the program's line.
function M.rename(call, f, ...)
  local results = table.pack(pcall(f, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  M.raise_renamed(call, M.without_position(results[2]))
end

-- Maps each kind of object that calls accept to the names of its metatables.
local KINDS <const> = {
  connection = { ["lio.connection"] = true },
  ["datagram socket"] = { ["lio.udp"] = true },
  ["connection or datagram socket"] = { ["lio.connection"] = true, ["lio.udp"] = true },
  listener = { ["lio.listener"] = true },
  ["remote connection"] = { ["lio.remote connection"] = true },
  ["remote listener"] = { ["lio.remote listener"] = true },
  server = { ["lio.server"] = true },
  socket = { ["lio.socket"] = true },
  ["port or address"] = { ["lio.socket"] = true }, -- ports and addresses are not objects
  file = { ["lio.file"] = true },
  attempt = { ["lio.attempt"] = true },
  ["connection, listener or datagram socket"] = {
    ["lio.connection"] = true, ["lio.listener"] = true, ["lio.udp"] = true,
  },
  ["connection, listener, datagram socket or attempt"] = {
    ["lio.connection"] = true, ["lio.listener"] = true, ["lio.udp"] = true, ["lio.attempt"] = true,
  },
}

-- `is_named(value, names)` returns whether the name of the value's metatable is a key of `names`.
function M.is_named(value, names)
  local meta = getmetatable(value)
  return type(meta) == "table" and names[rawget(meta, "__name")] == true
end

-- `is_kind(value, kind)` returns whether the value is an object of this kind, which is a key of `KINDS`.
function M.is_kind(value, kind) return M.is_named(value, KINDS[kind]) end

-- `check_kind(call, value, kind)`: raises unless the value, the first argument of a call, is an object of this kind.
function M.check_kind(call, value, kind)
  if not M.is_kind(value, kind) then M.argument(call, 1, kind, value) end
end

-- `check_seconds(call, index, value)`: raises unless the argument is a number other than NaN.
function M.check_seconds(call, index, value)
  if type(value) ~= "number" then M.argument(call, index, "number", value) end
  if value ~= value then M.bad(call, index, "time is not a number") end
end

-- `check_optional_seconds(call, index, value)`: like `check_seconds`, but accepts nil.
function M.check_optional_seconds(call, index, value)
  if value ~= nil then M.check_seconds(call, index, value) end
end

-- `check_address(call, value)`: raises unless the first argument of a call is a string; also raises if "unix:" has no
-- path.
function M.check_address(call, value)
  if type(value) ~= "string" then M.argument(call, 1, "address", value) end
  if value == "unix:" then M.bad(call, 1, "a path expected after 'unix:'") end
end

-- `check_port(call, index, value)`: raises unless the argument is an integer from 0 to 65535.
function M.check_port(call, index, value)
  if math.type(value) == "integer" and value >= 0 and value <= 65535 then return end
  if type(value) ~= "number" then M.argument(call, index, "port", value) end
  M.bad(call, index, ("port expected, got %s"):format(value))
end

return setmetatable(M, {
  __index = function(_, name)
    for known, f in pairs(require "lio.misuse.raise") do M[known] = f end
    return rawget(M, name)
  end,
})
