-- The sockets of a service by their ids, which are valid in the whole process: any service may write to a socket, close
-- it, and take it over with `start`. Used by skynet.socket and skynet.socketdriver.
--
-- A socket is a table: `id`, `holder` (an object of `skynet.sockets`, which keeps the id), `c` (its connection,
-- listener or datagram socket of `lio.net`), `is_started`, `is_closed`, `is_sending`, `is_moving`. Invariants: a socket
-- is in the pool of its owner, and while it moves, also in the pool of its last owner; only `send_queued` of the owner
-- calls `c:send`, so bytes keep their order.
--
-- Other services leave commands at the socket (`skynet.sockets`): send, warn, close. The owner gets a system message
-- and takes the commands. It leaves those of a socket that is moving, which the next owner takes.

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

-- `find_stream(call, id)`: like `find`, for a connection.
function M.find_stream(call, id)
  local s = M.find(call, id)
  if not s.is_stream then misuse.bad(call, 1, ("a connection expected, not %s"):format(s.kind)) end
  return s
end

-- Warnings -----------------------------------------------------------------------------------

local function warn(s, kibibytes)
  if s.on_warning then return s.on_warning(s.id, kibibytes) end
  if kibibytes > 0 then M.log("socket %d: %d KiB are waiting to be sent", s.id, kibibytes) end
end

-- Waiting for the state of a socket ----------------------------------------------------------

-- `wait_for_change(s)`: waits until the socket has sent its queued bytes, is closed, or an attempt to move it has
-- ended, or until another task calls `report_change`.
function M.wait_for_change(s)
  local token <const> = {}
  s.waiters = s.waiters or {}
  table.insert(s.waiters, token)
  ltask.wait(token)
end

local wait_for_change <const> = M.wait_for_change

-- `report_change(s)`: wakes the tasks in `wait_for_change`.
function M.report_change(s)
  local waiters <const> = s.waiters or {}
  s.waiters = nil
  for _, token in ipairs(waiters) do ltask.wakeup(token) end
end
local report_change <const> = M.report_change

-- `has_stayed(s, code, partial)`: called when a wait of `lio.net` has ended with this code. `partial`: the bytes that
-- the wait has returned. Returns whether the wait must be repeated, because another service has tried to take over the
-- connection, and has failed. Waits for the end of the attempt.
function M.has_stayed(s, code, partial)
  -- If the peer has ended the connection, `partial` is a string.
  if code ~= "closed" or partial then return false end
  while s.is_moving do wait_for_change(s) end
  return not s.is_closed and not s.c:is_closed()
end

-- Sending ------------------------------------------------------------------------------------

-- Ends a connection that cannot send. Bytes that have arrived can still be read.
local function fail(s, problem, code)
  s.has_failed, s.is_over = true, true
  s.holder["end"](s.holder)
  if s.is_closed then return end
  if s.on_error then return s.on_error(problem) end
  -- If the peer has ended the connection, reading also reports the end.
  if code ~= "closed" and code ~= "reset" then M.log("socket %d: %s", s.id, problem) end
  s.c:shutdown()
end

local function drop(s)
  M.closing[s.id] = nil
  s.c:close()
  s.holder:remove()
  report_change(s)
end

-- Sends the queued bytes of a socket, and closes the socket afterwards if it must be closed. If a send fails, the
-- bytes are dropped.
local function send_queued(s)
  local holder <const>, c <const> = s.holder, s.c
  s.is_sending = true
  local bytes, was_warned = holder:take()
  while bytes do
    if not s.has_failed then
      local ok, problem, _, code = c:send(bytes)
      if not ok then fail(s, problem, code) end
    end
    bytes, was_warned = holder:take()
  end
  s.is_sending = false
  if s.is_closed then return drop(s) end
  report_change(s)
  if was_warned then warn(s, 0) end
end

-- Does what other services, or writes of this service, have left at a socket.
local function obey(s)
  if s.is_moving then return end
  local must_send, kibibytes, ending = s.holder:take_commands()
  if must_send and not s.is_sending then spawn(send_queued, s) end
  if kibibytes then spawn(warn, s, kibibytes) end
  if ending then M[ending](s) end
end

local function obey_id(id)
  local s = sockets[id] or M.closing[id]
  if s then obey(s) end
end

-- Joins the strings of a list.
local function join(call, list)
  local ok, bytes = pcall(table.concat, list)
  if ok then return bytes end
  for i, item in ipairs(list) do
    if type(item) ~= "string" and type(item) ~= "number" then
      misuse.bad(call, 2, ("a list of strings expected, item %d is %s"):format(i, misuse.shown(item)))
    end
  end
  misuse.bad(call, 2, misuse.without_position(bytes))
end

local function to_bytes(call, id, data, size)
  check_id(call, id)
  local kind = type(data)
  if kind == "table" then return join(call, data) end
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

-- `writer(call[, is_low])`: returns the function `call(id, data[, size])`, which writes a string, a list of strings, or
-- a packed message with its size, to a socket of any service. It does not wait, and returns whether there is such a
-- socket. If `is_low` is true, the data is sent when no other data is queued.
function M.writer(call, is_low)
  return function(id, data, size)
    if type(data) ~= "string" then data = to_bytes(call, id, data, size) end
    local ok, has_commands = native_write(id, data, is_low)
    if has_commands then obey_id(id) end
    if ok then return true end
    -- Nil: the id is not a number of a socket.
    if ok == nil then check_id(call, id) end
    return send_datagram(id, data)
  end
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
  s.id, s.c, s.kind, s.name = s.holder:number(), c, kind, name
  sockets[s.id] = s
  if s.is_stream then open_writer(s) else s.holder["end"](s.holder) end
  return s
end

-- `shutdown(s)`: closes a socket of this service. Queued bytes are dropped.
function M.shutdown(s)
  if s.is_moving then return M.close_id(s.id, "shutdown") end
  if sockets[s.id] == s then sockets[s.id] = nil end
  s.is_closed = true
  drop(s)
  if s.on_close then s.on_close() end
end

-- `close(s)`: closes a socket of this service after its queued bytes are sent. Does not wait.
function M.close(s)
  if s.is_closed then return end
  if s.is_moving then return M.close_id(s.id, "close") end
  -- Another service may have queued bytes.
  obey(s)
  if s.is_closed then return end
  if not s.is_sending then return M.shutdown(s) end
  sockets[s.id] = nil
  s.is_closed = true
  s.holder["end"](s.holder)
  M.closing[s.id] = s
  s.c:shutdown "r"
  report_change(s)
  if s.on_close then s.on_close() end
end

-- `send_to(id, address, data)`: sends a datagram, a string, through a socket of any service. If the mailbox of that
-- service is full, the datagram is lost. Returns whether there is such a socket.
function M.send_to(id, address, data)
  local owner = native.owner(id)
  if owner == self then
    request.send_to(id, address, data)
  elseif owner then
    pcall(send, owner, REQUEST, "send_to", id, address, data)
  end
  return owner ~= nil
end

-- `close_id(id, name)`: closes a socket of any service, by the function `name` ("close" or "shutdown") of this file.
function M.close_id(id, name)
  local s = sockets[id] or name == "shutdown" and M.closing[id]
  if s and not s.is_moving then return M[name](s) end
  if native.finish(id, name == "shutdown") then obey_id(id) end
end

-- Taking over --------------------------------------------------------------------------------

-- Adds a connection that its owner has handed over. The last owner keeps its holder until this function has returned,
-- so the id always has an owner.
transfer.set_receiver(function(c, id)
  local holder <const> = native.adopt(id, self)
  if not holder then return c:close() end
  local s = { id = id, holder = holder, c = c, is_stream = true }
  sockets[id] = s
  open_writer(s)
  -- Bytes that services have written during the move are queued.
  spawn(send_queued, s)
  obey(s)
end)

-- `take(id)`: takes over a connection that belongs to another service, with its unread bytes. Returns the socket; or
-- nil and a message.
function M.take(id)
  local owner = native.owner(id)
  if not owner or owner == self then return nil, "there is no such socket" end
  local ok, moved, message = pcall(ltask.call, owner, REQUEST, "take", id)
  local s = sockets[id]
  if s then return s end
  if not ok then return nil, tostring(moved) end
  return nil, message or "the socket was closed"
end

function request.send_to(id, address, data)
  local s = sockets[id]
  if s and s.send_to then s.send_to(address, data) end
end

-- Continues the use of a connection that could not move.
local function keep(s)
  if s.c:is_closed() then return M.shutdown(s) end
  open_writer(s)
  obey(s)
end

-- Gives a connection to the service that sends the request.
function request.take(id)
  local s = sockets[id]
  if not s or not s.is_stream then return nil, "there is no such connection" end
  while not s.is_closed and (s.is_sending or s.is_moving) do wait_for_change(s) end
  if sockets[id] ~= s then return nil, "the socket was closed, or another service has taken it" end
  s.is_moving = true
  local ok, moved, message = pcall(transfer.hand_over, s.c, (core.current()), id)
  s.is_moving = false
  if ok and moved then
    if sockets[id] == s then sockets[id] = nil end
    s.is_closed = true
  else
    keep(s)
  end
  report_change(s)
  if not ok then error(moved, 0) end
  return moved, message
end

core.system_calls().skynet_socket = obey_id

ltask.dispatch {
  [REQUEST] = function(name, ...) return request[name](...) end,
}

return M
