-- RFC 9112 as the server implements it: versions, connections, pipelining, targets. web_refusals_test.lua tests the
-- requests that the server refuses.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local web = require "lio.webserver"

local function app_of_names()
  local app = web.new()
  app:any("/*rest", function(req) return req.method .. " " .. req.path end)
  return app
end

t.test("HTTP/1.1 keeps the connection open, and the response has no Connection field", function()
  http.with(app_of_names(), function(open)
    local c = open()
    for i = 1, 5 do
      local r = c:request("GET", "/" .. i)
      t.eq({ r.body, r.headers.connection }, { "GET /" .. i })
    end
  end)
end)

t.test("Connection: close, alone or in a list, is obeyed and confirmed", function()
  http.with(app_of_names(), function(open)
    for _, value in ipairs { "close", "Close", "x-foo, close", "close, te" } do
      local c = open()
      t.eq(c:request("GET", "/", { "Connection: " .. value }).headers.connection, "close", value)
      t.ok(c:ended())
    end
  end)
end)

t.test("requests after Connection: close are not answered", function()
  http.with(app_of_names(), function(open)
    local c = open()
    c:send "GET /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n"
    t.eq(c:response().body, "GET /1")
    t.ok(c:ended())
  end)
end)

t.test("an HTTP/1.0 connection is closed unless the client requests keep-alive", function()
  http.with(app_of_names(), function(open)
    local c = open()
    local r = c:ask "GET /a HTTP/1.0\r\n\r\n"
    t.eq({ r.body, r.headers.connection }, { "GET /a", "close" })
    t.ok(c:ended())
    c = open()
    for _ = 1, 2 do
      r = c:ask "GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"
      t.eq({ r.body, r.headers.connection }, { "GET /a", "keep-alive" })
    end
  end)
end)

t.test("pipelined requests with and without bodies are answered in order", function()
  http.with(app_of_names(), function(open)
    local c = open()
    c:send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n",
      "POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
      "HEAD /3 HTTP/1.1\r\nHost: x\r\n\r\n",
      "POST /4 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
      "GET /5 HTTP/1.1\r\nHost: x\r\n\r\n")
    t.eq(c:response().body, "GET /1")
    t.eq(c:response().body, "POST /2")
    t.eq(c:response("HEAD").headers["content-length"], "7")
    t.eq(c:response().body, "POST /4")
    t.eq(c:response().body, "GET /5")
  end)
end)

t.test("a handler that waits delays later responses, and earlier ones are sent meanwhile", function()
  local app, gate = app_of_names(), {}
  app:get("/slow", function()
    loop.wait(gate)
    return "slow"
  end)
  http.with(app, function(open)
    local c = open()
    c:send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET /3 HTTP/1.1\r\nHost: x\r\n\r\n")
    t.eq(c:response().body, "GET /1")
    t.ok(c:silent(0.05))
    loop.wakeup(gate)
    t.eq(c:response().body, "slow")
    t.eq(c:response().body, "GET /3")
    c:send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n")
    t.ok(c:silent(0.05), "the second response is not sent before the first")
    loop.wakeup(gate)
    t.eq(c:response().body, "slow")
    t.eq(c:response().body, "GET /2")
  end)
end)

t.test("while a handler waits, other connections are served", function()
  local app, gate = app_of_names(), {}
  app:get("/slow", function()
    loop.wait(gate)
    return "slow"
  end)
  http.with(app, function(open)
    local slow, quick = open(), open()
    slow:send "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
    for i = 1, 10 do t.eq(quick:request("GET", "/" .. i).body, "GET /" .. i) end
    loop.wakeup(gate)
    t.eq(slow:response().body, "slow")
  end)
end)

t.test("thousands of pipelined requests are all answered, and other connections are served meanwhile", function()
  local app, count = web.new(), 5000
  local served, asked_at, answered_at, other = 0, 1000, nil, nil
  app:get("/", function()
    served = served + 1
    if served == asked_at then other:send "GET /other HTTP/1.1\r\nHost: x\r\n\r\n" end
    return "x"
  end)
  app:get("/other", function()
    answered_at = served
    return "y"
  end)
  http.with(app, function(open)
    local c = open()
    other = open()
    c:send(("GET / HTTP/1.1\r\nHost: x\r\n\r\n"):rep(count))
    for _ = 1, count do t.eq(c:response().body, "x") end
    t.eq(other:response().body, "y")
    t.ok(answered_at - asked_at < 300, "the other client waited for " .. answered_at - asked_at .. " requests")
  end)
end)

t.test("a pipelining client that reads nothing is served until the buffers are full", function()
  local app, served = web.new(), 0
  app:get("/", function()
    served = served + 1
    return ("x"):rep(10000)
  end)
  http.with(app, function(open)
    local c = open()
    loop.fork(function() c.c:send(("GET / HTTP/1.1\r\nHost: x\r\n\r\n"):rep(20000)) end)
    http.stalls(function() return served > 0 and served end)
    t.ok(served < 5000, served)
    t.eq(#c:response().body, 10000)
  end)
end)

t.test("a request may arrive byte by byte", function()
  http.with(app_of_names(), function(open)
    local c = open()
    for byte in ("GET /slowly HTTP/1.1\r\nHost: x\r\nX-A: b\r\n\r\n"):gmatch "." do
      c:send(byte)
      loop.sleep(0.001)
    end
    t.eq(c:response().body, "GET /slowly")
  end)
end)

t.test("a target in absolute form is served by its path and host", function()
  local app = web.new()
  app:any("/*rest", function(req) return req.path .. " " .. req.host .. " " .. (req.query.q or "") end)
  http.with(app, function(open)
    local c = open()
    t.eq(c:request("GET", "http://example.org:81/a/b?q=1").body, "/a/b example.org:81 1")
    t.eq(c:request("GET", "HTTP://example.org").body, "/ example.org ")
    t.eq(c:request("GET", "https://example.org?q=2").body, "/ example.org 2")
    for _, target in ipairs { "ftp://x/", "http:///a", "http://a b/", "a/b", "http://u@x/", "*", "//" .. ("x") } do
      local r = open():request("GET", target)
      t.eq(r.status, target:sub(1, 1) == "/" and 200 or 400, target)
    end
  end)
end)

t.test("an HTTP/1.1 request must have one valid Host, which may be empty", function()
  http.with(app_of_names(), function(open)
    local function status(...)
      return open():ask(table.concat({ "GET / HTTP/1.1", ... }, "\r\n") .. "\r\n\r\n").status
    end
    t.eq(status(), 400)
    t.eq(status("Host: a", "Host: a"), 400)
    t.eq(status("Host: a b"), 400)
    t.eq(status("Host: a/b"), 400)
    t.eq(status("Host: a:x"), 400)
    t.eq(status("Host: u@a"), 400)
    t.eq(status("Host:"), 200)
    t.eq(status("Host: [::1]:8080"), 200)
    t.eq(status("host: a"), 200)
    t.eq(open():ask("GET / HTTP/1.0\r\n\r\n").status, 200)
  end)
end)

t.test("an empty line before a request is skipped, because old clients send such a line", function()
  http.with(app_of_names(), function(open)
    local c = open()
    t.eq(c:ask("\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n", "GET").body, "GET /a")
    t.eq(c:ask("\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n", "GET").body, "GET /b")
  end)
end)

t.test("a client that shuts down its sending side after a request gets the response", function()
  local app, gate = web.new(), {}
  app:get("/", function() return "x" end)
  app:get("/slow", function() loop.wait(gate) return "slow" end)
  http.with(app, function(open)
    local c = open()
    c:send "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    c.c:shutdown "w"
    t.eq(c:response().body, "x")
    t.ok(c:ended())
    c = open()
    c:send "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
    c.c:shutdown "w"
    while not loop.wakeup(gate) do loop.sleep(0.001) end
    t.eq(c:response().body, "slow")
  end)
end)

t.test("a client that closes in the middle of a request leaks nothing", function()
  http.with(app_of_names(), function(open, server)
    local begun = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"
    for _, part in ipairs { "", "GE", "GET / HTTP/1.1\r\nHos", begun } do
      local c = open()
      c:send(part)
      while server.count == 0 do loop.sleep(0.001) end
      c:close()
      while server.count > 0 do loop.sleep(0.001) end
    end
  end)
end)

-- Regression: the server closed every connection, and sent no Connection: close.
t.test("connections are kept alive until a request has Connection: close", function()
  http.with(http.echo_app(), function(open)
    local c = open()
    t.is_nil(c:request("GET", "/").headers.connection)
    t.eq(c:request("GET", "/", { "Connection: close" }).headers.connection, "close")
    t.ok(c:ended())
  end)
end)

-- Regression: the pipelined request was read as the body.
t.test("a POST without a length has no body; the bytes after its head are the next request", function()
  http.with(http.echo_app(), function(open)
    local c = open()
    c:send "POST / HTTP/1.1\r\nHost: x\r\n\r\nGET /second HTTP/1.1\r\nHost: x\r\n\r\n"
    t.eq(c:response().body, "")
    t.eq(c:response().body, "/second")
  end)
end)

-- Regression: the body was sent, and the client read it as the next response.
t.test("the response to HEAD has a length and no body", function()
  http.with(http.echo_app(), function(open)
    local c = open()
    c:send "HEAD /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n"
    t.eq(c:response("HEAD").headers["content-length"], "2")
    t.eq(c:response().body, "/b")
  end)
end)

t.finish()
