-- `lio new app|service|game DIR`: writes a small project that runs and passes its test. The executable runs this file
-- with the arguments after `new` on the command line. The files are in new/: a module for each kind of project.

local command = require "lio.command".new("new", [[
usage: lio new app|service|game DIR
  app          a web server: an HTML page and a JSON route
  service      services of the scheduler that send each other messages
  game         a game server: a world of 20 ticks per second, and a line protocol over TCP
  DIR          the folder to create; it may exist if it is empty
  -h, --help   show this help
Each project has a test (lio test), a Dockerfile, a systemd unit, settings for the Lua language server, and a README.
]], {})
local file = require "lio.file"
local options = require "lio.options"

local KINDS <const> = { app = true, service = true, game = true }

local function quote(path)
  return "'" .. path:gsub("'", "'\\''") .. "'"
end

-- Ends the process unless a folder can be created at this path.
local function check_folder(path)
  local folder, message, code = file.folder(path)
  if not folder then
    if code ~= "not found" then command:fail("cannot create %s: %s", path, message:gsub("^open: ", "", 1)) end
    return
  end
  local entries, more = folder:list("", 1)
  folder:close()
  if not entries then command:fail("cannot read %s: %s", path, more) end
  if #entries > 0 or more then command:fail("%s is not empty", path) end
end

-- Returns the name of the project: the last part of the path, as a name that systemd and Docker accept.
local function name_of(path)
  local name = path:gsub("/+$", ""):match "[^/]*$":lower():gsub("[^%w_-]+", "-"):gsub("^%-+", "")
  return name == "" and "project" or name
end

local function write(folder, name, text)
  local path = folder .. "/" .. name
  local parent = path:match "^(.*)/"
  if not os.execute("mkdir -p -- " .. quote(parent) .. " 2>/dev/null") then command:fail("cannot create %s", parent) end
  local handle, message = io.open(path, "wb")
  if not handle then command:fail("cannot write %s", message) end
  local ok, problem = handle:write(text)
  if not (handle:close() and ok) then command:fail("cannot write %s: %s", path, problem or "the disk may be full") end
end

local _, words = command:parse(...)
local kind, folder = words[1], words[2]
if not kind then command:wrong "the kind of the project is missing: app, service or game" end
if not KINDS[kind] then
  local near = options.nearest(kind, KINDS)
  command:wrong("unknown kind of project '%s'%s", kind, near and (" (did you mean '%s'?)"):format(near)
    or " (known: app, service, game)")
end
if not folder or folder == "" then command:wrong "the folder is missing" end
if words[3] then command:wrong("only one folder can be created, got '%s' as well", words[3]) end
check_folder(folder)

local fields = { name = name_of(folder), lua = _VERSION }

local function fill(text)
  return (text:gsub("%$(%l+)%$", fields))
end

local files, names = {}, {}
for _, module in ipairs { "lio.new.common", "lio.new." .. kind } do
  for name, text in pairs(require(module)) do
    files[fill(name)] = fill(text)
    names[#names + 1] = fill(name)
  end
end
table.sort(names)
for _, name in ipairs(names) do write(folder, name, files[name]) end
io.stdout:write("created ", folder, ":\n")
for _, name in ipairs(names) do io.stdout:write("  ", name, "\n") end
io.stdout:write(("next:\n  cd %s\n  lio test\n  lio --watch main.lua\n"):format(folder))
