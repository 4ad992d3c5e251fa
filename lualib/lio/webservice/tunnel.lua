-- The redirect mode of `lio.webservice`: a tunnel, which is another service, carries the bytes of clients.
--
-- Each session has a pair of sockets: one end is served as any client's connection, so every rule and limit
-- of the server holds; what the tunnel brings is written to the other, and what the server answers is read
-- there and given to the tunnel. Invariants: bytes of a session keep their order and none is lost; a
-- session is in `sessions` until the tunnel knows that it is over, so that late bytes begin no new one.

local loop = require "lio.loop"
local ltask = require "ltask"
local socket = require "lio.socket"

local driver <const> = require("lio.net.driver").of(loop.net)

local M = {}

-- Bytes of a session that may wait here when the tunnel sends without waiting for the answers.
local BACKLOG <const> = 16 * 1024 * 1024
-- Centiseconds between two questions whether the tunnel lives, where it cannot say when it dies.
local AGAIN <const> = 100

local Tunnel = {}
Tunnel.__index = Tunnel

local Session = {}
Session.__index = Session

-- Asks the tunnel; it has `patience` seconds for an answer. → whether it answered, and what.
function Session:ask(name, ...)
  local timers = driver.timers
  timers:set(self.alarm, self.tunnel.patience)
  local ok, result, message = pcall(ltask.call, self.tunnel.address, name, ...)
  timers:clear(self.alarm)
  return ok, result, message
end

-- The tunnel does not answer. Should it come back to life it learns that the session is over.
function Session:expired()
  self:drop()
  ltask.send(self.tunnel.address, "tunnel_close", self.id)
end

-- The end: nobody knows the session any more.
function Session:forget()
  local tunnel = self.tunnel
  if tunnel.sessions[self.id] ~= self then return end
  tunnel.sessions[self.id] = nil
  tunnel.count = tunnel.count - 1
  self.c:close()
  driver.timers:free(self.alarm)
  if tunnel.count == 0 and tunnel.drained then loop.wakeup(tunnel.drained) end
end

Session.__close = Session.forget

-- Ends the session at once, also one whose task waits for the tunnel.
function Session:drop()
  self.told, self.ended = true, true
  loop.kill(self.task)
  self:forget()
end

-- The session's task: what the server answers goes to the tunnel, and then its end.
local function carry(self)
  local done <close> = self
  local piece = self.c:recv()
  while piece do
    local ok, taken = self:ask("tunnel_data", self.id, piece)
    if not ok or taken == false then
      self.told = true
      break
    end
    piece = self.c:recv()
  end
  self.ended = true
  self.c:close()
  if not self.told then self:ask("tunnel_close", self.id) end
  return done
end

local function begin(tunnel, id)
  local ours, theirs = socket.pair()
  if not ours then return nil, theirs end
  local net = loop.net
  local c, served = assert(net.wrap(ours)), assert(net.wrap(theirs))
  if not tunnel.server:admit(served) then
    c:close()
    served:close()
    return nil, "too many sessions"
  end
  local self = setmetatable({ id = id, c = c, tunnel = tunnel, waiting = 0, ended = false, told = false }, Session)
  self.alarm = driver.timers:create(self)
  tunnel.sessions[id] = self
  tunnel.count = tunnel.count + 1
  self.task = loop.fork(carry, self)
  return self
end

local function check_session(id, call)
  if math.type(id) ~= "integer" and type(id) ~= "string" then
    error(("bad argument #1 to '%s' (session expected, got %s)"):format(call, type(id)), 0)
  end
end

-- `tunnel:data(id, data)` → true when the server has taken it, or false and a message. An `id` that is not
-- known begins a session.
function Tunnel:data(id, data)
  check_session(id, "tunnel_data")
  if type(data) ~= "string" then
    error("bad argument #2 to 'tunnel_data' (string expected, got " .. type(data) .. ")", 0)
  end
  local session = self.sessions[id]
  if not session then
    if self.stopping then return false, "closed" end
    local message
    session, message = begin(self, id)
    if not session then return false, message end
  end
  if session.ended then return false, "closed" end
  session.waiting = session.waiting + #data
  if session.waiting > BACKLOG and session.waiting > #data then
    session.c:close()
    return false, "too long"
  end
  local ok = session.c:send(data)
  session.waiting = session.waiting - #data
  if not ok then return false, "closed" end
  return true
end

-- `tunnel:close(id)` → whether there was such a session. What was to be answered is not.
function Tunnel:close(id)
  check_session(id, "tunnel_close")
  local session = self.sessions[id]
  if not session or session.ended then return false end
  session:drop()
  return true
end

-- `tunnel:shutdown(id)` → whether there was such a session: its client sends no more, and reads on.
function Tunnel:shutdown(id)
  check_session(id, "tunnel_shutdown")
  local session = self.sessions[id]
  if not session or session.ended then return false end
  session.c:shutdown "w"
  return true
end

-- Whether the tunnel's service is no more, as far as a request that failed tells.
local function is_dead(self, ok, message)
  return not ok and tostring(message):find(("{service:%d} is dead"):format(self.address), 1, true) ~= nil
end

-- Ends every session at once, without a word to the tunnel.
local function drop_all(self)
  local left = {}
  for _, session in pairs(self.sessions) do left[#left + 1] = session end
  for _, session in ipairs(left) do session:drop() end
end

-- Waits for the death of the tunnel's service: a request that is not answered while it lives.
local function watch(self)
  while not is_dead(self, pcall(ltask.syscall, self.address, "watch")) do
    ltask.sleep(AGAIN)
  end
  self.stopping, self.dead = true, true
  drop_all(self)
  self.server:stop(0)
  self.on_death()
end

-- Waits until no session is left, `seconds` at most.
local function drain(self, seconds)
  local token = {}
  self.drained = token
  local alarm = loop.timeout(seconds, function() loop.wakeup(token) end)
  loop.wait(token)
  loop.cancel(alarm)
  self.drained = nil
end

-- `tunnel:stop(grace)`: requests in work are answered, within `grace` seconds; then every session ends.
function Tunnel:stop(grace)
  if self.stopping then return end
  self.stopping = true
  loop.kill(self.watcher)
  local limit = loop.now() + grace
  self.server:stop(grace)
  -- The answers are on their way to the tunnel still.
  if self.count > 0 then drain(self, math.max(limit - loop.now(), 0)) end
  drop_all(self)
  pcall(ltask.call, self.address, "tunnel_end", self.addr, self.port)
end

-- `open(app, address, addr, port, on_death)` → a tunnel through the service `address`, which is asked to carry
-- what comes for `addr` and `port`; or nil and a message. `on_death()` when that service dies.
function M.open(app, address, addr, port, on_death)
  if address == ltask.self() then return nil, "the tunnel cannot be this service itself" end
  local ok, opened, message = pcall(ltask.call, address, "tunnel_open", addr, port)
  if not ok then return nil, ("the tunnel, service %d: %s"):format(address, tostring(opened)) end
  if opened == false or opened == nil and message then
    return nil, ("the tunnel, service %d, refused: %s"):format(address, tostring(message or "no reason given"))
  end
  local self = setmetatable({
    address = address,
    addr = addr,
    port = port,
    server = app:server(),
    patience = app.settings.write_time,
    on_death = on_death,
    sessions = {},
    count = 0,
    stopping = false,
    said = table.pack(opened, message),
  }, Tunnel)
  self.watcher = loop.fork(watch, self)
  return self
end

return M
