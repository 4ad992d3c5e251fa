-- What makes a VM under `lio --watch` tell which files it loads: `require` (Lua and C modules), `loadfile`
-- and `dofile`. Run once per VM, before any code of the program, with the function to tell.
-- Invariant: a file is told before it is read, also when it does not load.

local tell = ...
local load_file <const>, do_file <const> = loadfile, dofile
local searchpath <const> = package.searchpath

local function look(name, path)
  local file = type(path) == "string" and searchpath(name, path)
  if file then tell(file) end
  return file
end

-- Searchers that find nothing, and tell what the next one will find.
local function tell_lua(name) look(name, package.path) end

local function tell_c(name)
  if look(name, package.cpath) then return end
  local root = name:match "^([^.]+)%."
  if root then look(root, package.cpath) end
end

-- What is built in stands between Lua's two kinds of files, and is told by nobody.
table.insert(package.searchers, #package.searchers - 1, tell_c)
table.insert(package.searchers, 2, tell_lua)

local function tell_of(path)
  if type(path) == "string" and path ~= "" then tell(path) end
end

function loadfile(path, ...) -- luacheck: ignore
  tell_of(path)
  return load_file(path, ...)
end

function dofile(path) -- luacheck: ignore
  tell_of(path)
  return do_file(path)
end
