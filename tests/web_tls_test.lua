-- The web server with TLS: `app:listen` and `app:run` with the option `tls`. The clients are raw connections with TLS.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local json = require "lio.json"
local loop = require "lio.loop"
local net = require "lio.net"
local tlskit = require "tests.kit.tls"
local web = require "lio.webserver"

local server <const>, client <const> = tlskit.server, tlskit.client
local GET <const> = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

-- Serves `app` with TLS, and calls `f(open, server, port)`; `open(options)` returns a client with TLS, whose options
-- are those of `tls.client`.
local function with(app, f, options, listen)
  local opts = tlskit.with({ tls = options or server() }, listen)
  http.with(app, function(open, running)
    local port = math.tointeger(tonumber(running.url:match ":(%d+)/$"))
    f(function(tls) return open { tls = tls or client() } end, running, port, open)
  end, opts)
end

local function echo_app(options)
  local app = http.echo_app(options)
  app:get("/", function(req)
    local about = req.tls
    if about and about.peer then about.peer.der = nil end
    return { tls = req.is_tls, about = about }
  end)
  return app
end

t.test("a request knows that it was encrypted, and how", function()
  with(echo_app(), function(open, running)
    t.ok(running.url:find "^https://127%.0%.0%.1:%d+/$", running.url)
    local r = json.decode(open():ask(GET).body)
    t.eq(r.tls, true)
    t.eq(r.about, { version = "1.3", cipher = "TLS_AES_256_GCM_SHA384", resumed = false })
    local named = json.decode(open(client { server_name = "localhost", alpn = { "http/1.1" } }):ask(GET).body)
    t.eq({ named.about.server_name, named.about.alpn }, { "localhost", "http/1.1" })
  end)
  http.with(echo_app(), function(open)
    t.eq(open():ask(GET).body, '{"tls":false}')
  end)
end)

t.test("a server without a common protocol of ALPN refuses the client", function()
  with(echo_app(), function(_, _, port)
    local c, message, code = net.connect("127.0.0.1", port, { tls = client { alpn = { "h2" } } })
    t.eq({ c, message, code },
      { false, "handshake: the peer refused the connection: it supports none of our protocols (ALPN)", "tls" })
  end)
end)

t.test("a certificate of the client is part of the request", function()
  local cert, key = tlskit.authority:issue { names = { "member" } }
  with(echo_app(), function(open)
    local about = json.decode(open(client { cert = cert, key = key }):ask(GET).body).about
    t.eq({ about.peer.subject, about.peer.names }, { "CN=member", { "member" } })
    local refused = open()
    t.eq(select(4, refused.c:recv()), "tls")
  end, server { client_ca = tlskit.authority.cert })
end)

t.test("requests are kept alive and pipelined", function()
  with(echo_app(), function(open)
    local c = open()
    for i = 1, 20 do t.eq(c:request("GET", "/" .. i).body, "/" .. i) end
    local all = {}
    for i = 1, 200 do all[i] = ("GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"):format(i) end
    c:send(table.concat(all))
    for i = 1, 200 do t.eq(c:response("GET").body, "/" .. i) end
    c:send "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    t.eq(c:response("GET").body, "/last")
    t.ok(c:ended(), "the end is announced with close_notify")
  end)
end)

t.test("a request may arrive in any pieces", function()
  with(echo_app(), function(open)
    local c = open()
    for byte in ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"):gmatch "." do c:send(byte) end
    t.eq(c:response("POST").body, "hello")
  end)
end)

local function pattern(length)
  local piece = {}
  for i = 0, 250 do piece[i + 1] = string.char(i) end
  return table.concat(piece):rep(length // 251 + 1):sub(1, length)
end

t.test("big bodies arrive completely in both directions, also at slow readers", function()
  local data = pattern(3000000)
  with(echo_app { body = 4000000 }, function(open)
    local c = open()
    t.ok(c:request("POST", "/", nil, data).body == data)
    -- The client sends everything and then reads slowly.
    c:head({ "POST / HTTP/1.1", "Host: x", "Content-Length: " .. #data }, data)
    loop.sleep(0.02)
    local head = c:read_head()
    t.eq(head.headers["content-length"], tostring(#data))
    local got = {}
    for size in coroutine.wrap(function()
      local left = #data
      while left > 0 do
        local size = math.min(left, 40000 + left % 7)
        coroutine.yield(size)
        left = left - size
      end
    end) do
      got[#got + 1] = c.c:recv(size)
      loop.sleep(0)
    end
    t.ok(table.concat(got) == data)
    t.eq(c:request("GET", "/next").body, "/next")
  end)
end)

t.test("a body is streamed in chunks", function()
  local app = web.new()
  app:get("/", function(_, res)
    for i = 1, 50 do res:write(("%d"):format(i % 10):rep(10000)) end
  end)
  with(app, function(open)
    local body = open():request("GET", "/").body
    t.eq(#body, 500000)
    t.eq(body:sub(-1), "0")
  end)
end)

t.test("events are sent at once", function()
  local app, go = web.new(), {}
  app:get("/", function(_, res)
    local events = res:sse()
    for i = 1, 3 do
      events:send(tostring(i))
      loop.wait(go)
    end
  end)
  with(app, function(open)
    local c = open():send(GET)
    t.eq(c:read_head().status, 200)
    for i = 1, 3 do
      t.eq(c.c:recv(tonumber(c.c:recv("until", "\r\n"), 16)), ("data: %d\n\n"):format(i))
      c.c:recv(2)
      loop.wakeup(go)
    end
  end)
end)

t.test("static files are sent completely, also in parts and to slow readers", function()
  local dir, data = t.tmp(), pattern(5000000)
  t.write(dir .. "/big.bin", data)
  t.write(dir .. "/small.txt", "small")
  local app = web.new()
  app:static("/", dir)
  with(app, function(open)
    local c = open()
    t.eq(c:request("GET", "/small.txt").body, "small")
    t.ok(c:request("GET", "/big.bin").body == data)
    t.ok(c:request("GET", "/big.bin", { "Range: bytes=1000-2000999" }).body == data:sub(1001, 2001000))
    c:send "GET /big.bin HTTP/1.1\r\nHost: x\r\n\r\n"
    local head = c:read_head()
    loop.sleep(0.02)
    local got = {}
    for _ = 1, tonumber(head.headers["content-length"]) // 100000 do
      got[#got + 1] = c.c:recv(100000)
      loop.sleep(0)
    end
    t.ok(table.concat(got) == data)
    t.eq(c:request("GET", "/small.txt").body, "small")
  end)
end)

t.test("a handler takes over the encrypted connection with its unread bytes", function()
  local app = web.new()
  app:get("/", function(req)
    local c <close> = req:take_over()
    c:send "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"
    t.eq(c:tls().version, "1.3")
    for line in function() return c:recv "line" end do c:send(line:upper(), "\n") end
    c:send "end"
  end)
  with(app, function(open, running)
    local c = open()
    c:send("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nearly\n")
    t.eq(c:read_head().status, 101)
    t.eq(c.c:recv "line", "EARLY")
    c:send "later\n"
    t.eq(c.c:recv "line", "LATER")
    t.eq(running.count, 0)
    c.c:shutdown "w"
    t.eq(c.c:recv "all", "end")
  end)
end)

t.test("a client that does not speak TLS is refused, and others are served", function()
  with(echo_app(), function(open, running, port)
    local plain <close> = http.open(port)
    plain:send(GET)
    -- An alert is a record of the type 21.
    t.eq(plain.c:recv(1), "\21")
    plain.c:recv "all"
    t.eq(open():ask(GET).status, 200)
    t.ok(running.count <= 2)
  end)
end)

t.test("200 stalled handshakes do not delay requests, and end at their time limit", function()
  with(echo_app(), function(open, running, port)
    local stalled = {}
    local _ <close> = setmetatable({}, { __close = function() for _, c in ipairs(stalled) do c:close() end end })
    for i = 1, 200 do
      stalled[i] = http.open(port)
      if i % 2 == 0 then stalled[i]:send "\22\3\1\2\0\1\0\1\252\3\3" end
    end
    local c = open()
    for i = 1, 20 do t.eq(c:request("GET", "/" .. i).body, "/" .. i) end
    t.eq(open():ask(GET).status, 200)
    for i = 1, 200 do stalled[i].c:recv "all" end
    t.eq(running.count, 2)
    t.eq(c:request("GET", "/after").body, "/after")
  end, server { handshake_timeout = 0.5 })
end)

t.test("beyond max_handshakes the oldest handshake is ended", function()
  with(echo_app(), function(open, running, port)
    local first <close> = http.open(port)
    local second <close> = http.open(port)
    http.stalls(function() return running.count end)
    t.eq(running.count, 2)
    local c = open()
    t.eq(c:request("GET", "/a").body, "/a")
    first.c:recv "all"
    t.ok(second:silent(0.01))
  end, server { max_handshakes = 2 })
end)

t.test("a graceful stop closes handshakes and idle connections, and completes requests", function()
  local app = web.new()
  local waiting = {}
  app:get("/", function()
    loop.wait(waiting)
    return "complete"
  end)
  with(app, function(open, running, port)
    local stalled <close> = http.open(port)
    stalled:send "\22"
    local idle, busy = open(), open()
    busy:send(GET)
    http.stalls(function() return running.count end)
    t.eq(running.count, 3)
    loop.fork(function() running:stop(10) end)
    stalled.c:recv "all"
    t.eq({ idle.c:recv() }, {}, "close_notify")
    loop.wakeup(waiting)
    t.eq(busy:response("GET").body, "complete")
    t.eq({ busy.c:recv() }, {})
  end)
end)

local V1 <const> = "PROXY TCP4 192.0.2.1 198.51.100.2 4711 80\r\n"
local V2 <const> = "\r\n\r\n\0\r\nQUIT\n\x21\x11" .. string.pack(">s2", "\192\0\2\1\198\51\100\2\x12\x67\0\80")

t.test("a header of the PROXY protocol comes before the handshake", function()
  local app = web.new()
  app:get("/", function(req) return ("%s:%d %s"):format(req.remote_addr, req.remote_port, req.is_tls) end)
  with(app, function(_, _, port)
    for _, header in ipairs { V1, V2 } do
      local c <close> = http.open(port)
      c:send(header)
      assert(c.c:start_tls(client(), { server_name = "localhost" }))
      t.eq(c:ask(GET).body, "192.0.2.1:4711 true")
      t.eq(c:ask(GET).body, "192.0.2.1:4711 true")
    end
    local without <close> = http.open(port)
    t.is_nil((without.c:start_tls(client(), { server_name = "localhost", timeout = 5 })))
  end, nil, { proxy_protocol = true })
  with(app, function(open, _, port)
    t.ok(open():ask(GET).body:find "^127%.0%.0%.1:%d+ true$")
    local c <close> = http.open(port)
    c:send(V1)
    assert(c.c:start_tls(client(), { server_name = "localhost" }))
    t.eq(c:ask(GET).body, "192.0.2.1:4711 true")
  end, nil, { proxy_protocol = "optional" })
end)

t.test("an app listens with and without TLS at the same time", function()
  local app = echo_app()
  with(app, function(open)
    local plain = assert(app:listen "127.0.0.1:0")
    local c <close> = http.open(math.tointeger(tonumber(plain.url:match ":(%d+)/$")))
    t.eq({ open():request("GET", "/a").body, c:request("GET", "/b").body }, { "/a", "/b" })
    plain:stop(0)
  end)
end)

t.test("changed certificates are used for new connections, and open ones stay", function()
  local dir = t.tmp()
  local function write(name, seconds)
    local cert, key = tlskit.write(dir, "site", tlskit.authority:issue { names = { name } })
    os.execute(("touch -d '%d seconds' %s %s"):format(seconds, t.quote(cert), t.quote(key)))
    return cert, key
  end
  local cert, key = write("old.example", 0)
  local object = assert(require("lio.tls").server { cert = cert, key = key })
  with(echo_app(), function(open)
    local kept = open(client { server_name = "old.example" })
    write("new.example", 10)
    require("lio.tls.core").set_check_interval(object, 0)
    local c = open(client { server_name = "new.example" })
    t.eq({ c:request("GET", "/new").body, kept:request("GET", "/kept").body }, { "/new", "/kept" })
  end, object)
end)

t.test("certificates are checked when a connection arrives, and not for requests on open connections", function()
  local dir = t.tmp()
  local cert, key = tlskit.write(dir, "site", tlskit.authority:issue { names = { "site.example" } })
  local object = assert(require("lio.tls").server { cert = cert, key = key })
  local real, logged = io.stderr, {}
  rawset(io, "stderr", { write = function(_, ...) logged[#logged + 1] = table.concat { ... } end })
  local ok, message = pcall(with, echo_app(), function(open)
    local kept = open(client { server_name = "site.example" })
    require("lio.tls.core").set_check_interval(object, 0)
    t.write(cert, "no certificate")
    for _ = 1, 3 do t.eq(kept:request("GET", "/kept").body, "/kept") end
    t.eq(logged, {})
    t.eq(open(client { server_name = "site.example" }):request("GET", "/new").body, "/new")
    t.eq(#logged, 1)
    t.ok(logged[1]:find("cannot read the certificates again", 1, true), logged[1])
  end, object)
  rawset(io, "stderr", real)
  assert(ok, message)
end)

t.test("the first connection after a change of the certificates gets the new ones", function()
  local dir = t.tmp()
  local function write(name, seconds)
    local cert, key = tlskit.write(dir, "site", tlskit.authority:issue { names = { name } })
    os.execute(("touch -d '%d seconds' %s %s"):format(seconds, t.quote(cert), t.quote(key)))
    return cert, key
  end
  local cert, key = write("old.example", 0)
  local object = assert(require("lio.tls").server { cert = cert, key = key })
  with(echo_app(), function(open)
    open(client { server_name = "old.example" }):request("GET", "/old")
    require("lio.tls.core").set_check_interval(object, 0)
    write("new.example", 10)
    t.eq(open(client { server_name = "new.example" }):request("GET", "/new").body, "/new")
  end, object)
end)

-- Regression: after a body, each connection kept a buffer of 32 KiB.
t.test("an idle connection takes less than 24 KiB, even after a long body", function()
  local dir = t.tmp()
  local cert, key = tlskit.write(dir, "site", tlskit.cert, tlskit.key)
  local script = t.write(dir .. "/server.lua", ([[
    local app = require "lio.webserver".new()
    app:post("/", function(req) return tostring(#req:body()) end)
    app:run("127.0.0.1:0", { tls = { cert = %q, key = %q } })
  ]]):format(cert, key))
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(script) .. " 2>&1")
  local port = math.tointeger(tonumber(child:expect "^lio: serving https://127%.0%.0%.1:(%d+)/$"))
  local function resident() return require "tests.kit.resident"(child.pid) end
  local body = ("x"):rep(65536)
  local post = ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"):format(#body)
  loop.run(function()
    local object = assert(require("lio.tls").client(client()))
    local open <const> = {}
    local function connect()
      local c = http.open(port, { tls = object })
      open[#open + 1] = c
      t.eq(c:ask(post .. body).body, "65536")
    end
    for _ = 1, 20 do connect() end
    local before = resident()
    for _ = 1, 300 do connect() end
    local each = (resident() - before) / 300
    t.ok(each < 24, ("%.1f KiB each"):format(each))
    for _, c in ipairs(open) do c:close() end
  end)
end, { resident = true })

-- `admit` -----------------------------------------------------------------------------------------------

t.test("admit and accept_from serve connections as they are, plain or encrypted", function()
  local app = echo_app()
  local object = assert(require("lio.tls").server(server()))
  with(app, function(_, running)
    local listener <close> = assert(net.listen("127.0.0.1", 0))
    local _, port = listener:address()
    local plain <close> = http.open(port)
    local accepted = assert(listener:accept())
    t.eq(running:admit(accepted), true)
    t.eq(plain:ask(GET).body, '{"tls":false}')

    loop.fork(function()
      local c = assert(listener:accept())
      assert(c:start_tls(object))
      running:admit(c)
    end)
    local encrypted <close> = http.open(port, { tls = client() })
    t.eq(json.decode(encrypted:ask(GET).body).tls, true)

    for options, expected in pairs { [{ tls = object }] = true, [{}] = false } do
      local other <close> = assert(net.listen("127.0.0.1", 0, options))
      running:accept_from(other)
      local _, second = other:address()
      local c <close> = http.open(second, { tls = options.tls and client() })
      t.eq(json.decode(c:ask(GET).body).tls, expected)
    end
  end, object)
end)

t.test("the listener's certificates that cannot be read are an error of app:listen", function()
  loop.run(function()
    local app = web.new()
    t.raises("web_tls_test.lua:%d+: app:listen: .*cert '/no/such': No such file or directory",
      function() app:listen(0, { tls = { cert = "/no/such", key = "/no/such" } }) end)
    t.raises("web_tls_test.lua:%d+: app:listen: option 'tls': option 'crt' is unknown %(did you mean 'cert'%?%)",
      function() app:listen(0, { tls = { crt = "x" } }) end)
  end)
end)

t.test("two workers share the keys of tickets", function()
  local dir = t.tmp()
  local cert, key = tlskit.write(dir, "site", tlskit.cert, tlskit.key)
  local script = t.write(dir .. "/server.lua", ([[
    local web = require "lio.webserver"
    local app = web.new { keep_alive_time = 30 }
    app:get("/", function(req) return ("%%s %%s"):format(web.worker(), req.tls.resumed) end)
    app:run("127.0.0.1:0", { workers = 2, tls = { cert = %q, key = %q } })
  ]]):format(cert, key))
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(script) .. " 2>&1")
  local port = math.tointeger(tonumber(child:expect "^lio: serving https://127%.0%.0%.1:(%d+)/$"))
  loop.run(function()
    local object = assert(require("lio.tls").client(client()))
    local resumed, met, open = {}, 0, {}
    local deadline = loop.now() + 20
    -- The first connection gets a ticket, with which each worker resumes the session.
    local first <close> = http.open(port, { tls = object })
    t.ok(first:ask(GET).body:find " false$")
    while met < 2 do
      t.ok(loop.now() < deadline, "not every worker was met")
      local c = http.open(port, { tls = object })
      open[#open + 1] = c
      local worker, answer = c:ask(GET).body:match "^(%d+) (%a+)$"
      t.eq(answer, "true", worker)
      if not resumed[worker] then resumed[worker], met = true, met + 1 end
    end
    for _, c in ipairs(open) do c:close() end
  end)
  child:kill()
  child:all()
  t.eq(child:close(), 0)
end)

t.finish()
