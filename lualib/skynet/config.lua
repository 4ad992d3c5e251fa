-- Reads a configuration file of skynet: a Lua file whose globals are the fields. As in skynet, it can only use
-- `include "file"`, whose path is relative to the including file, and `$NAME`, which is replaced by an environment
-- variable in the whole text, comments included. Used by skynet.start.

local misuse = require "lio.misuse"

local function fail(...)
  misuse.raise("skynet.start.config: " .. string.format(...))
end

local function read(path)
  local file, problem = io.open(path, "rb")
  local text = file and file:read "a"
  if file then file:close() end
  -- A folder can be opened, but not read.
  return text or fail("%s", problem or path .. ": cannot be read")
end

local function substitute(text, path)
  return (text:gsub("%$([%w_]+)", function(name)
    return os.getenv(name) or fail("%s: the environment variable '%s' is not set", path, name)
  end))
end

-- Returns the path of a file that a file in `folder` includes.
local function beside(folder, path)
  return path:sub(1, 1) == "/" and path or folder .. path
end

-- Runs the file with the fields as its globals. `folder` is that of the including file: "" or a path that ends with a
-- slash.
local function run(path, folder, fields, helpers)
  if type(path) ~= "string" then fail("include: the name of a file expected, got %s", misuse.shown(path)) end
  path = beside(folder, path)
  local f, problem = load(substitute(read(path), path), "@" .. path, "t", fields)
  if not f then fail("%s", problem) end
  local outer <const> = helpers.include
  function helpers.include(name) run(name, path:match "^.*/" or "", fields, helpers) end
  f()
  helpers.include = outer
end

local function check_fields(fields, path)
  for name, value in pairs(fields) do
    local kind = type(value)
    if type(name) ~= "string" or kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
      fail("%s: the value of '%s' must be a string, a number or a boolean, got a %s", path, tostring(name), kind)
    end
  end
end

-- `read(path)`: returns the fields of a configuration file.
return function(path)
  if type(path) ~= "string" then misuse.argument("config", 1, "string", path) end
  local fields, helpers = {}, {}
  setmetatable(fields, { __index = helpers })
  run(path, "", fields, helpers)
  setmetatable(fields, nil)
  check_fields(fields, path)
  return fields
end
