-- Raises errors for misuse of the library. An error contains the name of the call, and the position of the program's
-- line. Used by every file of the library that checks arguments. The program's line is determined only when an error is
-- raised.

local debug <const> = debug or require "lio.debug"
local M = {}

-- The prefix of the library's sources: "@lio/", or "@/folder/lualib/lio/" if `package.path` finds the files.
local HERE <const> = debug.getinfo(1, "S").source:match "^(.*)misuse%.lua$" or "@lio/"
local ROOTS <const> = { HERE:gsub("lio/$", ""), "@" }
local TOP_MODULES <const> = { lio = true, ltask = true, skynet = true, bee = true, snax = true, http = true }

-- Returns whether a chunk's source is a file of the library. The program may also have a folder `lio`, so the file must
-- also be a module in `package.loaded`.
local function is_library(source)
  if source == "=lio" or source == "=?" then return true end
  for _, root in ipairs(ROOTS) do
    if source:sub(1, #root) == root then
      local module = source:sub(#root + 1):match "^(.*)%.lua$"
      module = module and module:gsub("/", ".")
      if module and TOP_MODULES[module:match "^[^.]*"] and package.loaded[module] ~= nil then return true end
    end
  end
  return false
end

-- The file that calls the handlers of requests. The function outside of it, which is middleware, has not made the call
-- that failed.
local BOUNDARY <const> = HERE .. "web/middleware.lua"

-- Returns the level, for `error` in the caller, of the nearest function that does not belong to the library; 0 if there
-- is none, because the call was a tail call.
local function level_of_program()
  local level = 3
  while true do
    local info = debug.getinfo(level, "S")
    if not info or info.source == BOUNDARY then return 0 end
    if info.what ~= "C" and not is_library(info.source) then return level - 1 end
    level = level + 1
  end
end

-- `shown(value)` returns a value as error messages show it.
function M.shown(value)
  local kind = type(value)
  if kind == "string" then
    if #value > 40 then value = value:sub(1, 40) .. "…" end
    return '"' .. value:gsub("[%c\127]", "?") .. '"'
  end
  if kind == "number" then return value ~= value and "nan" or tostring(value) end
  if kind == "boolean" or kind == "nil" then return tostring(value) end
  return "a " .. kind
end

-- `raise(message)`: raises an error at the program's line.
function M.raise(message)
  error(message, level_of_program())
end

-- `argument(call, index, wanted, value)`: raises `bad argument #index to 'call' (wanted expected, got …)`.
function M.argument(call, index, wanted, value)
  local meta = getmetatable(value)
  local name = type(meta) == "table" and rawget(meta, "__name")
  name = type(name) == "string" and name or type(value)
  error(("bad argument #%d to '%s' (%s expected, got %s)"):format(index, call, wanted, name), level_of_program())
end

-- `bad(call, index, problem)`: raises `bad argument #index to 'call' (problem)`, for an invalid value of the right
-- type.
function M.bad(call, index, problem)
  error(("bad argument #%d to '%s' (%s)"):format(index, call, problem), level_of_program())
end

-- `no_colon(object, call)`: raises an error for a method whose first argument is not its object.
function M.no_colon(object, call)
  M.raise(("%s:%s: call it with a colon, as in %s:%s(…)"):format(object, call, object, call))
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

-- Raises the error message of a C function. The name of the call replaces the name of the function.
local function raise_renamed(call, message)
  error(message:gsub("^bad argument #(%d+) to '[^']*'", ("bad argument #%%1 to '%s'"):format(call), 1),
    level_of_program())
end

-- `relay(call, err)`: raises `err`, which `call` has caught from a C function, at the program's line. The name of the
-- call replaces the name of the C function. If the error has a position or is not a string, it comes from code that the
-- C function called, and is raised unchanged.
function M.relay(call, err)
  if type(err) ~= "string" or err:find "^[^\n]-:%d+: " then error(err, 0) end
  raise_renamed(call, err)
end

-- `without_position(err)` returns an error as a string, without the position at its beginning.
function M.without_position(err)
  return (tostring(err):gsub("^[^\n]-:%d+: ", "", 1))
end

-- `rename(call, f, …)` calls `f(…)` and returns the results. Errors from `f` are raised with the name of the call, at
-- the program's line.
function M.rename(call, f, ...)
  local results = table.pack(pcall(f, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  raise_renamed(call, M.without_position(results[2]))
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

return M
