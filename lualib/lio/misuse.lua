-- Misuse of the library by a program: errors with the name of the call, raised at the program's line. Used by every
-- file of the library that checks arguments. Costs nothing until an error is raised.

local debug <const> = debug or require "lio.debug"
local M = {}

-- "@lio/", or "@/folder/lualib/lio/" where the files are found by `package.path`.
local HERE <const> = debug.getinfo(1, "S").source:match "^(.*)misuse%.lua$" or "@lio/"
local ROOTS <const> = { HERE:gsub("lio/$", ""), "@" }
local TOP_MODULES <const> = { lio = true, ltask = true, skynet = true, bee = true }

-- Whether a chunk's source is a file of the library. A program's own folder may have one of these names too, so the
-- file must have been loaded as that module.
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

-- The level, for `error` in the caller, of the nearest function that is not the library's; 0 when there is none.
local function level_of_program()
  local level = 3
  while true do
    local info = debug.getinfo(level, "S")
    if not info then return 0 end
    if info.what ~= "C" and not is_library(info.source) then return level - 1 end
    level = level + 1
  end
end

-- `raise(message)`: an error at the program's line.
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

-- `bad(call, index, problem)`: the same for a value of the right type: `bad argument #index to 'call' (problem)`.
function M.bad(call, index, problem)
  error(("bad argument #%d to '%s' (%s)"):format(index, call, problem), level_of_program())
end

-- `no_colon(object, call)`: raises for a method that was called with another first argument than its object.
function M.no_colon(object, call)
  M.raise(("%s:%s: call it with a colon, as in %s:%s(…)"):format(object, call, object, call))
end

-- `check(call, index, value, kind)`: raises unless the argument is of that type.
function M.check(call, index, value, kind)
  if type(value) ~= kind then M.argument(call, index, kind, value) end
end

-- The same for a function, or a value that can be called as one.
function M.check_function(call, index, value)
  if type(value) == "function" then return end
  local meta = getmetatable(value)
  if type(meta) == "table" and meta.__call then return end
  M.argument(call, index, "function", value)
end

-- Raises the message of a C function, with the call's name instead of the function's.
local function raise_renamed(call, message)
  error(message:gsub("^bad argument #(%d+) to '[^']*'", ("bad argument #%%1 to '%s'"):format(call), 1),
    level_of_program())
end

-- `relay(call, err)`: raises the error of a C function, which `call` has called by `pcall`, as an error of the call, at
-- the program's line. An error that has a position, or is not a text, comes from code that the C function called: it is
-- raised unchanged.
function M.relay(call, err)
  if type(err) ~= "string" or err:find "^[^\n]-:%d+: " then error(err, 0) end
  raise_renamed(call, err)
end

-- `rename(call, f, …)` returns the results of `f`, whose errors are raised with the call's name, at the program's line.
function M.rename(call, f, ...)
  local results = table.pack(pcall(f, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  raise_renamed(call, (tostring(results[2]):gsub("^[^\n]-:%d+: ", "", 1)))
end

-- The kinds of objects that calls take, by the names of their metatables.
local KINDS <const> = {
  connection = { ["lio.connection"] = true },
  ["datagram socket"] = { ["lio.udp"] = true },
  ["connection or datagram socket"] = { ["lio.connection"] = true, ["lio.udp"] = true },
  listener = { ["lio.listener"] = true },
  server = { ["lio.server"] = true },
  socket = { ["lio.socket"] = true },
  ["port or address"] = { ["lio.socket"] = true }, -- the others are no objects
  attempt = { ["lio.attempt"] = true },
  ["connection, listener or datagram socket"] = {
    ["lio.connection"] = true, ["lio.listener"] = true, ["lio.udp"] = true,
  },
  ["connection, listener, datagram socket or attempt"] = {
    ["lio.connection"] = true, ["lio.listener"] = true, ["lio.udp"] = true, ["lio.attempt"] = true,
  },
}

-- `is_named(value, names)` returns whether the name of its metatable is a key of `names`.
function M.is_named(value, names)
  local meta = getmetatable(value)
  return type(meta) == "table" and names[rawget(meta, "__name")] == true
end

-- `is_kind(value, kind)` returns whether it is an object of that kind, one of `KINDS`.
function M.is_kind(value, kind) return M.is_named(value, KINDS[kind]) end

-- `check_kind(call, value, kind)`: raises unless the first argument of a call is one.
function M.check_kind(call, value, kind)
  if not M.is_kind(value, kind) then M.argument(call, 1, kind, value) end
end

-- The same for seconds: any number but NaN.
function M.check_seconds(call, index, value)
  if type(value) ~= "number" then M.argument(call, index, "number", value) end
  if value ~= value then M.bad(call, index, "time is not a number") end
end

-- The same for seconds that may be nil.
function M.check_optional_seconds(call, index, value)
  if value ~= nil then M.check_seconds(call, index, value) end
end

-- The same for a port.
function M.check_port(call, index, value)
  if math.type(value) == "integer" and value >= 0 and value <= 65535 then return end
  if type(value) ~= "number" then M.argument(call, index, "port", value) end
  M.bad(call, index, ("port expected, got %s"):format(value))
end

return M
