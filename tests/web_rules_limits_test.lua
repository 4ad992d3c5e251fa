-- Limits of the web server that the other web suites do not test: bytes that arrive slowly do not extend a time limit,
-- a reader's progress does, and size limits are exact. Each test sets a small limit.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local lio = require "lio"
local loop = require "lio.loop"
local socket = require "lio.socket"
local net = require "lio.net"
local web = require "lio.webserver"

local GET <const> = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

local function app_with(options)
  local app = web.new(options)
  app:get("/", function() return "x" end)
  app:post("/", function(req) return req:body() end)
  app:post("/unread", function() return "unread" end)
  app:get("/large", function() return ("x"):rep(4 * 1024 * 1024) end)
  return app
end

-- Returns a client with a small receive window, so that the server soon waits for the client to read.
local function open_small(server, window)
  local s = socket.create "tcp"
  s:option("rcvbuf", window or 4096)
  s:connect("127.0.0.1", math.tointeger(tonumber(server.url:match ":(%d+)/$")))
  local c = net.wrap(s)
  c:timeout(10, 10)
  return c
end

local function gone(server)
  local deadline = lio.now() + 10
  while server.count > 0 do
    if lio.now() > deadline then error("the server still holds the connection", 2) end
    loop.sleep(0.005)
  end
end

t.test("the request line's limit is exact", function()
  http.with(app_with { request_line = 20 }, function(open)
    t.eq(open():request("GET", "/?" .. ("a"):rep(5)).status, 200, "20 bytes")
    t.eq(open():request("GET", "/?" .. ("a"):rep(6)).status, 414, "21 bytes")
  end)
end)

t.test("the limit of the headers is exact, and counts all lines including their ends", function()
  local section = "Host: x\r\nX-A: 12345\r\n\r\n"
  http.with(app_with { headers = #section }, function(open)
    t.eq(open():ask("GET / HTTP/1.1\r\n" .. section).status, 200)
    t.eq(open():ask("GET / HTTP/1.1\r\n" .. section:gsub("5", "56")).status, 431)
  end)
end)

t.test("the limit of the number of fields is exact, and counts repeated fields", function()
  http.with(app_with { fields = 3 }, function(open)
    t.eq(open():ask("GET / HTTP/1.1\r\nHost: x\r\nA: 1\r\nA: 2\r\n\r\n").status, 200)
    t.eq(open():ask("GET / HTTP/1.1\r\nHost: x\r\nA: 1\r\nA: 2\r\nA: 3\r\n\r\n").status, 431)
  end)
end)

t.test("the limit of a body is exact, with Content-Length and in chunks", function()
  local chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
  http.with(app_with { body = 10 }, function(open)
    t.eq(open():request("POST", "/", nil, ("a"):rep(10)).body, ("a"):rep(10))
    t.eq(open():request("POST", "/", nil, ("a"):rep(11)).status, 413)
    t.eq(open():ask(chunked .. "5\r\naaaaa\r\n5\r\naaaaa\r\n0\r\n\r\n").body, ("a"):rep(10))
    t.eq(open():ask(chunked .. "5\r\naaaaa\r\n6\r\n").status, 413)
  end)
end)

t.test("a body must not stall, however fast its begin has arrived", function()
  http.with(app_with { body_time = 0.2, body_rate = 10 }, function(open)
    local c = open()
    c:send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n", ("x"):rep(50000))
    t.eq(c:response().status, 408)
    c:close()
  end)
end)

t.test("the header time starts with the first byte, even after a pipelined request", function()
  http.with(app_with { header_time = 0.2 }, function(open)
    local c = open()
    c:send(GET, "GET /")
    t.eq(c:response().status, 200)
    loop.fork(function()
      for _ = 1, 100 do
        loop.sleep(0.05)
        if c.c:is_closed() or not c.c:send "a" then return end
      end
    end)
    local began = lio.now()
    t.eq(c:response().status, 408)
    t.ok(lio.now() - began < 2)
    c:close()
  end)
end)

t.test("if only an empty line arrives within the header time, the response is 408", function()
  http.with(app_with { header_time = 0.15 }, function(open)
    local c = open()
    c:send "\r\n"
    t.eq(c:response().status, 408)
    t.ok(c:ended())
  end)
end)

t.test("an unread body that arrives slowly does not extend the body time", function()
  http.with(app_with { body_time = 0.2 }, function(open)
    local c = open()
    c:send "POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n"
    t.eq(c:response().body, "unread")
    loop.fork(function()
      for _ = 1, 400 do
        loop.sleep(0.02)
        if c.c:is_closed() or not c.c:send "x" then return end
      end
    end)
    local began = lio.now()
    c.c:recv()
    t.ok(lio.now() - began < 2, lio.now() - began)
    c:close()
  end)
end)

t.test("a reader that makes progress keeps its connection beyond the write time", function()
  http.with(app_with { write_time = 1.5 }, function(_, server)
    local c <close> = open_small(server, 32768)
    c:send "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
    local got, began = 0, lio.now()
    while got < 4 * 1024 * 1024 do
      got = got + #assert(c:recv(), "cut off")
      if lio.now() - began < 2 then loop.sleep(0.05) end
    end
    t.ok(lio.now() - began >= 2, "this reader takes longer than the write time")
  end)
end)

t.test("a pipelining client that reads nothing is closed after the write time", function()
  http.with(app_with { write_time = 0.15 }, function(_, server)
    local c <close> = open_small(server)
    loop.fork(function() c:send((GET:gsub("/ ", "/large ")):rep(50)) end)
    while server.count == 0 do loop.sleep(0.001) end
    gone(server)
  end)
end)

t.test("a client that does not read many small responses is closed after the write time", function()
  local app = web.new { write_time = 0.15 }
  app:get("/", function() return ("x"):rep(1000) end)
  http.with(app, function(_, server)
    local c <close> = open_small(server)
    loop.fork(function() c:send(GET:rep(50000)) end)
    while server.count == 0 do loop.sleep(0.001) end
    gone(server)
  end)
end)

t.test("the last allowed request closes the connection even if its body was not read", function()
  http.with(app_with { requests = 2 }, function(open)
    local c = open()
    t.eq(c:ask(GET).status, 200)
    local r = c:ask "POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    t.eq({ r.body, r.headers.connection }, { "unread", "close" })
    t.ok(c:ended())
  end)
end)

t.test("with a limit of one connection, waiting connections are served one after another", function()
  http.with(app_with { connections = 1 }, function(open)
    for _ = 1, 20 do
      local c = open()
      t.eq(c:ask("bad\r\n\r\n", "GET").status, 400)
      c:close()
    end
  end)
end)

t.finish()
