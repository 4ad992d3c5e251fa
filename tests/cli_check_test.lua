-- `lio check`: syntax errors and undefined global variables, with their lines. The tests of the command run the
-- executable (LIO_BIN) in both hosts; those of the parser run in the host. The programs are wrong on purpose.

local t = require "tests.kit"
local globals = require "lio.check.globals"

local lio = t.quote(t.bin()) .. " check "

-- Writes files to a new folder. Returns its path.
local function folder(files)
  local dir = t.tmp()
  for name, text in pairs(files) do
    local parent = name:match "^(.*)/"
    if parent then os.execute("mkdir -p " .. t.quote(dir .. "/" .. parent)) end
    t.write(dir .. "/" .. name, text)
  end
  return dir
end

-- Runs `lio check` in a folder with these files.
local function check(files, words)
  return t.run(("cd %s && %s%s"):format(t.quote(folder(files)), lio, words or ""))
end

-- The uses of globals in a text, as "name:line" or, if the program writes, "name=line".
local function uses(text)
  t.ok(load(text))
  local list = {}
  for index, use in ipairs((globals.find(text))) do
    list[index] = use.name .. (use.is_write and "=" or ":") .. use.line
  end
  return table.concat(list, " ")
end

t.test("undefined globals are reported with file and line, and the exit code is 1", function()
  t.eq(check {
    ["main.lua"] = "local x = 1\nprint(x,\n  unknwon)\nlocal function f()\n  count = x\nend\nf()\n",
    ["sub/other.lua"] = "return missing + missing\n",
    ["good.lua"] = "return arg, string.format, require\n",
  }, {
    out = "main.lua:3: undefined global 'unknwon'\nmain.lua:5: assignment to undefined global 'count'\n"
      .. "sub/other.lua:1: undefined global 'missing'\n",
    err = "3 problems in 3 files\n",
    code = 1,
  })
end)

t.test("without problems the exit code is 0", function()
  t.eq(check { ["a.lua"] = "print 'a'" }, { out = "no problem in 1 file\n", err = "", code = 0 })
end)

t.test("a syntax error is reported with Lua's message, and the other files are checked", function()
  local r = check { ["bad.lua"] = "local x = 1\n\nx = = 2\n", ["other.lua"] = "print(nothing)" }
  t.eq(r, {
    out = "bad.lua:3: unexpected symbol near '='\nother.lua:1: undefined global 'nothing'\n",
    err = "2 problems in 2 files\n",
    code = 1,
  })
end)

t.test("assignments outside of functions, and to _G.name, define globals for all files", function()
  t.eq(check {
    ["config.lua"] = "limit = 5\nif limit then\n  nested = 1\nend\nfunction setup() _G.later = 1 end\n",
    ["main.lua"] = "setup()\nprint(limit, nested, later)\nlocal function f() limit = 6 end\nf()\n",
  }.code, 0)
end)

t.test("a name that a function alone assigns is undefined everywhere", function()
  t.eq(check { ["a.lua"] = "local function f() leak = 1 end\nf()\nprint(leak)\n" }.out,
    "a.lua:1: assignment to undefined global 'leak'\na.lua:3: undefined global 'leak'\n")
end)

t.test("an endless .luacheckrc is ignored with a warning", function()
  local r = check { ["a.lua"] = "print(1)", [".luacheckrc"] = "while true do end" }
  t.eq(r, {
    out = "no problem in 1 file\n", err = "lio check: .luacheckrc is ignored: it runs for too long\n", code = 0,
  })
end)

t.test("a folder that contains a link to itself is visited once", function()
  local dir = folder { ["a.lua"] = "print(nothing)", ["sub/b.lua"] = "" }
  os.execute(("cd %s && ln -s . loop && ln -s ../sub sub/loop"):format(t.quote(dir)))
  t.eq(t.run(("cd %s && %s . sub"):format(t.quote(dir), lio)),
    { out = "a.lua:1: undefined global 'nothing'\n", err = "1 problem in 2 files\n", code = 1 })
end)

t.test("a file that cannot be read is a problem", function()
  if os.execute "test $(id -u) = 0" then return end -- root reads every file
  local dir = folder { ["a.lua"] = "print(nothing)" }
  os.execute("chmod 000 " .. t.quote(dir .. "/a.lua"))
  t.eq(t.run(("cd %s && %s"):format(t.quote(dir), lio)),
    { out = "a.lua:0: cannot be read: Permission denied\n", err = "1 problem in 1 file\n", code = 1 })
end)

t.test("a long line is searched once", function()
  local source, searched = "return " .. ("1, "):rep(1000) .. "1", 0
  local text = setmetatable({}, { __len = function() return #source end, __index = {
    find = function(_, pattern, position, ...)
      local first, last = source:find(pattern, position, ...)
      if pattern == "[\r\n]" then searched = searched + (first or #source) - position end
      return first, last
    end,
    sub = function(_, ...) return source:sub(...) end,
    match = function(_, ...) return source:match(...) end,
  } })
  local lexer = require "lio.check.lexer".new(text)
  local count = 0
  while lexer:next() ~= "end" do count = count + 1 end
  t.eq(count, 2002)
  t.ok(searched <= #source, searched)
end)

t.test("--globals, .luarc.json and .luacheckrc list further globals", function()
  local program = { ["a.lua"] = "print(one, two)" }
  t.eq(check(program).out, "a.lua:1: undefined global 'one'\na.lua:1: undefined global 'two'\n")
  t.eq(check(program, "--globals one,two").code, 0)
  t.eq(check(program, "--globals=one . --globals two").out, "a.lua:1: undefined global 'one'\n", "the last counts")
  program[".luarc.json"] = [[{ "diagnostics.globals": ["one"], "diagnostics": { "globals": ["two"] } }]]
  t.eq(check(program).code, 0)
  program[".luarc.json"] = nil
  program[".luacheckrc"] = "std = 'lua54'\nglobals = { 'one' }\nfiles['a.lua'].read_globals = { two = {} }\n"
  t.eq(check(program).code, 0)
  t.eq(check(program, "a.lua").code, 0, "the settings of the current folder apply to files")
end)

t.test("the settings of a checked folder are read, and settings that cannot be read are reported", function()
  local dir = folder { ["p/a.lua"] = "print(one)", ["p/.luacheckrc"] = "globals = { 'one' }" }
  t.eq(t.run(("cd %s && %s p"):format(dir, lio)).code, 0)
  local r = check { ["a.lua"] = "print(1)", [".luarc.json"] = "{", [".luacheckrc"] = "globals = {" }
  t.eq(r.code, 0)
  t.ok(r.err:find "^lio check: %.luacheckrc is ignored: .*\nlio check: %.luarc%.json is ignored: ", r.err)
end)

t.test("hidden folders are skipped, links are followed once, and a precompiled file is not checked", function()
  local dir = folder { ["a.lua"] = "print(1)", [".git/hook.lua"] = "print(nothing)", ["notes.txt"] = "print(" }
  os.execute(("ln -s . %s/loop"):format(dir))
  t.write(dir .. "/compiled.lua", string.dump(function() return 1 end))
  local r = t.run(("cd %s && %s"):format(dir, lio))
  t.eq(r.code, 0)
  t.ok(r.out:find "^no problem in 2 files\n$", r.out)
end)

t.test("a first line with # is skipped, but counted", function()
  t.eq(check { ["a.lua"] = "#!/usr/bin/env lio\nprint(nothing)" }.out, "a.lua:2: undefined global 'nothing'\n")
end)

t.test("mistakes are one line with a hint", function()
  for words, message in pairs {
    ["--globas x"] = "unknown option '--globas' (did you mean '--globals'?); see lio check --help",
    ["--globals"] = "'--globals' needs a value; see lio check --help",
    ["--globals 1x"] = "--globals: '1x' is not a name; see lio check --help",
    ["nowhere"] = "cannot open 'nowhere': there is no such file or folder",
  } do
    t.eq(check({ ["a.lua"] = "" }, words), { out = "", err = "lio check: " .. message .. "\n", code = 1 })
  end
  t.eq(check {}, { out = "", err = "lio check: no Lua file in .\n", code = 1 })
  local r = check({}, "--help")
  t.eq(r.code, 0)
  t.ok(r.out:find "^usage: lio check ", r.out)
end)

-- The parser ----------------------------------------------------------------------------------------

t.test("local variables have the scopes of Lua", function()
  t.eq(uses "local a = a print(a)", "a:1 print:1")
  t.eq(uses "do local x = 1 end return x", "x:1")
  t.eq(uses "local function f() return f end", "")
  t.eq(uses "local f = function() return f end", "f:1")
  t.eq(uses "for i = i, 2 do local j = i end return i, j", "i:1 i:1 j:1")
  t.eq(uses "for k, v in pairs(v) do return v, k end", "v:1 pairs:1")
  t.eq(uses "repeat local done = 1 until done", "")
  t.eq(uses "while x do local x = 1 end if x then local y elseif y then else z = y end", "x:1 x:1 y:1 y:1 z=1")
  t.eq(uses "local t = {} function t.f(a, ...) return a, b, ... end function t:m() return self end", "b:1")
  t.eq(uses "function g(a) return a end function x.y.z() end", "g=1 x:1")
  t.eq(uses "do goto done end ::done:: local x <const>, y <close> = 1, nil return x, y, done", "done:1")
end)

t.test("fields, keys, methods and labels are not variables", function()
  t.eq(uses "local t = {} t.a = t.b t:c() t[d] = { e = 1, [f] = 2, g, 'h'; i = j }", "d:1 f:1 g:1 j:1")
  t.eq(uses "return ('x'):rep(n), #t .. 'x', -a ^ not b", "n:1 t:1 a:1 b:1")
  t.eq(uses "f{ x }'y'[[z]].w(v)", "x:1 f:1 v:1")
end)

t.test("a local _ENV replaces the globals", function()
  t.eq(uses "local _ENV = { x = 1 } x = y", "")
  t.eq(uses "local function f(_ENV) return a end return b", "b:1")
  t.eq(uses "return _ENV", "")
end)

t.test("each name has its own line, also in statements with several lines", function()
  t.eq(uses "\nfirst =\n  function()\n    return second\n  end\nthird,\nfourth = 1,\n fifth",
    "second:4 first=2 fifth:8 third=6 fourth=7")
  t.eq(uses "local x = one\n  + two\n  + three(\n    four\n  )", "one:1 two:2 four:4 three:3")
  t.eq(uses "--[[\n\n]] a = [==[\n]]\n]==] .. b -- c\nreturn \"x\\\ny\", 'z\\z\n  ', d", "b:5 a=3 d:8")
  t.eq(uses "x = 1\r\ny = 2\n\rz = 3\rw = 4", "x=1 y=2 z=3 w=4")
end)

t.test("numbers, strings and operators do not hide names", function()
  t.eq(uses "return 0x1p4, 1e-3, 3.14, .5, 0xA.8, 1 ..a, 2^-b, '\\'c', \"\\\\\", 5 //d, e ~=f, g<<h, 0xep1-i",
    "a:1 b:1 d:1 e:1 f:1 g:1 h:1 i:1")
end)

t.test("the declarations of Lua 5.5 define globals", function()
  if _VERSION == "Lua 5.4" then return t.ok(not load "global x") end
  local list, defined = globals.find "global x, y <const> = 1, 2\nglobal function f() return x end\nlocal x\nx = 1"
  t.eq({ #list, defined }, { 1, { x = true, y = true, f = true } })
  t.eq(uses "global *\nglobal<const> *\nlocal <const> a, b = c, a", "c:3 a:3")
  t.eq(uses "local function f(...rest) return rest end", "")
end)

t.test("the parser finds the globals that the compiler finds, in every file of the library", function()
  local luac = "luac" .. _VERSION:match "%d%.%d"
  -- Debian has no luac for Lua 5.5.
  if _VERSION ~= "Lua 5.4" then return t.ok(true) end
  local pipe = assert(io.popen("cd " .. t.quote(t.root) .. " && find lualib/lio lualib/ltask -name '*.lua'"))
  local count = 0
  for path in pipe:lines() do
    local wanted, found = {}, {}
    local listing = t.run(("cd %s && %s -l -p %s"):format(t.quote(t.root), luac, path))
    t.eq(listing.code, 0, listing.err)
    for name in listing.out:gmatch '_ENV "([^"]+)"' do wanted[name] = true end
    wanted._ENV = nil
    local file <close> = assert(io.open(t.root .. path))
    for _, use in ipairs((globals.find(file:read "a"))) do found[use.name] = true end
    t.eq(found, wanted, path)
    count = count + 1
  end
  pipe:close()
  t.ok(count > 100, count)
end)

t.finish()
