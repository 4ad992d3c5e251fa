-- Makes a VM under `lio --watch` report which files it loads: by `require` (Lua and C modules), `loadfile` and
-- `dofile`; and where `require` has looked for a module in vain. Run once per VM, before any code of the program, with
-- the functions that report a file and a missing file.
-- Invariant: a file is reported before it is read, also when it does not load. A missing file is reported as missing
-- whatever is there by then, so that one that has just appeared is not taken for known.

local tell, miss = ...
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

local function miss_all(name, templates)
  if type(templates) ~= "string" then return end
  local file = name:gsub("%.", package.config:sub(1, 1))
  for template in templates:gmatch "[^;]+" do miss((template:gsub("%?", (file:gsub("%%", "%%%%"))))) end
end

-- The last searcher: only a module that none of the others has found comes here.
table.insert(package.searchers, function(name)
  miss_all(name, package.path)
  miss_all(name, package.cpath)
end)

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
