-- Checks the definitions in lualib/meta with an independent checker of Lua types, the program emmylua_check:
--
--   lua tests/definitions.lua [CHECKER]     from the root of the repository; the default is emmylua_check
--
-- 1. The definitions themselves: every type that they mention exists.
-- 2. The examples, and the Lua code in README.md and docs/*.md: none of these idioms is reported.
-- 3. A program with mistakes: each mistake is reported, so the definitions are used and their types are not too wide.
--
-- Prints what the checker reports. The last line is "N passed, M failed". `make definitions` runs this file;
-- `make test-long` does, if the checker is installed.

local checker <const> = ... or "emmylua_check"

local function quote(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

local function read(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read "a"
end

local function write(path, text)
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
end

local root <const> = read "pwd":gsub("\n", "")
local scratch <const> = read "mktemp -d":gsub("\n", "")
local passed, failed = 0, 0

-- Codes that are not checked in programs. Values change while a task waits, which the checker does not know
-- (`unnecessary-if`), and a function of a service may wait anywhere (`await-in-sync`). Code in a guide uses names of
-- the text around it.
local PROGRAMS <const> = { "unused", "unnecessary-if", "await-in-sync" }
local GUIDES <const> = { "undefined-global", "unresolved-require", table.unpack(PROGRAMS) }

-- Creates a folder with a configuration for the checker. Returns its path.
local function project(name, disabled, library)
  local folder = scratch .. "/" .. name
  assert(os.execute("mkdir " .. quote(folder)))
  write(folder .. "/.emmyrc.json", ([[
{
  "runtime": { "version": "Lua5.4" },
  "workspace": { "library": [%s] },
  "strict": { "arrayIndex": false },
  "diagnostics": { "disable": ["%s"] }
}]]):format(library and '"' .. library .. '"' or "", table.concat(disabled, '", "')))
  return folder
end

-- Returns what the checker prints about a folder.
local function check(folder)
  local output = read(("cd %s && %s . --severity warn 2>&1"):format(quote(folder), quote(checker)))
  assert(output:find "No issues found" or output:find "\nSummary\n", "the checker has failed: " .. output)
  return output
end

local function test(name, ok, output)
  if ok then
    passed = passed + 1
    return
  end
  failed = failed + 1
  print("not ok " .. name)
  print(output)
end

-- Returns whether a report is only about nil or false: a value is used without a check that it is there.
local function is_about_nil(report)
  return report:find "%[need%-check%-nil%]"
    or report:find "^[^\n]*but found `[^`]*%?`" or report:find "^[^\n]*but found `[^`]*|false%)`"
    or report:find "^[^\n]*but found `nil`"
end

-- The checker reports nothing about the folder. `ignores(report)` returns whether a report does not count.
local function test_clean(name, folder, ignores)
  local output = check(folder)
  local reports = {}
  for report in ("\n" .. output):gsub("\n(%l+: )", "\0%1"):gmatch "%z([^%z]*)" do
    if not (ignores and ignores(report)) then reports[#reports + 1] = report end
  end
  test(name, #reports == 0, table.concat(reports))
end

-- Writes each Lua block of a page to a file, at the lines that it has in the page. A block may be an expression.
local function extract(page, folder)
  local number, lines, first = 0, nil, nil
  for line in io.lines(page) do
    number = number + 1
    if line:find "^%s*```lua" then
      lines, first = {}, number
    elseif line:find "^%s*```" and lines then
      local text = table.concat(lines, "\n")
      if not load(text) and load("return " .. text) then text = "return " .. text end
      write(("%s/%s_%d.lua"):format(folder, page:gsub("[/.]", "_"), first), ("\n"):rep(first) .. text .. "\n")
      lines = nil
    elseif lines then
      lines[#lines + 1] = line
    end
  end
  assert(not lines, page .. ": a block has no end")
end

-- The checker skips files that begin with `---@meta`.
local function check_definitions()
  -- A topic declares the class of its module again.
  local folder = project("meta", { "unused", "missing-return", "duplicate-type" })
  for path in read "ls lualib/meta/*.lua":gmatch "%S+" do
    local name = path:match "[^/]+$"
    write(folder .. "/" .. name, (read("cat " .. path):gsub("^%-%-%-@meta [^\n]*", "")))
  end
  -- The name of open files in the other language server, LuaLS.
  write(folder .. "/file.lua", "---@class file*\n")
  test_clean("the definitions mention only types that exist", folder)
end

local function check_programs(meta)
  local folder = project("examples", PROGRAMS, meta)
  assert(os.execute("cp -r examples/. " .. quote(folder)))
  -- If a value is missing, the call that uses it ends a short program with an error.
  test_clean("the examples match the definitions", folder, is_about_nil)
  folder = project("guides", GUIDES, meta)
  for page in read "ls README.md docs/*.md":gmatch "%S+" do extract(page, folder) end
  test_clean("the code of the guides matches the definitions", folder, is_about_nil)
end

-- Each line with a comment is a mistake; the comment is the code that the checker reports for it.
local MISTAKES <const> = [[
local loop, net, web = require "lio.loop", require "lio.net", require "lio.webserver"
local http, ltask, thread = require "lio.http.client", require "ltask", require "lio.thread"
local app = web.new()
app:gett("/", function() end) -- undefined-field
app:get("/", function(req, res)
  res:no_such_method() -- undefined-field
  return req.no_such_field -- undefined-field
end)
app:run() -- missing-parameter
app:use(function(req, _, next)
  next()
  req:head("Accept") -- undefined-field
end)
loop.run(function()
  local c, message = net.connect("127.0.0.1", 80)
  c:send "x" -- need-check-nil
  if not c then error("failed: " .. message) end
  c:send({}) -- param-type-mismatch
  c:sendd "x" -- undefined-field
  local listener = assert(net.listen("127.0.0.1", 0))
  net.serve(listener, function(client) client:recv_line() end) -- undefined-field
  local response = assert(http.get "http://127.0.0.1/")
  print(response.code) -- undefined-field
  loop.sleep "1" -- param-type-mismatch
  ltask.call("name", "f") -- param-type-mismatch
  thread.spwan(print) -- undefined-field
end)
]]

local function check_mistakes(meta)
  local folder = project("mistakes", PROGRAMS, meta)
  write(folder .. "/main.lua", MISTAKES)
  local output, wanted, found, number = check(folder), {}, {}, 0
  for line in MISTAKES:gmatch "([^\n]*)\n" do
    number = number + 1
    local code = line:match "%-%- ([%a-]+)$"
    if code then wanted[#wanted + 1] = number .. " " .. code end
  end
  for code, line in output:gmatch "%[([%a-]+)%]\n%s+%-%-> main.lua:(%d+):" do
    found[#found + 1] = line .. " " .. code
  end
  local function by_line(a, b) return tonumber(a:match "%d+") < tonumber(b:match "%d+") end
  table.sort(found, by_line)
  local want, got = table.concat(wanted, "\n"), table.concat(found, "\n")
  test("mistakes are reported", got == want, ("expected:\n%s\nreported:\n%s\n%s"):format(want, got, output))
end

if not os.execute(quote(checker) .. " --version >/dev/null 2>&1") then
  io.stderr:write("definitions.lua: the program '", checker, "' is missing: cargo install emmylua_check\n")
  os.exit(1)
end
local meta <const> = root .. "/lualib/meta"
check_definitions()
check_programs(meta)
check_mistakes(meta)
os.execute("rm -rf " .. quote(scratch))
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)
