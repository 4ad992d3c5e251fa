-- A service of main.lua: a web server that requires client certificates, and decides by the name in the certificate.

local web = require "lio.webserver"

local identity = ...

-- The methods that each client may use, by the subject of its certificate.
local MAY <const> = { ["CN=shop"] = { GET = true, POST = true }, ["CN=auditor"] = { GET = true } }

local entries = {}
local app = web.new()

app:use(function(req, _, next)
  local subject = req.tls.peer.subject
  local methods = MAY[subject]
  if not (methods and methods[req.method]) then return 403, subject .. " may not do this\n" end
  return next()
end)

app:get("/entries", function() return table.concat(entries, "\n") .. "\n" end)
app:post("/entries", function(req)
  entries[#entries + 1] = assert(req:body(1000))
  return 201, #entries .. "\n"
end)

local server = assert(app:listen("127.0.0.1:0", {
  tls = { cert = identity.cert, key = identity.key, client_ca = identity.ca, min_version = "1.3" },
}))

local S = {}

-- Returns the port of the server.
function S.port()
  return (select(2, server.listener:address()))
end

return S
