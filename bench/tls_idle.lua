-- `lio bench/tls_idle.lua PORT COUNT`: opens COUNT connections with TLS to a web server, makes one request on each,
-- prints `ready COUNT`, and keeps them open until it is killed. The certificate is not verified. For the suite `tls`.

local loop = require "lio.loop"
local net = require "lio.net"
local tls = require "lio.tls"

local port, count = tonumber(arg[1]), tonumber(arg[2])
-- The number of connections that are opened at the same time.
local TASKS <const> = 16

local client <const> = assert(tls.client { dangerously_skip_verification = true })
local connections <const> = {}

local function open()
  local c = assert(net.connect("127.0.0.1", port, { timeout = 10, tls = client }))
  assert(c:send "GET / HTTP/1.1\r\nHost: idle\r\n\r\n")
  local head = assert(c:recv("until", "\r\n\r\n", 4096))
  assert(head:find "^HTTP/1.1 200", head)
  assert(c:recv(math.tointeger(tonumber(head:lower():match "content%-length: (%d+)"))))
  connections[#connections + 1] = c
end

loop.run(function()
  local running, begun = 0, 0
  for _ = 1, TASKS do
    running = running + 1
    loop.fork(function()
      while begun < count do
        begun = begun + 1
        open()
      end
      running = running - 1
      if running == 0 then
        io.stdout:write(("ready %d\n"):format(#connections))
        io.stdout:flush()
      end
    end)
  end
  loop.sleep(3600)
end)
