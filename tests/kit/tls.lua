-- Certificates, and connected pairs with TLS, for the suites of TLS. Used by tests/tls_*_test.lua, web_tls_test.lua,
-- http_client_tls_test.lua and peers_tls_test.lua. Invariant: all certificates come from authorities of this process.

local net = require "lio.net"
local t = require "tests.kit"
local tls = require "lio.tls"

local kit = {}

--- The authority that clients of this kit trust, and a certificate of it with its key for localhost and its addresses.
kit.authority = tls.authority "test authority"
kit.cert, kit.key = kit.authority:issue()

--- Returns a copy of `options` with the fields of `others`.
function kit.with(options, others)
  local all = {}
  for name, value in pairs(options) do all[name] = value end
  for name, value in pairs(others or {}) do all[name] = value end
  return all
end

--- Returns the options of a server with the certificate of this kit, changed by `others`.
function kit.server(others)
  return kit.with({ cert = kit.cert, key = kit.key }, others)
end

--- Returns the options of a client that trusts the authority of this kit, changed by `others`.
function kit.client(others)
  return kit.with({ ca = kit.authority.cert }, others)
end

--- Returns a listener with TLS on 127.0.0.1, and its port. `options` are those of `tls.server`, or its result.
function kit.listen(options)
  local listener = assert(net.listen("127.0.0.1", 0, { tls = options or kit.server() }))
  local _, port = listener:address()
  return listener, port
end

--- Returns a client's and a server's connection with TLS, connected to each other.
function kit.pair(server_options, client_options)
  local loop = require "lio.loop"
  local listener <close>, port = kit.listen(server_options)
  local accepted, message
  local token = {}
  loop.fork(function()
    accepted, message = net.accept(listener)
    loop.wakeup(token)
  end)
  local client, problem, code = net.connect("127.0.0.1", port, { tls = client_options or kit.client() })
  if not client then error(("connect: %s (%s)"):format(problem, code), 2) end
  if accepted == nil then loop.wait(token) end
  return client, assert(accepted, message)
end

--- Writes a certificate and its key into files of a folder. Returns both paths.
function kit.write(dir, name, cert, key)
  return t.write(("%s/%s.pem"):format(dir, name), cert), t.write(("%s/%s.key"):format(dir, name), key)
end

return kit
