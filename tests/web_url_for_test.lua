-- `app:name` and `app:url_for`: paths of routes with given parameters.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local web = require "lio.webserver"

local function nothing() return "" end

-- Asserts that `f(…)`, called at a line of this file, raises an error with this position and this message.
local function raises(message, f, ...)
  local arguments = table.pack(...)
  return t.raises("^tests/web_url_for_test.lua:%d+: " .. message, function()
    f(table.unpack(arguments, 1, arguments.n))
  end)
end

t.test("a route is found by its pattern or by its name", function()
  local app = web.new()
  app:get("/", nothing):name "home"
  app:get("/users/:id", nothing):name "user"
  app:post("/users/:id/edit", nothing)
  t.eq(app:url_for "home", "/")
  t.eq(app:url_for("user", { id = 7 }), "/users/7")
  t.eq(app:url_for("/users/:id/edit", { id = "a" }), "/users/a/edit")
end)

t.test("the router finds the route again, with the same parameters", function()
  local app, seen = web.new(), nil
  local function handler(req)
    seen = { req.params, req.query }
    return ""
  end
  app:get("/a/:x/b/:y<[^/]+>/*rest", handler):name "deep"
  app:get("/ü x/:z", handler):name "literal"
  local cases = {
    { "deep", { x = "1/2", y = "é?#%", rest = "c d/e%2F/ü" }, { q = "a&b=c", ["ü"] = "+" } },
    { "deep", { x = "%2e", y = "...", rest = "" }, {} },
    { "literal", { z = "a:b@c;d" }, {} },
  }
  http.with(app, function(open)
    local c = open()
    for _, case in ipairs(cases) do
      local r = c:request("GET", app:url_for(case[1], case[2], case[3]))
      t.eq({ r.status, seen }, { 200, { case[2], case[3] } })
    end
  end)
end)

t.test("the query has its names in order, repeated values, and no empty question mark", function()
  local app = web.new():get("/s", nothing)
  t.eq(app:url_for("/s", nil, { b = 1, a = "x y", c = { "1", 2, true }, d = 1.0 }), "/s?a=x%20y&b=1&c=1&c=2&c=true&d=1")
  t.eq(app:url_for("/s", {}, {}), "/s")
end)

t.test("routes of mounted apps are found by their name and by their whole pattern", function()
  local users, api, app = web.new(), web.new(), web.new()
  users:get("/", nothing):name "users"
  users:get("/:id<%d+>", nothing):name "user"
  api:mount("/users", users)
  app:mount("/:tenant/api", api)
  t.eq(app:url_for("user", { tenant = "t&t", id = 5 }), "/t%26t/api/users/5")
  t.eq(app:url_for("users", { tenant = "t" }), "/t/api/users/")
  t.eq(app:url_for("/:tenant/api/users/:id<%d+>", { tenant = "t", id = 5 }), "/t/api/users/5")
  t.eq(users:url_for("user", { id = 5 }), "/5")
  app:get("/own", nothing):name "user"
  t.eq(web.new():mount("/x", app):url_for "user", "/x/own", "the nearest app's name is used")
end)

t.test("parameters that the route would not accept raise at the program's line", function()
  local app = web.new()
  app:get("/n/:id<%d+>", nothing):name "n"
  app:get("/f/*path", nothing):name "f"
  app:get("/s/:x", nothing):name "s"
  local function refused(message, ...)
    raises("app:url_for: " .. message .. "$", app.url_for, app, ...)
  end
  refused("parameter 'id' must match '%%d%+', got \"x\"", "n", { id = "x" })
  refused("parameter 'id' must match '%%d%+', got \"1/2\"", "n", { id = "1/2" })
  refused("parameter 'id' is missing", "n", {})
  refused("parameter 'id' is missing", "n")
  refused("parameter 'id' must be a string or a number, got true", "n", { id = true })
  refused("parameter 'x' is empty", "s", { x = "" })
  refused("parameter 'x' cannot be '%.%.', which browsers remove from paths", "s", { x = ".." })
  refused("parameter 'path' cannot be '%.%.', which browsers remove from paths", "f", { path = "a/../b" })
  refused("parameter 'path' cannot be '%.', which browsers remove from paths", "f", { path = "." })
  refused("route 's' has no parameter 'y'", "s", { x = 1, y = 2 })
  refused("there is no route with the name 'nobody'", "nobody")
  refused("there is no route '/users'", "/users")
  refused("'a' of the query must be a string, a number, a boolean or a list, got a function", "f", { path = "" },
    { a = print })
  refused("the names of the query must be strings", "f", { path = "" }, { "a" })
  t.raises("bad argument #1 to 'url_for' %(string expected, got nil%)", app.url_for, app)
  t.raises("bad argument #2 to 'url_for' %(table expected, got string%)", app.url_for, app, "s", "x")
  t.raises("app:url_for: call it with a colon", app.url_for, "s")
end)

t.test("a name belongs to one route of an app, and differs from a pattern", function()
  local app = web.new()
  raises("app:name: the app has no route that could be named 'x'$", app.name, app, "x")
  app:get("/", nothing):name "x"
  app:get("/y", nothing)
  t.raises("app:name: there already is a route with the name 'x'", app.name, app, "x")
  for _, bad in ipairs { "", "/y" } do
    t.raises("bad argument #1 to 'name' %(a name that does not begin with '/' expected%)", app.name, app, bad)
  end
  t.raises("bad argument #1 to 'name' %(string expected, got nil%)", app.name, app)
end)

t.finish()
