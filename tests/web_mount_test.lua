-- `app:mount`: an app that serves the paths below a prefix of another app.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local web = require "lio.webserver"

-- Requests each target on one connection. Returns the responses as a list of strings, each with the status and the
-- body.
local function ask(app, targets, method)
  local answers = {}
  http.with(app, function(open)
    local c = open()
    for index, target in ipairs(targets) do
      local r = c:request(method or "GET", target)
      answers[index] = r.status .. " " .. r.body:gsub("\n", "")
    end
  end)
  return answers
end

local function where(req)
  return ("%s|%s|%s"):format(req.base, req.path, req.original_path)
end

t.test("the routes of a mounted app are below the prefix, and req.path does not include the prefix", function()
  local app, inner = web.new(), web.new()
  inner:get("/", where):get("/list", where):get("/:id/x", function(req) return where(req) .. req.params.id end)
  app:mount("/api", inner)
  app:get("/", where)
  t.eq(ask(app, { "/", "/api", "/api/", "/api/list?q=1", "/api/a%20b/x", "/apix", "/list" }), {
    "200 |/|/", "200 /api|/|/api", "200 /api|/|/api/", "200 /api|/list|/api/list",
    "200 /api|/a b/x|/api/a b/xa b", "404 Not Found", "404 Not Found",
  })
end)

t.test("a prefix may end in a slash, or be only a slash", function()
  local app, inner = web.new(), web.new()
  inner:get("/x", where)
  app:mount("/a/", inner):mount("/", inner)
  t.eq(ask(app, { "/a/x", "/x" }), { "200 /a|/x|/a/x", "200 |/x|/x" })
end)

t.test("a prefix may have parameters and constraints", function()
  local app, inner = web.new(), web.new()
  inner:get("/files/*path", function(req)
    return req.base .. "|" .. req.params.user .. "|" .. req.params.path
  end)
  app:mount("/users/:user<%d+>", inner)
  t.eq(ask(app, { "/users/42/files/a/b", "/users/x/files/a", "/users/4%32/files/c" }),
    { "200 /users/42|42|a/b", "404 Not Found", "200 /users/42|42|c" })
end)

t.test("an escaped slash in a parameter of the prefix is not a separator of the path", function()
  local app, inner = web.new(), web.new()
  inner:get("/x", where)
  app:mount("/:name", inner)
  t.eq(ask(app, { "/a%2Fb/x" }), { "200 /a/b|/x|/a/b/x" })
end)

t.test("mounts may be nested, and the middleware of each app runs for the routes inside the app", function()
  local app, middle, inner, order = web.new(), web.new(), web.new(), {}
  for name, one in pairs { app = app, middle = middle, inner = inner } do
    one:use(function(req, _, next)
      order[#order + 1] = name .. " " .. req.path
      next()
      order[#order + 1] = "after " .. name .. " " .. req.path
    end)
  end
  inner:get("/leaf", function(req) return req.base end)
  middle:mount("/inner", inner):get("/own", function() return "own" end)
  app:mount("/middle", middle):get("/top", function() return "top" end)
  t.eq(ask(app, { "/middle/inner/leaf" }), { "200 /middle/inner" })
  t.eq(order, {
    "app /middle/inner/leaf", "middle /inner/leaf", "inner /leaf",
    "after inner /leaf", "after middle /inner/leaf", "after app /middle/inner/leaf",
  })
  order = {}
  ask(app, { "/middle/own", "/top" })
  t.eq(#order, 6)
end)

t.test("in a mounted app, the prefix of use is relative to the mount", function()
  local app, inner = web.new(), web.new()
  inner:use("/admin", function() return 403, "no" end)
  inner:get("/*rest", function() return "yes" end)
  app:mount("/in", inner)
  t.eq(ask(app, { "/in/admin/x", "/in/open", "/in/in/admin" }), { "403 no", "200 yes", "200 yes" })
end)

t.test("routes that are added after the mount are found", function()
  local app, inner, leaf = web.new(), web.new(), web.new()
  app:mount("/a", inner)
  inner:get("/late", where)
  inner:mount("/b", leaf)
  leaf:get("/later", where)
  t.eq(ask(app, { "/a/late", "/a/b/later" }), { "200 /a|/late|/a/late", "200 /a/b|/later|/a/b/later" })
end)

t.test("404, 405 and OPTIONS depend on the routes of all apps", function()
  local app, inner = web.new(), web.new()
  app:put("/api/thing", function() return "put" end)
  inner:get("/thing", function() return "get" end):post("/thing", function() return "post" end)
  app:mount("/api", inner)
  http.with(app, function(open)
    local c = open()
    local r = c:request("DELETE", "/api/thing")
    t.eq({ r.status, r.headers.allow }, { 405, "GET, HEAD, OPTIONS, POST, PUT" })
    r = c:request("OPTIONS", "/api/thing")
    t.eq({ r.status, r.headers.allow }, { 204, "GET, HEAD, OPTIONS, POST, PUT" })
    t.eq(c:request("HEAD", "/api/thing").headers["content-length"], "3")
    t.eq(c:request("PUT", "/api/thing").body, "put")
    t.eq(c:request("GET", "/api/none").status, 404)
  end)
end)

-- Regression: the guide said that the not_found of the app that listens is also called for 405 below a prefix.
t.test("the not_found of the app that listens is called for 404 below a prefix, and never for 405", function()
  local app, inner = web.new(), web.new()
  inner:get("/thing", function() return "get" end)
  app:mount("/api", inner):not_found(function(_, res) return 404, "app: " .. tostring(res.code) end)
  http.with(app, function(open)
    local c = open()
    local r = c:request("POST", "/api/thing")
    t.eq({ r.status, r.headers.allow, r.body }, { 405, "GET, HEAD, OPTIONS", "Method Not Allowed\n" })
    r = c:request("POST", "/api/none")
    t.eq({ r.status, r.headers.allow, r.body }, { 404, nil, "app: nil" })
  end)
end)

t.test("not_found and middleware of a mounted app apply to everything below its prefix", function()
  local app, inner, leaf = web.new(), web.new(), web.new()
  inner:not_found(function(req) return 404, "inner has no " .. req.path end)
  inner:use(function(_, res, next)
    res:header("X-Inner", "1")
    next()
  end)
  inner:get("/x", where)
  inner:mount("/leaf", leaf)
  app:mount("/in", inner):not_found(function(req) return 404, "app has no " .. req.path end)
  http.with(app, function(open)
    local c = open()
    local function get(target, method)
      local r = c:request(method or "GET", target)
      return r.body .. "|" .. tostring(r.headers["x-inner"])
    end
    t.eq(get "/in/y", "inner has no /y|1")
    t.eq(get "/in", "inner has no /|1")
    t.eq(get "/in/leaf/z", "inner has no /z|1")
    t.eq(get "/inner", "app has no /inner|nil")
    leaf:not_found(function(req) return 404, "leaf has no " .. req.path end)
    t.eq(get "/in/leaf/z", "leaf has no /z|1")
    local r = c:request("DELETE", "/in/x")
    t.eq({ r.status, r.body, r.headers.allow }, { 405, "inner has no /x", "GET, HEAD, OPTIONS" })
    inner:not_found(function(req, res) return req.path .. " " .. tostring(res.code) end)
    r = c:request("DELETE", "/in/x")
    t.eq({ r.status, r.body, r.headers.allow, r.headers["x-inner"] }, { 405, "/x 405", "GET, HEAD, OPTIONS", "1" })
    t.eq(c:request("GET", "/in/y").body, "/y nil")
    t.eq(get("/in/x", "OPTIONS"), "|1")
  end)
end)

t.test("not_found applies where a prefix's constraints are satisfied, even in apps that are mounted later", function()
  local app, inner, late = web.new(), web.new(), web.new()
  app:mount("/users/:id<%d+>", inner)
  inner:not_found(function() return 404, "inner" end)
  inner:mount("/late", late)
  late:not_found(function() return 404, "late" end)
  t.eq(ask(app, { "/users/1/x", "/users/a/x", "/users/1/late/x", "/users/a/late/x" }),
    { "404 inner", "404 Not Found", "404 late", "404 Not Found" })
end)

t.test("after next, the middleware of each app sees its own paths again, even after errors", function()
  local app, inner, leaf = web.new(), web.new(), web.new()
  local seen = {}
  for name, one in pairs { app = app, inner = inner, leaf = leaf } do
    one:use(function(req, res, next)
      next()
      seen[name] = { req.path, req.base, res.code }
    end)
  end
  leaf:get("/boom", function() error("boom", 0) end)
  app:mount("/in", inner):on_error(function(_, req) return 500, req.path end)
  inner:mount("/leaf", leaf)
  http.logged(function() t.eq(ask(app, { "/in/leaf/boom" }), { "500 /in/leaf/boom" }) end)
  t.eq(seen.app, { "/in/leaf/boom", "", 500 })
  t.eq(seen.inner, { "/leaf/boom", "/in", 500 })
  t.eq(seen.leaf, { "/boom", "/in/leaf", 500 })
  inner:on_error(function(_, req) return 503, req.path end)
  http.logged(function() t.eq(ask(app, { "/in/leaf/boom" }), { "503 /leaf/boom" }) end)
  t.eq(seen.app, { "/in/leaf/boom", "", 503 })
  t.eq(seen.inner, { "/leaf/boom", "/in", 503 })
  t.eq(seen.leaf, { "/boom", "/in/leaf", 503 })
end)

t.test("the innermost on_error responds, and sees the paths of its app", function()
  local app, inner, leaf = web.new(), web.new(), web.new()
  local function boom() error("boom", 0) end
  leaf:get("/boom", boom)
  inner:get("/boom", boom):mount("/leaf", leaf):on_error(function(err, req) return 500, err .. " " .. req.path end)
  local bare = web.new()
  bare:get("/boom", boom)
  app:mount("/in", inner):mount("/bare", bare)
  app:on_error(function(err, req) return 500, "app " .. err .. " " .. req.path end)
  local got
  http.logged(function() got = ask(app, { "/in/boom", "/in/leaf/boom", "/bare/boom" }) end)
  t.eq(got, { "500 boom /boom", "500 boom /leaf/boom", "500 app boom /bare/boom" })
end)

t.test("for the prefix itself, the tail of a route is empty", function()
  local app, inner = web.new(), web.new()
  inner:get("/*rest", function(req) return "[" .. req.params.rest .. "]" end)
  app:mount("/p", inner)
  t.eq(ask(app, { "/p", "/p/", "/p/a/b" }), { "200 []", "200 []", "200 [a/b]" })
end)

t.test("one app can be mounted twice, and two apps can be mounted at one prefix", function()
  local app, a, b = web.new(), web.new(), web.new()
  a:get("/a", where)
  b:get("/b", where)
  app:mount("/1", a):mount("/2", a):mount("/1", b)
  t.eq(ask(app, { "/1/a", "/2/a", "/1/b" }), { "200 /1|/a|/1/a", "200 /2|/a|/2/a", "200 /1|/b|/1/b" })
end)

t.test("handlers of a mounted app may wait, and requests do not get each other's paths", function()
  local app, inner = web.new(), web.new()
  local loop = require "lio.loop"
  inner:get("/:id", function(req)
    loop.sleep(0.01)
    return where(req)
  end)
  app:mount("/m", inner)
  http.with(app, function(open)
    local clients = {}
    for i = 1, 5 do clients[i] = open():send(("GET /m/%d HTTP/1.1\r\nHost: x\r\n\r\n"):format(i)) end
    for i, c in ipairs(clients) do
      t.eq(c:response("GET").body, ("/m|/%d|/m/%d"):format(i, i))
    end
  end)
end)

t.test("a value that cannot be mounted is refused at the caller's line", function()
  local app, inner = web.new(), web.new()
  t.raises("web_mount_test.*bad argument #1 to 'mount'", function() app:mount("x", inner) end)
  t.raises("bad argument #1 to 'mount'", function() app:mount("/*all", inner) end)
  t.raises("bad argument #2 to 'mount' %(app expected, got table%)", function() app:mount("/x", {}) end)
  t.raises("an app cannot be mounted in itself", function() app:mount("/x", app) end)
  inner:mount("/x", app)
  t.raises("web_mount_test.*an app cannot be mounted in itself", function() app:mount("/y", inner) end)
  local one = web.new():get("/r/a", where)
  local other = web.new():get("/a", where)
  t.raises("a route for GET '/r/a' already exists", function() one:mount("/r", other) end)
end)

t.finish()
