-- Requests that the server refuses, so that two parsers of the same bytes cannot disagree on where a request ends. For
-- each fault the server sends a status and then closes the connection.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local web = require "lio.webserver"

local function app_of_bodies(opts)
  local app = web.new(opts)
  app:any("/*rest", function(req)
    local body = req:body()
    return body and req.path .. " " .. body
  end)
  return app
end

-- Checks each of `cases`: { the bytes of a request, the expected status }. Each is followed by a request that must not
-- be answered.
local function refuses(cases, opts)
  http.with(app_of_bodies(opts), function(open)
    for _, case in ipairs(cases) do
      local c = open()
      c:send(case[1], "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
      local r = c:response()
      t.eq({ r.status, r.headers.connection }, { case[2], "close" }, ("%q"):format(case[1]:sub(1, 200)))
      t.ok(c:ended(), case[1])
      t.ok(not r.body:find "smuggled")
    end
  end)
end

local function post(...)
  return table.concat({ "POST /p HTTP/1.1", "Host: x", ... }, "\r\n") .. "\r\n\r\n"
end

t.test("a Content-Length that is not a plain number is refused with 400", function()
  local cases = {}
  for _, value in ipairs {
    "+5", "-1", "0x5", "5a", "a", "", "5 5", "5,", "5;", "1e3", "5.0", "\u{ff15}", "'5'",
    "9223372036854775808", "99999999999999999999", ("0"):rep(20) .. "5", "18446744073709551621",
  } do
    cases[#cases + 1] = { post("Content-Length: " .. value) .. "hello", 400 }
  end
  refuses(cases)
end)

-- Regression: repeated equal lengths were accepted, which nginx, Apache, Node and others refuse.
t.test("repeated lengths are refused with 400, even if they are equal", function()
  refuses {
    { post("Content-Length: 5", "Content-Length: 5") .. "hello", 400 },
    { post("Content-Length: 5", "content-length: 5") .. "hello", 400 },
    { post("Content-Length: 5, 5") .. "hello", 400 },
    { post("Content-Length: 5,5") .. "hello", 400 },
    { post("Content-Length: 5", "Content-Length: 6") .. "hello", 400 },
    { post("Content-Length: 5, 6") .. "hello", 400 },
    { post("Content-Length: 5", "content-length: 05x") .. "hello", 400 },
  }
end)

t.test("a length together with chunked is refused with 400", function()
  refuses {
    { post("Content-Length: 5", "Transfer-Encoding: chunked") .. "0\r\n\r\n", 400 },
    { post("Transfer-Encoding: chunked", "Content-Length: 0") .. "0\r\n\r\n", 400 },
  }
end)

t.test("the last transfer coding must be chunked, and unknown codings are refused with 501", function()
  refuses {
    { post "Transfer-Encoding: chunked, identity" .. "0\r\n\r\n", 400 },
    { post "Transfer-Encoding: chunked, chunked" .. "0\r\n\r\n", 400 },
    { post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") .. "0\r\n\r\n", 400 },
    { post "Transfer-Encoding: chunked;q=1" .. "0\r\n\r\n", 400 },
    { post "Transfer-Encoding: \"chunked\"" .. "0\r\n\r\n", 400 },
    { post "Transfer-Encoding: chun ked" .. "0\r\n\r\n", 400 },
    { post "Transfer-Encoding: " .. "0\r\n\r\n", 400 },
    { post "Transfer-Encoding: gzip" .. "0\r\n\r\n", 501 },
    { post "Transfer-Encoding: gzip, chunked" .. "0\r\n\r\n", 501 },
    { post "Transfer-Encoding: xchunked" .. "0\r\n\r\n", 501 },
    { post "Transfer-Encoding: identity" .. "0\r\n\r\n", 501 },
    { "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400 },
  }
end)

t.test("malformed chunks are refused with 400", function()
  local head = post "Transfer-Encoding: chunked"
  local cases = {}
  for _, bytes in ipairs {
    "-1\r\nx\r\n0\r\n\r\n", "+1\r\nx\r\n0\r\n\r\n", "0x1\r\nx\r\n0\r\n\r\n", " 1\r\nx\r\n0\r\n\r\n",
    "g\r\n", "\r\n", ";a\r\n", "1 x\r\ny\r\n", "10000000000000000\r\n", "00000000000000001\r\nx\r\n0\r\n\r\n",
    "1\nx\n0\n\n", "1\r\nxy\r\n0\r\n\r\n", "1\r\nx\n0\r\n\r\n", "1\rx\r\n", "1;a\nx\r\n0\r\n\r\n",
    "0\r\nBad Trailer: x\r\n\r\n", "0\r\n folded\r\n\r\n", "0\r\nX: a\nY: b\r\n\r\n", "1;\0\r\nx\r\n0\r\n\r\n",
  } do
    cases[#cases + 1] = { head .. bytes, 400 }
  end
  refuses(cases)
end)

t.test("bare line feeds, bare carriage returns and folded lines are refused with 400", function()
  refuses {
    { "GET / HTTP/1.1\nHost: x\n\n", 400 },
    { "GET / HTTP/1.1\r\nHost: x\nX-A: b\r\n\r\n", 400 },
    { "GET / HTTP/1.1\r\nHost: x\rX-A: b\r\n\r\n", 400 },
    { "GET / HTTP/1.1\r\nHost: x\r\nX-A: b\r\n c\r\n\r\n", 400 },
    { "GET / HTTP/1.1\r\nHost: x\r\nX-A: b\r\n\tc\r\n\r\n", 400 },
    { "GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400 },
    { "GET / HTTP/1.1\r\nHost: x\r\n\n", 400 },
    { "\n\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
  }
end)

t.test("a header name must be a token directly before the colon, and a value must not contain NUL", function()
  refuses {
    { "GET / HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\n", 400 },
    { "GET / HTTP/1.1\r\nHost: x\r\nX A: b\r\n\r\n", 400 },
    { "GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n", 400 },
    { "GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n", 400 },
    { "GET / HTTP/1.1\r\nHost: x\r\nX-\u{e9}: b\r\n\r\n", 400 },
    { "GET / HTTP/1.1\r\nHost: x\r\nX(A): b\r\n\r\n", 400 },
    { "GET / HTTP/1.1\r\nHost: x\r\nX-A: b\0c\r\n\r\n", 400 },
    { "GET / HTTP/1.1\r\nHost: x\r\nX-A: b\27c\r\n\r\n", 400 },
    { "GET / HTTP/1.1\r\nHost: x\r\nX\0A: b\r\n\r\n", 400 },
  }
end)

t.test("malformed request lines are answered with 400", function()
  refuses {
    { "GET\r\n\r\n", 400 },
    { "GET /\r\n\r\n", 400 },
    { "GET / \r\n\r\n", 400 },
    { "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
    { "GET / HTTP/1.1 \r\nHost: x\r\n\r\n", 400 },
    { " GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
    { "GET / x HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
    { "GET /\tHTTP/1.1\r\nHost: x\r\n\r\n", 400 },
    { "GET /#frag HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
    { "GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
    { "G@T / HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
    { "GET / http/1.1\r\nHost: x\r\n\r\n", 400 },
    { "GET / HTTP/1\r\nHost: x\r\n\r\n", 400 },
    { "GET / HTTP/11\r\nHost: x\r\n\r\n", 400 },
    { "\22\3\1\0\238\1\0\0\234", 400 }, -- a ClientHello of TLS
    { "SSH-2.0-client\r\n", 400 },
  }
end)

t.test("versions other than 1.0 and 1.1 are refused with 505", function()
  refuses {
    { "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505 },
    { "GET / HTTP/1.2\r\nHost: x\r\n\r\n", 505 },
    { "GET / HTTP/0.9\r\nHost: x\r\n\r\n", 505 },
    { "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505 },
  }
end)

t.test("a malformed escape in the path is refused with 400; the response to HEAD has no body", function()
  refuses {
    { "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
    { "GET /a% HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
    { "GET /a%4 HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
  }
  http.with(app_of_bodies(), function(open)
    local c = open()
    c:send "HEAD /%zz HTTP/1.1\r\nHost: x\r\n\r\n"
    t.eq(c:response("HEAD").status, 400)
    t.ok(c:ended())
  end)
end)

t.test("a refusal after a HEAD has a body", function()
  http.with(app_of_bodies(), function(open)
    local c = open()
    c:send "HEAD / HTTP/1.1\r\nHost: x\r\n\r\nbad\r\n\r\n"
    c:response "HEAD"
    local r = c:response()
    t.eq(r.status, 400)
    t.ok(#r.body > 0)
    t.ok(c:ended())
  end)
end)

t.test("requests before a malformed request are answered in order", function()
  http.with(app_of_bodies(), function(open)
    local c = open()
    local rest = " HTTP/1.1\r\nHost: x\r\n\r\n"
    c:send("GET /1", rest, "GET /2", rest, "bad\r\n\r\n", "GET /3", rest)
    t.eq(c:response().body, "/1 ")
    t.eq(c:response().body, "/2 ")
    t.eq(c:response().status, 400)
    t.ok(c:ended())
  end)
end)

t.test("a request line over the limit is refused with 414 before its end has arrived", function()
  http.with(app_of_bodies(), function(open)
    t.eq(open():request("GET", "/" .. ("a"):rep(8192 - 14)).status, 200)
    local c = open()
    c:send("GET /" .. ("a"):rep(8192))
    t.eq(c:response().status, 414)
    t.ok(c:ended())
  end)
  refuses({ { "GET /2345678 HTTP/1.1\r\nHost: x\r\n\r\n", 414 } }, { request_line = 20 })
end)

t.test("headers over the limits are refused with 431 before their end has arrived", function()
  http.with(app_of_bodies(), function(open)
    local c = open()
    c:send("GET / HTTP/1.1\r\nHost: x\r\nX-A: " .. ("a"):rep(33000))
    t.eq(c:response().status, 431)
    t.ok(c:ended())
    c = open()
    c:send("GET / HTTP/1.1\r\n" .. ("X-A: b\r\n"):rep(101))
    t.eq(c:response().status, 431)
    t.eq(open():ask("GET / HTTP/1.1\r\nHost: x\r\n" .. ("X-A: b\r\n"):rep(99) .. "\r\n").status, 200)
  end)
  refuses({ { "GET / HTTP/1.1\r\nHost: x\r\nX-A: 567890\r\n\r\n", 431 } }, { headers = 20 })
  refuses({ { "GET / HTTP/1.1\r\nHost: x\r\nA: 1\r\nB: 2\r\n\r\n", 431 } }, { fields = 2 })
end)

-- Regression: the task failed without a response, and the connection stayed open.
t.test("a path with a malformed escape is refused with 400, and the connection is closed", function()
  http.with(http.echo_app(), function(open, server)
    for _, path in ipairs { "/%zz", "/%", "/%4", "/a%g0" } do
      local c = open()
      local r = c:request("GET", path)
      t.eq({ r.status, r.headers.connection }, { 400, "close" }, path)
      t.ok(c:ended())
      c:close()
    end
    while server.count > 0 do loop.sleep(0.001) end
  end)
end)

-- Regression: the server closed the connection without a response.
t.test("malformed request lines are refused with 400", function()
  http.with(http.echo_app(), function(open)
    for _, line in ipairs { "nonsense", "GET", "GET /", "GET / HTTP/x", "GET nothing HTTP/1.1" } do
      local c = open()
      c:send(line, "\r\n\r\n")
      t.eq(c:response().status, 400, line)
    end
  end)
end)

-- Regression: all of these lengths were accepted.
t.test("a malformed or repeated Content-Length is refused, even beside Transfer-Encoding", function()
  http.with(http.echo_app(), function(open)
    for _, fields in ipairs {
      "Content-Length: 0x5", "Content-Length: -1", "Content-Length: 5\r\nContent-Length: 6",
      "Content-Length: five", "Content-Length: 5\r\nTransfer-Encoding: chunked",
    } do
      local c = open()
      c:send("POST / HTTP/1.1\r\nHost: x\r\n", fields, "\r\n\r\nhello")
      t.eq(c:response().status, 400, fields)
      t.ok(c:ended())
    end
  end)
end)

-- Regression: a body with a negative chunk size could exceed the limit.
t.test("a chunk size that is negative or too large is refused", function()
  http.with(http.echo_app { body = 10 }, function(open)
    for _, size in ipairs { "-5", "-FFFFFFFF", "FFFFFFFFFFFFFFFB", "8000000000000000" } do
      local c = open()
      c:send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", size, "\r\nhello")
      local status = c:response().status
      t.ok(status == 400 or status == 413, size .. " gave " .. status)
      t.ok(c:ended())
    end
  end)
end)

t.finish()
