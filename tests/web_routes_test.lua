-- How `lio.webserver` finds the handler for a path and a method, and how it responds if there is no handler.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local web = require "lio.webserver"

-- Returns a handler that responds with `name` and the parameters of the request.
local function named(name)
  return function(req)
    local list = {}
    for key, value in pairs(req.params) do list[#list + 1] = key .. "=" .. value end
    table.sort(list)
    return table.concat({ name, table.unpack(list) }, " ")
  end
end

local function ask(app, cases)
  http.with(app, function(open)
    local c = open()
    for _, case in ipairs(cases) do
      local method, target = case[1]:match "^(%u+) (.*)$"
      local r = c:request(method, target)
      t.eq(r.status .. " " .. r.body, case[2], case[1])
    end
  end)
end

t.test("a literal path matches only as a whole", function()
  local app = web.new()
  app:get("/", named "root")
  app:get("/a", named "a")
  app:get("/a/", named "a slash")
  app:get("/a/b", named "ab")
  ask(app, {
    { "GET /", "200 root" },
    { "GET /a", "200 a" },
    { "GET /a/", "200 a slash" },
    { "GET /a/b", "200 ab" },
    { "GET /a/b/", "404 Not Found\n" },
    { "GET /ab", "404 Not Found\n" },
    { "GET /A", "404 Not Found\n" },
    { "GET //", "404 Not Found\n" },
    { "GET /a?x=1", "200 a" },
  })
end)

t.test("a parameter matches one segment that is not empty", function()
  local app = web.new()
  app:get("/users/:id", named "user")
  app:get("/users/:id/posts/:post", named "post")
  ask(app, {
    { "GET /users/7", "200 user id=7" },
    { "GET /users/7/posts/first", "200 post id=7 post=first" },
    { "GET /users/", "404 Not Found\n" },
    { "GET /users/7/", "404 Not Found\n" },
    { "GET /users//posts/1", "404 Not Found\n" },
  })
end)

t.test("a tail matches the rest of the path, including slashes, and may be empty", function()
  local app = web.new()
  app:get("/files/*path", named "files")
  ask(app, {
    { "GET /files/a/b.txt", "200 files path=a/b.txt" },
    { "GET /files/", "200 files path=" },
    { "GET /files/a//b/", "200 files path=a//b/" },
    { "GET /files", "404 Not Found\n" },
  })
end)

t.test("a constraint must match the whole decoded value", function()
  local app = web.new()
  app:get("/n/:id<%d+>", named "number")
  app:get("/n/:id<%a+>", named "word")
  app:get("/hex/:v<%x%x>", named "hex")
  app:get("/f/*path<.*%.lua>", named "lua")
  ask(app, {
    { "GET /n/42", "200 number id=42" },
    { "GET /n/abc", "200 word id=abc" },
    { "GET /n/a1", "404 Not Found\n" },
    { "GET /n/4%32", "200 number id=42" },
    { "GET /hex/fff", "404 Not Found\n" },
    { "GET /f/a/b.lua", "200 lua path=a/b.lua" },
    { "GET /f/a/b.txt", "404 Not Found\n" },
  })
end)

t.test("if a constraint is not satisfied, the next matching pattern is used", function()
  local app = web.new()
  app:get("/x/:id<%d+>", named "number")
  app:get("/x/*rest", named "rest")
  ask(app, {
    { "GET /x/1", "200 number id=1" },
    { "GET /x/a", "200 rest rest=a" },
  })
end)

t.test("the more specific pattern is used, regardless of the order in which patterns are added", function()
  local app = web.new()
  app:get("/*all", named "all")
  app:get("/a/:x", named "parameter")
  app:get("/a/b", named "literal")
  app:get("/a/*rest", named "rest")
  ask(app, {
    { "GET /a/b", "200 literal" },
    { "GET /a/c", "200 parameter x=c" },
    { "GET /a/c/d", "200 rest rest=c/d" },
    { "GET /b", "200 all all=b" },
    { "GET /", "200 all all=" },
  })
end)

t.test("a specific route for any method takes precedence over a general route for the method", function()
  local app = web.new()
  app:any("/a/:id<%d+>", named "any")
  app:get("/*rest", named "rest")
  ask(app, { { "GET /a/5", "200 any id=5" }, { "GET /a/b", "200 rest rest=a/b" } })
end)

t.test("a route for the method takes precedence over a route for any method", function()
  local app = web.new()
  app:any("/r", named "any")
  app:post("/r", named "post")
  ask(app, {
    { "POST /r", "200 post" },
    { "GET /r", "200 any" },
    { "PROPFIND /r", "200 any" },
    { "OPTIONS /r", "200 any" },
  })
end)

t.test("each common method has a function, and app:route accepts any other method", function()
  local app = web.new()
  for _, method in ipairs { "get", "post", "put", "patch", "delete", "options" } do
    app[method](app, "/m", named(method))
  end
  app:route("PURGE", "/m", named "purge")
  ask(app, {
    { "GET /m", "200 get" }, { "POST /m", "200 post" }, { "PUT /m", "200 put" }, { "PATCH /m", "200 patch" },
    { "DELETE /m", "200 delete" }, { "OPTIONS /m", "200 options" }, { "PURGE /m", "200 purge" },
  })
end)

t.test("a percent-encoded path matches like the decoded path, but %2F is not a separator", function()
  local app = web.new()
  app:get("/caf\u{e9}/:x", named "cafe")
  app:get("/a b", named "space")
  app:get("/t/~x", named "tilde")
  ask(app, {
    { "GET /caf%C3%A9/%61", "200 cafe x=a" },
    { "GET /caf%c3%a9/a%2Fb", "200 cafe x=a/b" },
    { "GET /a%20b", "200 space" },
    { "GET /a+b", "404 Not Found\n" },
    { "GET /t/%7Ex", "200 tilde" },
    { "GET /caf%C3%A9%2Fx", "404 Not Found\n" },
    { "GET /caf%C3%A9/+", "200 cafe x=+" },
  })
end)

t.test("the response for a path without a route is 404, for another method 405 with Allow", function()
  local app = web.new()
  app:get("/r/:id", named "get")
  app:delete("/r/:id", named "delete")
  app:put("/r/*rest", named "put")
  http.with(app, function(open)
    local c = open()
    local r = c:request("POST", "/r/1", nil, "x")
    t.eq(r.status, 405)
    t.eq(r.headers.allow, "DELETE, GET, HEAD, OPTIONS, PUT")
    r = c:request("POST", "/q", nil, "x")
    t.eq(r.status, 404)
    t.is_nil(r.headers.allow)
    t.eq(c:request("GET", "/r/1").body, "get id=1", "the connection stays open")
  end)
end)

t.test("without a route, OPTIONS is answered with 204 and Allow", function()
  local app = web.new()
  app:get("/r", named "get")
  app:post("/r", named "post")
  http.with(app, function(open)
    local r = open():request("OPTIONS", "/r")
    t.eq({ r.status, r.headers.allow, r.body }, { 204, "GET, HEAD, OPTIONS, POST", "" })
    t.eq(open():request("OPTIONS", "/none").status, 404)
  end)
end)

t.test("OPTIONS * lists the methods of the whole server", function()
  local app = web.new()
  app:get("/a", named "a")
  app:patch("/b", named "b")
  http.with(app, function(open)
    local r = open():request("OPTIONS", "*")
    t.eq({ r.status, r.headers.allow }, { 204, "GET, HEAD, OPTIONS, PATCH" })
  end)
end)

t.test("HEAD runs the handler of GET and sends only the head", function()
  local app = web.new()
  app:get("/r", named "get")
  app:get("/own", named "get")
  app:head("/own", function(req, res) res:header("X-Own", "1") end)
  http.with(app, function(open)
    local c = open()
    local r = c:request("HEAD", "/r")
    t.eq({ r.status, r.headers["content-length"], r.body }, { 200, "3", "" })
    t.eq(c:request("HEAD", "/own").headers["x-own"], "1")
    t.eq(c:request("GET", "/own").body, "get", "no bytes of a body were sent before")
    t.eq(c:request("HEAD", "/none").status, 404)
  end)
end)

t.test("CONNECT is handled by its own route, and not by a route for any method", function()
  local app = web.new()
  app:any("/", named "any")
  app:any("/*rest", named "rest")
  http.with(app, function(open)
    local r = open():ask "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n"
    t.eq(r.status, 405)
    t.eq(r.headers.connection, "close")
  end)
end)

t.test("if a route has several handlers, each runs the following one with next", function()
  local app = web.new()
  app:get("/r",
    function(req, res, next) req.seen = "1" next() end,
    function(req, res, next) req.seen = req.seen .. "2" return next() end,
    function(req) return req.seen .. "3" end)
  app:get("/stops", function() return 403, "no\n" end, function() error "not reached" end)
  ask(app, { { "GET /r", "200 123" }, { "GET /stops", "403 no\n" } })
end)

t.test("malformed patterns raise at the caller's line", function()
  local app = web.new()
  local f = named "x"
  t.raises("must begin with '/'", app.get, app, "x", f)
  t.raises("without a name", app.get, app, "/:", f)
  t.raises("not the last", app.get, app, "/*a/b", f)
  t.raises("twice", app.get, app, "/:a/:a", f)
  t.raises("empty constraint", app.get, app, "/:a<>", f)
  t.raises("constraint of 'a'.*missing", app.get, app, "/:a<[>", f)
  t.raises("malformed escape", app.get, app, "/%zz", f)
  t.raises("has '%?', which is not part of a path %(write '%%3F' for the character%)", app.get, app, "/a?b/:c", f)
  t.raises("has '#', which is not part of a path %(write '%%23' for the character%)", app.get, app, "/a/#b", f)
  t.raises("function expected", app.get, app, "/b", "no function")
  t.raises("a handler is missing", app.get, app, "/b")
  app:get("/dup/:a", f)
  t.raises("already", app.get, app, "/dup/:b", f)
end)

t.test("each of 10,000 routes is found, and a search takes about as long as with 10 routes", function()
  local function measure(count)
    local app = web.new()
    for i = 1, count do
      app:get(("/group%d/item%d/:id"):format(i % 100, i), function(req) return i .. " " .. req.params.id end)
      app:get(("/number%d/:id<%%d+>"):format(i), function(req) return req.params.id end)
    end
    local spent
    http.with(app, function(open)
      local c = open()
      for i = 1, count, math.max(count // 50, 1) do
        t.eq(c:request("GET", ("/group%d/item%d/x"):format(i % 100, i)).body, i .. " x")
      end
      local began = os.clock()
      for _ = 1, 200 do c:request("GET", "/group9/item9/x") end
      for _ = 1, 200 do c:request("GET", "/nowhere/at/all") end
      for _ = 1, 200 do t.eq(c:request("GET", "/number9/7").body, "7") end
      for _ = 1, 200 do t.eq(c:request("PUT", "/group9/item9/x").status, 405) end
      spent = os.clock() - began
    end)
    return spent
  end
  local few, many = measure(10), measure(10000)
  -- A search through all routes would take more than ten times as long.
  t.ok(many < few * 4 + 0.05, ("%.3f s with 10 routes, %.3f s with 10,000"):format(few, many))
end)

-- Regression: the app called its function that had the name of the method.
-- Regression: `app:route("get", …)` added a route that no request matched.
t.test("a known method in lower case is refused when the route is added", function()
  local app = web.new()
  for _, method in ipairs { "get", "Post", "delete", "options", "connect", "trace" } do
    local upper = method:upper()
    local wanted = ("methods are in upper case: '%s' expected, got '%s'"):format(upper, method)
    t.raises("bad argument #1 to 'route' %(" .. wanted .. "%)$", app.route, app, method, "/", function() return "" end)
  end
  app:route("purge", "/", named "purge"):route("GET", "/", named "get")
  http.with(app, function(open)
    local c = open()
    t.eq(c:request("GET", "/").body, "get")
    t.eq(c:request("purge", "/").body, "purge", "an own method may be in lower case")
  end)
end)

t.test("a method without a route is refused with 405, even if it is the name of a function", function()
  local app = web.new()
  app:get("/", function() return "x" end)
  http.with(app, function(open)
    local c = open()
    for _, method in ipairs { "ROUTE", "USE", "LISTEN", "RUN", "ONERROR", "get", "Get", "DELETE" } do
      t.eq(c:request(method, "/").status, 405, method)
    end
  end)
end)

-- Regression: the status was 403.
t.test("the response for a path without a route is 404", function()
  local app = web.new()
  app:get("/a", function() return "x" end)
  http.with(app, function(open)
    t.eq(open():request("GET", "/b").status, 404)
  end)
end)

t.finish()
