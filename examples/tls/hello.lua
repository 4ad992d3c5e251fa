-- A web server over HTTPS: `lio examples/tls/hello.lua`, then `curl --insecure https://127.0.0.1:8443/`.
-- With a certificate that curl trusts: `lio cert`, then `lio examples/tls/hello.lua 8443 cert.pem key.pem` and
-- `curl --cacert cert.pem https://localhost:8443/`. A changed certificate is used without a restart.

local tls = require "lio.tls"
local web = require "lio.webserver"

local port, cert, key = ...
if not cert then cert, key = tls.self_signed() end -- for development; it exists only in this process

local app = web.new()
app:use(web.hsts())
app:get("/", function(req)
  return ("Hello over TLS %s, %s\n"):format(req.tls.version, req.tls.cipher)
end)

app:run(assert(tonumber(port or 8443), "the port must be a number"), { tls = { cert = cert, key = key } })
