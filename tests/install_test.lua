-- The executable and the module work where `make install PREFIX=` and LuaRocks install them. The builds are up to date
-- when this suite runs, so cargo only checks them.

local t = require "tests.kit"

if os.getenv "LIO_TEST_SANITIZER" then
  print "left out under AddressSanitizer: make installs the builds without a sanitizer, which may be out of date"
  t.finish()
  return
end

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

-- Runs a command in the checkout, which must succeed. Returns its output.
local function succeed(command)
  local r = t.run(in_checkout .. command)
  t.eq(r.code, 0, r.out .. r.err)
  return r.out
end

-- Returns the paths of the files and links below a folder, sorted.
local function files_below(folder)
  local list = {}
  local r = t.run("cd " .. t.quote(folder) .. " && find . ! -type d")
  t.eq({ r.code, r.err }, { 0, "" })
  for path in r.out:gmatch "%./([^\n]+)" do list[#list + 1] = path end
  table.sort(list)
  return list
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

-- The installed files, by path below the prefix; the value is the file in the checkout with the same content, or true.
local INSTALLED <const> = {
  ["bin/lio"] = true, ["lib/lua/5.4/lio.so"] = true, ["lib/lua/5.4/ltask.so"] = true,
  ["share/man/man1/lio.1"] = "packaging/lio.1",
  ["share/bash-completion/completions/lio"] = "packaging/completions/lio.bash",
  ["share/zsh/site-functions/_lio"] = "packaging/completions/lio.zsh",
  ["share/fish/vendor_completions.d/lio.fish"] = "packaging/completions/lio.fish",
}
for _, name in ipairs(files_below(t.root .. "lualib/meta")) do
  INSTALLED["share/lio/meta/" .. name] = "lualib/meta/" .. name
end

local function check_installed(prefix)
  local want = {}
  for path in pairs(INSTALLED) do want[#want + 1] = path end
  table.sort(want)
  t.eq(files_below(prefix), want)
  for path, source in pairs(INSTALLED) do
    if source ~= true then t.eq(read(prefix .. "/" .. path), read(t.root .. source), path) end
  end
  t.eq(t.run("readlink " .. prefix .. "/lib/lua/5.4/ltask.so").out, "lio.so\n")
  local r = t.run(string.format("env LUA_PATH=none LUA_CPATH=none %s/bin/lio -e 'print((require [[lio]]).create)'",
    prefix))
  t.eq(r.code, 0, r.err)
  t.eq(stock(prefix .. "/lib/lua/5.4"),
    { out = prefix .. "/lib/lua/5.4/lio.so\tfunction\tfunction\n", err = "", code = 0 })
end

if lua == "5.4" then
  t.test("make install installs all files below PREFIX, and make uninstall removes exactly these", function()
    local prefix = t.tmp()
    succeed("make install PREFIX=" .. prefix)
    check_installed(prefix)
    -- Files of other programs, and files that the user has added.
    local others = { "bin/other", "share/lio/meta/own.lua", "share/man/man1/other.1" }
    for _, path in ipairs(others) do t.write(prefix .. "/" .. path, "") end
    succeed("make uninstall PREFIX=" .. prefix)
    t.eq(files_below(prefix), others)
    os.remove(prefix .. "/share/lio/meta/own.lua")
    succeed("make uninstall PREFIX=" .. prefix)
    t.eq(t.run("ls " .. prefix .. "/share").out, "bash-completion\nfish\nman\nzsh\n")
  end)

  t.test("make install puts DESTDIR before PREFIX", function()
    local folder = t.tmp()
    succeed("make install PREFIX=/usr DESTDIR=" .. folder)
    check_installed(folder .. "/usr")
    succeed("make uninstall PREFIX=/usr DESTDIR=" .. folder)
    t.eq(files_below(folder), {})
  end)

  t.test("the release tarball installs the same files and removes them", function()
    local folder, prefix = t.tmp(), t.tmp()
    local name = succeed("make dist DIST=" .. folder):match "\nbuilt [^\n]+/(lio%-%d[%w_.-]+)%.tar%.gz\n"
    t.eq(t.run("ls " .. folder).out, name .. ".tar.gz\n")
    succeed(("tar -C %s -xzf %s/%s.tar.gz"):format(folder, folder, name))
    folder = folder .. "/" .. name
    t.eq(t.run("LC_ALL=C ls " .. folder).out,
      "CHANGELOG.md\nLICENSE\nREADME.md\nbin\ninstall.sh\nlib\nlio.service\nshare\n")
    local install = folder .. "/install.sh --prefix " .. prefix
    local version = t.run(t.quote(t.bin()) .. " -v").out:gsub("\n", "")
    t.eq(t.run(install), { out = ("installed %s as %s/bin/lio\n"):format(version, prefix), err = "", code = 0 })
    check_installed(prefix)
    t.eq(t.run(install).code, 0, "a second time")
    check_installed(prefix)
    t.write(prefix .. "/bin/other", "")
    t.eq(t.run(install .. " --uninstall"), { out = "removed lio from " .. prefix .. "\n", err = "", code = 0 })
    t.eq(files_below(prefix), { "bin/other" })
    for arguments, message in pairs {
      ["--prefx x"] = "unrecognized argument '--prefx'", ["--prefix"] = "'--prefix' needs a folder",
      ["--prefix="] = "'--prefix' needs a folder",
    } do
      local usage = "\nusage: ./install.sh [--prefix DIR] [--uninstall]\n"
      t.eq(t.run(folder .. "/install.sh " .. arguments),
        { out = "", err = "install.sh: " .. message .. usage, code = 1 })
    end
  end)

  -- cargo-deb builds the package; tests/long/install_debian.sh installs it.
  t.test("the Debian package has the installed files and the version of the crate", function()
    local cargo, found = read(t.root .. "Cargo.toml"), {}
    local assets = cargo:match "%[package%.metadata%.deb%].-\nassets = (%b[])\n"
    for source, dest in assets:gmatch '%["([^"]+)", "usr/([^"]+)", "%d+"%]' do
      local path = dest:find "/$" and dest .. source:match "[^/]+$" or dest
      if not path:find "^share/doc/" then found[path:gsub("zsh/vendor%-completions", "zsh/site-functions")] = source end
    end
    t.ok(assets:find('{ link_name = "lio.so", dest = "usr/lib/lua/5.4/ltask.so" }', 1, true))
    t.eq(found["share/lio/meta/*.lua"], "lualib/meta/*.lua")
    for path, source in pairs(INSTALLED) do
      local is_listed = path:find "^share/lio/meta/" or path:find "ltask%.so$" or found[path]
      t.ok(is_listed, path)
      if source ~= true and found[path] then t.eq(found[path], source) end
    end
    local version = cargo:match '\nversion = "([^"]+)"'
    t.eq(read(t.root .. "packaging/debian/changelog"):match "^lio %(([^)]+)%-1%) ", version)
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
