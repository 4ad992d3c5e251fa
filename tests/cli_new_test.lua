-- `lio new`: the projects that it writes run, pass their own tests, and have nothing to report for `lio check`.

local t = require "tests.kit"
local childkit = require "tests.kit.server_process"

local lio = t.quote(t.bin())

-- Creates a project. Returns its folder.
local function create(kind, name)
  local dir = t.tmp() .. "/" .. (name or "my-" .. kind)
  local r = t.run(("%s new %s %s"):format(lio, kind, t.quote(dir)))
  t.eq({ r.code, r.err }, { 0, "" })
  t.ok(r.out:find("created " .. dir .. ":\n", 1, true) == 1, r.out)
  return dir
end

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

local function files(dir)
  local list = t.run(("cd %s && find . -type f | LC_ALL=C sort"):format(t.quote(dir))).out
  return list:gsub("%./", ""):gsub("\n", " ")
end

local COMMON <const> = { app = "my-app.service", service = "my-service.service", game = "my-game.service" }
local OWN <const> = {
  app = ".gitignore .luarc.json Dockerfile README.md app.lua app_test.lua main.lua my-app.service ",
  service = ".gitignore .luarc.json Dockerfile README.md main.lua my-service.service probe.lua service/counter.lua "
    .. "service/gate.lua service/probe.lua service_test.lua ",
  game = ".gitignore .luarc.json Dockerfile README.md main.lua my-game.service server.lua server_test.lua world.lua "
    .. "world_test.lua ",
}

for kind, unit in pairs(COMMON) do
  t.test("a new " .. kind .. " has its files, names itself, and passes its tests and lio check", function()
    local dir = create(kind)
    t.eq((files(dir)), OWN[kind])
    t.ok(read(dir .. "/README.md"):find("^# my%-" .. kind .. "\n"))
    t.ok(read(dir .. "/" .. unit):find("\nWorkingDirectory=/opt/my-" .. kind .. "\n", 1, true))
    t.ok(read(dir .. "/Dockerfile"):find("\nUSER 65532:65532\n", 1, true))
    t.ok(read(dir .. "/.luarc.json"):find('"runtime.version": "' .. _VERSION .. '"', 1, true) or _VERSION ~= "Lua 5.4")
    for name in (files(dir)):gmatch "%S+" do
      t.ok(not read(dir .. "/" .. name):find "%$%l+%$", name .. " has a placeholder")
    end
    local r = t.run(("cd %s && %s check"):format(t.quote(dir), lio))
    t.eq({ r.code, r.err }, { 0, "" }, r.out)
    r = t.run(("cd %s && %s test"):format(t.quote(dir), lio))
    t.eq(r.code, 0, r.out .. r.err)
  end)
end

t.test("a new app serves a page and JSON, from any folder, and stops on SIGTERM", function()
  local dir = create "app"
  local child, port = childkit.start(("env PORT=0 %s %s/main.lua"):format(lio, t.quote(dir)))
  local loop, http = require "lio.loop", require "lio.http.client"
  loop.run(function()
    local page = assert(http.get(("http://127.0.0.1:%d/"):format(port)))
    t.eq({ page.status, page.headers["content-type"] }, { 200, "text/html; charset=utf-8" })
    t.ok(page.body:find("<h1>my-app</h1>", 1, true), page.body)
    local res = assert(http.get(("http://127.0.0.1:%d/api/hello/a%%20b"):format(port)))
    t.eq({ res.status, res.body }, { 200, '{"hello":"a b"}' })
    t.eq(assert(http.get(("http://127.0.0.1:%d/healthz"):format(port))).body, "ok\n")
    http.close_idle()
  end)
  t.eq(childkit.stop(child), 0)
end, { leaks = true })

for name, signal in pairs { SIGTERM = "TERM", SIGINT = "INT" } do
  t.test("a new service project serves, from any folder, and " .. name .. " runs its `quit` handlers", function()
    local dir = create "service"
    local child, port = childkit.start(("env -C / PORT=0 %s %s/main.lua"):format(lio, t.quote(dir)))
    require "lio.loop".run(function()
      local c <close> = childkit.connect(port)
      c:send "Ada\nAda\n"
      t.eq({ (c:recv "line"), (c:recv "line") }, { "Hello Ada, for the first time", "Hello Ada, for the 2. time" })
    end)
    child:kill(signal)
    local out = child:all()
    t.eq(child:close(), 0)
    t.ok(out:find "%(3 gate%) the gate is closed\n", out)
  end, { leaks = true })
end

t.test("a new game ticks: a client that has joined sees itself move", function()
  local dir = create "game"
  local child, port = childkit.start(("env PORT=0 %s %s/main.lua"):format(lio, t.quote(dir)))
  require "lio.loop".run(function()
    local c = childkit.connect(port)
    c:send "join Ada\nmove 1 0\n"
    local first, last
    for line in function() return c:recv "line" end do
      local x = tonumber(line:match "^state %d+ 1:([%d.]+):50%.0$")
      first = first or x
      if x and x > first then last = x break end
    end
    t.ok(last and last > first)
    c:close()
  end)
  t.eq(childkit.stop(child), 0)
end, { leaks = true })

t.test("a folder that is not empty is refused, even if its only file is hidden; an empty one is used", function()
  local dir = t.tmp()
  local words = ("%s new app %s"):format(lio, t.quote(dir))
  t.write(dir .. "/.hidden", "")
  t.eq(t.run(words), { out = "", err = "lio new: " .. dir .. " is not empty\n", code = 1 })
  os.remove(dir .. "/.hidden")
  t.eq(t.run(words).code, 0)
  t.eq(t.run(words).code, 1)
end)

t.test("the path of a file is refused", function()
  local path = t.write(t.tmp() .. "/file", "")
  local r = t.run(("%s new app %s"):format(lio, path))
  t.eq(r, { out = "", err = ("lio new: cannot create %s: Not a directory (os error 20)\n"):format(path), code = 1 })
  r = t.run(("%s new app %s/below"):format(lio, path))
  t.eq(r.code, 1)
  t.eq({ r.err:find("lio new: cannot create " .. path, 1, true), r.err:find "\n." }, { 1 })
end)

t.test("the name of a project has only characters that systemd and Docker accept", function()
  local dir = create("app", "My App (2)")
  t.ok(read(dir .. "/README.md"):find "^# my%-app%-2%-\n")
end)

t.test("mistakes are one line with a hint", function()
  for words, message in pairs {
    [""] = "the kind of the project is missing: app, service or game",
    ["ap x"] = "unknown kind of project 'ap' (did you mean 'app'?)",
    ["website x"] = "unknown kind of project 'website' (known: app, service, game)",
    ["app"] = "the folder is missing",
    ["app x y"] = "only one folder can be created, got 'y' as well",
    ["app x --force"] = "unknown option '--force'",
  } do
    local line = ("lio new: %s; see lio new --help\n"):format(message)
    t.eq(t.run(lio .. " new " .. words), { out = "", err = line, code = 1 })
  end
  local r = t.run(lio .. " new --help")
  t.eq(r.code, 0)
  t.ok(r.out:find "^usage: lio new app|service|game DIR\n", r.out)
end)

t.finish()
