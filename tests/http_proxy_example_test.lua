-- examples/reverse_proxy.lua in front of lio.webserver and of scripted servers.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local kit = require "tests.kit.scripted_server"
local netkit = require "tests.kit.net"
local loop = require "lio.loop"
local web = require "lio.webserver"

-- Calls `f(open, port)` while the proxy, at `port`, forwards to the port `origin`. `open` returns a new connection to
-- the proxy. `patience` is the proxy's timeout in seconds.
local function with_proxy(origin, f, patience)
  local child <close> = t.spawn(("%s %s 0 http://127.0.0.1:%d %s"):format(t.lio(),
    t.quote(t.root .. "examples/reverse_proxy.lua"), origin, patience or ""))
  local port = math.tointeger(tonumber((child:expect "127%.0%.0%.1:(%d+)")))
  local clients = {}
  local ok, message = xpcall(f, debug.traceback, function()
    local c = http.open(port)
    clients[#clients + 1] = c
    return c
  end, port)
  for _, c in ipairs(clients) do c:close() end
  child:kill()
  child:all()
  t.eq(child:close(), 0)
  if not ok then error(message, 0) end
end

local function proxied(name, build, f)
  t.test(name, function()
    local app = web.new { body = 1 << 40 }
    build(app)
    loop.run(function()
      local server = assert(app:listen "127.0.0.1:0")
      local ok, message = xpcall(with_proxy, debug.traceback,
        math.tointeger(tonumber(server.url:match ":(%d+)/$")), f)
      server:stop(0)
      if not ok then error(message, 0) end
    end)
  end)
end

local function scripted(name, handle, f, patience)
  netkit.test(name, function()
    kit.serving(handle, function(_, port) with_proxy(port, f, patience) end)
  end, { seconds = 30 })
end

proxied("requests and responses are forwarded without the fields that concern only one connection", function(app)
  app:post("/a/:x", function(req, res)
    res:status(201):add_header("Set-Cookie", "a=1"):add_header("Set-Cookie", "b=2")
    local all = {}
    for name, value in pairs(req.headers) do all[name] = value end
    return 201, { headers = all, target = req.target, body = req:body() }
  end)
  app:get("/cookies", function(_, res)
    return res:add_header("Set-Cookie", "a=1"):add_header("Set-Cookie", "b=2"):send "x"
  end)
  app:get("/empty", function() return 204 end)
end, function(open)
  local c = open()
  local r = c:request("POST", "/a/b%20c?d=%2f", { "X-Own: yes", "Connection: X-Hop, keep-alive", "X-Hop: no",
    "TE: trailers", "X-Forwarded-For: 1.2.3.4", "Proxy-Authorization: secret" }, "body")
  local seen = require("lio.json").decode(r.body)
  t.eq({ r.status, seen.target, seen.body, r.headers.via }, { 201, "/a/b%20c?d=%2f", "body", "1.1 lio" })
  local h = seen.headers
  t.eq({ h["x-own"], h["x-hop"], h.te, h["proxy-authorization"], h.connection }, { "yes" })
  t.eq({ h["x-forwarded-for"], h["x-forwarded-host"], h["x-forwarded-proto"], h.via },
    { "1.2.3.4, 127.0.0.1", "test", "http", "1.1 lio" })
  t.eq({ h["accept-encoding"], h["content-length"] }, { nil, "4" })
  local cookies = {}
  for _, field in ipairs(c:request("GET", "/cookies").fields) do
    if field[1]:lower() == "set-cookie" then cookies[#cookies + 1] = field[2] end
  end
  t.eq(cookies, { "a=1", "b=2" })
  t.eq(c:request("GET", "/empty").status, 204)
  t.eq(c:request("HEAD", "/cookies").headers["content-length"], "1")
  t.eq(c:request("GET", "/none").status, 404)
end)

proxied("long bodies and chunked bodies are forwarded in both directions", function(app)
  app:put("/count", function(req)
    local count = 0
    for piece in req:stream() do count = count + #piece end
    return tostring(count)
  end)
  app:get("/long", function()
    local left = 300
    return function()
      left = left - 1
      if left >= 0 then return ("x"):rep(65536) end
    end
  end)
end, function(open)
  local c = open()
  t.eq(c:request("PUT", "/count", {}, ("x"):rep(20000000)).body, "20000000")
  local head <const> = "PUT /count HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
  t.eq(c:ask(head .. "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").body, "5")
  t.eq(#c:request("GET", "/long").body, 300 * 65536)
  t.eq(#c:request("GET", "/long").body, 300 * 65536)
end)

scripted("a piece of a response is forwarded before the next piece has arrived", function(c)
  kit.read_request(c)
  c:send "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n"
  loop.wait "gate"
  c:send "4\r\nlate\r\n0\r\n\r\n"
end, function(open)
  local c = open()
  c:head { "GET / HTTP/1.1", "Host: x" }
  t.eq(c:read_head().status, 200)
  t.eq(c.c:recv(10), "5\r\nearly\r\n")
  loop.wakeup "gate"
  t.eq(c.c:recv(14), "4\r\nlate\r\n0\r\n\r\n")
end)

scripted("after an upgrade, bytes are forwarded in both directions until the server closes", function(c)
  local head = kit.read_request(c)
  t.eq({ kit.field(head, "upgrade"), kit.field(head, "connection") }, { "websocket", "upgrade" })
  t.eq(kit.field(head, "sec-websocket-key"), "k")
  c:send "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\nX: y\r\n\r\nhello"
  repeat
    local data = c:recv()
    if data then c:send("<", data, ">") end
  until not data or data == "bye"
end, function(open)
  for _ = 1, 2 do
    local c = open()
    c:head { "GET /ws HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: k" }
    local head = c:read_head()
    t.eq({ head.status, head.headers.upgrade, head.headers.x }, { 101, "websocket", "y" })
    t.eq(c.c:recv(5), "hello")
    c:send "one"
    t.eq(c.c:recv(5), "<one>")
    c:send "bye"
    t.eq(c.c:recv(5), "<bye>")
    t.ok(c:ended())
  end
end)

scripted("the proxy responds with 502 if the server closes early or sends garbage", function(c)
  local head = kit.read_request(c)
  local what = head:match "/(%a+)"
  if what == "nonsense" then c:send "nonsense\r\n\r\n" end
  if what == "short" then c:send "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab" end
end, function(open)
  t.eq(open():request("GET", "/nothing").status, 502)
  t.eq(open():request("GET", "/nonsense").status, 502)
  local c = open()
  c:head { "GET /short HTTP/1.1", "Host: x" }
  t.eq(c:read_head().headers["content-length"], "5")
  t.eq({ c.c:recv "all" }, { "ab" })
end)

netkit.test("the proxy responds with 502 if it cannot connect to the server", function()
  with_proxy(netkit.dead_port(), function(open)
    local c = open()
    t.eq({ c:request("GET", "/").status, c:request("POST", "/", {}, "x").status }, { 502, 502 })
  end)
end)

scripted("the proxy responds with 504 if the server takes too long, before its head or after it", function(c)
  local head = kit.read_request(c)
  if head:find "/head" then c:send "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" end
  if head:find "/part" then c:send "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab" end
  c:wait_closed(10)
end, function(open)
  local c = open()
  for _, path in ipairs { "/silent", "/head" } do
    local r = c:request("GET", path)
    t.eq({ r.status, r.body }, { 504, "Gateway Timeout\n" }, path)
  end
  t.eq(c:request("POST", "/silent", {}, "x").status, 504)
  -- When the proxy has forwarded the head and a part of the body, it can only close the connection.
  c:head { "GET /part HTTP/1.1", "Host: x" }
  t.eq(c:read_head().status, 200)
  t.eq({ c.c:recv "all" }, { "ab" })
end, 0.2)

scripted("a refusal is forwarded while the body is still arriving", function(c)
  c:recv("until", "\r\n\r\n")
  c:send "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n"
  c:wait_closed(5)
end, function(open)
  local c = open()
  c:head { "POST / HTTP/1.1", "Host: x", "Content-Length: 100000000" }
  loop.fork(function()
    for _ = 1, 1000 do
      if not c.c:send(("x"):rep(100000)) then return end
    end
  end)
  local head = c:read_head()
  t.eq({ head.status, head.headers.connection }, { 413, "close" })
end)

t.finish()
