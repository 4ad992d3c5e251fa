-- The global variables that the configuration of a project lists: .luarc.json of the Lua language server, and
-- .luacheckrc of luacheck. Used by check.lua.

local json = require "lio.json"

local M = {}

local function read(path)
  local handle <close> = io.open(path, "rb")
  return handle and handle:read "a"
end

-- Adds the names in a list, or the names that are keys, to the set `defined`. luacheck accepts both.
local function add(defined, names)
  if type(names) ~= "table" then return end
  for key, value in pairs(names) do
    if type(key) == "string" then defined[key] = true elseif type(value) == "string" then defined[value] = true end
  end
end

local function read_luarc(text, defined)
  local settings, message = json.decode(text)
  if type(settings) ~= "table" then return message or "an object expected" end
  add(defined, settings["diagnostics.globals"])
  if type(settings.diagnostics) == "table" then add(defined, settings.diagnostics.globals) end
end

-- The options of luacheck that list global variables.
local LISTS <const> = { "globals", "read_globals", "new_globals", "new_read_globals" }

-- The number of instructions that the file may execute.
local MAX_INSTRUCTIONS <const> = 10000000

-- The file is a Lua program that assigns options. It runs without the library, as in luacheck.
local function read_luacheckrc(text, defined)
  -- `files["pattern"].globals = { … }` sets options for some files.
  local files = setmetatable({}, { __index = function(t, pattern)
    t[pattern] = {}
    return t[pattern]
  end })
  local settings = { files = files }
  local f, message = load(text, "=.luacheckrc", "t", settings)
  if not f then return message end
  debug.sethook(function() error("it runs for too long", 0) end, "", MAX_INSTRUCTIONS)
  local ok, problem = pcall(f)
  debug.sethook()
  if not ok then return tostring(problem) end
  local all = { settings }
  for _, one in next, files do all[#all + 1] = one end
  for _, one in ipairs(all) do
    for _, name in ipairs(LISTS) do add(defined, one[name]) end
  end
end

local READERS <const> = { [".luarc.json"] = read_luarc, [".luacheckrc"] = read_luacheckrc }

-- `read(folder, defined)`: adds the names that the configuration in a folder lists to the set `defined`. Returns a list
-- of warnings about files that cannot be read.
function M.read(folder, defined)
  local warnings = {}
  for name, reader in pairs(READERS) do
    local path = folder == "." and name or folder:gsub("/*$", "/") .. name
    local text = read(path)
    local problem = text and reader(text, defined)
    if problem then warnings[#warnings + 1] = ("%s is ignored: %s"):format(path, problem) end
  end
  table.sort(warnings)
  return warnings
end

return M
