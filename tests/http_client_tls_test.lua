-- `lio.http.client` with https: certificates, connections that are shared only by requests with the same TLS, proxies.

local client = require "lio.http.client"
local kit = require "tests.kit.scripted_server"
local loop = require "lio.loop"
local net = require "lio.net"
local netkit = require "tests.kit.net"
local t = require "tests.kit"
local tls = require "lio.tls"
local tlskit = require "tests.kit.tls"

local ok <const>, always <const>, fails <const> = kit.ok, kit.always, kit.fails
local trusted <const> = tlskit.client()

-- Like `kit.serving`, with TLS. `handle(c, number)` gets connections whose handshakes are complete.
local function serving(handle, f, options)
  local listener <close>, port = tlskit.listen(options)
  local number, open = 0, {}
  local _ <close> = setmetatable({}, { __close = function() for c in pairs(open) do c:close() end end })
  loop.fork(function()
    while true do
      local c = listener:accept()
      if not c then return end
      number = number + 1
      open[c] = true
      local mine = number
      loop.fork(function()
        handle(c, mine)
        c:close()
        open[c] = nil
      end)
    end
  end)
  return f("https://127.0.0.1:" .. port, port)
end

local function test(name, handle, f, options, server_options)
  netkit.test(name, function()
    local http <close> = client.new(options or { tls = trusted })
    serving(handle, function(url, port) f(http, url, port) end, server_options)
  end)
end

test("a request to https is encrypted, and the connection is kept", function(c, number)
  while true do
    local head, body = kit.read_request(c)
    if not head then return end
    c:send(ok(("%d %s %s"):format(number, head:match "^%u+ %S+", body)))
  end
end, function(http, url)
  t.eq(http:get(url .. "/a").body, "1 GET /a ")
  t.eq(http:post(url .. "/b", { body = "x" }).body, "1 POST /b x")
  t.eq(http:counts(), { open = 1, idle = 1, opened = 1, reused = 1 })
end)

test("a certificate that is not trusted is an error that says why", always(ok "x"), function(http, url, port)
  fails("tls", "^handshake: certificate was issued by an unknown authority, 'test authority'", http:get(url))
  fails("tls", "^handshake: certificate was issued by an unknown authority", http:get(url, { tls = true }))
  fails("tls", "^handshake: name does not match: localhost expected, the certificate has 127.0.0.1$",
    http:get("https://localhost:" .. port, { tls = trusted }))
  t.eq(http:get(url, { tls = trusted }).body, "x")
  t.eq(http:counts().open, 1)
end, {}, (function()
  local cert, key = tlskit.authority:issue { names = { "127.0.0.1" } }
  return { cert = cert, key = key }
end)())

test("the client offers HTTP/1.1 with ALPN", function(c)
  while kit.read_request(c) do c:send(ok(tostring(c:tls().alpn))) end
end, function(http, url)
  t.eq(http:get(url).body, "http/1.1")
end, nil, tlskit.server { alpn = { "h2", "http/1.1" } })

test("requests with different TLS never share a connection", function(c, number)
  while kit.read_request(c) do c:send(ok(tostring(number))) end
end, function(http, url, port)
  local same <const>, object <const> = tlskit.client(), assert(tls.client(tlskit.client()))
  t.eq(http:get(url, { tls = same }).body, "1")
  t.eq(http:get(url, { tls = tlskit.client() }).body, "2")
  t.eq(http:get(url, { tls = object }).body, "3")
  t.eq(http:get(url).body, "4")
  t.eq(http:get(url, { tls = same }).body, "1")
  t.eq(http:get(url, { tls = object }).body, "3")
  t.eq(http:get(url).body, "4")
  -- A connection is used for the name for which its certificate was verified.
  t.eq(http:get("https://localhost:" .. port).body, "5")
  t.eq(http:counts(), { open = 5, idle = 5, opened = 5, reused = 3 })
  -- A connection that skips verification must not serve a request that verifies.
  local careless = { dangerously_skip_verification = true }
  t.eq(http:get(url, { tls = careless }).body, "6")
  fails("tls", "unknown authority", http:get(url, { tls = true }))
end)

netkit.test("a connection without TLS is not used for https, and the other way round", function()
  local http <close> = client.new { tls = trusted }
  kit.serving(function(c)
    c:recv()
    c:send(ok "plain")
  end, function(plain_url, port)
    t.eq(http:get(plain_url).body, "plain")
    fails("tls", "^handshake: the peer does not speak TLS$", http:get("https://127.0.0.1:" .. port))
  end)
  serving(always(ok "secure"), function(url, port)
    t.eq(http:get(url).body, "secure")
    t.is_nil((http:get("http://127.0.0.1:" .. port)))
    t.eq(http:get(url).body, "secure")
  end)
end)

netkit.test("a redirect from http to https is followed, and back only without credentials", function()
  local http <close> = client.new { tls = trusted }
  serving(function(c)
    while true do
      local head = kit.read_request(c)
      if not head then return end
      c:send(ok(kit.field(head, "authorization") or "nil"))
    end
  end, function(url)
    kit.serving(always(("HTTP/1.1 302 Found\r\nLocation: %s/next\r\nContent-Length: 0\r\n\r\n"):format(url)),
      function(plain_url)
        local response = assert(http:get(plain_url))
        t.eq({ response.status, response.body, response.url }, { 200, "nil", url .. "/next" })
        local with = assert(http:get(plain_url, { headers = { authorization = "secret" } }))
        t.eq(with.body, "nil")
      end)
  end)
end)

-- The end of a body ---------------------------------------------------------------------------------

-- Serves TLS on one side of a connection whose other side is cut without close_notify: a relay in between passes the
-- encrypted bytes until `handle(c, cut)` calls `cut`.
local function relayed(handle, f)
  serving(function(c)
    kit.read_request(c)
    handle(c)
  end, function(_, secure_port)
    kit.serving(function(c)
      local to <close> = assert(net.connect("127.0.0.1", secure_port))
      local up = netkit.promise(function()
        for data in function() return c:recv() end do to:send(data) end
      end)
      local count = 0
      to:timeout(0.2)
      for data in function() return to:recv() end do
        count = count + #data
        c:send(data)
      end
      c:shutdown "w"
      up()
    end, function(_, port) f("https://127.0.0.1:" .. port) end)
  end)
end

netkit.test("a body that ends without close_notify is an error, and one with it is complete", function()
  local http <close> = client.new { tls = trusted }
  local head <const> = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
  relayed(function(c)
    c:send(head, "a part")
    c:recv "all"
  end, function(url)
    fails("tls", "without close_notify: data may be missing$", http:get(url))
  end)
  serving(function(c)
    kit.read_request(c)
    c:send(head, "everything")
  end, function(url)
    t.eq(http:get(url).body, "everything")
  end)
end)

test("a body that is shorter than its length is an error", function(c)
  kit.read_request(c)
  c:send "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"
end, function(http, url)
  local response, message, code = http:get(url)
  t.is_nil(response)
  t.ok(code == "closed" or code == "protocol" or code == "truncated", ("%s (%s)"):format(message, code))
end)

test("big bodies arrive completely in both directions", function(c)
  while true do
    local head, body = kit.read_request(c)
    if not head then return end
    c:send(ok(body))
  end
end, function(http, url)
  local data = ("0123456789abcdef"):rep(200000)
  t.ok(http:post(url, { body = data }).body == data)
  local pieces = { data:sub(1, 1000000), data:sub(1000001) }
  local sent = http:post(url, { body = function() return table.remove(pieces, 1) end, headers = {
    ["content-length"] = tostring(#data) } })
  t.ok(sent.body == data)
end)

-- Time limits -----------------------------------------------------------------------------------------

netkit.test("each phase has a time limit", function()
  kit.serving(function(c) c:recv "all" end, function(_, port)
    local http <close> = client.new { tls = trusted }
    fails("timeout", "^handshake: timeout$", http:get("https://127.0.0.1:" .. port, { timeout = 0.05 }))
    fails("timeout", "timeout$", http:get("https://127.0.0.1:" .. port, { proxy = "http://127.0.0.1:" .. port,
      timeout = 0.05 }))
    t.eq(http:counts().open, 0)
  end)
  serving(function(c)
    kit.read_request(c)
    c:recv "all"
  end, function(url)
    local http <close> = client.new { tls = trusted }
    fails("timeout", "waiting for the response: timeout$", http:get(url, { timeout = 0.3 }))
    t.eq(http:counts().open, 0)
  end)
end)

-- Proxies ---------------------------------------------------------------------------------------------

-- A proxy for CONNECT. `log` gets the head of each request. If `answer` is given, it is sent instead of a tunnel.
local function proxy(log, answer)
  return function(c)
    local head = c:recv("until", "\r\n\r\n", 65536)
    if not head then return end
    log[#log + 1] = head
    if answer then
      c:send(answer)
      return
    end
    local host, port = head:match "^CONNECT ([%w%.]+):(%d+) HTTP/1%.1\r\n"
    local to <close> = assert(net.connect(host, tonumber(port)))
    c:send "HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n"
    local up = netkit.promise(function()
      for data in function() return c:recv() end do to:send(data) end
      to:shutdown "w"
    end)
    for data in function() return to:recv() end do c:send(data) end
    c:shutdown "w"
    up()
  end
end

netkit.test("https goes through a tunnel of the proxy, which is kept", function()
  local log = {}
  serving(always(ok "through"), function(url, port)
    kit.serving(proxy(log), function(proxy_url)
      local http <close> = client.new { tls = trusted, proxy = proxy_url:gsub("//", "//user:p%%40ss@") }
      for _ = 1, 3 do t.eq(http:get(url).body, "through") end
      t.eq(http:counts(), { open = 1, idle = 1, opened = 1, reused = 2 })
      t.eq(#log, 1)
      t.eq(log[1], ("CONNECT 127.0.0.1:%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"):format(port, port)
        .. "Proxy-Authorization: Basic dXNlcjpwQHNz")
      -- The password is for the proxy only.
      local other <close> = client.new { tls = trusted, proxy = proxy_url }
      t.eq(other:get(url).body, "through")
      t.ok(not log[2]:find "Authorization")
    end)
  end)
end)

netkit.test("a tunnel is used for one server only", function()
  local log = {}
  serving(function(c, number)
    while kit.read_request(c) do c:send(ok(tostring(number))) end
  end, function(url, port)
    kit.serving(proxy(log), function(proxy_url)
      local http <close> = client.new { tls = trusted, proxy = proxy_url }
      t.eq(http:get(url).body, "1")
      t.eq(http:get("https://localhost:" .. port).body, "2")
      t.eq(http:get(url).body, "1")
      t.eq(#log, 2)
    end)
  end)
end)

netkit.test("a tunnel in which the server's certificate is wrong fails", function()
  local cert, key = tls.self_signed()
  serving(always(ok "x"), function(url)
    kit.serving(proxy {}, function(proxy_url)
      local http <close> = client.new { tls = trusted, proxy = proxy_url }
      fails("tls", "^handshake: certificate is self%-signed", http:get(url))
      t.eq(http:counts().open, 0)
    end)
  end, { cert = cert, key = key })
end)

netkit.test("the connection to the proxy is encrypted too", function()
  local log = {}
  local seen_by_proxy
  serving(always(ok(("inner"):rep(100000))), function(url)
    local relay = proxy(log)
    serving(function(c, ...)
      seen_by_proxy = c:tls().version
      return relay(c, ...)
    end, function(proxy_url)
      local http <close> = client.new { tls = trusted, proxy = proxy_url }
      for _ = 1, 2 do t.ok(http:get(url).body == ("inner"):rep(100000)) end
      t.eq({ seen_by_proxy, #log }, { "1.3", 1 })
      t.eq(http:counts().opened, 1)
    end)
  end)
  -- A request without https goes to the proxy itself.
  serving(function(c)
    local head = kit.read_request(c)
    c:send(ok(head:match "^[^\r]+"))
  end, function(proxy_url)
    local http <close> = client.new { tls = trusted, proxy = proxy_url }
    t.eq(http:get("http://one.invalid/a").body, "GET http://one.invalid/a HTTP/1.1")
  end)
end)

netkit.test("a proxy that refuses the tunnel is an error with its status", function()
  local refused <const> = "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
  kit.serving(proxy({}, refused), function(proxy_url)
    local http <close> = client.new { tls = trusted, proxy = proxy_url }
    fails("proxy", "^proxy: no tunnel to one.invalid:443: status 407$", http:get "https://one.invalid/")
    t.eq(http:counts().open, 0)
  end)
  kit.serving(proxy({}, "220 smtp.example\r\n\r\n"), function(proxy_url)
    local http <close> = client.new { tls = trusted, proxy = proxy_url }
    fails("protocol", "^proxy: the response to CONNECT is not HTTP$", http:get "https://one.invalid/")
  end)
  kit.serving(proxy({}, "HTTP/1.1 200 OK"), function(proxy_url)
    local http <close> = client.new { tls = trusted, proxy = proxy_url }
    fails("closed", "^proxy: ", http:get "https://one.invalid/")
  end)
  kit.serving(proxy({}, "HTTP/1.1 200 OK\r\nX: " .. ("x"):rep(20000)), function(proxy_url)
    local http <close> = client.new { tls = trusted, proxy = proxy_url }
    fails("too long", "^proxy: ", http:get "https://one.invalid/")
  end)
end)

test("killing a task during its request closes the connection", function(c)
  kit.read_request(c)
  c:recv "all"
end, function(http, url)
  local thread = require "lio.task"
  local asking = thread.spawn(function() http:get(url) end)
  netkit.await(function() return http:counts().open == 1 end)
  thread.kill(asking)
  netkit.await(function() return http:counts().open == 0 end)
end)

t.finish()
