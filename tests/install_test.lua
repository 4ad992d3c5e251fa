-- The executable and the module work where `make install PREFIX=` and LuaRocks install them. The builds are up to date
-- when this suite runs, so cargo only checks them.

local t = require "tests.kit"

local lua = _VERSION:match "%d%.%d"
local in_checkout = "cd " .. t.quote(t.root) .. " && unset MAKEFLAGS MFLAGS MAKELEVEL && "
local check = t.write(t.tmp() .. "/check.lua",
  "print(package.searchpath('lio', package.cpath), type(require 'lio'.create), type(require 'lio.socket'.create))")

-- Runs `check` in a stock interpreter that finds C modules only in `cpath`, not in the repository and not in the
-- folders of the system.
local function stock(cpath)
  return t.run(string.format("env LUA_PATH=none LUA_CPATH=%s/?.so lua5.4 %s", t.quote(cpath), check))
end

-- Returns the commands that make would run for a target.
local function commands(target)
  local r = t.run(in_checkout .. "make -n " .. target)
  t.eq(r.code, 0, r.err)
  return r.out
end

if lua == "5.4" then
  t.test("make install installs the executable and the module below PREFIX, and both work", function()
    local prefix = t.tmp()
    local built = t.run(in_checkout .. "make install PREFIX=" .. prefix)
    t.eq(built.code, 0, built.err)
    local r = t.run(string.format("env LUA_PATH=none LUA_CPATH=none %s/bin/lio -e 'print((require [[lio]]).create)'",
      prefix))
    t.eq(r.code, 0, r.err)
    t.eq(stock(prefix .. "/lib/lua/5.4"),
      { out = prefix .. "/lib/lua/5.4/lio.so\tfunction\tfunction\n", err = "", code = 0 })
  end)

  t.test("luarocks make installs the module into a tree", function()
    local tree = t.tmp()
    local made = t.run(in_checkout .. "luarocks --lua-version 5.4 make lio-dev-1.rockspec --tree " .. tree)
    t.eq(made.code, 0, made.out .. made.err)
    t.eq(stock(tree .. "/lib/lua/5.4"),
      { out = tree .. "/lib/lua/5.4/lio.so\tfunction\tfunction\n", err = "", code = 0 })
  end)

  -- Unloading the shared object would destroy its thread-locals, which its threads may use after the interpreter has
  -- closed.
  t.test("the shared object stays in memory after the interpreter has closed it", function()
    local program = t.write(t.tmp() .. "/closed.lua", [[
      require "lio"
      local libraries = debug.getregistry()._CLIBS
      assert(#libraries > 0)
      getmetatable(libraries).__gc(libraries)
      local maps = io.open "/proc/self/maps"
      io.write(maps and maps:read "a":find("/lio.so", 1, true) and "stays" or maps and "gone" or "stays")
      io.stdout:flush()
      os.exit(0, false)]])
    t.eq(t.run(in_checkout .. "env LUA_PATH=none LUA_CPATH=build/?.so lua5.4 " .. program),
      { out = "stays", err = "", code = 0 })
  end)
else
  -- LuaRocks needs the interpreter and the headers of the Lua version that it installs for.
  t.test("make install for this Lua version uses separate folders", function()
    local text = commands("install PREFIX=/p LUA=" .. lua)
    t.ok(text:find("'/p/lib/lua/" .. lua .. "/lio.so'", 1, true), text)
  end)
end

t.test("the modules of the two Lua versions are built side by side", function()
  local five = commands "module LUA=5.5"
  t.ok(commands "module LUA=5.4":find("mv -f $new build/lio.so", 1, true))
  t.ok(five:find("mv -f $new build/lua5.5/lio.so", 1, true))
  t.is_nil(five:find("build/lio.so", 1, true))
end)

-- A process that loads or installs a file while make writes it must get either the old file or the new file.
t.test("files that other processes may load are replaced only by a rename", function()
  local text = commands "rock LUA=5.4"
  for _, path in ipairs { "build/lio.so", "build/ltask.so", "build/rock/lio.so" } do
    t.ok(text:find("mv -f $new " .. path .. "\n", 1, true), path)
  end
  for line in text:gmatch "[^\n]+" do
    if line:find "cp " or line:find "ln " then t.ok(line:find("&& mv -f $new", 1, true), line) end
  end
end)

t.finish()
