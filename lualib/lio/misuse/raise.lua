-- The functions of `lio.misuse` that raise errors. Loaded when the first error is raised.

local debug <const> = debug or require "lio.debug"
local M = {}

-- The prefix of the library's sources: "@lio/", or "@/folder/lualib/lio/" if `package.path` finds the files.
local HERE <const> = debug.getinfo(1, "S").source:match "^(.*)misuse/raise%.lua$" or "@lio/"
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

-- Returns the level, for `error` in the caller, of the nearest function that does not belong to the library; 0 if there
-- is none.
local function level_of_program()
  local level = 3
  while true do
    local info = debug.getinfo(level, "S")
    if not info then return 0 end
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

-- `raise_renamed(call, message)`: raises the error message of a C function. The name of the call replaces the name of
-- the function.
function M.raise_renamed(call, message)
  error(message:gsub("^bad argument #(%d+) to '[^']*'", ("bad argument #%%1 to '%s'"):format(call), 1),
    level_of_program())
end

-- `relay(call, err)`: raises `err`, which `call` has caught from a C function, at the program's line. The name of the
-- call replaces the name of the C function. If the error has a position or is not a string, it comes from code that the
-- C function called, and is raised unchanged.
function M.relay(call, err)
  if type(err) ~= "string" or err:find "^[^\n]-:%d+: " then error(err, 0) end
  M.raise_renamed(call, err)
end

-- `without_position(err)` returns an error as a string, without the position at its beginning.
function M.without_position(err)
  return (tostring(err):gsub("^[^\n]-:%d+: ", "", 1))
end

return M
