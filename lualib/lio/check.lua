-- `lio check [DIR|FILE …]`: compiles Lua files, and reports syntax errors and undefined global variables. The
-- executable runs this file with the arguments after `check` on the command line.
--
-- A global variable is defined if Lua defines it, if the options or the configuration of the project list it, or if one
-- of the checked files defines it: by an assignment outside of functions, by `_G.name = …`, or by `global name` in Lua
-- 5.5. Lua itself finds the syntax errors.

local command = require "lio.command".new("check", [[
usage: lio check [DIR|FILE ...] [options]
  DIR          check every .lua file below this folder, except in hidden folders (default: the current folder)
  FILE         check this file
  --globals A,B  names of global variables that the program gets from elsewhere
  -h, --help   show this help
Also defined are the names in 'diagnostics.globals' of .luarc.json and in 'globals' and 'read_globals' of .luacheckrc,
in each DIR and in the current folder. The exit code is 1 if something was found.
]], { globals = "value" })
local file = require "lio.file"
local globals = require "lio.check.globals"
local project = require "lio.check.project"

-- Global variables of lio: `SERVICE_NAME` in services of `lio.skynet`'s API.
local OF_LIO <const> = { "SERVICE_NAME" }
local MAX_ENTRIES <const> = 1 << 24

-- Files ------------------------------------------------------------------------------------------------

-- Adds the Lua files below a folder to a list. `seen` contains the folders that were visited: a symbolic link may lead
-- to a folder around it.
local function collect(path, list, seen)
  local folder, message = file.folder(path)
  if not folder then command:fail("%s", message) end
  local entries = folder:list("", MAX_ENTRIES)
  folder:close()
  for _, entry in ipairs(entries or {}) do
    local below = (path == "." and "" or path:gsub("/*$", "/")) .. entry.name
    local identity = ("%d:%d"):format(entry.device, entry.inode)
    if entry.kind == "directory" then
      if entry.name:sub(1, 1) ~= "." and not seen[identity] then
        seen[identity] = true
        collect(below, list, seen)
      end
    elseif entry.name:find "%.lua$" then
      list[#list + 1] = below
    end
  end
end

-- Returns the files that the arguments name, and the folders among the arguments.
local function find_files(paths)
  local list, folders, seen = {}, {}, {}
  for _, path in ipairs(paths) do
    local opened, message, code = file.open(path)
    if not opened then
      message = code == "not found" and "there is no such file or folder" or message:gsub("^open: ", "")
      command:fail("cannot open '%s': %s", path, message)
    end
    if opened:kind() == "directory" then
      folders[#folders + 1] = path
      local stat = opened:stat()
      local identity = ("%d:%d"):format(stat.device, stat.inode)
      if not seen[identity] then
        seen[identity] = true
        collect(path, list, seen)
      end
    else
      list[#list + 1] = path
    end
    opened:close()
  end
  return list, folders
end

-- Returns the content of a file; or nil and a message.
local function read(path)
  local opened, message = io.open(path, "rb")
  if not opened then return nil, message end
  local handle <close> = opened
  return handle:read "a"
end

-- Problems ---------------------------------------------------------------------------------------------

local problems = {}

local function report(path, line, ...)
  table.insert(problems, { path = path, line = line, text = string.format(...) })
end

-- Returns the uses of global variables in a file; nil after a syntax error. Adds the variables that the file defines.
local function read_file(path, defined)
  local text, unread = read(path)
  if not text then
    report(path, 0, "cannot be read: %s", unread:gsub("^" .. path:gsub("%p", "%%%0") .. ": ", ""))
    return nil
  end
  -- A precompiled file has no source to check.
  if text:sub(1, 4) == "\27Lua" then return nil end
  local source = text:gsub("^\xEF\xBB\xBF", ""):gsub("^#[^\r\n]*", "")
  local f, message = load(source, "=file", "t")
  if not f then
    local line, problem = message:match "^file:(%d+): (.*)$"
    report(path, math.tointeger(line) or 0, "%s", problem or message)
    return nil
  end
  local uses, names = globals.find(text)
  for name in pairs(names) do defined[name] = true end
  for _, use in ipairs(uses) do
    if use.is_write and use.is_top then defined[use.name] = true end
  end
  return uses
end

local function check(paths, defined)
  local uses_of = {}
  for _, path in ipairs(paths) do uses_of[path] = read_file(path, defined) end
  for path, uses in pairs(uses_of) do
    local reported = {}
    for _, use in ipairs(uses) do
      local text = use.is_write and "assignment to undefined global '%s'" or "undefined global '%s'"
      local key = use.line .. text .. use.name
      if not defined[use.name] and not reported[key] then
        reported[key] = true
        report(path, use.line, text, use.name)
      end
    end
  end
end

-- Returns the names that Lua defines. `arg` is the one of this program, but each program has it.
local function standard()
  local defined = {}
  for name in pairs(_G) do defined[name] = true end
  for _, name in ipairs(OF_LIO) do defined[name] = true end
  return defined
end

local function plural(count, word)
  return ("%d %s%s"):format(count, word, count == 1 and "" or "s")
end

local options, paths = command:parse(...)
local defined = standard()
for name in (options.globals or ""):gmatch "[^,%s]+" do
  if not name:find "^[%a_][%w_]*$" then command:wrong("--globals: '%s' is not a name", name) end
  defined[name] = true
end
if #paths == 0 then paths[1] = "." end
local files, folders = find_files(paths)
if #files == 0 then command:fail("no Lua file in %s", table.concat(paths, ", ")) end
if folders[1] ~= "." then table.insert(folders, 1, ".") end
for _, folder in ipairs(folders) do
  for _, warning in ipairs(project.read(folder, defined)) do io.stderr:write("lio check: ", warning, "\n") end
end
check(files, defined)
table.sort(problems, function(a, b)
  if a.path ~= b.path then return a.path < b.path end
  if a.line ~= b.line then return a.line < b.line end
  return a.text < b.text
end)
for _, one in ipairs(problems) do io.stdout:write(("%s:%d: %s\n"):format(one.path, one.line, one.text)) end
if #problems == 0 then
  io.stdout:write("no problem in ", plural(#files, "file"), "\n")
else
  io.stderr:write(plural(#problems, "problem"), " in ", plural(#files, "file"), "\n")
  os.exit(1, true)
end
