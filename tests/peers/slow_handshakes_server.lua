-- The server for tests/long/slow_handshakes.sh: the same app with TLS and without. Prints both addresses, the first
-- with TLS. `/state` responds with the number of tasks and of the connections with TLS. The argument is the time limit
-- of a handshake, in seconds.

local lio = require "lio"
local loop = require "lio.loop"
local tls = require "lio.tls"
local web = require "lio.webserver"

local cert, key = tls.self_signed()
local app = web.new()
local encrypted

app:get("/", function() return "Hello, World!\n" end)
app:get("/state", function() return ("%d %d"):format(#lio.tasks(), encrypted.count) end)

loop.run(function()
  encrypted = assert(app:listen("127.0.0.1:0", {
    tls = { cert = cert, key = key, handshake_timeout = tonumber(arg[1]) },
  }))
  local plain = assert(app:listen "127.0.0.1:0")
  print(encrypted.url, plain.url)
  io.stdout:flush()
end)
