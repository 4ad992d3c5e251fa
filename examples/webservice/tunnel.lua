-- A tunnel for the redirect mode of `lio.webservice`, as a script of the service `lio`: it has the sockets, and
-- the web service the rest. Here both are in one process; over a link to another machine it is the same.
--
--   tunnel = ltask.spawn_service { name = "lio", args = { "tunnel.lua" } }
--
-- Bytes go by requests that are answered when they are taken, so neither side can drown the other.

local loop = require "lio.loop"
local ltask = require "ltask"
local net = require "lio.net"

local web -- the web service
local listener
local clients = {} -- session → connection
local last = 0

-- What a client sends goes to the web service.
local function carry(session, c)
  local piece, problem = c:recv()
  while piece do
    if not ltask.call(web, "tunnel_data", session, piece) then break end
    piece, problem = c:recv()
  end
  -- Its end of sending is not yet its end: it may wait for an answer.
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

-- The web service starts: from now on clients come.
function S.tunnel_open(addr, port)
  local message
  listener, message = net.listen(addr or "127.0.0.1", port)
  if not listener then return false, message end
  web = ltask.current_session().from
  loop.fork(accept_all)
  local ip, number = listener:address()
  return ("http://%s:%d/"):format(ip, number), number
end

-- Bytes for a client.
function S.tunnel_data(session, data)
  local c = clients[session]
  return c ~= nil and c:send(data) == true
end

-- The web service is done with a client.
function S.tunnel_close(session)
  local c = clients[session]
  clients[session] = nil
  if c then c:close() end
end

-- The web service has quit.
function S.tunnel_end()
  listener:close()
end

ltask.dispatch(S)
loop.run(function() loop.wait "a signal" end)
