-- The parts of a request that handlers read: the request line, the header fields, and the values that are decoded from
-- them. web_body_test.lua tests bodies.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local net = require "lio.net"
local web = require "lio.webserver"

-- Sends `bytes` to an app that accepts any request. Returns the result of `look(req)`.
local function seen(look, bytes)
  local app, value = web.new(), nil
  app:any("/*rest", function(req)
    value = look(req)
    return "seen"
  end)
  http.with(app, function(open)
    local r = open():ask(bytes)
    t.eq(r.status, 200, r.body)
  end)
  return value
end

local function get(target, ...)
  local lines = table.concat({ "GET " .. target .. " HTTP/1.1", "Host: test", ... }, "\r\n")
  return lines .. "\r\n\r\n"
end

local function query(text)
  return seen(function(req) return req.query end, get("/?" .. text))
end

t.test("method, target, paths, version and host are read as sent", function()
  local function look(req)
    return { req.method, req.target, req.path, req.raw_path, req.raw_query, req.version, req.host, req.is_tls }
  end
  t.eq(seen(look, "GET /a%20b/c+d?x=%31 HTTP/1.1\r\nHost: test:80\r\n\r\n"),
    { "GET", "/a%20b/c+d?x=%31", "/a b/c+d", "/a%20b/c+d", "x=%31", "1.1", "test:80", false })
  t.eq(seen(look, "PROPFIND / HTTP/1.0\r\n\r\n"), { "PROPFIND", "/", "/", "/", nil, "1.0", nil, false })
end)

t.test("the query is decoded; a repeated key has a list, a key without = an empty string", function()
  t.eq(query "a=1&b=2", { a = "1", b = "2" })
  t.eq(query "a=1&a=2&a=3&b=x", { a = { "1", "2", "3" }, b = "x" })
  t.eq(query "flag&b=2", { flag = "", b = "2" })
  t.eq(query "a=&=b&&c=d=e", { a = "", [""] = "b", c = "d=e" })
  t.eq(query "a=%26%3D%00&%C3%A9=%c3%a9", { a = "&=\0", ["\u{e9}"] = "\u{e9}" })
end)

t.test("+ is a space in queries and a plus in paths", function()
  t.eq(query "a+b=c+d&e=%2B", { ["a b"] = "c d", e = "+" })
  t.eq(seen(function(req) return { req.path, req.params.rest } end, get "/a+b%2Bc"), { "/a+b+c", "a+b+c" })
end)

t.test("a malformed escape in a query is not decoded", function()
  t.eq(query "a=100%&b=%zz&c=%4", { a = "100%", b = "%zz", c = "%4" })
end)

t.test("the query of a request without a query is an empty table", function()
  t.eq(seen(function(req) return { req.query, req.raw_query } end, get "/"), { {} })
  t.eq(seen(function(req) return { req.query, req.raw_query } end, get "/?"), { {}, "" })
end)

t.test("header names are case-insensitive, and the values of a repeated header are joined", function()
  local look = function(req)
    return { req.headers["x-one"], req.headers["X-ONE"], req:header "X-oNe", req.headers["x-none"] }
  end
  t.eq(seen(look, get("/", "X-One: a", "x-one:b  ", "X-ONE:\t c,d")), { "a, b, c,d", "a, b, c,d", "a, b, c,d" })
end)

t.test("header_all returns a list of all values, including empty values; without a field, an empty list", function()
  local look = function(req) return { req:header_all "x-one", req:header_all "x-none" } end
  t.eq(seen(look, get("/", "X-One: a", "X-One:", "X-One: b, c")), { { "a", "", "b, c" }, {} })
end)

t.test("all headers can be listed, with names in lower case", function()
  local look = function(req)
    local found = {}
    for name, value in pairs(req.headers) do found[name] = value end
    return found
  end
  t.eq(seen(look, get("/", "X-One: 1", "X-Two: 2", "x-one: 3")), { host = "test", ["x-one"] = "1, 3", ["x-two"] = "2" })
end)

t.test("cookies are parsed and unquoted; if a name is repeated, the first cookie counts", function()
  local look = function(req) return req.cookies end
  t.eq(seen(look, get("/", 'Cookie: a=1; b="two";c=x=y; a=3; bad; =none', "Cookie: d=4")),
    { a = "1", b = "two", c = "x=y", d = "4" })
  t.eq(seen(look, get "/"), {})
end)

t.test("the client's address and port can be read", function()
  local app = web.new()
  app:get("/", function(req) return req.remote_addr .. " " .. req.remote_port end)
  http.with(app, function(open)
    local c = open()
    local _, port = c.c:sock()
    t.eq(c:request("GET", "/").body, "127.0.0.1 " .. port)
  end)
end)

t.test("a request over a unix socket has no port", function()
  local app, path = web.new(), t.tmp() .. "/web.sock"
  app:get("/", function(req) return req.remote_addr .. " " .. tostring(req.remote_port) end)
  http.with(app, function()
    local server = assert(app:listen("unix:" .. path))
    t.eq(server.url, "unix:" .. path)
    local c <close> = assert(net.connect("unix:" .. path))
    c:send(get("/", "Connection: close"))
    t.ok(c:recv "all":find("unix: nil", 1, true))
    server:stop()
  end)
end)

t.test("handlers and middleware may set fields of a request", function()
  local app = web.new()
  app:use(function(req, _, next) req.user = "ann" next() end)
  app:get("/", function(req) return req.user end)
  http.with(app, function(open)
    t.eq(open():request("GET", "/").body, "ann")
  end)
end)

t.test("a request stays readable after its connection has begun the next request", function()
  local app, kept = web.new(), nil
  app:get("/:name", function(req)
    if not kept then kept = req end
    return kept.params.name .. " " .. kept.headers["x-id"]
  end)
  http.with(app, function(open)
    local c = open()
    t.eq(c:request("GET", "/first", { "X-Id: 1" }).body, "first 1")
    t.eq(c:request("GET", "/second", { "X-Id: 2" }).body, "first 1")
  end)
end)

t.test("req.upgrade is the protocol that the client offers, if Connection lists upgrade", function()
  local look = function(req) return { req.upgrade } end
  t.eq(seen(look, get("/", "Connection: Upgrade", "Upgrade: websocket")), { "websocket" })
  t.eq(seen(look, get("/", "Upgrade: websocket")), {})
end)

t.test("take_over returns the connection with its buffered bytes, and the server no longer counts it", function()
  local app = web.new()
  app:get("/tunnel", function(req)
    local c <close> = req:take_over()
    c:send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
    for line in function() return c:recv "line" end do c:send("got ", line, "\n") end
  end)
  http.with(app, function(open, server)
    local c = open()
    c:send(get("/tunnel", "Connection: upgrade", "Upgrade: echo"), "early\n")
    t.eq(c:read_head().status, 101)
    t.eq(c.c:recv "line", "got early")
    t.eq(server.count, 0, "the server no longer counts the connection")
    c:send "late\n"
    t.eq(c.c:recv "line", "got late")
    c.c:shutdown "w"
    t.ok(c:ended())
  end)
end)

t.test("an earlier response that is not complete is sent before the bytes of the new owner", function()
  local app = web.new()
  app:get("/a", function() return ("a"):rep(100) end)
  app:get("/b", function(req)
    local c <close> = req:take_over()
    c:send "mine"
  end)
  http.with(app, function(open)
    local c = open()
    c:send(get "/a", get "/b")
    t.eq(c:response("GET").body, ("a"):rep(100))
    t.eq(c.c:recv "all", "mine")
  end)
end)

t.test("a connection that was taken over may be used after its handler has returned", function()
  local loop = require "lio.loop"
  local app, owner = web.new(), nil
  app:get("/", function(req)
    local c = req:take_over()
    owner = loop.fork(function()
      c:send("first", c:recv "line")
      c:close()
    end)
  end)
  http.with(app, function(open)
    local c = open()
    c:send(get "/", "x\n")
    t.eq(c.c:recv "all", "firstx")
    t.ok(owner)
  end)
end)

t.test("CONNECT has its own route and can be tunnelled", function()
  local app = web.new()
  app:route("CONNECT", "/", function(req)
    local host = req.host
    local c <close> = req:take_over()
    c:send("HTTP/1.1 200 OK\r\n\r\n", host, "\n")
  end)
  http.with(app, function(open)
    local c = open()
    c:send "CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n"
    t.eq(c:read_head().status, 200)
    t.eq(c.c:recv "all", "example.org:443\n")
  end)
end)

t.test("after take_over nothing can be responded, and after a response take_over raises", function()
  local app, problems = web.new(), {}
  app:get("/taken", function(req, res)
    local c <close> = req:take_over()
    problems[1] = select(2, pcall(res.write, res, "x"))
    problems[2] = select(2, pcall(res.send, res, "x"))
    problems[3] = select(2, pcall(req.take_over, req))
    c:send "end"
    return "ignored"
  end)
  app:get("/begun", function(req, res)
    res:write "x"
    problems[4] = select(2, pcall(req.take_over, req))
  end)
  http.with(app, function(open)
    local c = open()
    c:send(get "/taken")
    t.eq(c.c:recv "all", "end")
    for i = 1, 2 do t.ok(problems[i]:find "already begun", problems[i]) end
    t.ok(problems[3]:find "already been answered", problems[3])
    t.eq(open():request("GET", "/begun").body, "x")
    t.ok(problems[4]:find "already been answered", problems[4])
  end)
end)

-- For a handler without parameters, the server creates a request object only when another function needs it.

t.test("a handler without parameters responds to pipelined requests, and unread bodies are skipped", function()
  local loop = require "lio.loop"
  local app, order, gate = web.new(), {}, {}
  app:get("/quick", function() return "quick" end)
  app:post("/slow", function()
    if #order == 0 then loop.wait(gate) end
    order[#order + 1] = "slow"
    return "slow"
  end)
  app:get("/path", function(req) return req.path end)
  http.with(app, function(open)
    local c, other = open(), open()
    c:send("POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nbodyy", get "/quick", get "/path",
      "HEAD /quick HTTP/1.1\r\nHost: x\r\n\r\n", "POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
      "GET /quick HTTP/1.0\r\n\r\n")
    -- The other connection is served while the first handler waits.
    for _ = 1, 3 do t.eq(other:ask(get "/quick").body, "quick") end
    t.eq(#order, 0)
    while not loop.wakeup(gate) do loop.sleep(0) end
    t.eq(c:response().body, "slow")
    t.eq(c:response().body, "quick")
    t.eq(c:response().body, "/path")
    t.eq(c:response("HEAD").status, 200)
    t.eq(c:response().body, "slow")
    t.eq(c:response().body, "quick")
  end)
end)

t.test("functions that respond instead of a handler without parameters get the request", function()
  local loop = require "lio.loop"
  local app, paths, fail = web.new(), {}, true
  app:get("/fails", function() error "oops" end)
  app:get("/waits", function()
    loop.sleep(0.01)
    if fail then error "oops" end
    return ("x"):rep(100000)
  end)
  app:get("/status", function() return 201, "made", { ["X-One"] = "1" } end)
  app:on_error(function(_, req)
    paths[#paths + 1] = req.path .. " " .. (req.headers.x or "")
    return 500, "failed"
  end)
  http.with(app, function(open)
    local c, other = open(), open()
    t.eq(c:ask(get("/fails", "X: 1")).body, "failed")
    c:send(get("/waits", "X: 2"), get "/status")
    other:send(get("/waits", "X: 3"))
    t.eq(c:response().status, 500)
    t.eq(other:response().status, 500)
    local made = c:response()
    t.eq({ made.status, made.body, made.headers["x-one"] }, { 201, "made", "1" })
    table.sort(paths)
    t.eq(paths, { "/fails 1", "/waits 2", "/waits 3" })
    fail = false
    for _ = 1, 3 do t.eq(#c:ask(get "/waits").body, 100000) end
  end)
end)

t.test("after a handler without parameters, an unread body that does not arrive ends the connection", function()
  local app = web.new()
  app:post("/", function() return "no need" end)
  http.with(app, function(open)
    local c = open()
    c:send "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    local r = c:response()
    t.eq({ r.status, r.body, r.headers.connection }, { 200, "no need", "close" })
  end)
end)

t.test("a request that is kept after its connection has closed has no data of another connection", function()
  local app, kept = web.new(), nil
  app:get("/first", function(req)
    kept = req
    return "first"
  end)
  app:post("/next", function(req)
    local address, body = kept.remote_addr, kept:body()
    local ok, message = pcall(kept.take_over, kept)
    return { address == nil, body, ok, message:match "^.-:%d+: (.*)$", req:body(), req.remote_addr }
  end)
  http.with(app, function(open)
    for _ = 1, 3 do
      t.eq(open():ask(get("/first", "Connection: close")).body, "first")
      local r = open():ask "POST /next HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 3\r\n\r\ntwo"
      t.eq(r.body, '[true,"",false,"req:take_over: the request has already been answered","two","127.0.0.1"]')
    end
  end)
end)

-- Regression: the path ended at the NUL, so the media type was determined from the wrong name.
t.test("NUL is refused in a request line; decoded from %00 it is a byte like any other", function()
  http.with(http.echo_app(), function(open)
    t.eq(open():ask("GET /a\0.txt HTTP/1.1\r\nHost: x\r\n\r\n").status, 400)
    t.eq(open():request("GET", "/a%00.txt").body, "/a\0.txt", "a decoded NUL is a byte like any other")
  end)
end)

-- Regression: the plus sign was decoded as a space.
t.test("a plus sign in a path is not decoded", function()
  http.with(http.echo_app(), function(open)
    t.eq(open():request("GET", "/c++/a+b").body, "/c++/a+b")
  end)
end)

-- Regression: the value included the next key.
t.test("a key of the query without = has an empty value", function()
  local app = web.new()
  app:get("/keys", function(req) return req.query.a .. "|" .. req.query.b .. "|" .. tostring(req.query["a&b"]) end)
  http.with(app, function(open)
    t.eq(open():request("GET", "/keys?a&b=2").body, "|2|nil")
  end)
end)

t.finish()
