-- TLS with peers that were written independently of this project: OpenSSL's s_client and s_server, curl, Python's ssl
-- and Node's tls. Each plays both sides where it can, with each version of TLS.

local net = require "lio.net"
local netkit = require "tests.kit.net"
local t = require "tests.kit"
local tls = require "lio.tls"
local tlskit = require "tests.kit.tls"
local web = require "lio.webserver"

local VERSIONS <const> = { "1.2", "1.3" }

local function has(command) return t.run("command -v " .. command).code == 0 end

local missing = {}
for _, tool in ipairs { "openssl", "curl", "python3", "node" } do
  if not has(tool) then
    missing[tool] = true
    print(("left out %s: the command is not installed"):format(tool))
  end
end

local dir <const> = t.tmp()
local site_cert <const>, site_key <const> = tlskit.write(dir, "site", tlskit.cert, tlskit.key)
local member_cert <const>, member_key <const> = tlskit.write(dir, "member",
  tlskit.authority:issue { names = { "member" } })
local ca <const> = t.write(dir .. "/ca.pem", tlskit.authority.cert)
local stranger <const> = tls.authority "stranger"
local stranger_ca <const> = t.write(dir .. "/stranger.pem", stranger.cert)
local stranger_cert <const>, stranger_key <const> = tlskit.write(dir, "stranger-member", stranger:issue())
local BAD <const> = {
  expired = { tlskit.authority:issue { start = -10, days = -3 } },
  ["of another name"] = { tlskit.authority:issue { names = { "a.example" } } },
  ["self-signed"] = { tls.self_signed() },
  ["of an unknown authority"] = { stranger:issue() },
}

-- Runs a shell command while the loop runs. Returns a table of `out`, `err` and `code`.
local function run_beside(command, stdin)
  local base = t.tmp()
  t.write(base .. "/in", stdin or "")
  os.execute(("cd %s && { ( %s\n) <%s/in >%s/out 2>%s/err; echo $? >%s/code.new; mv %s/code.new %s/code; } &"):format(
    t.quote(dir), command, base, base, base, base, base, base))
  local function content(name)
    local f <close> = io.open(base .. "/" .. name, "rb")
    return f and f:read "a"
  end
  local code = netkit.await(function() return content "code" end)
  return { out = content "out", err = content "err", code = tonumber(code) }
end

-- Serves an app on lio with TLS while `body(port)` runs.
local function with_lio(options, body)
  local app = web.new { body = 8000000 }
  app:get("/", function(req)
    local about = req.tls
    return ("%s %s %s %s\n"):format(about.version, about.resumed, tostring(about.alpn),
      about.peer and about.peer.subject or "none")
  end)
  app:post("/", function(req) return req:body() end)
  netkit.run(function()
    local server = assert(app:listen("127.0.0.1:0", { tls = tlskit.server(options) }))
    local _ <close> = setmetatable({}, { __close = function() server:stop(0) end })
    body(math.tointeger(tonumber(server.url:match ":(%d+)/$")))
  end, 90)
end

local function test(tool, name, f)
  if not missing[tool] then t.test(("%s: %s"):format(tool, name), f, { leaks = true }) end
end

local GET <const> = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

-- OpenSSL ---------------------------------------------------------------------------------------------

local function s_client(port, options, stdin)
  return run_beside(("timeout 20 openssl s_client -connect 127.0.0.1:%d -CAfile ca.pem -verify_return_error "
    .. "-ign_eof %s"):format(port, options), stdin or GET)
end

for _, version in ipairs(VERSIONS) do
  local flag <const> = "-tls" .. version:gsub("%.", "_")

  test("openssl", "s_client with TLS " .. version, function()
    with_lio({ alpn = { "http/1.1" } }, function(port)
      local r = s_client(port, flag .. " -alpn h2,http/1.1 -servername localhost")
      t.eq(r.code, 0, r.err)
      t.ok(r.out:find(version .. " false http/1.1 none\n", 1, true), r.out)
      t.ok(r.out:find("Verify return code: 0 (ok)", 1, true))
      t.ok(r.out:find("ALPN protocol: http/1.1", 1, true))
    end)
  end)

  test("openssl", "s_client resumes a session with TLS " .. version, function()
    with_lio({}, function(port)
      local first = s_client(port, flag .. " -sess_out session.pem")
      t.ok(first.out:find(version .. " false", 1, true), first.out)
      local second = s_client(port, flag .. " -sess_in session.pem")
      t.ok(second.out:find(version .. " true", 1, true), second.out .. second.err)
      t.ok(second.out:find("\nReused, ", 1, true))
    end)
  end)

  test("openssl", "s_client with certificates of the client, TLS " .. version, function()
    with_lio({ client_ca = tlskit.authority.cert }, function(port)
      local member = s_client(port, flag .. " -cert member.pem -key member.key")
      t.ok(member.out:find("CN=member\n", 1, true), member.out .. member.err)
      local none = s_client(port, flag)
      t.ok(none.err:find("alert certificate required", 1, true) or none.err:find("alert handshake failure", 1, true),
        none.err)
      t.ok(not none.out:find("HTTP/1.1", 1, true))
      local other = s_client(port, flag .. " -cert stranger-member.pem -key stranger-member.key")
      t.ok(other.err:find("alert unknown ca", 1, true), other.err)
      t.ok(not other.out:find("HTTP/1.1", 1, true))
    end)
  end)
end

test("openssl", "older versions are refused, and min_version is kept", function()
  with_lio({}, function(port)
    for _, flag in ipairs { "-tls1", "-tls1_1" } do
      local r = s_client(port, flag .. " -cipher DEFAULT:@SECLEVEL=0")
      t.ok(r.err:find("alert protocol version", 1, true) or r.err:find("alert handshake failure", 1, true)
        or r.err:find("no protocols available", 1, true), r.err)
      t.ok(r.code ~= 0 and not r.out:find("HTTP/1.1", 1, true), r.out)
    end
  end)
  with_lio({ min_version = "1.3" }, function(port)
    t.ok(s_client(port, "-tls1_2").err:find("alert protocol version", 1, true))
    t.ok(s_client(port, "-tls1_3").out:find("1.3 false", 1, true))
  end)
end)

test("openssl", "s_client updates its keys in the middle of a connection", function()
  with_lio({}, function(port)
    -- In s_client, a line "K" updates the keys of both sides.
    local r = run_beside(("{ sleep 0.3; echo K; sleep 0.3; "
      .. "printf 'GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n'; sleep 2; } | "
      .. "timeout 20 openssl s_client -connect 127.0.0.1:%d -CAfile ca.pem -tls1_3"):format(port))
    t.ok(r.err:find("KEYUPDATE", 1, true) or r.out:find("KEYUPDATE", 1, true), r.err)
    t.ok(r.out:find("1.3 false", 1, true), r.out)
  end)
end)

test("openssl", "a renegotiation is refused", function()
  with_lio({}, function(port)
    local r = run_beside(("{ sleep 0.3; echo R; sleep 1; } | timeout 20 openssl s_client -connect 127.0.0.1:%d "
      .. "-CAfile ca.pem -tls1_2"):format(port))
    t.ok(r.err:find("no renegotiation", 1, true) or r.err:find("alert", 1, true), r.err)
  end)
end)

-- Starts a server program on a port that was free. Calls `body(port)` when `command` (with the port in place of "%d")
-- accepts connections.
local function with_server(command, body)
  local port = netkit.run(netkit.dead_port)
  local log = t.tmp() .. "/log"
  local child <close> = t.spawn(("sh -c %s"):format(t.quote(("cd %s && exec timeout 60 %s >%s 2>&1"):format(
    t.quote(dir), command:format(port), log))))
  netkit.run(function()
    netkit.await(function()
      local c = net.connect("127.0.0.1", port)
      if c then c:close() end
      return c
    end)
    body(port, log)
  end, 60)
  child:stop()
end

-- Sends a request to a server of another program. Returns the response, and the connection's `tls()`.
local function ask(port, options, host)
  local c <close>, message, code = net.connect(host or "127.0.0.1", port, { tls = options, timeout = 10 })
  if not c then return nil, message, code end
  c:timeout(10, 10)
  c:send "GET / HTTP/1.0\r\n\r\n"
  local response, problem, _, why = c:recv "all"
  return response, response and c:tls() or problem, why
end

for _, version in ipairs(VERSIONS) do
  local flag <const> = "-tls" .. version:gsub("%.", "_")

  test("openssl", "s_server with TLS " .. version, function()
    with_server("openssl s_server -port %d -cert site.pem -key site.key -www -alpn two,one " .. flag, function(port)
      local object = assert(tls.client(tlskit.client { alpn = { "one", "three" } }))
      local response, about = ask(port, object, "localhost")
      t.ok(response and response:find "^HTTP/1.0 200", about)
      t.eq({ about.version, about.alpn, about.resumed }, { version, "one", false })
      local _, again = ask(port, object, "localhost")
      t.eq(again.resumed, true)
    end)
  end)

  test("openssl", "s_server that requires a certificate, TLS " .. version, function()
    with_server("openssl s_server -port %d -cert site.pem -key site.key -www -CAfile ca.pem -verify_return_error "
      .. "-Verify 2 " .. flag, function(port)
      local response = ask(port, tlskit.client { cert = member_cert, key = member_key })
      t.ok(response and response:find "Subject: CN ?= ?member", response)
      local refused, message, code = ask(port, tlskit.client())
      t.eq({ refused, code }, { nil, "tls" })
      t.ok(message:find("the peer refused the connection: it requires a certificate", 1, true)
        or message:find("there are no common parameters, or a certificate is missing", 1, true), message)
      local other, why = ask(port, tlskit.client { cert = stranger_cert, key = stranger_key })
      t.is_nil(other)
      t.ok(why:find("it does not trust the authority that issued our certificate", 1, true), why)
    end)
  end)
end

for what, pair in pairs(BAD) do
  test("openssl", "s_server with a certificate that is " .. what, function()
    tlskit.write(dir, "bad", pair[1], pair[2])
    with_server("openssl s_server -port %d -cert bad.pem -key bad.key -www", function(port)
      local response, message, code = ask(port, tlskit.client())
      t.eq({ response, code }, { nil, "tls" })
      local want <const> = {
        expired = "^handshake: certificate expired 3 days ago$",
        ["of another name"] = "^handshake: name does not match: 127%.0%.0%.1 expected, the certificate has a%.example$",
        ["self-signed"] = "^handshake: certificate is self%-signed",
        ["of an unknown authority"] = "^handshake: certificate was issued by an unknown authority, 'stranger'",
      }
      t.ok(message:find(want[what]), message)
    end)
  end)
end

-- curl ------------------------------------------------------------------------------------------------

local function curl(port, options)
  return run_beside(("timeout 30 curl -sS --fail --cacert ca.pem %s https://localhost:%d/"):format(options or "", port))
end

for _, version in ipairs(VERSIONS) do
  test("curl", "requests with TLS " .. version, function()
    with_lio({ alpn = { "http/1.1" } }, function(port)
      local r = curl(port, ("--tlsv%s --tls-max %s"):format(version, version))
      t.eq({ r.code, r.out }, { 0, version .. " false http/1.1 none\n" }, r.err)
      local member = curl(port, ("--tlsv%s --tls-max %s --cert member.pem --key member.key"):format(version, version))
      t.eq(member.code, 0, member.err)
      t.write(dir .. "/body", ("0123456789"):rep(300000))
      local echoed = curl(port, "--data-binary @body -o echoed")
      t.eq({ echoed.code, t.run(("cd %s && cmp body echoed"):format(t.quote(dir))).code }, { 0, 0 }, echoed.err)
    end)
  end)
end

test("curl", "certificates that are wrong are refused", function()
  for what, pair in pairs(BAD) do
    with_lio({ cert = pair[1], key = pair[2] }, function(port)
      t.eq(curl(port).code, 60, what)
      t.eq(curl(port, "-k").code, 0, what)
    end)
  end
  with_lio({}, function(port)
    local r = run_beside(("curl -sS --cacert stranger.pem https://localhost:%d/"):format(port))
    t.eq(r.code, 60, r.err)
    t.ok(stranger_ca and ca and site_cert and site_key)
  end)
end)

-- Python ----------------------------------------------------------------------------------------------

local PYTHON_CLIENT <const> = [[
import socket, ssl, sys
port, version = int(sys.argv[1]), sys.argv[2]
context = ssl.create_default_context(cafile="ca.pem")
context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, version)
context.set_alpn_protocols(["h2", "http/1.1"])
if len(sys.argv) > 3: context.load_cert_chain("member.pem", "member.key")
session = None
for round in range(2):
    with socket.create_connection(("127.0.0.1", port)) as raw:
        with context.wrap_socket(raw, server_hostname="localhost", session=session) as c:
            c.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            data = b""
            while True:
                piece = c.recv(65536)
                if not piece: break
                data += piece
            session = c.session
            print(data.decode().splitlines()[-1], c.version(), c.session_reused)
            # close_notify of both sides: unwrap() raises otherwise.
            c.unwrap()
]]

for _, version in ipairs(VERSIONS) do
  test("python3", "a client with TLS " .. version, function()
    t.write(dir .. "/client.py", PYTHON_CLIENT)
    local name = "TLSv" .. version:gsub("%.", "_")
    with_lio({ alpn = { "http/1.1" } }, function(port)
      local r = run_beside(("timeout 30 python3 client.py %d %s"):format(port, name))
      t.eq({ r.code, r.out }, { 0, ("%s false http/1.1 none TLSv%s False\n%s true http/1.1 none TLSv%s True\n"):format(
        version, version, version, version) }, r.err)
    end)
    with_lio({ client_ca = tlskit.authority.cert }, function(port)
      local r = run_beside(("timeout 30 python3 client.py %d %s member"):format(port, name))
      t.ok(r.code == 0 and r.out:find("CN=member", 1, true), r.err)
      t.ok(run_beside(("timeout 30 python3 client.py %d %s"):format(port, name)).code ~= 0)
    end)
  end)
end

local PYTHON_SERVER <const> = [[
import socket, ssl, sys
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain("site.pem", "site.key")
context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, sys.argv[2])
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    raw, _ = listener.accept()
    try:
        with context.wrap_socket(raw, server_side=True) as c:
            line = c.recv(65536)
            if b"cut" in line:
                c.sendall(b"a part")
                c.detach and socket.socket(fileno=c.detach()).close()
                continue
            c.sendall(b"x" * 3000000)
            c.unwrap()
    except (OSError, ssl.SSLError):
        pass
]]

for _, version in ipairs(VERSIONS) do
  test("python3", "a server with TLS " .. version .. ", with and without close_notify", function()
    t.write(dir .. "/server.py", PYTHON_SERVER)
    with_server("python3 server.py %d TLSv" .. version:gsub("%.", "_"), function(port)
      local c = assert(net.connect("127.0.0.1", port, { tls = tlskit.client() }))
      c:send "all"
      t.eq(#c:recv "all", 3000000)
      t.eq(c:tls().version, version)
      c:close()
      local cut <close> = assert(net.connect("127.0.0.1", port, { tls = tlskit.client() }))
      cut:send "cut"
      local got, message, partial, code = cut:recv "all"
      t.eq({ got, partial, code }, { nil, "a part", "tls" }, message)
    end)
  end)
end

-- Node ------------------------------------------------------------------------------------------------

local NODE_CLIENT <const> = [[
const tls = require('tls'), fs = require('fs')
const [port, version, member] = process.argv.slice(2)
const own = member ? { cert: fs.readFileSync('member.pem'), key: fs.readFileSync('member.key') } : {}
let session, kept
function round(left) {
  const c = tls.connect({ host: '127.0.0.1', port, servername: 'localhost', ca: fs.readFileSync('ca.pem'),
    session: kept, minVersion: version, maxVersion: version, ALPNProtocols: ['http/1.1'], ...own })
  let data = ''
  c.on('session', s => { session = s })
  c.on('secureConnect', () => c.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'))
  c.on('data', d => data += d)
  c.on('error', e => { console.log('error', e.code); process.exit(1) })
  c.on('end', () => {
    console.log(data.trim().split('\n').pop(), c.getProtocol(), c.isSessionReused(), c.alpnProtocol)
    kept = session
    if (left > 1) round(left - 1)
  })
}
round(2)
]]

for _, version in ipairs(VERSIONS) do
  test("node", "a client with TLS " .. version, function()
    t.write(dir .. "/client.js", NODE_CLIENT)
    with_lio({ alpn = { "http/1.1" } }, function(port)
      local r = run_beside(("timeout 30 node client.js %d TLSv%s"):format(port, version))
      t.eq({ r.code, r.out }, { 0,
        ("%s false http/1.1 none TLSv%s false http/1.1\n%s true http/1.1 none TLSv%s true http/1.1\n"):format(
          version, version, version, version) }, r.err)
    end)
    with_lio({ client_ca = tlskit.authority.cert }, function(port)
      local r = run_beside(("timeout 30 node client.js %d TLSv%s member"):format(port, version))
      t.ok(r.code == 0 and r.out:find("CN=member", 1, true), r.out .. r.err)
      t.eq(run_beside(("timeout 30 node client.js %d TLSv%s"):format(port, version)).code, 1)
    end)
  end)
end

local NODE_SERVER <const> = [[
const tls = require('tls'), fs = require('fs')
tls.createServer({ cert: fs.readFileSync('site.pem'), key: fs.readFileSync('site.key'), minVersion: process.argv[3],
  maxVersion: process.argv[3], ALPNProtocols: ['one'] }, c => {
  c.on('error', () => {})
  c.pipe(c)
}).on('tlsClientError', () => {}).listen(process.argv[2], '127.0.0.1')
]]

for _, version in ipairs(VERSIONS) do
  test("node", "a server with TLS " .. version, function()
    t.write(dir .. "/server.js", NODE_SERVER)
    with_server("node server.js %d TLSv" .. version, function(port)
      local object = assert(tls.client(tlskit.client { alpn = { "two", "one" } }))
      for _, is_resumed in ipairs { false, true } do
        local c <close> = assert(net.connect("127.0.0.1", port, { tls = object }))
        local data = ("echo"):rep(300000)
        local sent = netkit.promise(function()
          c:send(data)
          return c:shutdown "w"
        end)
        t.ok(c:recv "all" == data)
        t.eq(sent(), true)
        t.eq({ c:tls().version, c:tls().alpn, c:tls().resumed }, { version, "one", is_resumed })
      end
      t.eq({ net.connect("127.0.0.1", port, { tls = tlskit.client { alpn = { "three" } } }) },
        { false, "handshake: the peer refused the connection: it supports none of our protocols (ALPN)", "tls" })
    end)
  end)
end

t.finish()
