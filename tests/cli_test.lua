-- The command line of the `lio` executable: options, arguments, exit codes, messages and modules.
-- Both hosts run these tests on the same executable (LIO_BIN). If the manual of lio does not define a behaviour, lio
-- behaves like the stock `lua`.

local t = require "tests.kit"

local bin = t.bin()
local lio = t.quote(bin)

--- Runs the executable with the shell words `words` and the standard input `stdin`.
local function run(words, stdin)
  return t.run(lio .. " " .. words, stdin)
end

--- Writes a script to a new folder. Returns its path, quoted for the shell.
local function script(content, name)
  return t.quote(t.write(t.tmp() .. "/" .. (name or "script.lua"), content))
end

local function succeeded(result, out)
  t.eq(result, { out = out, err = "", code = 0 })
end

t.test("at the start, warnings are on or off as in the stock program; `warn` turns them on and off", function()
  local early = run("-e 'print(_VERSION)'").out == "Lua 5.4\n" and "" or "Lua warning: early\n"
  local path = script [[
    warn "early"
    warn "@on"
    warn("in ", "three ", "pieces")
    warn "@unknown"
    warn("@off", "")
    warn "@off"
    warn "unheard"
  ]]
  for _, words in ipairs { path, "" } do
    local r = words ~= "" and run(words) or t.run("LIO_MALLOC=libc " .. lio .. " " .. path)
    t.eq(r, { out = "", err = early .. "Lua warning: in three pieces\nLua warning: @off\n", code = 0 })
  end
end)

t.test("the collector is generational, as in the stock program, and runs", function()
  succeeded(run "-e 'print(collectgarbage \"isrunning\", collectgarbage \"incremental\")'", "true\tgenerational\n")
end)

-- ---------------------------------------------------------------------------------------------
-- Scripts and their arguments

t.test("a script's arguments arrive in `arg` and in `...`", function()
  local path = script "print(#arg, arg[0], arg[1], arg[2], arg[-1], arg[-2], ...)"
  local r = run(path .. " a 'b c'")
  local name = path:sub(2, -2)
  succeeded(r, table.concat({ "2", name, "a", "b c", bin, "nil", "a", "b c" }, "\t") .. "\n")
end)

t.test("options before the script have negative indices in `arg`", function()
  local path = script "print(arg[-3], arg[-2], arg[-1], arg[1])"
  succeeded(run("-e 'x = 1' " .. path .. " -v"), bin .. "\t-e\tx = 1\t-v\n")
end)

t.test("options after the script belong to the script", function()
  succeeded(run(script "print(...)" .. " -e -h --"), "-e\t-h\t--\n")
end)

t.test("-- ends the options, so that a script's name may begin with a dash", function()
  local dir = t.tmp()
  t.write(dir .. "/-v", "print('ran', ...)")
  succeeded(t.run(string.format("cd %s && %s -- -v x", dir, lio)), "ran\tx\n")
end)

t.test("an empty argument and one with bytes above 127 arrive unchanged", function()
  local r = run(script "print(#arg, (...) == '', select(2, ...))" .. " '' $(printf '\\303\\050\\377')")
  succeeded(r, "2\ttrue\t\xC3(\xFF\n")
end)

t.test("a first line that begins with # is skipped, but it is counted in line numbers", function()
  local r = run(script "#!/usr/bin/env lio\nprint(debug.getinfo(1).currentline)")
  succeeded(r, "2\n")
end)

t.test("a precompiled script runs", function()
  local dir = t.tmp()
  local make = string.format(
    "local f = io.open(%q, 'wb') f:write(string.dump(function(...) print('bytes', ...) end)) f:close()",
    dir .. "/x.luac")
  succeeded(run("-e " .. t.quote(make)), "")
  succeeded(run(dir .. "/x.luac 7"), "bytes\t7\n")
end)

-- ---------------------------------------------------------------------------------------------
-- Exit codes and errors

t.test("the exit code is 0 if the script returns, with any result", function()
  succeeded(run(script "return 5"), "")
end)

t.test("os.exit sets the exit code", function()
  t.eq(run(script "os.exit(3)").code, 3)
  t.eq(run(script "os.exit(true)").code, 0)
  t.eq(run(script "os.exit(false)").code, 1)
  t.eq(run("-e 'os.exit(4, true)'").code, 4)
end)

t.test("an error is printed to standard error with file, line and traceback, and the exit code is 1", function()
  local path = script "local function inner()\n  error 'boom'\nend\nprint 'before'\ninner()"
  local r = run(path)
  local name = path:sub(2, -2)
  t.eq(r.code, 1)
  t.eq(r.out, "before\n")
  local lines = {}
  for line in r.err:gmatch "[^\n]+" do lines[#lines + 1] = line end
  t.eq(lines[1], "lio: " .. name .. ":2: boom")
  t.eq(lines[2], "stack traceback:")
  t.ok(r.err:find(name .. ":2: in ", 1, true), r.err)
  t.ok(r.err:find(name .. ":5: in main chunk", 1, true), r.err)
end)

t.test("an error object with __tostring is reported as the string that __tostring returns", function()
  local r = run(script "error(setmetatable({}, { __tostring = function() return 'spoken' end }))")
  t.eq(r, { out = "", err = "lio: spoken\n", code = 1 })
end)

t.test("an error object without __tostring is reported with its type", function()
  local r = run(script "error {}")
  t.eq(r.code, 1)
  t.ok(r.err:find("lio: (error object is a table value)\n", 1, true), r.err)
  t.ok(run(script "error()").err:find "^lio: %(error object is a nil value%)")
end)

t.test("a syntax error is printed with file and line, and the exit code is 1", function()
  local path = script "local x = 1\nx = = 2\n"
  local r = run(path)
  t.eq(r, { out = "", err = "lio: " .. path:sub(2, -2) .. ":2: unexpected symbol near '='\n", code = 1 })
end)

t.test("the error for a missing script names the script, and the exit code is 1", function()
  local r = run "nofile.lua"
  t.eq(r.code, 1)
  t.eq(r.out, "")
  t.ok(r.err:find "^lio: cannot open nofile%.lua", r.err)
  t.eq(select(2, r.err:gsub("\n", "")), 1, "one line, no traceback")
end)

t.test("open objects are finalized at the end, and to-be-closed variables are closed on an error", function()
  succeeded(run(script "X = setmetatable({}, { __gc = function() print 'gone' end })"), "gone\n")
  local r = run(script "local _ <close> = setmetatable({}, { __close = function() print 'shut' end }) error 'e'")
  t.eq(r.out, "shut\n")
  t.eq(r.code, 1)
end)

t.test("a script is ended by SIGPIPE, not by an error, if no process reads its output", function()
  local r = t.run(string.format("{ %s -e 'while true do print(1) end'; echo $? >&2; } | head -n 1", lio))
  t.eq(r.out, "1\n")
  t.eq(r.err, "141\n")
end)

-- ---------------------------------------------------------------------------------------------
-- Options

t.test("-e runs code, with the code attached or as the next argument", function()
  succeeded(run "-e 'print(1)'", "1\n")
  succeeded(run "'-eprint(1)'", "1\n")
end)

t.test("several -e run in order in one state, before the script", function()
  succeeded(run "-e 'x = 1' -e 'x = x + 1' -e 'print(x)'", "2\n")
  succeeded(run("-e 'x = 7' " .. script "print(x)"), "7\n")
end)

t.test("if -e is the only option, its code can read standard input", function()
  succeeded(run("-e 'print(io.read())'", "print 'not run'\n"), "print 'not run'\n")
end)

t.test("the message of an error in -e code names the command line, and no later code runs", function()
  local r = run("-e 'error [[boom]]' -e 'print(1)' " .. script "print(2)")
  t.eq(r.code, 1)
  t.eq(r.out, "")
  t.ok(r.err:find "^lio: %(command line%):1: boom\nstack traceback:", r.err)
  t.eq(run("-e 'x = = 1'").err, "lio: (command line):1: unexpected symbol near '='\n")
end)

t.test("-v prints lio's version and Lua's", function()
  local r = run "-v"
  t.eq(r.code, 0)
  t.eq(r.err, "")
  t.ok(r.out:find "^lio %d+%.%d+%.%d+.* %(Lua 5%.[45]%)\n$", r.out)
  local version = run("-e 'io.write(_VERSION)'").out
  t.ok(r.out:find(version, 1, true), r.out)
end)

t.test("-h prints the usage to standard output", function()
  local r = run "-h"
  t.eq(r.code, 0)
  t.eq(r.err, "")
  t.ok(r.out:find "^usage: lio ", r.out)
  for _, option in ipairs { "-e", "-v", "-h", "-" } do
    t.ok(r.out:find("\n  " .. option, 1, true), option .. " is not explained")
  end
end)

t.test("an unknown option is named on standard error, and the exit code is 1", function()
  for _, option in ipairs { "-z", "--nonsense", "-vh" } do
    local r = run(option .. " " .. script "print 'ran'")
    t.eq(r.code, 1, option)
    t.eq(r.out, "", option)
    t.eq(r.err, ("lio: unknown option '%s'; see lio --help\n"):format(option))
  end
end)

t.test("-e without code is an error", function()
  local r = run "-e"
  t.eq(r.code, 1)
  t.eq(r.err, "lio: '-e' needs an argument; see lio --help\n")
end)

-- ---------------------------------------------------------------------------------------------
-- Standard input

t.test("- runs standard input, with arguments", function()
  succeeded(run("- a b", "print(arg[0], arg[-1], ...)"), "-\t" .. bin .. "\ta\tb\n")
end)

t.test("an error in code from standard input names stdin and the line", function()
  local r = run("-", "\nerror 'boom'")
  t.eq(r.code, 1)
  t.ok(r.err:find "^lio: stdin:2: boom\n", r.err)
end)

t.test("without arguments, piped standard input is run", function()
  succeeded(run("", "print(#arg, arg[0])"), "0\t" .. bin .. "\n")
end)

-- ---------------------------------------------------------------------------------------------
-- Modules

t.test("the built-in modules load with an empty package.path and package.cpath", function()
  local r = run(script [[
    package.path, package.cpath = "", ""
    print(type(require "lio".create), type(require "lio.socket".create), type(require "bee.epoll".create))]])
  succeeded(r, "function\tfunction\tfunction\n")
end)

t.test("a file on package.path takes precedence over a built-in module", function()
  local dir = t.tmp()
  os.execute("mkdir " .. dir .. "/bee")
  t.write(dir .. "/bee/epoll.lua", "return 'the user’s'")
  local path = script "print((require 'bee.epoll'))"
  succeeded(t.run(string.format("LUA_PATH='%s/?.lua;;' %s %s", dir, lio, path)), "the user’s\n")
end)

t.test("a missing module is reported with the searched places", function()
  local r = run(script "require 'lio.nonsense'")
  t.eq(r.code, 1)
  t.ok(r.err:find("module 'lio.nonsense' not found", 1, true), r.err)
  t.ok(r.err:find("no built-in module 'lio.nonsense'", 1, true), r.err)
end)

t.test("the full traceback of an error in a built-in file names that file", function()
  local r = t.run("LIO_TRACEBACK=full " .. lio .. " " .. script "require('bee.epoll').create('x')")
  t.eq(r.code, 1)
  t.ok(r.err:find("bee/epoll.lua:%d+: ", 1), r.err)
end)

-- The file declares the prototypes itself, so it needs no headers and works with both Lua versions.
local c_module = [[
typedef struct lua_State lua_State;
extern void lua_createtable(lua_State *L, int array, int hash);
extern void lua_pushinteger(lua_State *L, long long n);
extern void lua_setfield(lua_State *L, int index, const char *name);
int luaopen_tiny(lua_State *L) {
  lua_createtable(L, 0, 1);
  lua_pushinteger(L, 42);
  lua_setfield(L, -2, "answer");
  return 1;
}
]]

t.test("a C module finds Lua's API in the executable", function()
  local dir = t.tmp()
  t.write(dir .. "/tiny.c", c_module)
  local built = t.run(string.format("cc -shared -fPIC -o %s/tiny.so %s/tiny.c", dir, dir))
  t.eq(built.code, 0, built.err)
  local path = script "print(require 'tiny'.answer)"
  succeeded(t.run(string.format("LUA_CPATH=%s/?.so %s %s", dir, lio, path)), "42\n")
end)

t.finish()
