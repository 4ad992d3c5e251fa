-- A TCP proxy: `lio examples/proxy.lua 7200 127.0.0.1 8080` passes connections on port 7200 to port 8080, in both
-- directions. Try it in front of examples/hello.lua: `curl -i http://127.0.0.1:7200/`. With port 0 the system chooses a
-- port.

local loop = require "lio.loop"
local net = require "lio.net"

local port, to_host, to_port = ...
port, to_host, to_port = tonumber(port or 7200), to_host or "127.0.0.1", tonumber(to_port or 8080)

-- Passes bytes on in one direction. When `from` ends, `to` gets the end of the stream, and may still answer.
local function pump(from, to)
  for data in function() return from:recv() end do
    if not to:send(data) then return end
  end
  to:shutdown "w"
end

local function relay(client)
  local upstream, message = net.connect(to_host, to_port, { timeout = 10 })
  if not upstream then
    io.stderr:write("proxy: ", message, "\n")
    return
  end
  local closing <close> = upstream
  local ended = false
  loop.fork(function()
    pump(upstream, client)
    ended = true
    loop.wakeup(client)
  end)
  pump(client, upstream)
  if not ended then loop.wait(client) end
  return closing and nil
end

loop.grace = 0 -- a stop does not wait for connections to end
loop.run(function()
  local listener = assert(net.listen("127.0.0.1", port))
  local addr, chosen = listener:address()
  print(("proxy: listening on %s:%d, passing on to %s:%d"):format(addr, chosen, to_host, to_port))
  io.stdout:flush()
  net.serve(listener, relay)
end)
