-- The rules of message framing that the other web suites do not test: trailers, the limits of chunk lines, empty lines,
-- forms of targets, lists in Connection, and bodies that are not read. The tests send requests as bytes.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local web = require "lio.webserver"

local CHUNKED <const> = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
local NEXT <const> = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"

local function app_of_bodies(options)
  local app = web.new(options)
  app:post("/", function(req)
    local body = req:body()
    if not body then return end
    local names = {}
    for name, value in pairs(req:trailers()) do names[#names + 1] = name .. "=" .. value end
    table.sort(names)
    return body .. "|" .. table.concat(names, ",") .. "|" .. tostring(req:header "x-sum")
  end)
  app:post("/unread", function() return "unread" end)
  app:any("/*rest", function(req) return req.method .. " " .. req.path end)
  return app
end

t.test("trailers are separate from headers, have names in lower case, and belong to one request only", function()
  http.with(app_of_bodies(), function(open)
    local c = open()
    t.eq(c:ask(CHUNKED .. "2\r\nab\r\n0\r\nX-Sum: 1\r\nx-more:  2 \r\n\r\n").body, "ab|x-more=2,x-sum=1|nil")
    t.eq(c:ask(CHUNKED .. "1\r\nc\r\n0\r\n\r\n").body, "c||nil")
    t.eq(c:request("POST", "/", nil, "d").body, "d||nil")
  end)
end)

t.test("a trailer cannot set the framing or the host", function()
  http.with(app_of_bodies(), function(open)
    local c = open()
    c:send(CHUNKED, "1\r\na\r\n0\r\nContent-Length: 99\r\nTransfer-Encoding: gzip\r\nHost: y\r\nHost: z\r\n\r\n", NEXT)
    t.eq(c:response().status, 200)
    t.eq(c:response().body, "GET /next")
  end)
end)

local function refused(app, status, ...)
  local bytes = table.concat { ... }
  http.with(app, function(open)
    local c = open()
    c:send(bytes, NEXT)
    local r = c:response()
    t.eq({ r.status, r.headers.connection }, { status, "close" }, bytes:sub(1, 120))
    t.ok(c:ended())
  end)
end

t.test("trailers are limited to 8 KiB and 64 fields", function()
  refused(app_of_bodies(), 431, CHUNKED, "0\r\nX: ", ("a"):rep(9000), "\r\n\r\n")
  refused(app_of_bodies(), 431, CHUNKED, "0\r\n", ("X: a\r\n"):rep(65), "\r\n")
  http.with(app_of_bodies(), function(open)
    t.eq(open():ask(CHUNKED .. "0\r\n" .. ("X: a\r\n"):rep(64) .. "\r\n").status, 200)
  end)
end)

t.test("extensions are limited to 4 KiB per line, and in total by the size of the data in the chunks", function()
  refused(app_of_bodies(), 400, CHUNKED, "1;", ("e"):rep(4097), "\r\nx\r\n0\r\n\r\n")
  refused(app_of_bodies(), 400, CHUNKED, ("1;" .. ("e"):rep(1000) .. "\r\nx\r\n"):rep(20), "0\r\n\r\n")
  http.with(app_of_bodies(), function(open)
    t.eq(open():ask(CHUNKED .. "1;" .. ("e"):rep(4000) .. "\r\nx\r\n0\r\n\r\n").body, "x||nil")
  end)
end)

t.test("chunk sizes are hexadecimal in either case, with leading zeros up to 16 digits", function()
  http.with(app_of_bodies(), function(open)
    local c = open()
    t.eq(c:ask(CHUNKED .. "a\r\n0123456789\r\nA\r\n0123456789\r\n000\r\n\r\n").body, ("0123456789"):rep(2) .. "||nil")
    t.eq(c:ask(CHUNKED .. "0000000000000001\r\nx\r\n0\r\n\r\n").body, "x||nil")
  end)
end)

t.test("chunks whose sizes add up to more than the largest integer are refused", function()
  refused(app_of_bodies { body = math.huge }, 400, CHUNKED, "1\r\nx\r\n7fffffffffffffff\r\n")
  refused(app_of_bodies { body = math.huge }, 400, CHUNKED, "ffffffffffffffff\r\n")
end)

t.test("a body longer than the largest integer is refused, even without a limit", function()
  refused(app_of_bodies { body = math.huge }, 400,
    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775808\r\n\r\n")
end)

t.test("up to two empty lines may precede a request", function()
  http.with(app_of_bodies(), function(open)
    t.eq(open():ask("\r\n\r\n" .. NEXT, "GET").body, "GET /next")
  end)
  refused(app_of_bodies(), 400, "\r\n\r\n\r\n", NEXT)
end)

t.test("OPTIONS of http://host without a path is OPTIONS *; * with another method is refused with 400", function()
  http.with(app_of_bodies(), function(open)
    local star = open():request("OPTIONS", "*")
    local bare = open():request("OPTIONS", "http://example.org")
    t.eq({ star.status, star.headers.allow }, { bare.status, bare.headers.allow })
    t.eq(star.status, 204)
    t.eq(open():request("OPTIONS", "http://example.org/").body, "OPTIONS /")
    t.eq(open():request("POST", "*").status, 400)
    t.eq(open():request("OPTIONS", "*a").status, 400)
  end)
end)

t.test("for a target in absolute form its host is used, but the field Host is still required", function()
  local app = web.new()
  app:get("/", function(req) return req.host end)
  http.with(app, function(open)
    t.eq(open():ask("GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n").body, "a.example")
    t.eq(open():ask("GET http://a.example/ HTTP/1.1\r\n\r\n").status, 400)
    t.eq(open():ask("GET http://a.example/ HTTP/1.0\r\n\r\n").body, "a.example")
  end)
end)

t.test("CONNECT needs a host and a port, and bytes after its head are not a request", function()
  local app = app_of_bodies()
  http.with(app, function(open)
    t.eq(open():ask("CONNECT /path HTTP/1.1\r\nHost: x\r\n\r\n").status, 400)
    t.eq(open():ask("CONNECT example.org HTTP/1.1\r\nHost: x\r\n\r\n").status, 400)
    local c = open()
    c:send("CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n", NEXT)
    local r = c:response()
    t.eq(r.headers.connection, "close", r.status)
    t.ok(c:ended())
  end)
end)

t.test("close takes precedence over keep-alive, in one Connection field or in two", function()
  http.with(app_of_bodies(), function(open)
    for _, field in ipairs { "Connection: keep-alive, close", "Connection: keep-alive\r\nConnection: close" } do
      local c = open()
      t.eq(c:ask("GET / HTTP/1.1\r\nHost: x\r\n" .. field .. "\r\n\r\n").headers.connection, "close", field)
      t.ok(c:ended())
      c = open()
      t.eq(c:ask("GET / HTTP/1.0\r\n" .. field .. "\r\n\r\n").headers.connection, "close", field)
      t.ok(c:ended())
    end
  end)
end)

t.test("an unread body, with a length or in chunks, is skipped, and the next request is answered", function()
  http.with(app_of_bodies(), function(open)
    local c = open()
    local smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    c:send("POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: ", tostring(#smuggled), "\r\n\r\n", smuggled, NEXT)
    t.eq({ c:response().body, c:response().body }, { "unread", "GET /next" })
    c:send("POST /unread HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
      ("%x\r\n%s\r\n0\r\nX: y\r\n\r\n"):format(#smuggled, smuggled), NEXT)
    t.eq({ c:response().body, c:response().body }, { "unread", "GET /next" })
  end)
end)

t.test("an unread body with malformed chunks ends the connection after the response", function()
  http.with(app_of_bodies(), function(open)
    local c = open()
    c:send("POST /unread HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", NEXT)
    t.eq(c:response().body, "unread")
    t.ok(c:ended())
  end)
end)

t.test("GET and HEAD may have bodies, which are not parsed as requests", function()
  http.with(app_of_bodies(), function(open)
    local c = open()
    for _, method in ipairs { "GET", "HEAD", "DELETE", "OPTIONS" } do
      c:send(method, " /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nGET ", NEXT)
      t.eq(c:response(method).status < 300, true, method)
      t.eq(c:response().body, "GET /next", method)
    end
  end)
end)

-- Regression: chunk extensions were refused.
t.test("chunk extensions are ignored", function()
  http.with(http.echo_app(), function(open)
    t.eq(open():ask("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      .. '5;name=value;flag;q="a b"\r\nhello\r\n0;end\r\n\r\n').body, "hello")
  end)
end)

t.finish()
