-- An echo server over TLS: `lio examples/tls/echo.lua`, then `openssl s_client -quiet -connect 127.0.0.1:7443`.
-- Another port: `lio examples/tls/echo.lua 7444`; with port 0 the system chooses a port. With a certificate in files:
-- `lio examples/tls/echo.lua 7443 cert.pem key.pem`.

local loop = require "lio.loop"
local net = require "lio.net"
local tls = require "lio.tls"

local port, cert, key = ...
if not cert then cert, key = tls.self_signed() end -- for development; it exists only in this process

-- The handshake is already complete. Its time and the number of handshakes are limited, so slow clients need no task.
local function echo(c)
  for data in function() return c:recv() end do
    if not c:send(data) then return end
  end
end

loop.grace = 0 -- a stop does not wait for clients to leave
loop.run(function()
  local listener = assert(net.listen("127.0.0.1", tonumber(port or 7443), { tls = { cert = cert, key = key } }))
  print(("echo over TLS: listening on %s:%d"):format(listener:address()))
  io.stdout:flush()
  net.serve(listener, echo)
end)
