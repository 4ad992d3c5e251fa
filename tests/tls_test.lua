-- TLS of `lio.net`: options, handshakes of listeners and of outgoing connections, certificates, sessions. The calls on
-- connected pairs are in net_over_tls_test.lua.

local crypto = require "lio.crypto"
local loop = require "lio.loop"
local net = require "lio.net"
local netkit = require "tests.kit.net"
local t = require "tests.kit"
local thread = require "lio.task"
local tls = require "lio.tls"
-- A stock interpreter finds the native module only once the library is loaded.
local core = require "lio.tls.core"
local tlskit = require "tests.kit.tls"

local authority <const>, server <const>, client <const> = tlskit.authority, tlskit.server, tlskit.client

local function pack(...) return table.pack(...) end

-- Returns the results of connecting with TLS to `port`; a connection is closed.
local function try_connect(port, options, host)
  local c, message, code = net.connect(host or "127.0.0.1", port, { tls = options })
  if c then c:close() end
  return c and true or nil, message, code
end

-- Serves `f(c)` on a listener with TLS while `body(port, listener)` runs. The default of `f` echoes.
local function serving(options, body, f)
  local listener <close>, port = tlskit.listen(options)
  local running = net.serve(listener, f or function(c)
    for data in function() return c:recv() end do c:send(data) end
  end, { on_error = function() end })
  local _ <close> = setmetatable({}, { __close = function() running:stop(0) end })
  return body(port, listener)
end

-- The result of `c:tls()` ------------------------------------------------------------------------------

netkit.test("c:tls() describes the connection and the peer's certificate", function()
  local a, b = tlskit.pair(server { alpn = { "one", "two" } }, client { alpn = { "two", "three" } })
  local _ <close> = netkit.closing(a, b)
  local of_a, of_b = a:tls(), b:tls()
  local peer = of_a.peer
  of_a.peer = nil
  t.eq(of_a, { version = "1.3", cipher = "TLS_AES_256_GCM_SHA384", resumed = false, alpn = "two" })
  t.eq(of_b, { version = "1.3", cipher = "TLS_AES_256_GCM_SHA384", resumed = false, alpn = "two" })
  t.eq({ peer.subject, peer.issuer }, { "CN=localhost", "CN=test authority" })
  t.eq(peer.names, { "localhost", "127.0.0.1", "::1" })
  t.ok(peer.serial:find "^%x+$" and #peer.serial >= 16, peer.serial)
  t.near(peer.not_before, os.time(), 100)
  t.near(peer.not_after - peer.not_before, 365 * 86400, 1)
  t.eq(peer.fingerprint, crypto.sha256(peer.der, "hex"))
end)

netkit.test("c:tls() is nil on a plain connection and during a handshake", function()
  local a, b = netkit.pair()
  local _ <close> = netkit.closing(a, b)
  t.is_nil(a:tls())
  local done = netkit.promise(function() return a:start_tls(client(), { server_name = "localhost" }) end)
  netkit.settle()
  t.is_nil(a:tls())
  t.eq(b:start_tls(server(), { server = true }), true)
  t.eq(done(), true)
  t.eq(a:tls().version, "1.3")
  t.eq(b:tls().server_name, "localhost")
end)

netkit.test("a name is requested from the server, and an address is not", function()
  serving(server(), function(port)
    for host, want in pairs { localhost = "localhost", ["127.0.0.1"] = false } do
      local c <close> = assert(net.connect(host, port, { tls = client() }))
      t.eq(c:recv(), tostring(want))
    end
    local c <close> = assert(net.connect("127.0.0.1", port, { tls = client { server_name = "localhost" } }))
    t.eq(c:recv(), "localhost")
  end, function(c) c:send(tostring(c:tls().server_name or false)) end)
end)

-- Certificates ----------------------------------------------------------------------------------------

-- Connects to a server with the certificate that `issue` has made. Returns the client's message, and its code.
local function refusal(cert, key, options, host)
  return serving({ cert = cert, key = key }, function(port)
    local ok, message, code = try_connect(port, options or client(), host)
    t.is_nil(ok)
    t.eq(code, "tls", message)
    return message
  end)
end

netkit.test("the error of a refused certificate says what is wrong", function()
  local stranger = tls.authority "stranger"
  t.eq(refusal(authority:issue { start = -10, days = -3 }), "handshake: certificate expired 3 days ago")
  local early = refusal(authority:issue { start = 2.5, days = 9 })
  t.eq(early, "handshake: certificate is not valid yet: it becomes valid in 2 days")
  t.eq(refusal(authority:issue { names = { "a.example", "192.0.2.1" } }),
    "handshake: name does not match: 127.0.0.1 expected, the certificate has a.example, 192.0.2.1")
  local cert, key = tls.self_signed()
  t.eq(refusal(cert, key), "handshake: certificate is self-signed, and is not one of the trusted certificates")
  t.eq(refusal(stranger:issue()), "handshake: certificate was issued by an unknown authority, 'stranger', and the "
    .. "server has sent no intermediate certificate")
  -- The system's authorities are trusted only if there is no option `ca`.
  t.eq(refusal(tlskit.cert, tlskit.key, true), "handshake: certificate was issued by an unknown authority, "
    .. "'test authority', and the server has sent no intermediate certificate")
end)

netkit.test("a self-signed certificate is accepted if the client trusts it", function()
  local cert, key = tls.self_signed()
  serving({ cert = cert, key = key }, function(port)
    t.eq({ try_connect(port, { ca = cert }) }, { true })
  end)
end)

netkit.test("a client that refuses the certificate does not disturb the listener", function()
  local listener <close>, port = tlskit.listen()
  local accepted = netkit.promise(function() return listener:accept() end)
  local refused = netkit.promise(function() return try_connect(port, true) end)
  local plain <close> = assert(net.connect("127.0.0.1", port))
  t.is_nil((refused()))
  -- The listener accepts the next connection.
  assert(plain:start_tls(client(), { server_name = "localhost" }))
  local c <close> = assert(accepted())
  t.eq(c:tls().server_name, "localhost")
end)

local dir <const> = t.tmp()

local function openssl(command, ...)
  local r = t.run(("cd %s && openssl %s"):format(t.quote(dir), command:format(...)))
  if r.code ~= 0 then error("openssl: " .. r.err, 2) end
end

-- Creates a root, an intermediate authority, a certificate for localhost that the intermediate has issued, and one that
-- is revoked.
local function make_chain()
  local function issue(name, issuer, extensions)
    t.write(dir .. "/ext", extensions)
    openssl("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout %s.key -out %s.csr -subj /CN=%s",
      name, name, name)
    openssl("x509 -req -in %s.csr -CA %s.pem -CAkey %s.key -CAcreateserial -days 9 -out %s.pem -extfile ext",
      name, issuer, issuer, name)
  end
  openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout root.key -out root.pem -days 9 "
    .. "-subj /CN=root -addext keyUsage=keyCertSign,cRLSign")
  issue("middle", "root", "basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign,cRLSign\n")
  issue("leaf", "middle", "subjectAltName=DNS:localhost,IP:127.0.0.1\n")
  issue("revoked", "middle", "subjectAltName=DNS:localhost,IP:127.0.0.1\n")
  t.write(dir .. "/ca.cnf", ("[ca]\ndefault_ca=c\n[c]\ndatabase=%s/index\ndefault_md=sha256\ndefault_crl_days=9\n"
    .. "crlnumber=%s/number\n"):format(dir, dir))
  t.write(dir .. "/number", "01\n")
  for _, name in ipairs { "root", "middle" } do
    t.write(dir .. "/index", "")
    if name == "middle" then
      openssl("ca -config ca.cnf -cert middle.pem -keyfile middle.key -revoke revoked.pem")
    end
    openssl("ca -config ca.cnf -cert %s.pem -keyfile %s.key -gencrl -out %s.crl", name, name, name)
  end
end

local function read(name)
  local f <close> = assert(io.open(dir .. "/" .. name))
  return f:read "a"
end

make_chain()

netkit.test("a chain needs its intermediate certificate", function()
  local trusted = { ca = dir .. "/root.pem" }
  t.eq(refusal(dir .. "/leaf.pem", dir .. "/leaf.key", trusted), "handshake: certificate was issued by an unknown "
    .. "authority, 'middle', and the server has sent no intermediate certificate")
  serving({ cert = read "leaf.pem" .. read "middle.pem", key = dir .. "/leaf.key" }, function(port)
    t.eq({ try_connect(port, trusted) }, { true })
  end)
end)

netkit.test("a revoked certificate is refused if the client has the list", function()
  local lists = { dir .. "/root.crl", dir .. "/middle.crl" }
  local checked = { ca = dir .. "/root.pem", crl = lists }
  local middle = read "middle.pem"
  t.eq(refusal(read "revoked.pem" .. middle, dir .. "/revoked.key", checked), "handshake: certificate was revoked")
  serving({ cert = read "revoked.pem" .. middle, key = dir .. "/revoked.key" }, function(port)
    t.eq({ try_connect(port, { ca = dir .. "/root.pem" }) }, { true })
  end)
  serving({ cert = read "leaf.pem" .. middle, key = dir .. "/leaf.key" }, function(port)
    t.eq({ try_connect(port, checked) }, { true })
    t.eq(select(2, try_connect(port, { ca = dir .. "/root.pem", crl = dir .. "/root.crl" })),
      "handshake: no revocation list covers the certificate")
  end)
end)

local function pin_of(name)
  local r = t.run(("cd %s && openssl x509 -in %s -noout -pubkey | openssl pkey -pubin -outform DER"
    .. " | openssl dgst -sha256 -binary | openssl base64"):format(t.quote(dir), name))
  return "sha256/" .. r.out:match "%S+"
end

netkit.test("a pinned key of the chain is accepted, and a chain without one is refused", function()
  local other = "sha256/" .. ("A"):rep(43) .. "="
  serving({ cert = read "leaf.pem" .. read "middle.pem", key = dir .. "/leaf.key" }, function(port)
    for _, name in ipairs { "leaf.pem", "middle.pem", "root.pem" } do
      t.eq({ try_connect(port, { ca = dir .. "/root.pem", pins = { other, pin_of(name) } }) }, { true }, name)
    end
    t.eq({ try_connect(port, { ca = dir .. "/root.pem", pins = { other } }) },
      { nil, "handshake: no key of the certificate's chain is pinned", "tls" })
  end)
end)

netkit.test("dangerously_skip_verification accepts any certificate, and is logged", function()
  local cert, key = authority:issue { start = -10, days = -3, names = { "a.example" } }
  local lines = {}
  local real = io.stderr
  rawset(io, "stderr", { write = function(_, ...) lines[#lines + 1] = table.concat { ... } end })
  local ok, message = pcall(serving, { cert = cert, key = key }, function(port)
    return assert(try_connect(port, { dangerously_skip_verification = true }))
  end)
  rawset(io, "stderr", real)
  assert(ok, message)
  t.ok(table.concat(lines):find("dangerously_skip_verification: certificates of servers are not verified", 1, true))
end)

netkit.test("a client gets the certificate for the name that it requests", function()
  local function of(...)
    local cert, key = authority:issue { names = { ... } }
    return { cert = cert, key = key }
  end
  local all = { certs = { of "first.example", of "*.wild.example", of "a.wild.example" } }
  serving(all, function(port)
    for name, want in pairs {
      ["first.example"] = "first.example", ["a.wild.example"] = "a.wild.example", ["b.wild.example"] = "*.wild.example",
    } do
      local c <close> = assert(net.connect("127.0.0.1", port, { tls = client { server_name = name } }))
      t.eq(c:tls().peer.names, { want }, name)
    end
    t.eq(select(2, try_connect(port, client { server_name = "other.example" })),
      "handshake: name does not match: other.example expected, the certificate has first.example")
  end)
end)

-- Mutual TLS ------------------------------------------------------------------------------------------

netkit.test("a server requires a certificate of its clients", function()
  local cert, key = authority:issue { names = { "member" } }
  serving(server { client_ca = authority.cert }, function(port)
    local c <close> = assert(net.connect("127.0.0.1", port, { tls = client { cert = cert, key = key } }))
    t.eq(c:recv(), "CN=member")
    -- With TLS 1.3, the client is ready before the server has refused it.
    local refused <close> = assert(net.connect("127.0.0.1", port, { tls = client() }))
    t.eq(pack(refused:recv()),
      { nil, "recv: the peer refused the connection: it requires a certificate", "", "tls", n = 4 })
    local stranger, stranger_key = tls.authority("stranger"):issue()
    local other <close> = assert(net.connect("127.0.0.1", port,
      { tls = client { cert = stranger, key = stranger_key } }))
    local got, message, _, code = other:recv()
    t.eq({ got, code }, { nil, "tls" })
    t.ok(message:find "^recv: the peer refused the connection: ", message)
  end, function(c) c:send(c:tls().peer.subject) end)
end)

netkit.test("a certificate of a client may be optional", function()
  local cert, key = authority:issue { names = { "member" } }
  serving(server { client_ca = authority.cert, client = "optional" }, function(port)
    for want, own in pairs { ["CN=member"] = { cert = cert, key = key }, none = {} } do
      local c <close> = assert(net.connect("127.0.0.1", port, { tls = client(own) }))
      t.eq(c:recv(), want)
    end
  end, function(c)
    local peer = c:tls().peer
    c:send(peer and peer.subject or "none")
  end)
end)

-- Versions and protocols ------------------------------------------------------------------------------

netkit.test("without a common protocol of ALPN both ends fail", function()
  serving(server { alpn = { "one" } }, function(port)
    t.eq({ try_connect(port, client { alpn = { "two" } }) },
      { nil, "handshake: the peer refused the connection: it supports none of our protocols (ALPN)", "tls" })
    t.eq({ try_connect(port, client()) }, { true })
  end)
end)

netkit.test("a peer that does not speak TLS is an error on both sides", function()
  local plain <close> = assert(net.listen("127.0.0.1", 0))
  local _, port = plain:address()
  loop.fork(function()
    local c <close> = assert(plain:accept())
    c:send "220 ready\r\n"
    c:recv "all"
  end)
  t.eq({ try_connect(port, client()) }, { nil, "handshake: the peer does not speak TLS", "tls" })
  serving(server(), function(secure)
    local c <close> = assert(net.connect("127.0.0.1", secure))
    c:send "GET / HTTP/1.1\r\n\r\n"
    t.eq(c:recv(1), "\21")
    c:recv "all"
  end)
end)

-- Sessions --------------------------------------------------------------------------------------------

-- Connects, receives a byte, and with it the session's ticket. Returns whether the session was resumed.
local function resumed(port, options)
  local c <close> = assert(net.connect("127.0.0.1", port, { tls = options }))
  c:send "x"
  t.eq(c:recv(1), "x")
  return c:tls().resumed
end

netkit.test("a result of tls.client resumes its sessions, also at another listener with the same options", function()
  local object = assert(tls.client(client()))
  serving(server(), function(port)
    t.eq({ resumed(port, object), resumed(port, object) }, { false, true })
    t.eq({ resumed(port, client()), resumed(port, client()) }, { false, false })
    serving(server(), function(other) t.eq(resumed(other, object), true) end)
  end)
end)

netkit.test("a session is not resumed at a listener with other authorities of clients", function()
  local object = assert(tls.client(client()))
  serving(server(), function(port)
    t.eq({ resumed(port, object), resumed(port, object) }, { false, true })
    serving(server { client_ca = authority.cert, client = "optional" }, function(other)
      t.eq(resumed(other, object), false)
    end)
    serving(server { client_ca = authority.cert }, function(other)
      local c <close> = assert(net.connect("127.0.0.1", other, { tls = object }))
      c:send "x"
      t.eq(select(4, c:recv()), "tls")
    end)
  end)
end)

-- Reading certificates again --------------------------------------------------------------------------

-- Returns the names of the certificate of the server.
local function names_at(port)
  local c <close> = assert(net.connect("127.0.0.1", port, { tls = { dangerously_skip_verification = true } }))
  return table.concat(c:tls().peer.names, " ")
end

-- Writes a certificate for `name` to the files. The time of the files' last change is `seconds` from now.
local function write_pair(folder, name, seconds)
  local cert, key = tlskit.write(folder, "site", authority:issue { names = { name } })
  os.execute(("touch -d '%d seconds' %s %s"):format(seconds, t.quote(cert), t.quote(key)))
  return cert, key
end

netkit.test("reload_tls reads the certificates of a listener again, and keeps open connections", function()
  local folder = t.tmp()
  local cert, key = write_pair(folder, "old.example", 0)
  serving({ cert = cert, key = key }, function(port, listener)
    local kept <close> = assert(net.connect("127.0.0.1", port, { tls = client { server_name = "old.example" } }))
    write_pair(folder, "new.example", 10)
    t.eq(names_at(port), "old.example")
    t.eq({ listener:reload_tls() }, { true })
    t.eq(names_at(port), "new.example")
    kept:send "still here"
    t.eq(kept:recv(), "still here")
    t.write(cert, "no certificate")
    t.eq({ listener:reload_tls() },
      { nil, ("reload: cert '%s': there is no certificate in PEM"):format(cert), "tls" })
    t.eq(names_at(port), "new.example")
  end)
  local plain <close> = assert(net.listen("127.0.0.1", 0))
  t.raises("tls_test.lua:%d+: reload_tls: the listener has no TLS$", function() plain:reload_tls() end)
end, { leaks = true })

netkit.test("a listener notices that its files have changed; a failure is logged once", function()
  local folder = t.tmp()
  local cert, key = write_pair(folder, "old.example", 0)
  local object = assert(tls.server { cert = cert, key = key })
  local logged = {}
  local real = io.stderr
  rawset(io, "stderr", { write = function(_, ...) logged[#logged + 1] = table.concat { ... } end })
  local ok, message = pcall(serving, object, function(port)
    t.eq(names_at(port), "old.example")
    write_pair(folder, "new.example", 10)
    t.eq(names_at(port), "old.example", "the files were checked less than 5 seconds ago")
    core.set_check_interval(object, 0)
    t.eq(names_at(port), "new.example")
    logged = {}
    for seconds = 20, 21 do
      t.write(cert, "no certificate")
      os.execute(("touch -d '%d seconds' %s"):format(seconds, t.quote(cert)))
      t.eq(names_at(port), "new.example")
    end
  end)
  rawset(io, "stderr", real)
  assert(ok, message)
  local text, count = table.concat(logged):gsub("dangerously_skip[^\n]*", "")
  t.eq(count, 2)
  t.eq(select(2, text:gsub("cannot read the certificates again", "")), 1, text)
  t.ok(text:find("cert '" .. cert .. "': there is no certificate in PEM", 1, true), text)
end)

-- Handshakes of listeners -----------------------------------------------------------------------------

netkit.test("stalled handshakes cost no task and do not delay others", function()
  serving(server(), function(port)
    netkit.settle()
    local before = #thread.list()
    local stalled = {}
    local _ <close> = setmetatable({}, { __close = function() for _, c in ipairs(stalled) do c:close() end end })
    for i = 1, 100 do
      stalled[i] = assert(net.connect("127.0.0.1", port))
      stalled[i]:send(i % 2 == 0 and "\22\3\1\2\0\1" or "")
    end
    t.eq({ try_connect(port, client()) }, { true })
    netkit.settle()
    t.ok(#thread.list() <= before + 1, #thread.list())
  end)
end)

netkit.test("a handshake that takes too long is ended", function()
  serving(server { handshake_timeout = 0.05 }, function(port)
    local c <close> = assert(net.connect("127.0.0.1", port))
    c:send "\22\3\1"
    local started = loop.now()
    c:recv "all"
    t.ok(loop.now() - started >= 0.04 and loop.now() - started < 10)
    -- A connection whose handshake was in time has no limit.
    local other <close> = assert(net.connect("127.0.0.1", port, { tls = client() }))
    loop.sleep(0.1)
    other:send "x"
    t.eq(other:recv(), "x")
  end)
end)

netkit.test("beyond max_handshakes the oldest handshake is ended", function()
  serving(server { max_handshakes = 3 }, function(port)
    local stalled = {}
    for i = 1, 4 do
      stalled[i] = assert(net.connect("127.0.0.1", port))
      stalled[i]:timeout(10)
      stalled[i]:send "\22"
      -- The listener has accepted the connection when a whole handshake on a later one is complete.
    end
    local _ <close> = netkit.closing(table.unpack(stalled))
    stalled[1]:recv "all"
    stalled[2]:timeout(0)
    t.eq(select(4, stalled[2]:recv()), "timeout")
    t.eq({ try_connect(port, client()) }, { true })
    stalled[2]:timeout(10)
    stalled[2]:recv "all"
    stalled[3]:timeout(0)
    t.eq(select(4, stalled[3]:recv()), "timeout")
  end)
end)

netkit.test("accept waits for a complete handshake; its time limit includes handshakes of others", function()
  local listener <close>, port = tlskit.listen()
  listener:timeout(0.2)
  local c <close> = assert(net.connect("127.0.0.1", port))
  local stop = false
  -- Each connection wakes the task that accepts.
  loop.fork(function()
    while not stop do
      local other = net.connect("127.0.0.1", port)
      if other then other:close() end
      loop.sleep(0.05)
    end
  end)
  local started = loop.now()
  t.eq({ listener:accept() }, { false, "timeout", "timeout" })
  stop = true
  t.ok(not c:is_closed())
  t.ok(loop.now() - started < 5, loop.now() - started)
  t.near(loop.now() - started, 0.2, 0.15)
end)

netkit.test("connections of complete handshakes wait until they are accepted", function()
  local listener <close>, port = tlskit.listen()
  local first = netkit.promise(function() return listener:accept() end)
  local clients = {}
  for i = 1, 3 do
    clients[i] = netkit.promise(function()
      local c = assert(net.connect("127.0.0.1", port, { tls = client() }))
      c:send(tostring(i))
      return c
    end)
  end
  local got = {}
  local all = { assert(first()) }
  for i = 2, 3 do all[i] = assert(listener:accept()) end
  for i = 1, 3 do got[i] = all[i]:recv() end
  table.sort(got)
  t.eq(got, { "1", "2", "3" })
  for i = 1, 3 do
    clients[i]():close()
    all[i]:close()
  end
end)

netkit.test("closing a listener closes its handshakes", function()
  local listener, port = tlskit.listen()
  local accepted = netkit.promise(function() return listener:accept() end)
  local c <close> = assert(net.connect("127.0.0.1", port))
  c:send "\22\3\1"
  local other = netkit.promise(function() return try_connect(port, client { server_name = "localhost" }) end)
  netkit.settle()
  listener:close()
  c:recv "all"
  other()
  accepted()
end)

-- Outgoing connections --------------------------------------------------------------------------------

-- Accepts connections, and never answers.
local function silent(body)
  local listener <close> = assert(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local all = {}
  loop.fork(function()
    for c in function() return listener:accept() or nil end do all[#all + 1] = c end
  end)
  local _ <close> = setmetatable({}, { __close = function() for _, c in ipairs(all) do c:close() end end })
  return body(port, all)
end

netkit.test("the timeout of connect includes the handshake", function()
  silent(function(port)
    local started = loop.now()
    local c, message, code = net.connect("127.0.0.1", port, { tls = client(), timeout = 0.05 })
    t.eq({ c, message, code }, { false, "handshake: timeout", "timeout" })
    t.ok(loop.now() - started < 5)
  end)
end)

netkit.test("another task can cancel a handshake", function()
  silent(function(port)
    local attempt = net.attempt()
    local done = netkit.promise(function()
      return net.connect("127.0.0.1", port, { tls = client(), attempt = attempt })
    end)
    loop.sleep(0.02)
    attempt:close()
    t.eq({ done() }, { false, "closed", "closed" })
  end)
end)

netkit.test("a peer that closes during the handshake is an error", function()
  silent(function(port, all)
    local done = netkit.promise(function() return net.connect("127.0.0.1", port, { tls = client() }) end)
    netkit.await(function() return all[1] end):recv(10)
    all[1]:shutdown "w"
    t.eq({ done() }, { false, "handshake: the peer has closed the connection during the handshake", "tls" })
  end)
end)

-- Regression: the connection stayed open until it was collected.
netkit.test("killing a task during its handshake closes the connection", function()
  silent(function(port, all)
    collectgarbage "stop"
    local _ <close> = setmetatable({}, { __close = function() collectgarbage "restart" end })
    local connecting = thread.spawn(function() net.connect("127.0.0.1", port, { tls = client() }) end)
    netkit.await(function() return all[1] end):recv(10)
    thread.kill(connecting)
    all[1]:timeout(5)
    t.ok(all[1]:recv "all", "the connection has ended")
  end)
end)

netkit.test("TLS works over unix sockets if the name of the server is known", function()
  local path = "unix:" .. dir .. "/socket"
  local listener <close> = assert(net.listen(path, nil, { tls = server() }))
  local accepted = netkit.promise(function() return listener:accept() end)
  local c <close> = assert(net.connect(path, nil, { tls = client { server_name = "localhost" } }))
  local d <close> = assert(accepted())
  d:send "hello"
  t.eq(c:recv(), "hello")
  t.eq({ net.connect(path, nil, { tls = client() }) },
    { false, "start_tls: the name of the server is unknown: set the option server_name", "tls" })
end)

-- STARTTLS --------------------------------------------------------------------------------------------

netkit.pair_test("both ends start TLS in the middle of a connection", function(a, b)
  local other = netkit.promise(function()
    t.eq(b:recv "line", "STARTTLS")
    b:send "go ahead\n"
    t.eq({ b:start_tls(server(), { server = true }) }, { true })
    t.eq(b:recv "line", "secret")
    b:send "answer\n"
    return true
  end)
  a:send "STARTTLS\n"
  t.eq(a:recv "line", "go ahead")
  t.eq({ a:start_tls(client(), { server_name = "localhost" }) }, { true })
  a:send "secret\n"
  t.eq(a:recv "line", "answer")
  t.eq(other(), true)
end)

netkit.pair_test("bytes that were received before TLS starts belong to TLS", function(a, b)
  local done = netkit.promise(function()
    a:send "STARTTLS\n"
    return a:start_tls(client(), { server_name = "localhost" })
  end)
  netkit.settle()
  -- The line and the first message of the handshake arrive together.
  t.eq(b:recv "line", "STARTTLS")
  t.ok(b:buffered() > 100, b:buffered())
  t.eq({ b:start_tls(assert(tls.server(server()))) }, { true })
  t.eq({ done() }, { true })
  a:send "x"
  t.eq(b:recv(), "x")
end)

netkit.test("TLS inside TLS", function()
  local a, b = tlskit.pair()
  local _ <close> = netkit.closing(a, b)
  local done = netkit.promise(function() return b:start_tls(server(), { server = true }) end)
  t.eq({ a:start_tls(client(), { server_name = "localhost" }) }, { true })
  t.eq({ done() }, { true })
  local data = ("inner"):rep(100000)
  local sent = netkit.promise(function()
    a:send(data)
    return a:shutdown "w"
  end)
  t.ok(b:recv "all" == data)
  t.eq(sent(), true)
  b:send "back"
  t.eq(a:recv(), "back")
  t.eq({ a:tls().version, b:tls().server_name }, { "1.3", "localhost" })
end)

netkit.pair_test("start_tls fails on a connection that another task uses, or that is closed", function(a, b)
  local waiting = netkit.promise(function() return a:recv() end)
  netkit.settle()
  t.raises("tls_test.lua:%d+: net.start_tls: another task uses the connection$",
    function() a:start_tls(client(), { server_name = "localhost" }) end)
  b:send "x"
  waiting()
  a:close()
  t.eq({ a:start_tls(client(), { server_name = "localhost" }) }, { nil, "closed", "closed" })
end)

netkit.pair_test("start_tls has a time limit, and closes the connection if it fails", function(a)
  t.eq({ a:start_tls(client(), { server_name = "localhost", timeout = 0.02 }) },
    { nil, "handshake: timeout", "timeout" })
  t.eq(a:is_closed(), true)
end)

netkit.pair_test("a client that starts TLS needs the name of the server", function(a)
  t.eq({ a:start_tls(client()) },
    { nil, "start_tls: the name of the server is unknown: set the option server_name", "tls" })
end)

-- The end of a connection -----------------------------------------------------------------------------

netkit.test("a connection without close_notify is truncated", function()
  local a, b = netkit.pair()
  local _ <close> = netkit.closing(a, b)
  -- A relay between both ends sees only encrypted bytes, and cuts the connection.
  local listener <close>, port = tlskit.listen()
  local accepted = netkit.promise(function() return listener:accept() end)
  local relay <close> = assert(net.connect("127.0.0.1", port))
  local function pass(from, to)
    loop.fork(function()
      for data in function() return from:recv() end do
        t.ok(not data:find("secret", 1, true))
        to:send(data)
      end
    end)
  end
  pass(b, relay)
  pass(relay, b)
  assert(a:start_tls(client(), { server_name = "localhost" }))
  local c <close> = assert(accepted())
  a:send "secret"
  t.eq(c:recv(6), "secret")
  local got = netkit.promise(function() return pack(c:recv "all") end)
  relay:shutdown "w"
  t.eq(got(), { nil, "recv: the peer has closed the connection without close_notify: data may be missing", "", "tls",
    n = 4 })
end)

netkit.test("wait_readable and wait_closed work with bytes that TLS has decrypted", function()
  local a, b = tlskit.pair()
  local _ <close> = netkit.closing(a, b)
  a:send(("x"):rep(16000), ("y"):rep(16000), ("z"):rep(16000))
  t.eq(b:wait_readable(5), true)
  t.eq(b:recv(1), "x")
  t.eq(b:wait_readable(5), true)
  t.eq(#b:recv(47999), 47999)
  t.eq({ b:wait_readable(0.01) }, { nil, "timeout", "timeout" })
  local over = netkit.promise(function() return b:wait_closed(5) end)
  netkit.settle()
  a:close()
  t.eq(over(), true)
  t.is_nil(b:recv())
end)

-- Options ---------------------------------------------------------------------------------------------

local function raises_here(message, f)
  local ok, problem = pcall(f)
  t.eq(ok, false, message)
  local info = debug.getinfo(f, "S")
  t.eq(problem, ("%s:%d: %s"):format(info.short_src, info.linedefined, message))
end

t.test("an invalid option is an error at the caller's line", function()
  local cert <const>, key <const> = tlskit.cert, tlskit.key
  raises_here("tls.server: option 'cert' is missing: a server needs a certificate and its key",
    function() tls.server {} end)
  raises_here("tls.server: options 'cert' and 'key' are needed together", function() tls.server { cert = cert } end)
  raises_here("tls.server: option 'cret' is unknown (did you mean 'cert'?)", function() tls.server { cret = cert } end)
  raises_here("tls.server: option 'client' needs 'client_ca', the authorities of the clients' certificates",
    function() tls.server { cert = cert, key = key, client = "optional" } end)
  raises_here("tls.server: option 'certs': element 2 needs cert and key",
    function() tls.server { certs = { { cert = cert, key = key }, { cert = cert } } } end)
  raises_here("tls.client: options 'cert' and 'key' are needed together", function() tls.client { key = key } end)
  raises_here("tls.client: option 'pins': element 1 must be 'sha256/' with 44 characters of base64",
    function() tls.client { pins = { "sha256/abc" } } end)
  raises_here("tls.client: option 'verify' is unknown (known: alpn, ca, cert, crl, dangerously_skip_verification, key, "
    .. "min_version, pins, server_name)", function() tls.client { verify = false } end)
  raises_here("net.listen: option 'tls' must be a table of options or a result of tls.server, got true",
    function() net.listen("127.0.0.1", 0, { tls = true }) end)
  raises_here("net.connect: option 'tls' must be true, a table of options or a result of tls.client, got 5",
    function() net.connect("127.0.0.1", 1, { tls = 5 }) end)
end)

t.test("the value of a key is not part of an error", function()
  local _, problem = pcall(tls.server, { cert = tlskit.cert, key = { tlskit.key } })
  t.ok(not tostring(problem):find("PRIVATE", 1, true), problem)
  local ok, message = tls.server { cert = tlskit.cert, key = tlskit.key:sub(1, 100) }
  t.is_nil(ok)
  t.ok(not message:find(tlskit.key:sub(40, 60), 1, true), message)
end)

netkit.test("a file that cannot be read is an error of the call", function()
  t.eq({ net.listen("127.0.0.1", 0, { tls = { cert = "/no/such", key = "/no/such" } }) },
    { false, "tls.server: cert '/no/such': No such file or directory (os error 2)", "tls" })
  t.eq({ net.connect("127.0.0.1", 1, { tls = { ca = "/no/such" } }) },
    { false, "tls.client: ca '/no/such': No such file or directory (os error 2)", "tls" })
  local _, other_key = authority:issue()
  t.eq({ tls.server { cert = tlskit.cert, key = other_key } },
    { nil, "tls.server: key: the key does not belong to the certificate", "tls" })
end)

t.finish()
