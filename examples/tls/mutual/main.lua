-- Mutual TLS between two services: `lio --service examples/tls/mutual/main.lua`.
--
-- The ledger (ledger.lua) accepts only clients with a certificate of the authority, and knows from the certificate
-- which service calls. The shop may book; the auditor may only read; a client without a certificate gets no connection.
-- In production, the services run on several machines, and each reads its own certificate and key from files.

local ltask = require "ltask"
local tls = require "lio.tls"

local authority = tls.authority "authority of the example"

-- Returns what a service needs: the certificate of the authority, and its own certificate and key.
local function identity(name)
  local cert, key = authority:issue { names = { name .. ".internal" }, subject = name }
  return { ca = authority.cert, cert = cert, key = key }
end

local ledger = ltask.spawn("ledger", identity "ledger")
local port = ltask.call(ledger, "port")

local shop = ltask.spawn("client", identity "shop", port)
print("shop books", ltask.call(shop, "post", "/entries", "10 apples"))
local auditor = ltask.spawn("client", identity "auditor", port)
print("auditor reads", ltask.call(auditor, "get", "/entries"))
print("auditor books", ltask.call(auditor, "post", "/entries", "a million"))
local stranger = ltask.spawn("client", { ca = authority.cert }, port)
print("stranger reads", ltask.call(stranger, "get", "/entries"))

ltask.send(1, "quit_ltask")
