-- The service `lio.webservice`: folders, in both modes, and the program of examples/webservice. There is one test for
-- each bug in ant.webserver; web_static_test.lua tests the same code through `app:static`.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local kit = require "tests.kit.webservice_system"

local function site()
  local dir = t.tmp()
  t.run(("mkdir -p %s/home/sub %s/docs %s/outside"):format(dir, dir, dir))
  t.write(dir .. "/home/index.html", "<h1>home</h1>")
  t.write(dir .. "/home/a b+c.txt", "plus")
  t.write(dir .. "/home/app.js", "1;\n")
  t.write(dir .. "/home/sub/x.txt", "inner")
  t.write(dir .. "/docs/page.html", "<p>page</p>")
  t.write(dir .. "/docs/<script>&'\".txt", "odd")
  t.write(dir .. "/docs/large.bin", ("0123456789abcdef"):rep(512 * 1024))
  t.write(dir .. "/outside/secret.txt", "secret")
  t.run(("ln -s %s/outside %s/home/link"):format(dir, dir))
  return dir
end

local dir <const> = site()
local spec <const> = {
  dir = dir,
  conf = [[{ home = "localfs:DIR/home", route = { ["/docs"] = "localfs:DIR/docs", plain = "DIR/home/sub" },
    cgi = { ["/docs/api"] = "api" } }]],
  modules = { api = "return { get = function(path) return 200, 'api ' .. path end }" },
}

kit.test("home, routes and modules are served together, and the longest path wins", spec, function(s)
  local r = s:request("GET", "/")
  t.eq({ r.status, r.body, r.headers["content-type"]:match "^[^;]*" }, { 200, "<h1>home</h1>", "text/html" })
  t.eq(s:request("GET", "/sub/x.txt").body, "inner")
  t.eq(s:request("GET", "/docs/page.html").body, "<p>page</p>")
  t.eq(s:request("GET", "/plain/x.txt").body, "inner")
  t.eq(s:request("GET", "/docs/api/1").body, "api 1")
end)

kit.test("no path leads out of its folder", spec, function(s)
  for _, target in ipairs {
    "/../outside/secret.txt", "/%2e%2e/outside/secret.txt", "/..%2foutside/secret.txt",
    "/sub/..%2f..%2foutside/secret.txt",
    "/docs/../../outside/secret.txt", "/docs/%2e%2e/%2e%2e/outside/secret.txt", "/..%5coutside%5csecret.txt",
    "/%2E%2E%2foutside%2fsecret.txt", "/.%2e/outside/secret.txt", "/..\\outside\\secret.txt",
    "/sub/../../outside/secret.txt",
    "/link/secret.txt", "//outside/secret.txt", "/docs/..;/outside/secret.txt", "/plain/%2e%2e%2fapp.js",
  } do
    local r = s:request("GET", target)
    t.ok(r.status == 400 or r.status == 404, target .. " " .. r.status)
    t.ok(not r.body:find "secret" and not r.body:find "1;", target)
  end
end)

-- Regression: the part of the path after a NUL determined the type of the file that the part before the NUL named.
kit.test("a path with a NUL is refused, and does not determine a type", spec, function(s)
  for _, target in ipairs { "/app.js%00.html", "/app.js%00", "/sub/x.txt%00/../../app.js" } do
    local r = s:request("GET", target)
    t.ok(r.status == 400 or r.status == 404, target .. " " .. r.status)
    t.ok(not r.body:find "1;", target)
  end
end)

kit.test("the status for a missing file is 404, and a script has the type of a script", spec, function(s)
  t.eq(s:request("GET", "/nothing.txt").status, 404)
  t.eq(s:request("GET", "/docs/nothing/at/all").status, 404)
  t.ok(s:request("GET", "/app.js").headers["content-type"]:find "javascript")
end)

kit.test("a plus sign in a path is not decoded", spec, function(s)
  t.eq(s:request("GET", "/a%20b+c.txt").body, "plus")
end)

kit.test("a listing escapes the names that it shows", spec, function(s)
  local r = s:request("GET", "/docs/")
  t.eq(r.status, 200)
  t.ok(not r.body:find("<script>&", 1, true), r.body)
  t.ok(r.body:find("&lt;script&gt;", 1, true), r.body)
  t.ok(r.body:find("%3Cscript%3E", 1, true), r.body)
end)

kit.test("the response to HEAD has the file's length and no body", spec, function(s)
  loop.run(function()
    local c <close> = s:open()
    local r = c:request("HEAD", "/docs/large.bin")
    t.eq({ r.status, r.headers["content-length"] }, { 200, "8388608" })
    t.eq(c:request("GET", "/sub/x.txt").body, "inner")
  end)
end)

-- Returns the number of descriptors that a system has open for files whose path matches the pattern `name`.
local function open_files(s, name)
  local path = ("/proc/%d/task/../fd"):format(s.child.pid)
  local r = t.run("p=$(pgrep -P " .. s.child.pid .. "); ls -l /proc/$p/fd " .. path .. " 2>&1")
  return select(2, r.out:gsub(name, ""))
end

-- Regression: the file stayed open until the garbage collector ran.
kit.test("a download that the client ends closes its file", spec, function(s)
  loop.run(function()
    local c = s:open()
    c:send "GET /docs/large.bin HTTP/1.1\r\nHost: x\r\n\r\n"
    t.eq(c:read_head().status, 200)
    t.ok(open_files(s, "large%.bin") > 0, "the file is open while it is sent")
    c:close()
    local limit = loop.now() + 10
    while open_files(s, "large%.bin") > 0 do
      t.ok(loop.now() < limit, "still open after 10 s")
      loop.sleep(0.01)
    end
  end)
end)

t.test("if a folder does not exist, start fails with a message that names the folder", function()
  local ok, problem = pcall(kit.start, "direct", { conf = [[{ home = "localfs:DIR/none" }]] })
  t.ok(not ok and problem:find "start: home: .*none", problem)
end)

for _, mode in ipairs(kit.modes) do
  t.test("the program of examples/webservice serves its page, its source and its clock [" .. mode .. "]", function()
    local words = { t.lio(), t.quote(t.root .. "examples/webservice/main.lua"), "0", mode }
    local child <close> = t.spawn("timeout --foreground -k 1 60 " .. table.concat(words, " "))
    local port = math.tointeger(tonumber((child:expect "127%.0%.0%.1:(%d+)")))
    local ok, problem = xpcall(loop.run, debug.traceback, function()
      local c <close> = http.open(port)
      t.ok(c:request("GET", "/").body:find "A web service")
      t.ok(c:request("GET", "/source/").body:find "tunnel.lua")
      t.ok(c:request("GET", "/clock/utc?format=%25Y").body:find "^%d%d%d%d\n$")
      t.eq(c:request("GET", "/clock?format=%25%25%25Q").status, 400)
    end)
    child:kill()
    local rest = child:all()
    t.ok(ok, tostring(problem) .. rest)
    t.eq(child:close(), 0, rest)
  end)
end

t.finish()
