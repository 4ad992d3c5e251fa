-- Servers behind a proxy: `web.trust_proxy` and the PROXY protocol. The clients of these tests send what a proxy, or a
-- client that pretends to be one, would send.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local json = require "lio.json"
local net = require "lio.net"
local web = require "lio.webserver"

local V1 <const> = "PROXY TCP4 192.0.2.1 198.51.100.2 4711 80\r\n"
local GET <const> = "GET / HTTP/1.1\r\nHost: test\r\n\r\n"

-- Returns a header of version 2 of the PROXY protocol.
local function v2(command, family, content)
  return "\r\n\r\n\0\r\nQUIT\n" .. string.char(command, family) .. string.pack(">s2", content)
end
local V2_ADDRESSES <const> = string.char(192, 0, 2, 1, 198, 51, 100, 2) .. string.pack(">I2I2", 4711, 80)

-- A handler that responds with what it knows about the client.
local function client(req)
  return { addr = req.remote_addr, port = req.remote_port, tls = req.is_tls, host = req.host, proxy = req.proxy_addr }
end

-- Returns what the handler of an app with `web.trust_proxy(opts)` knows about the client of a request.
local function behind(opts, fields)
  local r = http.once(function(app) app:use(web.trust_proxy(opts)):get("/", client) end, "GET", "/", fields)
  t.eq(r.status, 200)
  local found = json.decode(r.body)
  if not found.proxy then found.port = nil end -- the port of the test's own socket
  return found
end

local LOCAL <const> = { "127.0.0.1" }

-- Asserts that `f(…)`, called at a line of this file, raises an error with this position and this message.
local function raises(message, f, ...)
  local arguments = table.pack(...)
  return t.raises("^tests/web_proxy_test.lua:%d+: " .. message, function()
    f(table.unpack(arguments, 1, arguments.n))
  end)
end

t.test("the client of X-Forwarded-For is the last address that is not a trusted proxy", function()
  local function addr(text, proxies)
    return behind({ proxies = proxies or LOCAL }, { "X-Forwarded-For: " .. text }).addr
  end
  t.eq(addr "192.0.2.7", "192.0.2.7")
  t.eq(addr "6.6.6.6, 192.0.2.7", "192.0.2.7", "an address that the client itself has sent")
  t.eq(addr("6.6.6.6, 192.0.2.7, 10.1.1.1", { "loopback", "10.0.0.0/8" }), "192.0.2.7")
  t.eq(addr("10.0.0.1, 10.0.0.2", { "loopback", "private" }), "10.0.0.1")
  t.eq(addr "[2001:DB8::1]:4711", "2001:db8::1")
  t.eq(addr "unknown", "127.0.0.1")
  t.eq(addr "6.6.6.6, <script>", "127.0.0.1", "what the nearest proxy has not understood")
  t.eq(addr "", "127.0.0.1")
end)

t.test("repeated fields are one list", function()
  local found = behind({ proxies = LOCAL }, { "X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 192.0.2.7" })
  t.eq({ found.addr, found.proxy }, { "192.0.2.7", "127.0.0.1" })
end)

t.test("fields from an address that is not a proxy are ignored", function()
  local fields = { "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil" }
  t.eq(behind({ proxies = { "10.0.0.0/8" } }, fields), { addr = "127.0.0.1", tls = false, host = "test" })
end)

t.test("the scheme is believed by default, and the host only if it is listed", function()
  local fields = { "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: HTTPS", "X-Forwarded-Host: shop.example:8443" }
  t.eq(behind({ proxies = LOCAL }, fields), { addr = "192.0.2.7", tls = true, host = "test", proxy = "127.0.0.1" })
  local all = { "X-Forwarded-For", "x-forwarded-proto", "X-Forwarded-Host" }
  t.eq(behind({ proxies = LOCAL, headers = all }, fields).host, "shop.example:8443")
  t.eq(behind({ proxies = LOCAL, headers = { "X-Forwarded-Proto" } }, fields),
    { addr = "127.0.0.1", tls = true, host = "test" })
  for _, bad in ipairs { "a b", "a/b", "user@a", "" } do
    t.eq(behind({ proxies = LOCAL, headers = all }, { "X-Forwarded-Host: " .. bad }).host, "test", bad)
  end
  t.eq(behind({ proxies = LOCAL }, { "X-Forwarded-Proto: ftp" }).tls, false)
end)

t.test("schemes of several proxies belong to the addresses at the same positions", function()
  local fields = { "X-Forwarded-For: 6.6.6.6, 192.0.2.7, 10.0.0.1", "X-Forwarded-Proto: http, https, http" }
  t.eq(behind({ proxies = { "loopback", "10.0.0.1" } }, fields).tls, true)
  fields[2] = "X-Forwarded-Proto: https, http"
  t.eq(behind({ proxies = { "loopback", "10.0.0.1" } }, fields).tls, false, "the nearest proxy's scheme")
end)

t.test("Forwarded has the address, the port, the scheme and the host in one field", function()
  local function forwarded(text, proxies)
    return behind({ proxies = proxies or LOCAL, headers = { "Forwarded" } }, {
      "Forwarded: " .. text, "X-Forwarded-For: 6.6.6.6",
    })
  end
  t.eq(forwarded 'for="192.0.2.7:4711";proto=https;host=shop.example;by=10.0.0.1',
    { addr = "192.0.2.7", port = 4711, tls = true, host = "shop.example", proxy = "127.0.0.1" })
  t.eq(forwarded("for=6.6.6.6;proto=http, for=192.0.2.7;proto=https, for=10.0.0.1", { "loopback", "10.0.0.1" }),
    { addr = "192.0.2.7", tls = true, host = "test", proxy = "127.0.0.1" })
  t.eq(forwarded "for=_hidden;proto=https", { addr = "127.0.0.1", tls = true, host = "test" })
end)

t.test("Regression: a request with a malformed Forwarded field had the proxy's address", function()
  -- The client has sent what is left of the last comma.
  for _, field in ipairs {
    'for=", for=192.0.2.7', "x y, for=192.0.2.7", 'for="a, for="[2001:db8::1]"', "for=a;for=b",
  } do
    local r = http.once(function(app)
      app:use(web.trust_proxy { proxies = LOCAL, headers = { "Forwarded" } }):get("/", client)
    end, "GET", "/", { "Forwarded: " .. field })
    t.eq({ r.status, r.body }, { 400, "Bad Request\n" }, field)
  end
  -- The field of an address that is not a proxy is ignored.
  t.eq(behind({ proxies = { "10.0.0.1" }, headers = { "Forwarded" } }, { 'Forwarded: for="' }).addr, "127.0.0.1")
end)

t.test("the access log shows the client, wherever the log was added", function()
  for _, is_first in ipairs { true, false } do
    local lines, app = {}, web.new()
    local log = web.log {
      format = function(entry) return entry.remote end,
      file = function(text) lines[#lines + 1] = text end,
    }
    if is_first then app:use(log) end
    app:use(web.trust_proxy { proxies = LOCAL })
    if not is_first then app:use(log) end
    app:get("/", client)
    http.with(app, function(open) open():request("GET", "/", { "X-Forwarded-For: 192.0.2.7" }) end)
    log:flush()
    t.eq(lines, { "192.0.2.7\n" })
  end
end)

t.test("the peer of a unix socket is trusted only as 'unix:'", function()
  local function through(proxies)
    local path, app = t.tmp() .. "/socket", web.new()
    app:use(web.trust_proxy { proxies = proxies }):get("/", client)
    local found
    require("lio.loop").run(function()
      local server <const> = assert(app:listen("unix:" .. path))
      local c = assert(net.connect("unix:" .. path))
      c:send("GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n")
      found = json.decode(c:recv "all":match "\r\n\r\n(.*)$").addr
      c:close()
      server:stop(0)
    end)
    return found
  end
  t.eq(through { "unix:" }, "192.0.2.7")
  t.eq(through { "loopback" }, "unix:")
end)

t.test("wrong options of trust_proxy raise at the program's line", function()
  local function refused(message, opts)
    raises(message, web.trust_proxy, opts)
  end
  refused("bad argument #1 to 'trust_proxy' %(table of options expected, got nil%)$", nil)
  refused("web.trust_proxy: option 'proxies' is missing$", {})
  refused("web.trust_proxy: option 'proxies' is missing, as in { proxies = { \"127.0.0.1\" } }$", { "127.0.0.1" })
  refused("web.trust_proxy: option 'proxies' must be a list of at least one address$", { proxies = {} })
  refused("web.trust_proxy: option 'proxies' must be a list of at least one address$", { proxies = { "::1", x = 1 } })
  refused("web.trust_proxy: option 'proxies': \"10.0.0.1/8\" is no address, network such as ",
    { proxies = { "10.0.0.1/8" } })
  refused("web.trust_proxy: option 'proxies': 5 is no address", { proxies = { 5 } })
  refused("web.trust_proxy: option 'headers' must list 'Forwarded', .* got \"X%-Real%-IP\"$",
    { proxies = LOCAL, headers = { "X-Real-IP" } })
  refused("web.trust_proxy: option 'headers' is empty$", { proxies = LOCAL, headers = {} })
  refused("web.trust_proxy: option 'headers' must list 'Forwarded' alone",
    { proxies = LOCAL, headers = { "Forwarded", "X-Forwarded-For" } })
  refused("web.trust_proxy: option 'proxes' is unknown %(did you mean 'proxies'%?%)$", { proxes = LOCAL })
end)

-- The PROXY protocol ------------------------------------------------------------------------------------

-- Returns an app with the handler `client`, and its access log, which records the addresses in `remotes`.
local function app_with_log(remotes)
  local log = web.log { format = function(entry) return entry.remote end, file = function(text)
    for remote in text:gmatch "[^\n]+" do remotes[#remotes + 1] = remote end
  end }
  return web.new():use(log):get("/", client), log
end

-- Sends bytes to a server with this option. Returns what the handler knows about the client; or nil if the server has
-- closed the connection without a response.
local function through(proxy_protocol, bytes)
  local found
  http.with(web.new():get("/", client), function(open)
    local c = open():send(bytes)
    local data = c.c:recv()
    found = data and data:match "^HTTP/1.1 200 " and json.decode(data:match "\r\n\r\n(.*)$") or data
  end, { proxy_protocol = proxy_protocol })
  return found
end

t.test("an IPv4 address that is mapped into IPv6 is the IPv4 address", function()
  local mapped = through(true, "PROXY TCP6 ::ffff:203.0.113.7 ::1 4711 80\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
  local plain = through(true, "PROXY TCP4 203.0.113.7 127.0.0.1 4711 80\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
  t.eq(mapped, plain)
end)

t.test("a header of either version contains the client's address, for the handler and for the log", function()
  for _, header in ipairs { V1, v2(0x21, 0x11, V2_ADDRESSES) } do
    local remotes = {}
    local app, log = app_with_log(remotes)
    http.with(app, function(open)
      local c = open():send(header)
      for _ = 1, 2 do
        local r = c:request("GET", "/")
        t.eq(json.decode(r.body), { addr = "192.0.2.1", port = 4711, tls = false, host = "test" })
      end
    end, { proxy_protocol = true })
    log:flush()
    t.eq(remotes, { "192.0.2.1", "192.0.2.1" })
  end
end)

t.test("version 2 contains whether the client uses TLS", function()
  local tls = string.char(0x20) .. string.pack(">s2", "\1\0\0\0\0")
  t.eq(through(true, v2(0x21, 0x11, V2_ADDRESSES .. tls) .. GET),
    { addr = "192.0.2.1", port = 4711, tls = true, host = "test" })
end)

t.test("the proxy's own connections keep the address of the socket", function()
  for _, header in ipairs { "PROXY UNKNOWN\r\n", v2(0x20, 0, "") } do
    local found = through("required", header .. GET)
    t.eq({ found.addr, found.tls, found.port ~= 4711 }, { "127.0.0.1", false, true })
  end
end)

t.test("a connection without a valid header closes without a response", function()
  for _, bytes in ipairs { GET, "PROXY TCP4 x\r\n" .. GET, v2(0x31, 0x11, V2_ADDRESSES) .. GET, "\0" } do
    for _, option in ipairs { true, "required", { required = true } } do t.eq(through(option, bytes), nil) end
  end
end)

t.test("an optional header may be missing; without the option, a header is a malformed request", function()
  t.eq(through("optional", GET).addr, "127.0.0.1")
  t.eq(through({ required = false }, V1 .. GET).addr, "192.0.2.1")
  t.eq(through(nil, V1 .. GET):sub(1, 13), "HTTP/1.1 400 ")
  t.eq(through(false, V1 .. GET):sub(1, 13), "HTTP/1.1 400 ")
end)

t.test("with a list, only its proxies may send a header", function()
  t.eq(through({ proxies = { "127.0.0.0/8" } }, V1 .. GET).addr, "192.0.2.1")
  t.eq(through({ proxies = { "10.0.0.0/8" } }, V1 .. GET), nil)
  t.eq(through({ proxies = { "10.0.0.0/8" }, required = false }, V1 .. GET):sub(1, 13), "HTTP/1.1 400 ")
  t.eq(through({ proxies = { "10.0.0.0/8" }, required = false }, GET).addr, "127.0.0.1")
end)

t.test("fields of a proxy behind the one that speaks the PROXY protocol are believed by its address", function()
  local app = web.new():use(web.trust_proxy { proxies = { "192.0.2.1" } }):get("/", client)
  http.with(app, function(open)
    local r = open():send(V1):request("GET", "/", { "X-Forwarded-For: 203.0.113.5" })
    local found = json.decode(r.body)
    t.eq({ found.addr, found.proxy, found.port }, { "203.0.113.5", "192.0.2.1" })
  end, { proxy_protocol = true })
end)

t.test("a header must arrive within the header time", function()
  http.with(web.new { header_time = 0.05 }:get("/", client), function(open)
    local silent, slow = open(), open():send "PROXY TCP4 "
    t.ok(silent:ended())
    t.ok(slow:ended())
  end, { proxy_protocol = true })
end)

t.test("wrong values of proxy_protocol raise at the program's line", function()
  local app = web.new()
  require("lio.loop").run(function()
    local function refused(message, value)
      raises("app:listen: " .. message, app.listen, app, 0, { proxy_protocol = value })
    end
    refused("option 'proxy_protocol' must be true or false or \"required\" or \"optional\" or a table, got 1$", 1)
    refused("option 'proxy_protocol': field 'proxes' is unknown %(did you mean 'proxies'%?%)$", { proxes = {} })
    refused("option 'proxies' must be a list of at least one address$", { proxies = {} })
  end)
end)

t.finish()
