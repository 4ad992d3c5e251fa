-- The messages of the executable for mistakes: one line with a hint, and short tracebacks; and where `require`
-- searches. Both hosts run these tests on the same executable (LIO_BIN).

local t = require "tests.kit"

local bin = t.bin()
local lio = t.quote(bin)

-- Runs the executable in the folder `dir` (default: any) with an environment without Lua's variables.
local function run(words, dir, environment)
  return t.run(("cd %s && env -u LUA_PATH -u LUA_CPATH %s %s %s"):format(dir or "/", environment or "", lio, words))
end

local function fails(words, message, dir)
  t.eq(run(words, dir), { out = "", err = "lio: " .. message .. "\n", code = 1 }, words)
end

-- Mistakes --------------------------------------------------------------------------------------------

t.test("an unknown option is one line with a hint, and the exit code is 1", function()
  fails("--wacth x.lua", "unknown option '--wacth' (did you mean '--watch'?); see lio --help")
  fails("--servic x.lua", "unknown option '--servic' (did you mean '--service'?); see lio --help")
  fails("--nonsense", "unknown option '--nonsense'; see lio --help")
  fails("-vh", "unknown option '-vh'; see lio --help")
  fails("-e", "'-e' needs an argument; see lio --help")
  fails("--service", "'--service' needs a script; see lio --help")
  fails("--watch", "'--watch' needs a script; see lio --help")
end)

t.test("a missing script is one line; a mistyped command has a hint", function()
  fails("nofile.lua", "cannot open nofile.lua: No such file or directory")
  fails("--service nofile.lua", "cannot open nofile.lua: No such file or directory")
  fails("chekc", "cannot open chekc: No such file or directory (did you mean 'check'?); see lio --help")
  local dir = t.tmp()
  t.write(dir .. "/chekc", "print 'a script'")
  t.eq(run("chekc", dir).out, "a script\n")
end)

t.test("lio --help names every option and command", function()
  local r = run "--help"
  t.eq({ r.code, r.err }, { 0, "" })
  for _, name in ipairs {
    "-", "-e CODE", "-i", "--service", "--watch", "-v", "-h", "--", "serve DIR", "cert [NAME ...]",
    "new app|service|game DIR",
    "check [DIR|FILE ...]", "test [DIR|FILE ...]", "LUA_PATH, LUA_CPATH", "LIO_TRACEBACK=full",
  } do
    t.ok(r.out:find("\n  " .. name .. "  ", 1, true), name .. " is not explained")
  end
  for line in r.out:gmatch "[^\n]+" do t.ok(#line <= 100, line) end
end)

t.test("each command explains itself", function()
  for _, name in ipairs { "serve", "cert", "new", "check", "test" } do
    local r = run(name .. " --help")
    t.eq({ r.code, r.err }, { 0, "" }, name)
    t.ok(r.out:find("^usage: lio " .. name .. " "), r.out)
  end
end)

-- Tracebacks ------------------------------------------------------------------------------------------

local WRONG_OPTION <const> = [[require("lio.net").connect("127.0.0.1", 1, { timout = 1 }) return 1]]

t.test("the traceback of a wrong option has only the program's lines", function()
  local message = "(command line):1: net.connect: option 'timout' is unknown (did you mean 'timeout'?)"
  t.eq(run("-e " .. t.quote(WRONG_OPTION)), {
    out = "", err = "lio: " .. message .. "\nstack traceback:\n\t(command line):1: in main chunk\n", code = 1,
  })
  local dir = t.tmp()
  t.write(dir .. "/x.lua",
    "local function f()\n  " .. WRONG_OPTION .. "\nend\nrequire 'lio.loop'.run(function()\n  f()\nend)")
  local r = run("x.lua", dir)
  t.ok(r.err:find "^lio: x%.lua:2: net%.connect: .*\nstack traceback:\n\tx%.lua:2: in .*\n\tx%.lua:5: in .*\n", r.err)
  t.ok(r.err:find "\n\tx%.lua:4: in main chunk\n$", r.err)
  t.ok(not r.err:find("lio/", 1, true), r.err)
end)

t.test("with --service, too", function()
  local dir = t.tmp()
  t.write(dir .. "/x.lua", WRONG_OPTION)
  local r = run("--service x.lua", dir)
  t.eq(r.code, 1)
  t.ok(r.err:find "^lio: x%.lua:1: net%.connect: .*\nstack traceback:\n\tx%.lua:1: in .*\n$", r.err)
  t.ok(not r.err:find("lio/", 1, true), r.err)
end)

t.test("LIO_TRACEBACK=full shows the lines of the library", function()
  local r = run("-e " .. t.quote(WRONG_OPTION), "/", "LIO_TRACEBACK=full")
  t.ok(r.err:find("\n\tlio/misuse/raise.lua:%d+: in "), r.err)
  t.ok(r.err:find "\n\t%[C%]: in %?\n$", r.err)
end)

t.test("a script that calls a function of services gets a hint", function()
  local dir = t.tmp()
  t.write(dir .. "/x.lua", "local ltask = require 'ltask'\nltask.fork(print)\n")
  t.eq(run("x.lua", dir), {
    out = "", err = "lio: x.lua:2: attempt to call a nil value (field 'fork')\nstack traceback:\n"
      .. "\tx.lua:2: in main chunk\nltask.fork works only in a service: run the script with 'lio --service x.lua'\n",
    code = 1,
  })
  t.write(dir .. "/y.lua", "local other = {}\nother.fork(print)\n")
  t.ok(not run("y.lua", dir).err:find "service")
end)

t.test("an error that the library itself raises keeps its traceback", function()
  local r = run "-e 'require(\"lio.options\").either(1)'"
  t.ok(r.err:find "^lio: lio/options%.lua:%d+: .*\nstack traceback:\n\tlio/options%.lua:%d+: in ", r.err)
end)

-- Where `require` searches ------------------------------------------------------------------------------

-- Creates a folder with a module and programs that print where the module was found.
local function program()
  local dir = t.tmp()
  os.execute(("mkdir -p %s/bin %s/folder %s/other"):format(dir, dir, dir))
  t.write(dir .. "/beside.lua", "return 'beside the script'")
  t.write(dir .. "/folder/init.lua", "return 'a folder with init.lua'")
  t.write(dir .. "/other/beside.lua", "return 'on LUA_PATH'")
  t.write(dir .. "/other/other.lua", "return 'other'")
  t.write(dir .. "/main.lua", "print(require 'beside', (require 'folder'))")
  return dir
end

t.test("a module beside the script is found from any folder, before LUA_PATH", function()
  local dir = program()
  t.write(dir .. "/two.lua", "print(require 'beside', (require 'other'))")
  t.eq(run(dir .. "/main.lua").out, "beside the script\ta folder with init.lua\n")
  t.eq(run("main.lua", dir).out, "beside the script\ta folder with init.lua\n")
  t.eq(run("bin/../main.lua", dir).out, "beside the script\ta folder with init.lua\n")
  t.eq(run(dir .. "/two.lua", "/", ("LUA_PATH='%s/other/?.lua;;'"):format(dir)).out, "beside the script\tother\n")
end)

t.test("a symbolic link to a script has the folder of its target", function()
  local dir = program()
  os.execute(("ln -s ../main.lua %s/bin/command"):format(dir))
  t.eq(run(dir .. "/bin/command").out, "beside the script\ta folder with init.lua\n")
end)

t.test("-e and standard input have no folder", function()
  local dir = program()
  t.ok(run(("-e 'print(package.path)'"), dir).out:find "^/usr/local/share/lua/5%.[45]/%?%.lua;")
end)

t.test("a folder whose name cannot be part of a path is not added", function()
  local dir = t.tmp() .. "/a;b"
  os.execute("mkdir " .. t.quote(dir))
  t.write(dir .. "/main.lua", "print((package.path:gsub(';.*', '')))")
  t.ok(run(t.quote(dir .. "/main.lua")).out:find "^/usr/local/share/lua/")
end)

t.test("services find the modules: with --service, in a system that the script starts, and in workers", function()
  local dir = program()
  t.eq(run("--service " .. dir .. "/main.lua").out, "beside the script\ta folder with init.lua\n")
  t.write(dir .. "/one.lua", "io.stdout:write(require 'beside', '\\n') require 'ltask'.quit()")
  local start = "require 'ltask.start' { service_path = '%s/?.lua', bootstrap = { 'one' } }"
  t.write(dir .. "/system.lua", start:format(dir))
  t.eq(run(dir .. "/system.lua").out, "beside the script\n")
  t.write(dir .. "/workers.lua", [[
    local web = require "lio.webserver"
    if web.worker() then io.stdout:write(require "beside", "\n") io.stdout:flush() end
    web.new():run(0, { workers = 2 })
  ]])
  local child <close> = t.spawn(("%s %s/workers.lua"):format(lio, dir))
  for _ = 1, 2 do child:expect "^beside the script$" end
  t.eq(child:stop(), 0)
end)

t.test("a file beside the script does not hide a module of lio, and a file on LUA_PATH replaces it", function()
  local dir = t.tmp()
  os.execute(("mkdir -p %s/skynet %s/lio %s/path/lio"):format(dir, dir, dir))
  t.write(dir .. "/skynet/queue.lua", "error 'the program’s'")
  t.write(dir .. "/lio/json.lua", "error 'the program’s'")
  t.write(dir .. "/path/lio/json.lua", "return 'on LUA_PATH'")
  t.write(dir .. "/main.lua", "print(type(require 'skynet.queue'), (type(require 'lio.json')))")
  t.eq(run(dir .. "/main.lua").out, "table\ttable\n")
  os.remove(dir .. "/lio/json.lua")
  t.write(dir .. "/main.lua", "print((require 'lio.json'))")
  t.eq(run(dir .. "/main.lua", "/", ("LUA_PATH='%s/path/?.lua;;'"):format(dir)).out, "on LUA_PATH\n")
end)

t.test("lua_path of a system replaces the paths of the program", function()
  local dir = program()
  t.write(dir .. "/one.lua", "io.stdout:write(package.path, ' ', package.cpath, '\\n') require 'ltask'.quit()")
  t.write(dir .. "/system.lua", ("require 'ltask.start' { service_path = '%s/?.lua', bootstrap = { 'one' }, "
    .. "lua_path = 'p/?.lua', lua_cpath = 'c/?.so' }"):format(dir))
  t.eq(run(dir .. "/system.lua").out, "p/?.lua c/?.so\n")
end)

t.test("the folders of Debian's packages are searched, unless the environment replaces Lua's default", function()
  local version = run("-e 'io.write(_VERSION:match \"%d.%d\")'").out
  local multiarch = t.run "cc -print-multiarch".out:match "%S+"
  local function has(path) return t.run("test -d " .. path).code == 0 end
  local lua, c = "/usr/share/lua/" .. version .. "/", ("/usr/lib/%s/lua/%s/"):format(multiarch or "none", version)
  local function ends(text, suffix) return text:sub(-#suffix) == suffix end
  local paths = run "-e 'print(package.path) print(package.cpath)'".out
  local path, cpath = paths:match "^(.-)\n(.-)\n$"
  t.eq(ends(path, (";%s?.lua;%s?/init.lua"):format(lua, lua)), has(lua), path)
  t.eq(cpath:find(";" .. c .. "?.so", 1, true) ~= nil, has(c), cpath)
  local replaced = run("-e 'io.write(package.path, \" \", package.cpath)'", "/", "LUA_PATH=p LUA_CPATH=c")
  t.eq(replaced.out, "p c")
  local extended = run("-e 'io.write(package.path)'", "/", "'LUA_PATH=p;;'").out
  t.ok(extended:find "^p;/usr/local/share/lua/" and ends(extended, lua .. "?/init.lua") == has(lua), extended)
end)

-- The address that a server prints ----------------------------------------------------------------------

t.test("app:run prints its address once, on standard output; app:listen prints nothing", function()
  local dir = t.tmp()
  t.write(dir .. "/run.lua", [[
    local web, loop = require "lio.webserver", require "lio.loop"
    local app = web.new()
    loop.timeout(0, loop.stop)
    app:run(table.unpack(WHERE))
  ]])
  t.write(dir .. "/listen.lua", [[
    local web, loop = require "lio.webserver", require "lio.loop"
    loop.run(function() web.new():listen(0) loop.stop() end)
  ]])
  local function prints(words, pattern)
    local r = run(words, dir)
    t.eq({ r.code, r.err }, { 0, "" })
    t.ok(r.out:find("^" .. pattern .. "$"), r.out)
  end
  prints("-e 'WHERE = { 0 }' run.lua", "lio: serving http://127%.0%.0%.1:%d+/\n")
  prints("-e 'WHERE = { \"[::1]:0\" }' run.lua", "lio: serving http://%[::1%]:%d+/\n")
  prints("-e 'WHERE = { \"unix:" .. dir .. "/socket\" }' run.lua",
    "lio: serving unix:" .. dir:gsub("%p", "%%%0") .. "/socket\n")
  prints("listen.lua", "")
end)

t.finish()
