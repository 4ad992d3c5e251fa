-- The server of the suite `tls`: `lio bench/servers/tls.lua PORT [CERT KEY]` answers a constant, with TLS if it gets a
-- certificate and its key.

local port, cert, key = ...
local app = require "lio.webserver".new()
app:get("/", function() return "Hello, World!\n" end)
app:run(tonumber(port), cert and { tls = { cert = cert, key = key } } or nil)
