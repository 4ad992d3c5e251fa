-- The sockets of a service by their ids, which are valid in the whole process: any service may write to a socket, close
-- it, and take it over with `start`. Used by skynet.socket and skynet.socketdriver.
--
-- A socket is a table: `id`, `holder` (an object of `skynet.sockets`, which keeps the id), `c` (its connection,
-- listener or datagram socket of `lio.net`), `is_started`, `is_closed`. Invariants: a socket is in the pool of its
-- owner only; only `send_queued` of the owner calls `c:send`, so bytes keep their order.

local core = require "ltask.core"
local ltask = require "ltask"
local misuse = require "lio.misuse"
local native = require "skynet.sockets"
local task = require "lio.task"
local transfer = require "skynet.socket.transfer"

local native_write <const>, self <const>, send <const> = native.write, ltask.self(), ltask.send
local type <const>, spawn <const> = type, task.spawn

local M = {}

-- The name of the requests that services send each other about sockets.
local REQUEST <const> = "skynet.socket"

-- id: the socket.
local sockets <const> = {}
M.sockets = sockets

-- The functions that answer requests of other services.
local request <const> = {}

-- `log(format, …)`: adds an error to the log.
function M.log(format, ...)
  core.log("error", format:format(...))
end

-- `check_id(call, id)`: raises unless `id` is an integer.
function M.check_id(call, id)
  if math.type(id) ~= "integer" then misuse.argument(call, 1, "socket", id) end
end
local check_id <const> = M.check_id

-- `find(call, id)`: returns a socket of this service that was started; raises if there is none.
function M.find(call, id)
  local s = sockets[id]
  if s and s.is_started then return s end
  check_id(call, id)
  misuse.raise(("%s: this service has no started socket %d; start takes over the socket of another service")
    :format(call, id))
end

-- Warnings -----------------------------------------------------------------------------------

local function warn(s, kibibytes)
  if s.on_warning then return s.on_warning(s.id, kibibytes) end
  if kibibytes > 0 then M.log("socket %d: %d KiB are waiting to be sent", s.id, kibibytes) end
end

-- Sending ------------------------------------------------------------------------------------

-- Sends the queued bytes of a socket, and closes the socket afterwards if it must be closed. If a send fails, the
-- bytes are dropped.
local function send_queued(s)
  local holder <const>, c <const> = s.holder, s.c
  s.is_sending = true
  local bytes, was_warned = holder:take()
  while bytes do
    if not c:send(bytes) then holder["end"](holder) end
    bytes, was_warned = holder:take()
  end
  s.is_sending = false
  if s.on_sent then s.on_sent() end
  if was_warned and not s.is_closed then warn(s, 0) end
end

local function notify(id, owner, is_first, kibibytes)
  if owner ~= self then return send(owner, REQUEST, "queued", id, is_first, kibibytes) end
  local s = sockets[id] or M.closing[id]
  if not s then return end
  if is_first and not s.is_sending then spawn(send_queued, s) end
  if kibibytes then spawn(warn, s, kibibytes) end
end

local function to_bytes(call, data, size)
  local kind = type(data)
  if kind == "table" then return table.concat(data) end
  if kind == "number" then return tostring(data) end
  if kind ~= "userdata" then misuse.argument(call, 2, "string", data) end
  return require "skynet.packed_message".take_string(data, size)
end

-- Sends a datagram to the peer that `udp_connect` has set. Returns whether there is such a socket.
local function send_datagram(id, data)
  local s = sockets[id]
  if not (s and s.send_to_peer) then return false end
  s.send_to_peer(data)
  return true
end

-- `write(id, data[, size])`: writes a string, a list of strings, or a packed message with its size, to a socket of any
-- service. Does not wait. Returns whether there is such a socket.
function M.write(id, data, size)
  if type(data) ~= "string" then data = to_bytes("write", data, size) end
  local ok, owner, is_first, kibibytes = native_write(id, data)
  if owner then notify(id, owner, is_first, kibibytes) end
  return ok or send_datagram(id, data)
end

-- `lwrite(id, data[, size])`: like `write`, but the data is sent when no other data is queued.
function M.lwrite(id, data, size)
  if type(data) ~= "string" then data = to_bytes("lwrite", data, size) end
  local ok, owner, is_first, kibibytes = native_write(id, data, true)
  if owner then notify(id, owner, is_first, kibibytes) end
  return ok or send_datagram(id, data)
end

-- Adding, closing ----------------------------------------------------------------------------

-- Sockets that are removed from the pool, whose queued bytes are being sent.
M.closing = {}

-- Makes the connection of a socket writable for all services.
local function open_writer(s)
  local number = s.c:shared_writer()
  if number then s.holder:set_writer(number) end
end

-- `add(kind, name, c, s)`: adds a socket to the pool. `kind` and `name` are shown by `netstat`. `s` has the other
-- fields of the socket. Returns the socket.
function M.add(kind, name, c, s)
  s.holder = native.hold(self, kind, name)
  s.id, s.c, s.name = s.holder:number(), c, name
  sockets[s.id] = s
  if s.is_stream then open_writer(s) else s.holder["end"](s.holder) end
  return s
end

local function drop(s)
  M.closing[s.id] = nil
  s.c:close()
  s.holder:remove()
end

-- `shutdown(s)`: closes a socket of this service. Queued bytes are dropped.
function M.shutdown(s)
  if sockets[s.id] == s then sockets[s.id] = nil end
  s.is_closed = true
  drop(s)
  if s.on_close then s.on_close() end
end

-- `close(s)`: closes a socket of this service after its queued bytes are sent. Does not wait.
function M.close(s)
  if s.is_closed then return end
  if not s.is_sending then return M.shutdown(s) end
  sockets[s.id] = nil
  s.is_closed = true
  s.holder["end"](s.holder)
  M.closing[s.id] = s
  s.on_sent = function() drop(s) end
  s.c:shutdown "r"
  if s.on_close then s.on_close() end
end

-- `send_to(id, address, data)`: sends a datagram through a socket of any service. Returns whether there is such a
-- socket.
function M.send_to(id, address, data)
  local owner = native.owner(id)
  if owner == self then
    request.send_to(id, address, data)
  elseif owner then
    send(owner, REQUEST, "send_to", id, address, data)
  end
  return owner ~= nil
end

-- `close_id(id, name)`: closes a socket of any service, by the function `name` ("close" or "shutdown") of this file.
function M.close_id(id, name)
  local s = sockets[id] or name == "shutdown" and M.closing[id]
  if s then return M[name](s) end
  local owner = native.owner(id)
  if owner and owner ~= self then send(owner, REQUEST, name, id) end
end

-- Taking over --------------------------------------------------------------------------------

-- `take(id)`: takes over a connection that belongs to another service, with its unread bytes. Returns the socket; or
-- nil and a message.
function M.take(id)
  local owner = native.owner(id)
  if not owner or owner == self then return nil, "there is no such socket" end
  local ok, moved, message = pcall(ltask.call, owner, REQUEST, "take", id)
  if not ok then return nil, tostring(moved) end
  if not moved then return nil, message end
  local c = transfer.receive(id)
  local holder = native.adopt(id, self)
  if not holder then
    c:close()
    return nil, "the socket was closed"
  end
  local s = { id = id, holder = holder, c = c, is_stream = true }
  sockets[id] = s
  open_writer(s)
  -- Bytes that services have written during the move are queued.
  spawn(send_queued, s)
  return s
end

function request.queued(id, is_first, kibibytes)
  notify(id, self, is_first, kibibytes)
end

for _, name in ipairs { "close", "shutdown" } do
  request[name] = function(id)
    if native.owner(id) == self then M.close_id(id, name) end
  end
end

function request.send_to(id, address, data)
  local s = sockets[id]
  if s and s.send_to then s.send_to(address, data) end
end

-- Gives a connection to the service that sends the request.
function request.take(id)
  local s = sockets[id]
  if not s or not s.is_stream then return nil, "there is no such connection" end
  if s.is_sending then
    local token = {}
    s.on_sent = function() ltask.wakeup(token) end
    ltask.wait(token)
    s.on_sent = nil
    if s.is_closed then return nil, "the socket was closed" end
  end
  sockets[id] = nil
  local moved, message = transfer.hand_over(s.c, (core.current()), id)
  if not moved then
    sockets[id] = s
    return nil, message
  end
  s.is_closed = true
  if s.on_moved then s.on_moved() end
  return true
end

ltask.dispatch {
  [REQUEST] = function(name, ...) return request[name](...) end,
}

return M
