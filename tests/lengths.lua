-- Checks the lengths of the Lua library: no function has more than 60 lines, and no file more than 400. Part of
-- `make lint`. The lines of functions come from the listing of luac.
--
--   lua tests/lengths.lua [FILE …]     all Lua files of lualib by default; exits with 1 if something is too long
--
-- A file with more lines must give the reason in one of its first ten lines, after `-- More than 400 lines: `.

local FUNCTION <const>, FILE <const> = 60, 400
local HEAD <const> = 10

local function lines_of(command)
  local pipe <close> = assert(io.popen(command))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  return list
end

local found = 0

local function report(...)
  found = found + 1
  print(string.format(...))
end

local function check_file(path)
  local count, reason = 0, false
  for line in io.lines(path) do
    count = count + 1
    reason = reason or count <= HEAD and line:find "^%-%- More than 400 lines: %S"
  end
  if count > FILE and not reason then
    report("%s:1: the file has %d lines (at most %d, or give the reason at its top)", path, count, FILE)
  end
end

-- The listing has a line for each function except the main function: `function <path:first,last> (…`.
local function check_functions(path)
  local listing = lines_of(("luac%s -p -l '%s'"):format(_VERSION:match "%d%.%d", path))
  assert(#listing > 0, "luac cannot read " .. path)
  for _, line in ipairs(listing) do
    local first, last = line:match "^function <.*:(%d+),(%d+)>"
    local count = first and last - first + 1
    if count and count > FUNCTION then
      report("%s:%d: the function has %d lines (at most %d)", path, first, count, FUNCTION)
    end
  end
end

local paths = arg[1] and { table.unpack(arg) } or lines_of "git ls-files 'lualib/*.lua'"
for _, path in ipairs(paths) do
  check_file(path)
  check_functions(path)
end
if found > 0 then
  print(("%d functions or files are too long"):format(found))
  os.exit(1)
end
