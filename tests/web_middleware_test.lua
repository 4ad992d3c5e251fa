-- Middleware: for which requests it runs, in which order, and what it can change.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local web = require "lio.webserver"

local function ask(app, target, method)
  local response
  http.with(app, function(open)
    response = open():request(method or "GET", target or "/")
  end)
  return response
end

t.test("middleware runs around the handler, in the order of the calls of use", function()
  local app, order = web.new(), {}
  for i = 1, 3 do
    app:use(function(_, _, next)
      order[#order + 1] = i
      next()
      order[#order + 1] = -i
    end)
  end
  app:get("/", function() order[#order + 1] = "handler" return "x" end)
  t.eq(ask(app).body, "x")
  t.eq(order, { 1, 2, 3, "handler", -3, -2, -1 })
end)

t.test("a prefix limits middleware to the paths below it", function()
  local app = web.new()
  app:use("/admin", function(_, res, next) res:header("X-Admin", "1") next() end)
  app:get("/*rest", function() return "x" end)
  http.with(app, function(open)
    local c = open()
    for path, want in pairs {
      ["/admin"] = "1", ["/admin/"] = "1", ["/admin/x/y"] = "1", ["/%61dmin/x"] = "1", ["/admin?x"] = "1",
      ["/"] = false, ["/administrator"] = false, ["/x/admin"] = false, ["/Admin"] = false,
    } do
      t.eq(c:request("GET", path).headers["x-admin"] or false, want, path)
    end
  end)
end)

t.test("a prefix may end in a slash", function()
  local app = web.new()
  app:use("/a/", function() return "guarded" end)
  app:get("/*rest", function() return "x" end)
  t.eq(ask(app, "/a/b").body, "guarded")
  t.eq(ask(app, "/ab").body, "x")
end)

t.test("if middleware does not call next, the handler does not run, and middleware responds", function()
  local app, ran = web.new(), false
  app:use(function(req) return req.headers.authorization and 200 or 401, "who?" end)
  app:get("/", function() ran = true end)
  t.eq({ ask(app).status, ran }, { 401, false })
end)

t.test("after next, middleware can read and change the response", function()
  local app, seen = web.new(), nil
  app:use(function(_, res, next)
    next()
    seen = { res.code, res.body, res:header "x-a" }
    res:header("X-A", "changed"):header("X-B", "added")
    res:send(res.body:upper())
  end)
  app:get("/", function() return 201, "body", { ["X-A"] = "first" } end)
  local r = ask(app)
  t.eq(seen, { 201, "body", "first" })
  t.eq({ r.status, r.body, r.headers["x-a"], r.headers["x-b"] }, { 201, "BODY", "changed", "added" })
end)

t.test("a result of middleware replaces the response; returning the results of next changes nothing", function()
  local app = web.new()
  app:use("/replace", function(_, _, next) next() return 202, "mine" end)
  app:use("/pass", function(_, _, next) return next() end)
  app:get("/*rest", function() return "handler's" end)
  http.with(app, function(open)
    local c = open()
    local r = c:request("GET", "/replace")
    t.eq({ r.status, r.body }, { 202, "mine" })
    t.eq(c:request("GET", "/pass").body, "handler's")
  end)
end)

t.test("middleware also runs for 404, 405 and OPTIONS", function()
  local app, seen = web.new(), {}
  app:use(function(_, res, next)
    next()
    seen[#seen + 1] = res.code
    res:header("X-Seen", "1")
  end)
  app:get("/", function() return "x" end)
  http.with(app, function(open)
    local c = open()
    t.eq(c:request("GET", "/nope").headers["x-seen"], "1")
    t.eq(c:request("PUT", "/", nil, "").headers["x-seen"], "1")
    t.eq(c:request("OPTIONS", "/").headers["x-seen"], "1")
  end)
  t.eq(seen, { 404, 405, 204 })
end)

t.test("code after next runs even if the handler has raised, and can read the response and the error", function()
  local app, seen = web.new { debug = true }, nil
  app:use(function(_, res, next)
    next()
    seen = { res.code, res.error, res.body:match "[^\n]*" }
    res:header("X-After", "1")
    if res.error.retry then return 503, "later" end
  end)
  app:get("/", function() error { retry = false } end)
  app:get("/retry", function() error { retry = true } end)
  local log = http.logged(function()
    local r = ask(app)
    t.eq({ r.status, r.headers["x-after"] }, { 500, "1" })
    t.eq(seen, { 500, { retry = false }, "(error object is a table: { retry = false })" })
    r = ask(app, "/retry")
    t.eq({ r.status, r.body, r.headers["x-after"] }, { 503, "later", "1" })
  end)
  t.eq(select(2, log:gsub("lio: error in", "")), 2, "each error is logged once")
end)

t.test("after an error, the headers that middleware has set stay, except for those of the body", function()
  local app = web.new { body = 4 }
  local order = {}
  app:use(function(_, res, next)
    res:header("Access-Control-Allow-Origin", "*"):header("X-Request-Id", "7"):cookie("session", "s")
    res:header("Content-Type", "text/csv"):header("ETag", '"1"'):header("Cache-Control", "max-age=60")
    next()
    order[#order + 1] = res.code
  end)
  app:use(function(_, res, next)
    res:header("X-Inner", "1")
    next()
    order[#order + 1] = -res.code
  end)
  app:get("/raise", function(_, res)
    res:header("X-Secret", "1"):header("X-Inner", "changed"):json { 1 }
    error "x"
  end)
  app:get("/function", function(_, res)
    res:header("X-Kept-Not", "1")
    return function() error "x" end
  end)
  app:get("/return", function() return "x", "y" end)
  app:post("/refused", function(req) return req:body() end)
  app:post("/stream", function(req) for _ in req:stream() do end end)
  http.logged(function()
    http.with(app, function(open)
      local cases = {
        { "GET", "/raise", 500 }, { "GET", "/return", 500 }, { "GET", "/none", 404 }, { "PUT", "/raise", 405, "" },
        { "POST", "/refused", 413, "12345" }, { "POST", "/stream", 413, "12345" }, { "GET", "/function", 500 },
      }
      for _, case in ipairs(cases) do
        order = {}
        local r = open():request(case[1], case[2], nil, case[4])
        t.eq(r.status, case[3], case[2])
        local h = r.headers
        t.eq({ h["access-control-allow-origin"], h["x-request-id"], h["set-cookie"], h["x-inner"] },
          { "*", "7", "session=s", "1" }, case[2])
        t.eq({ h["content-type"], h.etag, h["cache-control"], h["x-secret"], h["x-kept-not"] },
          { "text/plain; charset=utf-8" }, case[2])
        if case[2] ~= "/function" then t.eq(order, { -case[3], case[3] }, case[2]) end
      end
    end)
  end)
end)

t.test("each of several handlers of a route continues after next, like middleware", function()
  local app, seen = web.new(), nil
  app:get("/", function(_, res, next)
    res:header("X-First", "1")
    next()
    seen = res.code
    res:header("X-After", "1")
  end, function() error "second" end)
  http.logged(function()
    local r = ask(app)
    t.eq({ r.status, seen, r.headers["x-first"], r.headers["x-after"] }, { 500, 500, "1", "1" })
  end)
end)

t.test("after an error in a started response, the connection ends, and code after next runs", function()
  local app, after = web.new(), 0
  app:use(function(_, _, next)
    next()
    after = after + 1
  end)
  app:get("/", function(_, res)
    res:write "part"
    error "halfway"
  end)
  local log = http.logged(function()
    http.with(app, function(open)
      local c = open()
      c:send "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
      t.eq(c:read_head().status, 200)
      t.eq(c.c:recv "all", "4\r\npart\r\n", "and no last chunk")
    end)
  end)
  t.eq(after, 1)
  t.eq(select(2, log:gsub("halfway", "")), 1)
end)

t.test("for an error in middleware, before or after next, the response is 500", function()
  for _, late in ipairs { false, true } do
    local app = web.new()
    app:use(function(_, _, next)
      if late then next() end
      error "in middleware"
    end)
    app:get("/", function() return "x" end)
    local log = http.logged(function() t.eq(ask(app).status, 500) end)
    t.ok(log:find "in middleware", log)
  end
end)

t.test("handlers with middleware around them may write in pieces and take over connections", function()
  local app, after = web.new(), 0
  app:use(function(_, _, next) next() after = after + 1 end)
  app:get("/write", function(_, res)
    res:write "a"
    return res:write "b"
  end)
  app:get("/take", function(req)
    local c <close> = req:take_over()
    c:send "taken"
    return "ignored"
  end)
  http.with(app, function(open)
    local c = open()
    t.eq(c:request("GET", "/write").body, "ab")
    c:send "GET /take HTTP/1.1\r\nHost: x\r\n\r\n"
    t.eq(c.c:recv "all", "taken")
  end)
  t.eq(after, 2)
end)

t.test("middleware can read the parameters of the route", function()
  local app = web.new()
  app:use(function(req, res, next) res:header("X-Id", req.params.id or "none") next() end)
  app:get("/users/:id", function() return "x" end)
  t.eq(ask(app, "/users/7").headers["x-id"], "7")
  t.eq(ask(app, "/users").headers["x-id"], "none")
end)

t.test("each middleware may call next once", function()
  local app, ran = web.new(), 0
  app:use(function(_, _, next)
    next()
    local ok, message = pcall(next)
    t.eq(ok, false)
    t.ok(message:find "next: called twice by one middleware", message)
  end)
  app:get("/", function()
    ran = ran + 1
    return "x"
  end)
  t.eq({ ask(app).body, ran }, { "x", 1 })
end)

t.test("middleware may wait, before and after next, and other requests are answered meanwhile", function()
  local loop = require "lio.loop"
  local app, gate = web.new(), {}
  app:use("/slow", function(_, res, next)
    loop.wait(gate)
    next()
    loop.wait(gate)
    res:header("X-After", "1")
  end)
  app:get("/*rest", function(req) return req.path end)
  http.with(app, function(open)
    local slow, fast = open():send "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n", open()
    t.eq(fast:request("GET", "/a").body, "/a")
    loop.wakeup(gate)
    t.eq(fast:request("GET", "/b").body, "/b")
    loop.wakeup(gate)
    local r = slow:response "GET"
    t.eq({ r.body, r.headers["x-after"] }, { "/slow", "1" })
  end)
end)

t.test("values that are not middleware are refused at the caller's line", function()
  local app = web.new()
  t.raises("use.*function expected, got string", app.use, app, "/x", "y")
  t.raises("prefix must begin with '/'", app.use, app, "x", print)
  t.raises("app:use: web.log makes middleware: call it, as in app:use%(web.log%(%)%)$", app.use, app, web.log)
  t.raises("app:use: web.cors makes middleware: call it", app.use, app, "/x", web.cors)
end)

-- Regression: only `app:use` accepted middleware that is a table with `__call`, such as a result of `web.rate_limit`.
t.test("a handler of a route may be a table with __call", function()
  local function callable(f)
    return setmetatable({}, { __call = function(_, ...) return f(...) end })
  end
  local app = web.new()
  app:get("/one", callable(function(req) return "one " .. req.path end))
  app:get("/two", callable(function(_, res, next)
    res:header("X-First", "yes")
    return next()
  end), callable(function() return "two" end))
  app:get("/bad", callable(function() return true end))
  http.with(app, function(open)
    local client = open()
    t.eq(client:request("GET", "/one").body, "one /one")
    local r = client:request("GET", "/two")
    t.eq({ r.body, r.headers["x-first"] }, { "two", "yes" })
    local log = http.logged(function() t.eq(client:request("GET", "/bad").status, 500) end)
    t.ok(log:find "the handler of GET /bad %([^)]*web_middleware_test%.lua:%d+%) returned %(boolean%)", log)
  end)
  t.raises("bad argument #2 to 'get' %(function expected, got table%)", app.get, app, "/x", {})
end)

t.test("in debug mode, the log names middleware that neither calls next nor responds", function()
  local function silent() end
  local function log_of(debug, ...)
    local app = web.new { debug = debug }
    for _, f in ipairs { ... } do app:use(f) end
    app:get("/", function() return "x" end)
    return http.logged(function()
      http.with(app, function(open)
        open():send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").c:recv "all"
      end)
    end)
  end
  local at = debug.getinfo(silent, "S")
  t.eq(log_of(true, silent), ("lio: warning: GET /: the middleware (%s:%d) has neither called next() nor set a "
    .. "response, so the response is empty\n"):format(at.short_src, at.linedefined))
  t.eq(log_of(false, silent), "")
  t.eq(log_of(true, function(_, _, next) next() end, function(_, _, next) return next() end), "")
  for _, responds in ipairs {
    function() return 204 end, function(_, res) res.code = 404 end, function(_, res) res:write "x" end,
    function(_, res) res:redirect "/x" end, function(req) req:take_over():close() end,
  } do
    t.eq(log_of(true, responds), "")
  end
end)

t.finish()
