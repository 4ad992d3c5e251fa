-- Tests of app:test(): requests to an app in memory, cookies, redirects, streams, errors of handlers, and the rules of
-- the server, which apply as on a socket.

local t = require "tests.kit"
local cookies = require "lio.testing.cookies"
local descriptors = require "lio.testing.descriptors"
local loop = require "lio.loop"
local urls = require "lio.http.client.url"
local web = require "lio.webserver"

-- A test with a new app and a client, in a loop: `f(app, client)`.
local function test(name, f, opts)
  t.test(name, function()
    loop.run(function()
      local app = web.new(opts and opts.app)
      local client <close> = app:test(opts and opts.client)
      f(app, client)
    end)
  end)
end

-- Requests and responses -----------------------------------------------------------------------------------

test("each method reaches its route", function(app, client)
  app:any("/", function(req) return req.method end)
  for _, name in ipairs { "get", "post", "put", "patch", "delete", "options" } do
    local res = assert(client[name](client, "/"))
    t.eq({ res.status, res.body }, { 200, name:upper() }, name)
  end
  local res = assert(client:head "/")
  t.eq({ res.status, res.body, res.headers["content-length"] }, { 200, "", "4" })
  t.eq(client:request({ method = "REPORT", path = "/" }).body, "REPORT")
  t.eq(client:request({}).body, "GET")
end)

test("the app sees the path, the query, the headers and the address of the request", function(app, client)
  app:get("/items/:id", function(req)
    return { req.params.id, req.query.q, req.headers.host, req.headers["x-a"] or "", req.headers["user-agent"],
      req.remote_addr }
  end)
  t.eq(client:get("/items/a%20b?q=1", { headers = { ["X-A"] = "b" } }):json(),
    { "a b", "1", "localhost", "b", "lio", "127.0.0.1" })
  t.eq(client:get("/items/1", { query = { q = "x y" } }):json()[2], "x y")
  local other <close> = app:test { base_url = "https://shop.example:8443/", remote_addr = "2001:db8::1" }
  local seen = other:get("/items/1?q="):json()
  t.eq({ seen[3], seen[6] }, { "shop.example:8443", "2001:db8::1" })
end)

test("bodies are strings, lists, functions, JSON and forms", function(app, client)
  app:post("/", function(req)
    return { req.headers["content-type"] or "none", req.headers["transfer-encoding"] or "none", req:body() }
  end)
  local pieces = { "ab", "", "c" }
  local function next_piece() return table.remove(pieces, 1) end
  t.eq(client:post("/", { body = "text" }):json(), { "none", "none", "text" })
  t.eq(client:post("/", { body = { "a", 1 } }):json(), { "none", "none", "a1" })
  t.eq(client:post("/", { body = next_piece }):json(), { "none", "chunked", "abc" })
  t.eq(client:post("/", { json = { 1 } }):json(), { "application/json", "none", "[1]" })
  t.eq(client:post("/", { form = { a = "b c" } }):json(), { "application/x-www-form-urlencoded", "none", "a=b%20c" })
  t.eq(client:post("/"):json(), { "none", "none", "" })
end)

test("a function of a body that fails ends the request", function(app, client)
  app:post("/", function(req) return req:body() or "nothing" end)
  local _, message, code = client:post("/", { body = function() return nil, "no data" end })
  t.eq({ message, code }, { "no data", "body" })
  t.eq(client:post("/", { body = "x" }).body, "x")
end)

test("default headers are sent until they are removed, and a request replaces them", function(app, client)
  app:get("/", function(req) return { req.headers["x-a"] or "none", req.headers["x-b"] or "none" } end)
  t.eq(client:header("X-A", "1"):header("x-b", "2"), client)
  t.eq(client:get("/"):json(), { "1", "2" })
  t.eq(client:get("/", { headers = { ["X-B"] = "3" } }):json(), { "1", "3" })
  client:header("x-a")
  t.eq(client:get("/"):json(), { "none", "2" })
end)

test("responses have headers, in order and repeated", function(app, client)
  app:get("/", function(_, res)
    return res:status(201):header("X-A", "1"):cookie("a", "b"):cookie("c", "d"):send "made"
  end)
  local res = assert(client:get "/")
  t.eq({ res.status, res.reason, res.headers["x-a"], res.body }, { 201, "Created", "1", "made" })
  t.eq(res:header_all "set-cookie", { "a=b", "c=d" })
  t.eq(res.url, "http://localhost/")
end)

test("a compressed body is decoded", function(app, client)
  app:use(web.compress {})
  app:get("/", function() return ("text "):rep(1000) end)
  local headers = { ["Accept-Encoding"] = "gzip" }
  t.eq(client:get("/", { headers = headers }).body, ("text "):rep(1000))
  local res = assert(client:get("/", { headers = headers, decode = false }))
  t.eq({ res.headers["content-encoding"], res.body:sub(1, 2) }, { "gzip", "\x1f\x8b" })
end)

test("middleware, mounted apps, 404 and 405 are those of the app", function(app, client)
  local inner = web.new()
  inner:get("/x", function(req) return req.path end)
  app:use(function(_, res, next) next() res:header("X-Seen", "yes") end)
  app:mount("/sub", inner)
  local res = assert(client:get "/sub/x")
  t.eq({ res.body, res.headers["x-seen"] }, { "/x", "yes" })
  t.eq(client:get("/nothing").status, 404)
  t.eq(client:post("/sub/x").status, 405)
end)

test("static files are served", function(app, client)
  local folder = t.tmp()
  t.write(folder .. "/big.bin", ("0123456789"):rep(100000))
  app:static("/", folder)
  t.eq(client:get("/big.bin").body, ("0123456789"):rep(100000))
  local res = assert(client:get("/big.bin", { headers = { Range = "bytes=5-9" } }))
  t.eq({ res.status, res.body }, { 206, "56789" })
end)

-- Connections -----------------------------------------------------------------------------------------------

test("requests use one connection, and concurrent requests several", function(app, client)
  app:get("/", function() loop.sleep(0.001) return "x" end)
  for _ = 1, 3 do t.eq(client:get("/").body, "x") end
  t.eq(client.app_server:count(), 1)
  local done = 0
  for _ = 1, 5 do
    loop.fork(function()
      t.eq(client:get("/").body, "x")
      done = done + 1
      if done == 5 then loop.wakeup "done" end
    end)
  end
  loop.wait "done"
  t.eq(client.app_server:count(), 5)
  t.eq(client:get("/", { headers = { Connection = "close" } }).headers.connection, "close")
  t.eq(client:get("/").body, "x")
end)

test("a request opens no descriptor", function(app, client)
  local before, count = descriptors.open()
  app:get("/", function() return descriptors.describe(descriptors.new_since(before)) end)
  t.eq(client:get("/").body, "")
  if before then t.eq(select(2, descriptors.open()), count) end
end)

test("the limits of the app apply", function(app, client)
  app:post("/", function(req) return req:body() end)
  t.eq(client:post("/", { body = ("x"):rep(101) }).status, 413)
  t.eq(client:post("/", { body = ("x"):rep(100) }).status, 200)
  t.eq(client:post("/", { headers = { ["X-Long"] = ("x"):rep(2000) } }).status, 431)
end, { app = { body = 100, headers = 1000 } })

test("a full server answers after another connection has ended", function(app, client)
  app:get("/", function() return "x" end)
  t.eq(client:get("/").body, "x")
  local big = ("x"):rep(3000000)
  app:get("/big", function() return big end)
  local res = assert(client:get "/big")
  t.eq(#res.body, #big)
end)

test("the server waits for a client that does not read", function(app, client)
  local written = 0
  app:get("/", function(_, res)
    for _ = 1, 100 do
      res:write(("x"):rep(100000))
      written = written + 1
    end
  end)
  local res = assert(client:get("/", { stream = true }))
  for _ = 1, 20 do loop.sleep(0) end
  t.ok(written < 50, written)
  local size = 0
  for piece in res:stream() do size = size + #piece end
  t.eq({ size, written }, { 10000000, 100 })
end)

-- Streams ----------------------------------------------------------------------------------------------------

test("a streamed body is read piece by piece", function(app, client)
  app:get("/", function(_, res)
    for _, piece in ipairs { "one", "two" } do
      res:write(piece)
      loop.wait(piece)
    end
  end)
  local res = assert(client:get("/", { stream = true }))
  t.eq({ res.body, res:piece() }, { nil, "one" })
  loop.wakeup "one"
  t.eq(res:piece(), "two")
  loop.wakeup "two"
  t.eq(res:piece(), nil)
  t.eq(client:get("/nothing").status, 404)
end)

test("server-sent events arrive one by one, and leaving the loop ends the handler", function(app, client)
  local testing = require "lio.testing"
  local ended
  app:get("/", function(_, res)
    local events = res:sse()
    events:send("hello\nyou", "greeting", "7")
    while events:send "tick" do loop.sleep(0.001) end
    ended = true
    loop.wakeup "ended"
  end)
  local got = {}
  for event in testing.events(assert(client:get("/", { stream = true }))) do
    got[#got + 1] = event
    if #got == 3 then break end
  end
  t.eq(got, { { event = "greeting", id = "7", data = "hello\nyou" }, { data = "tick" }, { data = "tick" } })
  if not ended then loop.wait "ended" end
end)

test("events end with the response, and misuse raises", function(app, client)
  local testing = require "lio.testing"
  app:get("/", function(_, res)
    res.content_type = "text/event-stream"
    return ": c\n\nid: 1\ndata\ndata:x\r\n\r\nretry: 5\n\n"
  end)
  local got = {}
  for event in testing.events(assert(client:get("/", { stream = true }))) do got[#got + 1] = event end
  t.eq(got, { { id = "1", data = "\nx" }, { retry = 5 } })
  t.raises("bad argument #1 to 'events' %(table expected, got nil%)", testing.events)
  t.raises("bad argument #1 to 'events' %(response expected, got table%)", testing.events, {})
end)

-- Errors -------------------------------------------------------------------------------------------------------

test("an error of a handler is a response with the status 500 and the traceback", function(app, client)
  app:get("/", function()
    error "oops"
  end)
  app:get("/fine", function() return "x" end)
  local res = assert(client:get "/")
  t.eq(res.status, 500)
  t.ok(res.error:find "^tests/testing_client_test.lua:%d+: oops\nstack traceback:\n"
    or res.error:find "^[^\n]*testing_client_test.lua:%d+: oops\nstack traceback:\n", res.error)
  t.is_nil(client:get("/fine").error)
end)

test("a handler cannot take over the connection, which has no socket", function(app, client)
  app:get("/", function(req) req:take_over() end)
  local res = assert(client:get "/")
  t.eq(res.status, 500)
  t.ok(res.error:find "testing_client_test.lua:%d+: req:take_over: a connection of app:test%(%) has no socket\n",
    res.error)
end)

test("on_error sets the response, and the error is still known", function(app, client)
  app:on_error(function(err, _, res) return res:status(418):send(err.word) end)
  app:get("/", function() error { word = "teapot" } end)
  local res = assert(client:get "/")
  t.eq({ res.status, res.body }, { 418, "teapot" })
  t.ok(res.error:find "stack traceback:", res.error)
end)

test("a response that an error cuts short is nil, a message and a code", function(app, client)
  app:get("/", function(_, res)
    res:write "part"
    error "in the middle"
  end)
  local res, message, code = client:get "/"
  t.eq({ res, message, code }, { nil, "the server closed the connection within the response", "truncated" })
end)

test("a response that is too long, or late, is nil, a message and a code", function(app, client)
  app:get("/", function() return ("x"):rep(11) end)
  app:get("/never", function() loop.wait "never" end)
  local _, message, code = client:get("/", { limit = 10 })
  t.eq({ message, code }, { "the body is larger than allowed", "too long" })
  _, message, code = client:get "/never"
  t.eq({ message, code }, { "waiting for the response: timeout", "timeout" })
  loop.wakeup "never"
end, { client = { timeout = 0.01 } })

test("a request that waits when the client closes gets closed", function(app, client)
  app:get("/", function() loop.wait "go" end)
  local results
  loop.fork(function() results = table.pack(client:get "/") end)
  loop.sleep(0)
  client:close()
  client:close()
  loop.wakeup "go"
  loop.sleep(0)
  t.eq({ results[1], results[2], results[3] }, { nil, "closed", "closed" })
  t.raises("testing_client_test.lua:%d+: client:get: the client is closed$", function() client:get "/" end)
end)

t.test("without a test, errors of handlers are logged; in a test, they are in its message", function()
  local program = [[
local t, web = require "lio.testing", require "lio.webserver"
local app = web.new()
app:get("/", function() error "oops" end)
require("lio.loop").run(function() app:test():get "/" end)
t.test("sees the error", function() t.eq(app:test():get("/x").status, 404) t.eq(app:test():get("/").status, 200) end)
t.finish()]]
  local path = t.write(t.tmp() .. "/errors_test.lua", program)
  local result = t.run(t.lio() .. " " .. path)
  local _, count = result.err:gsub("lio: error in GET /: ", "")
  t.eq(count, 1)
  t.ok(result.out:find "  during the test: error in GET /: [^\n]*errors_test.lua:3: oops\n  stack traceback:\n",
    result.out)
end)

test("misuse raises at the line of the program", function(app, client)
  t.raises("testing_client_test.lua:%d+: client:get: option 'jsn' is unknown %(did you mean 'json'%?%)$",
    function() client:get("/", { jsn = 1 }) end)
  t.raises("bad argument #1 to 'get' %(string expected, got nil%)", function() client:get() end)
  t.raises("client:post: only one of body, json and form can be sent", function()
    client:post("/", { body = "x", json = {} })
  end)
  t.raises("client:get: url: unknown scheme", function() client:get "ftp://x/" end)
  t.raises("app:test: option 'remote_addr' must be an IP address, got \"here\"", function()
    app:test { remote_addr = "here" }
  end)
  t.raises("app:test: option 'base_url': scheme is missing", function() app:test { base_url = "/x" } end)
  t.raises("client:get: call it with a colon", function() client.get("/") end)
end)

t.test("a request outside of a task raises", function()
  local app = web.new()
  local client <close> = app:test()
  t.raises("client:get: no task is running; call it in testing.test or loop.run$", function() client:get "/" end)
end)

-- Redirects ----------------------------------------------------------------------------------------------------

test("redirects are followed only on request", function(app, client)
  app:post("/a", function(_, res) return res:redirect("/b", 303) end)
  app:get("/b", function(_, res) return res:redirect "/c?x=1" end)
  app:get("/c", function(req) return req.method .. req.query.x end)
  local res = assert(client:post("/a", { body = "x" }))
  t.eq({ res.status, res.headers.location }, { 303, "/b" })
  res = assert(client:post("/a", { body = "x", redirects = 1 }))
  t.eq({ res.status, res.url, #res.history }, { 302, "http://localhost/b", 1 })
  res = assert(client:post("/a", { body = "x", redirects = 9 }))
  t.eq({ res.status, res.body, res.url, res.history[1].status, res.history[2].status },
    { 200, "GET1", "http://localhost/c?x=1", 303, 302 })
end)

-- Cookies --------------------------------------------------------------------------------------------------------

test("cookies are kept between the requests of a client", function(app, client)
  app:get("/set/:name/:value", function(req, res)
    return res:cookie(req.params.name, req.params.value, { path = "/" }):send "set"
  end)
  app:get("/drop", function(_, res) return res:cookie("a", "", { path = "/", max_age = 0 }):send "dropped" end)
  app:get("/show", function(req) return req.headers.cookie or "none" end)
  t.eq(client:get("/show").body, "none")
  client:get "/set/a/1"
  client:get "/set/b/2"
  t.eq(client:get("/show").body, "a=1; b=2")
  client:get "/set/a/3"
  t.eq(client:get("/show").body, "a=3; b=2")
  t.eq({ client:cookie "a", client:cookie "c" }, { "3" })
  t.eq(client:get("/show", { headers = { Cookie = "own=1" } }).body, "own=1")
  client:get "/drop"
  t.eq(client:get("/show").body, "b=2")
  t.eq(client:set_cookie("d", "4"):set_cookie("b"):get("/show").body, "d=4")
  t.eq(client:clear_cookies():get("/show").body, "none")
  local other <close> = app:test { cookies = false }
  other:get "/set/a/1"
  t.eq(other:get("/show").body, "none")
end)

test("a cookie that a redirect sets is sent to its target", function(app, client)
  app:get("/login", function(_, res) return res:cookie("sid", "7"):redirect "/home" end)
  app:get("/home", function(req) return req.cookies.sid end)
  t.eq(client:get("/login", { redirects = 1 }).body, "7")
end)

-- Stores the fields for a URL, and returns the Cookie field for each of the other URLs, or "none".
local function jar(fields, from, ...)
  local one, values = cookies.new(), {}
  for _, field in ipairs(fields) do one:store(assert(urls.parse(from)), field) end
  for index, text in ipairs { ... } do values[index] = one:header(assert(urls.parse(text))) or "none" end
  return values
end

t.test("a cookie is sent to its path and below", function()
  t.eq(jar({ "a=1; Path=/x" }, "http://h/", "http://h/x", "http://h/x/y", "http://h/xy", "http://h/"),
    { "a=1", "a=1", "none", "none" })
  t.eq(jar({ "a=1; Path=/x/" }, "http://h/", "http://h/x", "http://h/x/y"), { "none", "a=1" })
  t.eq(jar({ "a=1" }, "http://h/x/y", "http://h/x/z", "http://h/x", "http://h/"), { "a=1", "a=1", "none" })
  t.eq(jar({ "a=1; Path=bad" }, "http://h/y", "http://h/"), { "a=1" })
  t.eq(jar({ "a=1; Path=/", "b=2; Path=/x", "c=3; Path=/", "a=4; Path=/x" }, "http://h/", "http://h/x"),
    { "b=2; a=4; a=1; c=3" })
end)

t.test("a cookie is sent to its domain", function()
  t.eq(jar({ "a=1" }, "http://h.example/", "http://h.example/", "http://x.h.example/", "http://example/"),
    { "a=1", "none", "none" })
  t.eq(jar({ "a=1; Domain=.H.example" }, "http://x.h.example/", "http://h.example/", "http://y.h.example/",
    "http://yh.example/"), { "a=1", "a=1", "none" })
  t.eq(jar({ "a=1; Domain=other.example", "b=2; Domain=ample" }, "http://h.example/", "http://h.example/"), { "none" })
  t.eq(jar({ "a=1; Domain=0.0.1" }, "http://127.0.0.1/", "http://127.0.0.1/"), { "none" })
end)

t.test("a secure cookie is sent over https, and to localhost", function()
  t.eq(jar({ "a=1; Secure; HttpOnly; SameSite=Lax" }, "https://h/", "https://h/", "http://h/"), { "a=1", "none" })
  t.eq(jar({ "a=1; secure" }, "http://localhost/", "http://localhost/"), { "a=1" })
end)

t.test("malformed cookies are ignored, and values are kept as they are", function()
  t.eq(jar({ "a", "=1", " ; Path=/", "" }, "http://h/", "http://h/"), { "none" })
  t.eq(jar({ 'a="x y"; Path=/', "b=", "c = d=e " }, "http://h/", "http://h/"), { 'a="x y"; b=; c=d=e' })
end)

t.test("a cookie expires after Max-Age or at Expires, and Max-Age decides", function()
  local past, future = "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Dec 2460 23:59:59 GMT"
  for field, want in pairs {
    ["a=1; Expires=" .. past] = "none",
    ["a=1; Expires=" .. future] = "a=1",
    ["a=1; Expires=Sunday, 06-Nov-94 08:49:37 GMT"] = "none",
    ["a=1; Expires=Fri Dec 31 2460"] = "a=1", -- malformed
    ["a=1; Expires=Fri, 32 Dec 1999 23:59:59 GMT"] = "a=1",
    ["a=1; Max-Age=1; Expires=" .. past] = "a=1",
    ["a=1; Max-Age=0; Expires=" .. future] = "none",
    ["a=1; Max-Age=-5"] = "none",
    ["a=1; Max-Age=x"] = "a=1",
  } do
    t.eq(jar({ "a=0", field }, "http://h/", "http://h/"), { want }, field)
  end
end)

t.test("the times of cookies are those of the clock", function()
  local lio, testing = require "lio", require "lio.testing"
  loop.run(function()
    local clock <close> = testing.clock()
    local one, url = cookies.new(), assert(urls.parse "http://h/")
    one:store(url, "a=1; Max-Age=100")
    one:store(url, "b=2; Expires=" .. os.date("!%a, %d %b %Y %H:%M:%S GMT", math.floor(lio.wall()) + 201))
    clock:advance(99)
    t.eq(one:header(url), "a=1; b=2")
    clock:advance(2)
    t.eq(one:header(url), "b=2")
    clock:advance(101)
    t.is_nil(one:header(url))
  end)
end)

t.finish()
