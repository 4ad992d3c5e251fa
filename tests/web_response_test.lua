-- The responses for the values that handlers return: status, fields, framing. web_write_test.lua tests bodies in
-- pieces.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local web = require "lio.webserver"

-- Returns the response of an app with the route `handler` to GET /, or to another method.
local function answer(handler, method)
  return http.once(function(app) app:get("/", handler) end, method or "GET", "/")
end

local function facts(r)
  return { r.status, r.headers["content-type"], r.headers["content-length"], r.body }
end

local TEXT <const>, JSON <const> = "text/plain; charset=utf-8", "application/json"

t.test("a string is sent as text with 200", function()
  t.eq(facts(answer(function() return "hello" end)), { 200, TEXT, "5", "hello" })
  t.eq(facts(answer(function() return "" end)), { 200, nil, "0", "" })
  local bytes = ("\0\255\r\n"):rep(30000)
  t.eq(answer(function() return bytes end).body, bytes, "a long string with any bytes")
end)

t.test("a table is sent as JSON", function()
  t.eq(facts(answer(function() return { id = 7 } end)), { 200, JSON, "8", '{"id":7}' })
  t.eq(facts(answer(function() return 201, { id = 7 } end)), { 201, JSON, "8", '{"id":7}' })
end)

t.test("if the handler returns nothing, the response is 204", function()
  t.eq(facts(answer(function() end)), { 204, nil, nil, "" })
end)

t.test("status, body and headers can be returned together", function()
  t.eq(facts(answer(function() return 418, "teapot" end)), { 418, TEXT, "6", "teapot" })
  t.eq(facts(answer(function() return 404 end)), { 404, nil, "0", "" })
  local r = answer(function()
    return 200, "<p>", { ["Content-Type"] = "text/html", ["X-Many"] = { "a", "b" }, ["X-Number"] = 5 }
  end)
  t.eq(facts(r), { 200, "text/html", "3", "<p>" })
  t.eq(r.headers["x-number"], "5")
  local many = {}
  for _, field in ipairs(r.fields) do if field[1] == "X-Many" then many[#many + 1] = field[2] end end
  t.eq(many, { "a", "b" })
end)

t.test("status and headers may be returned before the body or after it", function()
  local H <const> = { ["X-A"] = "1" }
  local cases = {
    { { "x" }, { 200, TEXT, "1", "x" } },
    { { "x", 404 }, { 404, TEXT, "1", "x" } },
    { { "x", H }, { 200, TEXT, "1", "x" }, "1" },
    { { "x", nil, H }, { 200, TEXT, "1", "x" }, "1" },
    { { "x", 404, H }, { 404, TEXT, "1", "x" }, "1" },
    { { { a = 1 }, 404 }, { 404, JSON, "7", '{"a":1}' } },
    { { { a = 1 }, H }, { 200, JSON, "7", '{"a":1}' }, "1" },
    { { { a = 1 }, 404, H }, { 404, JSON, "7", '{"a":1}' }, "1" },
    { { 404 }, { 404, nil, "0", "" } },
    { { 404, "x" }, { 404, TEXT, "1", "x" } },
    { { 404, "x", H }, { 404, TEXT, "1", "x" }, "1" },
    { { 404, { a = 1 }, H }, { 404, JSON, "7", '{"a":1}' }, "1" },
    { { 404, nil, H }, { 404, nil, "0", "" }, "1" },
    { { nil }, { 204, nil, nil, "" } },
  }
  for index, case in ipairs(cases) do
    for _, wrapped in ipairs { false, true } do
      local app, r = web.new(), nil
      if wrapped then app:use(function(_, _, next) next() end) end
      app:get("/", function() return table.unpack(case[1], 1, 3) end)
      http.with(app, function(open) r = open():request("GET", "/") end)
      t.eq(facts(r), case[2], "case " .. index)
      t.eq(r.headers["x-a"], case[3], "case " .. index)
    end
  end
end)

t.test("a result that is not a response is an error, and the log names the place of the handler", function()
  local place = "web_response_test.lua:" .. debug.getinfo(1, "l").currentline + 2
  local function answered(values)
    return function() return table.unpack(values, 1, values.n) end
  end
  local cases = {
    { "boolean", true }, { "3.5", 3.5 }, { "boolean", false }, { "99", 99 }, { "100", 100 }, { "199", 199 },
    { "600", 600 }, { "-1", -1 }, { "404.0", 404.0 }, { "string, string", "x", "y" },
    { "string, 0", ("x"):gsub("y", "") },
    { "string, 99", "x", 99 }, { "table, string", {}, "y" }, { "200, table, string", 200, {}, "x" },
    { "string, table, 200", "x", {}, 200 }, { "404, 200", 404, 200 }, { "nil, string", nil, "x" },
    { "string, 200, string", "x", 200, "y" }, { "200, string, boolean", 200, "x", false },
  }
  for _, case in ipairs(cases) do
    for _, wrapped in ipairs { false, true } do
      local app, r = web.new(), nil
      if wrapped then app:use(function(_, _, next) next() end) end
      app:get("/:id", answered(table.pack(table.unpack(case, 2, 4))))
      local log = http.logged(function()
        http.with(app, function(open) r = open():request("GET", "/7") end)
      end)
      t.eq({ r.status, r.body }, { 500, "Internal Server Error\n" }, case[1])
      t.ok(log:find("lio: error in GET /7: the handler of GET /:id (", 1, true), log)
      t.ok(log:find(place .. ") returned (" .. case[1] .. "); expected a body", 1, true), log)
    end
  end
  local log = http.logged(function()
    t.eq(answer(function(_, res) return res, "x" end).status, 500)
  end)
  t.ok(log:find("returned (res, string); expected", 1, true), log)
  log = http.logged(function()
    t.eq(answer(function() return "x", { "X-A: 1" } end).status, 500)
  end)
  t.ok(log:find("header: a name must be a string, not a number", 1, true), log)
end)

t.test("the log names the place of middleware whose result is not a response", function()
  local app, r = web.new(), nil
  app:use(function() return "x", "y" end)
  local place = "web_response_test.lua:" .. debug.getinfo(1, "l").currentline - 1
  app:get("/", function() return "x" end)
  local log = http.logged(function()
    http.with(app, function(open) r = open():request("GET", "/") end)
  end)
  t.eq(r.status, 500)
  t.ok(log:find("the middleware (", 1, true) and log:find(place .. ") returned (string, string)", 1, true), log)
end)

t.test("res has a method for each part of the response, and calls can be chained", function()
  local r = answer(function(_, res)
    res:status(202):header("X-A", "1"):header("Content-Type", "text/css"):send "body"
  end)
  t.eq(facts(r), { 202, "text/css", "4", "body" })
  t.eq(r.headers["x-a"], "1")
end)

t.test("returning res, the result of chained calls, does not change the response", function()
  t.eq(facts(answer(function(_, res) return res:status(404):send "gone" end)), { 404, TEXT, "4", "gone" })
  t.eq(facts(answer(function(_, res) return res:redirect "/x" end)), { 302, nil, "0", "" })
end)

t.test("returned values are added to the parts that were set with res", function()
  local r = answer(function(_, res)
    res:status(201):header("X-A", "1"):send "old"
    return "new"
  end)
  t.eq(facts(r), { 201, TEXT, "3", "new" })
  t.eq(r.headers["x-a"], "1")
end)

t.test("send accepts a list of strings", function()
  t.eq(facts(answer(function(_, res) res:send { "a", "b", 1 } end)), { 200, TEXT, "3", "ab1" })
end)

t.test("send sends a table that is not a list of strings as JSON, like a returned table", function()
  t.eq(facts(answer(function(_, res) res:send { id = 1 } end)), { 200, JSON, "8", '{"id":1}' })
  t.eq(facts(answer(function(_, res) res:status(404):send { 1, 2 } end)), { 404, JSON, "5", "[1,2]" })
  t.eq(facts(answer(function(_, res) res:send { { a = "x" }, "b" } end)), { 200, JSON, "15", '[{"a":"x"},"b"]' })
  t.eq(facts(answer(function(_, res) res:send {} end)), { 200, JSON, "2", "{}" })
end)

t.test("res:json accepts any value, and text that is set later is sent as text", function()
  t.eq(facts(answer(function(_, res) res:json "x" end)), { 200, JSON, "3", '"x"' })
  t.eq(facts(answer(function(_, res) res:json { 1 } res:send "text" end)), { 200, TEXT, "4", "text" })
end)

t.test("a 205 response has no body, even if the handler sets a body, and its length is 0", function()
  local app = web.new()
  app:get("/return", function() return 205, "body" end)
  app:get("/table", function() return { 1 }, 205 end)
  app:get("/touched", function(_, res)
    res:status(205)
    return "body"
  end)
  app:get("/write", function(_, res)
    res:status(205)
    res:write "one"
    return res:write "two"
  end)
  app:get("/function", function() return 205, function() return "endless" end end)
  app:get("/file", function(_, res)
    res:status(205)
    return res:file(arg[0])
  end)
  http.with(app, function(open)
    local c = open()
    for _, path in ipairs { "/return", "/table", "/touched", "/write", "/function", "/file" } do
      for _, method in ipairs { "GET", "HEAD" } do
        local r = c:request(method, path)
        t.eq({ r.status, r.headers["content-length"], r.headers["transfer-encoding"], r.body },
          { 205, "0", nil, "" }, path)
        if path ~= "/file" then t.is_nil(r.headers["content-type"], path) end
      end
    end
  end)
end)

t.test("redirect sets Location, with 302 by default", function()
  local r = answer(function(_, res) res:redirect "/there?x=1" end)
  t.eq({ r.status, r.headers.location }, { 302, "/there?x=1" })
  t.eq(answer(function(_, res) res:redirect("/", 308) end).status, 308)
end)

t.test("header replaces a field, removes it with nil, and reads it without a value; add_header adds a field", function()
  local read
  local r = answer(function(_, res)
    res:header("X-Many", "a"):add_header("x-many", "b")
    res:header("X-One", "old"):header("x-one", "new")
    res:header("X-Gone", "x"):header("X-GONE", nil)
    read = { res:header "X-ONE", res:get_header "x-none" }
    return "x"
  end)
  local fields = {}
  for _, field in ipairs(r.fields) do fields[#fields + 1] = field[1] .. "=" .. field[2] end
  t.eq({ table.unpack(fields, 1, 3) }, { "X-Many=a", "x-many=b", "x-one=new" })
  t.eq(read, { "new" })
  t.is_nil(r.headers["x-gone"])
end)

t.test("cookies are written with their attributes", function()
  local r = answer(function(_, res)
    res:cookie("a", "1")
    res:cookie("b", "2", {
      path = "/", domain = "x.org", max_age = 60, secure = true, http_only = true, same_site = "lax",
      expires = "Thu, 01 Jan 2026 00:00:00 GMT",
    })
    return ""
  end)
  local set = {}
  for _, field in ipairs(r.fields) do if field[1] == "Set-Cookie" then set[#set + 1] = field[2] end end
  t.eq(set, {
    "a=1",
    "b=2; Path=/; Domain=x.org; Max-Age=60; Expires=Thu, 01 Jan 2026 00:00:00 GMT; Secure; HttpOnly; SameSite=Lax",
  })
end)

t.test("a cookie that browsers would refuse raises at the caller's line", function()
  local r = http.once(function(app)
    app:get("/", function(_, res)
      local function refused(pattern, name, opts) t.raises(pattern, res.cookie, res, name, "v", opts) end
      refused("same_site 'none' needs secure", "a", { same_site = "None" })
      refused("option 'max_age' must be an integer number of seconds, got 1.5", "a", { max_age = 1.5 })
      refused("option 'max_age' must be an integer number of seconds, got \"soon\"", "a", { max_age = "soon" })
      refused("__Secure%-a needs secure", "__Secure-a", {})
      refused("__host%-a needs secure", "__host-a", { path = "/" })
      refused("needs the path '/' and no domain", "__Host-a", { secure = true })
      refused("needs the path '/' and no domain", "__Host-a", { secure = true, path = "/", domain = "x.org" })
      res:cookie("__Host-a", "v", { secure = true, path = "/", same_site = "none", max_age = 0 })
      return "x"
    end)
  end, "GET", "/")
  t.eq(r.headers["set-cookie"], "__Host-a=v; Path=/; Max-Age=0; Secure; SameSite=None")
end)

t.test("text that could split a response or a cookie raises at the caller's line, and is not sent", function()
  local set_by_call <const> = 14 -- the first 14 raise in the call, the others after the handler has returned
  local wrong = {
    function(_, res) res:header("X-A", "a\r\nX-B: b") end,
    function(_, res) res:header("X-A", "a\nb") end,
    function(_, res) res:header("X-A", "a\0b") end,
    function(_, res) res:header("X-A\r\nX-B", "b") end,
    function(_, res) res:header("X A", "b") end,
    function(_, res) res:header("", "b") end,
    function(_, res) res:add_header("X-A:", "b") end,
    function(_, res) res:redirect "/\r\nX-B: b" end,
    function(_, res) res:cookie("a;b", "1") end,
    function(_, res) res:cookie("a", "1; Path=/") end,
    function(_, res) res:cookie("a", "1\r\nX-B: b") end,
    function(_, res) res:cookie("a", "1", { path = "/;x" }) end,
    function(_, res) res:cookie("a", "1", { same_site = "maybe" }) end,
    function(_, res) res:header("Transfer-Encoding", "chunked") return "x" end,
    function() return 200, "x", { ["X-A"] = "a\r\nX-B: b" } end,
    function() return 200, "x", { ["X-A\r\nX-B"] = "b" } end,
    function() return 200, "x", { ["X-A"] = { "ok", "a\r\nX-B: b" } } end,
    function() return 200, "x", { "no name" } end,
  }
  for i, handler in ipairs(wrong) do
    local r, raised
    http.logged(function()
      r = answer(function(...)
        local result = table.pack(pcall(handler, ...))
        raised = not result[1]
        if raised then error(result[2], 0) end
        return table.unpack(result, 2, result.n)
      end)
    end)
    t.eq({ i, raised }, { i, i <= set_by_call })
    t.eq({ i, r.status, r.headers["x-b"], r.body }, { i, 500, nil, "Internal Server Error\n" })
  end
end)

t.test("Content-Length is the length of the body, even if the handler sets another value", function()
  local r = answer(function() return 200, "four", { ["Content-Length"] = "9" } end)
  t.eq(r.headers["content-length"], "4")
end)

t.test("Date is the current time, unless the handler sets it", function()
  local before = os.date "!%a, %d %b %Y %H:%M:%S GMT"
  local r = answer(function() return "x" end)
  local after = os.date "!%a, %d %b %Y %H:%M:%S GMT"
  t.ok(r.headers.date == before or r.headers.date == after, r.headers.date)
  r = answer(function() return 200, "x", { Date = "Thu, 01 Jan 1970 00:00:00 GMT" } end)
  t.eq(r.headers.date, "Thu, 01 Jan 1970 00:00:00 GMT")
end)

t.test("if the handler sets Connection: close, it is sent once, and the connection ends", function()
  local app = web.new()
  app:get("/", function(_, res) res:header("Connection", "close") return "bye" end)
  http.with(app, function(open)
    local c = open()
    local r = c:request("GET", "/")
    t.eq({ r.body, r.headers.connection }, { "bye", "close" })
    t.ok(c:ended())
  end)
end)

t.test("204 and 304 have no body, and the connection stays open", function()
  local app = web.new()
  app:get("/204", function() return 204, "body" end)
  app:get("/304", function() return 304, "body", { ETag = '"x"' } end)
  app:get("/pieces", function(_, res) res:status(204) res:write "body" end)
  app:get("/function", function() return 304, function() return "endless" end end)
  app:get("/", function() return "next" end)
  http.with(app, function(open)
    local c = open()
    for _, path in ipairs { "/204", "/304", "/pieces", "/function" } do
      local r = c:request("GET", path)
      t.eq({ path, r.body, r.headers["content-length"], r.headers["transfer-encoding"] }, { path, "" })
      t.eq(c:request("GET", "/").body, "next")
    end
  end)
end)

t.test("HEAD gets the fields of GET, and no body", function()
  local app, called = web.new(), false
  app:get("/text", function() return "hello" end)
  app:get("/json", function() return { a = 1 } end)
  app:get("/long", function() return ("x"):rep(100000) end)
  app:get("/function", function() return function() called = true return "endless" end end)
  app:get("/write", function(_, res) res:write "x" res:write "y" end)
  app:get("/length", function(_, res) res:header("Content-Length", "12") end)
  http.with(app, function(open)
    local c = open()
    t.eq(facts(c:request("HEAD", "/text")), { 200, TEXT, "5", "" })
    t.eq(facts(c:request("HEAD", "/json")), { 200, JSON, "7", "" })
    t.eq(facts(c:request("HEAD", "/long")), { 200, TEXT, "100000", "" })
    t.eq(c:request("HEAD", "/function").headers["transfer-encoding"], "chunked")
    t.eq(called, false, "the function is not called, because its pieces are not sent")
    t.eq(c:request("HEAD", "/write").headers["transfer-encoding"], "chunked")
    t.eq(c:request("HEAD", "/none").headers["content-length"], "10")
    t.eq(c:request("GET", "/text").body, "hello", "no bytes of a body were sent before")
  end)
end)

-- Regression: CR and LF split the response in two.
t.test("if a handler sets a header field with CR and LF, the response is 500", function()
  local app = web.new()
  app:get("/", function(req) return 200, "x", { ["X-Name"] = req.query.name } end)
  http.with(app, function(open)
    http.logged(function()
      local c = open()
      local r = c:request("GET", "/?name=a%0d%0aSet-Cookie:%20evil=1%0d%0a%0d%0aHTTP/1.1%20200%20OK")
      t.eq({ r.status, r.headers["set-cookie"] }, { 500 })
      t.ok(c:silent(0.05), "nothing follows")
    end)
  end)
end)

t.finish()
