-- A tunnel for the redirect mode of `lio.webservice`, as a script of the service `lio`. The tunnel owns the sockets,
-- and the web service handles the requests. Here both are in one process, but they may be on different machines.
--
--   tunnel = ltask.spawn_service { name = "lio", args = { "tunnel.lua" } }
--
-- Bytes are sent in requests. A request is answered when its bytes have been accepted; this provides backpressure.

local loop = require "lio.loop"
local ltask = require "ltask"
local net = require "lio.net"

local web ---@type ltask.Address the web service
local listener ---@type lio.Listener
local clients = {} ---@type table<integer, lio.Connection?> by session
local last = 0

-- Sends a client's bytes to the web service.
local function carry(session, c)
  local piece, problem = c:recv()
  while piece do
    if not ltask.call(web, "tunnel_data", session, piece) then break end
    piece, problem = c:recv()
  end
  -- A client that has shut down its sending side may still wait for a response.
  if not problem and ltask.call(web, "tunnel_shutdown", session) then return end
  if clients[session] then ltask.call(web, "tunnel_close", session) end
  clients[session] = nil
  c:close()
end

local function accept_all()
  while true do
    local c = net.accept(listener)
    if not c then return end
    last = last + 1
    clients[last] = c
    loop.fork(carry, last, c)
  end
end

local S = {}

-- Called when the web service starts. From now on the tunnel accepts clients.
function S.tunnel_open(addr, port)
  local opened, message = net.listen(addr or "127.0.0.1", port)
  if not opened then return false, message end
  listener, web = opened, ltask.current_session().from
  loop.fork(accept_all)
  local ip, number = listener:address()
  return ("http://%s:%d/"):format(ip, number), number
end

-- Sends bytes from the web service to a client.
function S.tunnel_data(session, data)
  local c = clients[session]
  return c ~= nil and c:send(data) == true
end

-- Called when the web service has finished with a client.
function S.tunnel_close(session)
  local c = clients[session]
  clients[session] = nil
  if c then c:close() end
end

-- Called when the web service has quit.
function S.tunnel_end()
  listener:close()
end

ltask.dispatch(S)
loop.run(function() loop.wait "a signal" end)
