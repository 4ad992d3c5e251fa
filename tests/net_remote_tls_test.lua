-- TLS in `net.remote`: the same program runs with `lio.net` in a service that owns a loop and in a service on an I/O
-- thread, and with `net.remote` in a service without a loop. Each test boots a system.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- Functions and values for the bodies of tests. `ca`, `cert` and `key` are texts in PEM, for the name "localhost";
-- `other` is an authority that has not signed the certificate. `accepted(listener)` accepts a connection in a task, and
-- returns a function that waits for it. `shown` prints a failure.
local head <const> = ([[
  local tls = require "lio.tls"
  local authority = tls.authority()
  local ca, other = authority.cert, tls.authority("another authority").cert
  local cert, key = authority:issue { names = { "localhost" } }
  local function later(f, ...)
    local token, done = {}, nil
    ltask.fork(function(...)
      done = table.pack(f(...))
      ltask.wakeup(token)
    end, ...)
    return function()
      while not done do ltask.wait(token) end
      return table.unpack(done, 1, done.n)
    end
  end
  local function raises(f, ...)
    local ok, e = pcall(f, ...)
    say(ok, (tostring(e):gsub("^[^:]*:%d+: ", "")))
  end
  local function shown(ok, message, code)
    say(ok, code, message:match "unknown authority" or message:match "name does not match"
      or message:match "the peer refused" or message)
  end
  local function accepted(listener) return later(listener.accept, listener) end
]]):gsub("\n", " ")

local remote <const> = "local io = ltask.spawn 'lio' local net = require 'lio.net'.remote(io) "

local function same(name, body, out)
  kit.test(name .. ", remotely", { main = remote .. head .. body, out = out })
  kit.test(name .. ", on an I/O thread", { main = "local net = require 'lio.net' " .. head .. body, out = out })
  kit.test(name .. ", directly", {
    main = [[
      local dir = ...
      local f = require "io".open(dir .. "/script.lua", "w")
      f:write(]] .. ("%q"):format("local ltask = require 'ltask' local net = require 'lio.net' local say = print "
        .. head .. body .. " io.stdout:flush()") .. [[)
      f:close()
      local server = ltask.spawn("lio", dir .. "/script.lua")
      while pcall(ltask.call, server, "resolve", "127.0.0.1") do ltask.sleep(1) end
    ]],
    out = out,
  })
end

local function remotely(name, body, out, services)
  kit.test(name, { main = remote .. head .. body, out = out, services = services })
end

same("listen and connect encrypt, in both directions, small and large messages", [[
  local listener = assert(net.listen("127.0.0.1", 0, { tls = { cert = cert, key = key } }))
  local _, port = listener:address()
  local server = accepted(listener)
  local a = assert(net.connect("127.0.0.1", port, { timeout = 10, tls = { ca = ca, server_name = "localhost" } }))
  local b = assert(server())
  a:send "hello\nsecond\n"
  say(b:recv "line", b:recv "line")
  -- The second message would leave through a shared writer if there were one.
  for i = 1, 3 do
    b:send("to the client ", i, "\n")
    say(a:recv "line")
  end
  local all = later(b.recv, b, 1000000)
  a:send(("x"):rep(1000000))
  say(#all())
  say(a:tls().version, a:tls().peer.names[1], b:tls().server_name, b:tls().peer)
]], {
  "hello\tsecond", "to the client 1", "to the client 2", "to the client 3", "1000000", "1.3\tlocalhost\tlocalhost\tnil",
})

same("a failed handshake has the code 'tls' and says what is wrong", [[
  local listener = assert(net.listen("127.0.0.1", 0, { tls = { cert = cert, key = key } }))
  local _, port = listener:address()
  accepted(listener)
  shown(net.connect("127.0.0.1", port, { tls = { ca = other, server_name = "localhost" } }))
  shown(net.connect("127.0.0.1", port, { tls = { ca = ca, server_name = "b.example" } }))
  local c, message, code = net.listen("127.0.0.1", 0, { tls = { cert = "/none/such", key = key } })
  say(c, message:find "/none/such" ~= nil, code)
]], {
  "false\ttls\tunknown authority",
  "false\ttls\tname does not match",
  "false\ttrue\ttls",
})

same("start_tls encrypts a connection that was used without TLS", [[
  local listener = assert(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local a = assert(net.connect("127.0.0.1", port))
  local b = assert(listener:accept())
  -- Several messages, so that a shared writer is in use, and bytes are read ahead.
  for i = 1, 3 do
    a:send("plain ", i, "\nSTARTTLS\n")
    say(b:recv "line", b:recv "line")
    b:send "go ahead\n"
    say(a:recv "line", a:tls(), b:tls())
  end
  local server = later(b.start_tls, b, { cert = cert, key = key }, { server = true })
  say(a:start_tls({ ca = ca }, { server_name = "localhost", timeout = 10 }))
  say(server())
  for i = 1, 3 do
    a:send("secret ", i, "\n")
    say(b:recv "line")
    b:send "answer\n"
    say(a:recv "line")
  end
  say(a:tls().version, b:tls().resumed)
]], {
  "plain 1\tSTARTTLS", "go ahead\tnil\tnil", "plain 2\tSTARTTLS", "go ahead\tnil\tnil", "plain 3\tSTARTTLS",
  "go ahead\tnil\tnil", "true", "true", "secret 1", "answer", "secret 2", "answer", "secret 3", "answer", "1.3\tfalse",
})

same("bytes of the handshake that were read ahead are part of it", [[
  local listener = assert(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local a = assert(net.connect("127.0.0.1", port))
  local b = assert(listener:accept())
  a:send "STARTTLS\n"
  local client = later(a.start_tls, a, { ca = ca }, { server_name = "localhost" })
  -- Waits until the first bytes of the handshake have arrived; they stay buffered.
  say(b:recv("until", "no such text", 60))
  say(b:recv "line")
  say(b:start_tls({ cert = cert, key = key }, { server = true }))
  say(client())
  a:send "secret\n"
  say(b:recv "line")
]], { "nil\ttoo long\tnil\ttoo long", "STARTTLS", "true", "true", "secret" })

same("a failed start_tls closes the connection, but an unreadable certificate does not", [[
  local listener = assert(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local a = assert(net.connect("127.0.0.1", port))
  local b = assert(listener:accept())
  local ok, message, code = b:start_tls({ cert = "/none/such", key = key }, { server = true })
  say(ok, message:find "/none/such" ~= nil, code, b:is_closed())
  local server = later(b.start_tls, b, { cert = cert, key = key }, { server = true })
  shown(a:start_tls({ ca = other }, { server_name = "localhost" }))
  shown(server())
  say(a:is_closed(), b:is_closed(), a:start_tls())
]], {
  "nil\ttrue\ttls\tfalse",
  "nil\ttls\tunknown authority",
  "nil\ttls\tthe peer refused",
  "true\ttrue\tnil\tclosed\tclosed",
})

same("a handshake that does not end is limited by its time", [[
  local listener = assert(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local a = assert(net.connect("127.0.0.1", port))
  say(a:start_tls({ ca = ca }, { server_name = "localhost", timeout = 0.02 }))
  say(net.connect("127.0.0.1", port, { timeout = 0.02, tls = { ca = ca, server_name = "localhost" } }))
]], { "nil\thandshake: timeout\ttimeout", "false\thandshake: timeout\ttimeout" })

same("a listener reads its certificates again", [[
  local path = os.tmpname()
  local function write(text)
    local f <close> = assert(require "io".open(path, "w"))
    f:write(text)
  end
  write(cert .. key)
  local listener = assert(net.listen("127.0.0.1", 0, { tls = { cert = path, key = path } }))
  local _, port = listener:address()
  local function name()
    local server = accepted(listener)
    local c <close> = assert(net.connect("127.0.0.1", port, { tls = { ca = ca, server_name = "localhost" } }))
    assert(server()):close()
    return c:tls().peer.subject
  end
  say(name())
  local second, second_key = authority:issue { names = { "localhost" }, subject = "second" }
  write(second .. second_key)
  say(listener:reload_tls())
  say(name())
  write "nothing"
  local ok, message, code = listener:reload_tls()
  say(ok, message:find(path, 1, true) ~= nil, code)
  say(name())
  os.remove(path)
]], { "CN=localhost", "true", "CN=second", "nil\ttrue\ttls", "CN=second" })

remotely("an attempt ends a handshake", [[
  local listener = assert(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local attempt = net.attempt()
  local connecting = later(net.connect, "127.0.0.1", port,
    { attempt = attempt, tls = { ca = ca, server_name = "localhost" } })
  local accepting <close> = assert(listener:accept())
  -- The first bytes of the handshake have arrived.
  accepting:recv(1)
  attempt:close()
  say(connecting())
]], { "false\tclosed\tclosed" })

-- Returns the output for an object of TLS.
local function refused(what, name)
  return ("false\t%s: in net.remote, the options of %s are needed as a table, because its result cannot be sent to the "
    .. "service with the loop"):format(what, name)
end

remotely("results of tls.server and tls.client are refused, with the reason", [[
  local server, client = assert(tls.server { cert = cert, key = key }), assert(tls.client { ca = ca })
  raises(net.listen, "127.0.0.1", 0, { tls = server })
  raises(net.connect, "127.0.0.1", 1, { tls = client })
  raises(net.connect, "127.0.0.1", 1, { tls = client, attempt = net.attempt() })
  local listener = assert(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local a = assert(net.connect("127.0.0.1", port))
  raises(a.start_tls, a, client)
  raises(listener.reload_tls, listener)
]], {
  refused("net.listen: option 'tls'", "tls.server"),
  refused("net.connect: option 'tls'", "tls.client"),
  refused("net.connect: option 'tls'", "tls.client"),
  refused("net.start_tls: argument 'settings'", "tls.client"),
  "false\treload_tls: the listener has no TLS",
})

remotely("an encrypted connection can be given and transferred to another service", [[
  local listener = assert(net.listen("127.0.0.1", 0, { tls = { cert = cert, key = key } }))
  local _, port = listener:address()
  local server = accepted(listener)
  local a = assert(net.connect("127.0.0.1", port, { tls = { ca = ca, server_name = "localhost" } }))
  local b = assert(server())
  a:send "first\nsecond\n"
  say(b:recv "line")
  local other = ltask.spawn("other", io)
  ltask.call(other, "take", net.give(b, other))
  local moved = assert(a:transfer(ltask.spawn "lio"))
  say(moved:recv "line", a:is_closed(), moved:tls().version)
]], { "first", "got second 1.3\ttrue\t1.3" }, {
  other = [[
    local net = require "lio.net".remote(...)
    local S = {}
    function S.take(handle)
      local c = net.connection(handle)
      c:send("got ", c:recv "line", " ", c:tls().version, "\n")
    end
    return S
  ]],
})

t.finish()
