-- A web server with TLS, which has a certificate with ECDSA and one with RSA: for tests/long/tls_peers.sh. The argument
-- is a folder with rsa.pem and rsa.key, to which the server writes ca.pem.

local tls = require "lio.tls"
local web = require "lio.webserver"

local dir <const> = ...

local authority = tls.authority "test authority"
local f <close> = assert(io.open(dir .. "/ca.pem", "w"))
f:write(authority.cert)
f:close()
local cert, key = authority:issue { names = { "localhost" } }

local app = web.new()
app:get("/", function(req) return ("%s %s"):format(req.tls.version, req.tls.resumed) end)
app:run("127.0.0.1:0", { tls = { certs = {
  { cert = cert, key = key },
  { cert = dir .. "/rsa.pem", key = dir .. "/rsa.key" },
} } })
