-- The redirect mode of `lio.webservice`: a tunnel, which is another service, carries the bytes of clients.
--
-- Each session has a pair of sockets. One end is served like the connection of any client, so all rules and limits of
-- the server apply. Bytes from the tunnel are written to the other end; bytes of responses are read from that end and
-- sent to the tunnel. Invariants: the bytes of a session keep their order and none is lost; a session is in `sessions`
-- until the tunnel has been notified that the session has ended, so that late bytes do not open a new session.

local loop = require "lio.loop"
local ltask = require "ltask"
local socket = require "lio.socket"

local driver <const> = require("lio.net.driver").of(loop.net)

local M = {}

-- The maximum number of bytes of a session that can be pending in this service if the tunnel sends without waiting for
-- the results.
local BACKLOG <const> = 16 * 1024 * 1024
-- Centiseconds between two liveness checks of a tunnel that does not report its death.
local CHECK_INTERVAL <const> = 100

local Tunnel = {}
Tunnel.__index = Tunnel

local Session = {}
Session.__index = Session

-- Sessions ---------------------------------------------------------------------------------------------

-- Sends a request to the tunnel. Returns whether it was answered, and its results. The session ends if the tunnel does
-- not answer for `patience` seconds.
function Session:call(name, ...)
  local timers = driver.timers
  timers:set(self.alarm, self.tunnel.patience)
  local ok, result, message = pcall(ltask.call, self.tunnel.address, name, ...)
  timers:clear(self.alarm)
  return ok, result, message
end

-- Called if the tunnel has not answered in time. When the tunnel runs again, it is notified that the session has ended.
function Session:expired()
  self:drop()
  ltask.send(self.tunnel.address, "tunnel_close", self.id)
end

-- Removes the session and closes its connection. Idempotent.
function Session:remove()
  local tunnel = self.tunnel
  if tunnel.sessions[self.id] ~= self then return end
  tunnel.sessions[self.id] = nil
  tunnel.count = tunnel.count - 1
  self.c:close()
  driver.timers:free(self.alarm)
  if tunnel.count == 0 and tunnel.drained then loop.wakeup(tunnel.drained) end
end

Session.__close = Session.remove

-- Ends the session at once, even if its task waits for the tunnel.
function Session:drop()
  self.is_tunnel_notified, self.ended = true, true
  loop.kill(self.task)
  self:remove()
end

-- The session's task: sends the bytes of responses to the tunnel, and then notifies it that the session has ended.
local function forward_responses(self)
  local session <close> = self
  local piece = self.c:recv()
  while piece do
    local ok, accepted = self:call("tunnel_data", self.id, piece)
    if not ok or accepted == false then
      self.is_tunnel_notified = true
      break
    end
    piece = self.c:recv()
  end
  self.ended = true
  self.c:close()
  if not self.is_tunnel_notified then self:call("tunnel_close", self.id) end
  return session
end

local function open_session(tunnel, id)
  local ours, theirs = socket.pair()
  if not ours then return nil, theirs end
  local net = loop.net
  local c, served = assert(net.wrap(ours)), assert(net.wrap(theirs))
  if not tunnel.server:admit(served) then
    c:close()
    served:close()
    return nil, "too many sessions"
  end
  local self = setmetatable({
    id = id,
    c = c,
    tunnel = tunnel,
    pending_bytes = 0, -- from the tunnel, not yet written
    ended = false,
    is_tunnel_notified = false, -- whether the tunnel was notified that the session has ended
  }, Session)
  self.alarm = driver.timers:create(self)
  tunnel.sessions[id] = self
  tunnel.count = tunnel.count + 1
  self.task = loop.fork(forward_responses, self)
  return self
end

-- Requests of the tunnel -------------------------------------------------------------------------------

local function check_session(id, call)
  if math.type(id) ~= "integer" and type(id) ~= "string" then
    error(("bad argument #1 to '%s' (session expected, got %s)"):format(call, type(id)), 0)
  end
end

-- `tunnel:data(id, data)`: sends data from the tunnel to the server; an unknown `id` opens a session. Returns true when
-- the server has accepted the data, or false and a message.
function Tunnel:data(id, data)
  check_session(id, "tunnel_data")
  if type(data) ~= "string" then
    error("bad argument #2 to 'tunnel_data' (string expected, got " .. type(data) .. ")", 0)
  end
  local session = self.sessions[id]
  if not session then
    if self.stopping then return false, "closed" end
    local message
    session, message = open_session(self, id)
    if not session then return false, message end
  end
  if session.ended then return false, "closed" end
  session.pending_bytes = session.pending_bytes + #data
  if session.pending_bytes > BACKLOG and session.pending_bytes > #data then
    session.c:close()
    return false, "too long"
  end
  local ok = session.c:send(data)
  session.pending_bytes = session.pending_bytes - #data
  if not ok then return false, "closed" end
  return true
end

-- `tunnel:close(id)`: ends a session; its requests in progress are not answered. Returns whether the session existed.
function Tunnel:close(id)
  check_session(id, "tunnel_close")
  local session = self.sessions[id]
  if not session or session.ended then return false end
  session:drop()
  return true
end

-- `tunnel:shutdown(id)`: the client of a session sends no further bytes, but continues to read. Returns whether the
-- session existed.
function Tunnel:shutdown(id)
  check_session(id, "tunnel_shutdown")
  local session = self.sessions[id]
  if not session or session.ended then return false end
  session.c:shutdown "w"
  return true
end

-- The end of a tunnel ----------------------------------------------------------------------------------

-- Ends every session at once, without notifying the tunnel.
local function drop_all(self)
  local list = {}
  for _, session in pairs(self.sessions) do list[#list + 1] = session end
  for _, session in ipairs(list) do session:drop() end
end

-- Reports whether the tunnel's service is dead, according to the results of a request to it.
local function is_dead(self, ok, message)
  return not ok and tostring(message):find(("{service:%d} is dead"):format(self.address), 1, true) ~= nil
end

-- Waits until the tunnel's service has died. Sends it a request that it does not answer while it runs; the request
-- fails when the service dies.
local function watch(self)
  while not is_dead(self, pcall(ltask.syscall, self.address, "watch")) do
    ltask.sleep(CHECK_INTERVAL)
  end
  self.stopping, self.dead = true, true
  drop_all(self)
  self.server:stop(0)
  self.on_death()
end

-- Waits until no session is left, for at most `seconds` seconds.
local function drain(self, seconds)
  local token = {}
  self.drained = token
  local alarm = loop.timeout(seconds, function() loop.wakeup(token) end)
  loop.wait(token)
  loop.cancel(alarm)
  self.drained = nil
end

-- `tunnel:stop(grace)`: waits up to `grace` seconds for requests in progress to be answered, and then ends every
-- session.
function Tunnel:stop(grace)
  if self.stopping then return end
  self.stopping = true
  loop.kill(self.watcher)
  local limit = loop.now() + grace
  self.server:stop(grace)
  -- Responses may still be on their way to the tunnel.
  if self.count > 0 then drain(self, math.max(limit - loop.now(), 0)) end
  drop_all(self)
  pcall(ltask.call, self.address, "tunnel_end", self.addr, self.port)
end

-- `open(app, address, addr, port, on_death)`: asks the service `address` to carry the connections to `addr` and `port`.
-- Returns a tunnel; or nil and a message. The tunnel's fields `url` and `public_port` are the service's results, if the
-- service returned any. `on_death()` is called when the service has died.
function M.open(app, address, addr, port, on_death)
  if address == ltask.self() then return nil, "the tunnel cannot be this service itself" end
  local ok, opened, second = pcall(ltask.call, address, "tunnel_open", addr, port)
  if not ok then return nil, ("the tunnel, service %d: %s"):format(address, tostring(opened)) end
  if opened == false or opened == nil and second then
    return nil, ("the tunnel, service %d, refused: %s"):format(address, tostring(second or "no reason given"))
  end
  local has_url = opened ~= nil and opened ~= true
  local self = setmetatable({
    address = address,
    addr = addr,
    port = port,
    url = has_url and opened or nil,
    public_port = has_url and second or nil,
    server = app:server(),
    patience = app.settings.write_time,
    on_death = on_death,
    sessions = {},
    count = 0,
    stopping = false,
  }, Tunnel)
  self.watcher = loop.fork(watch, self)
  return self
end

return M
