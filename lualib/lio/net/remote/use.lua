-- The calls of `lio.net.remote` that use a connection, listener or datagram socket. These calls get the service from
-- the object, so every instance has the same functions, which are also the methods of the objects.

local files = require "lio.net.sendfile"
local ltask = require "ltask"
local misuse = require "lio.misuse"
local objects = require "lio.net.remote.object"
local receiving = require "lio.net.remote.receive"
local requests = require "lio.net.remote.request"
local sending = require "lio.net.remote.send"
local start_tls <const> = require "lio.net.remote.tls".start_tls

local ask <const>, ask_for_new <const> = requests.ask, requests.ask_for_new
local check <const> = objects.check
local Connection <const>, Listener <const>, Udp <const> = objects.Connection, objects.Listener, objects.Udp
local receive <const>, send <const> = receiving.receive, sending.send
local sub <const> = string.sub

local M = {}

-- Accepting ------------------------------------------------------------------------------------------

function M.accept(listener)
  check("accept", listener, Listener, "listener")
  if listener.closed then return false, "closed", "closed" end
  return objects.new(Connection, listener.io, ask_for_new(listener.io, "accept", listener.id))
end

function M.take_waiting(listener)
  check("take_waiting", listener, Listener, "listener")
  if listener.closed then return nil end
  return objects.new(Connection, listener.io, ask_for_new(listener.io, "take_waiting", listener.id)) or nil
end

-- Receiving ------------------------------------------------------------------------------------------

function M.recv(c, ...)
  check("recv", c, Connection, "connection")
  return receive(c, ...)
end

function M.wait_readable(c, seconds)
  check("wait_readable", c, Connection, "connection")
  if c.ahead and not c.closed then return true end
  return ask(c, "wait_readable", seconds)
end

function M.buffered(c)
  check("buffered", c, Connection, "connection")
  local here = c.ahead and #c.ahead - c.ahead_at + 1 or 0
  return here + (ask(c, "buffered") or 0)
end

function M.is_over(c)
  check("is_over", c, Connection, "connection")
  return c.closed or ask(c, "is_over") ~= false
end

-- Sending --------------------------------------------------------------------------------------------

function M.send(c, ...)
  check("send", c, Connection, "connection")
  return send(c, ...)
end

-- Waits until the messages of other tasks are sent. Returns true, or `nil, message, sent, code`.
local function send_waiting(c)
  if not (c.sending or c.outbox[1]) then return true end
  return send(c)
end

-- If `file` is a path, the service of the connection sends the file. If `file` is an open file, the calling service
-- reads it and sends it in pieces.
function M.sendfile(c, file, offset, length)
  check("sendfile", c, Connection, "connection")
  offset, length = files.check(offset, length)
  if type(file) == "string" then
    local ok, message, sent, code = send_waiting(c)
    if not ok then return nil, message, sent, code end
    c.writer = false
    return ask(c, "sendfile", file, offset, length)
  end
  local message, code
  length, message, code = files.measure(file, offset, length)
  if not length then return nil, message, 0, code end
  return sending.send_file(c, file, offset, length)
end

function M.shutdown(c, how)
  check("shutdown", c, Connection, "connection")
  if how ~= "r" then
    local ok, message, _, code = send_waiting(c)
    if not ok then return nil, message, code end
  end
  c.writer = false
  return ask(c, "shutdown", how)
end

-- TLS ------------------------------------------------------------------------------------------------

-- The messages of other tasks are sent first, without TLS.
function M.start_tls(c, settings, opts)
  check("start_tls", c, Connection, "connection")
  local ok, message, _, code = send_waiting(c)
  if not ok then return nil, message, code end
  return start_tls(c, settings, opts)
end

function Connection:tls()
  check("tls", self, Connection, "connection")
  return (ask(self, "tls"))
end

function Listener:reload_tls()
  check("reload_tls", self, Listener, "listener")
  return ask(self, "reload_tls")
end

-- Moving ---------------------------------------------------------------------------------------------

-- Sends a request that gives a connection to another service, together with the bytes that were read ahead. Requests of
-- other tasks that are reading or sending end with "closed".
local function part_with(c, request, service, ...)
  c.writer = false
  local unread = c.ahead and sub(c.ahead, c.ahead_at)
  local result, message, code = ask(c, request, service, unread, ...)
  if result or code ~= "denied" then c.ahead = nil end
  if result or code == "closed" then c.closed = true end
  return result, message, code
end

-- `give(c, service)` gives a connection to another service. Returns the handle, which the other service passes to
-- `net.connection`.
function M.give(c, service)
  check("give", c, Connection, "connection")
  local ok, message, code = part_with(c, "give", service)
  if not ok then return nil, message, code end
  return c.id
end

function M.transfer(c, service, ...)
  check("transfer", c, Connection, "connection")
  if math.type(service) ~= "integer" then misuse.argument("transfer", 2, "service", service) end
  local result, message, code = part_with(c, "remote_transfer", service, ...)
  if result == true then return true end
  if not result then return nil, message, code end
  return objects.connection(service, result)
end

-- Other calls ----------------------------------------------------------------------------------------

for _, name in ipairs { "timeout", "option", "sock", "peer", "wait_closed", "recvfrom", "sendto" } do
  M[name] = function(x, ...) return ask(x, name, ...) end
end

-- Maps each class to the names of the functions that are its methods.
local METHODS <const> = {
  [Connection] = {
    "recv", "send", "sendfile", "shutdown", "timeout", "peer", "sock", "option", "wait_readable", "wait_closed",
    "buffered", "is_over", "transfer", "give", "start_tls",
  },
  [Listener] = { "accept", "take_waiting" },
  [Udp] = { "recvfrom", "sendto", "timeout", "option" },
}

for class, names in pairs(METHODS) do
  for _, name in ipairs(names) do class[name] = M[name] end
end

function Connection:unread(bytes)
  check("unread", self, Connection, "connection")
  receiving.unread(self, bytes)
end

-- The descriptor belongs to the service `io`.
function Connection:handle()
  check("handle", self, Connection, "connection")
  misuse.raise("connection:handle: missing in net.remote; the descriptor is in service " .. self.io)
end

function Listener:timeout(seconds) return ask(self, "timeout", seconds) end

for class, kind in pairs { [Listener] = "listener", [Udp] = "datagram socket" } do
  function class:address()
    check("address", self, class, kind)
    return ask(self, "sock")
  end
end

-- To detect that this service has died, the service that owns the loop sends it a request that is never answered; see
-- net/requests/owners.lua. Our scheduler provides such a request in every service. For another scheduler, this file
-- adds one.
if not package.loaded["ltask.core"] then
  pcall(ltask.dispatch, { ["lio.net.watch"] = function() ltask.wait {} end })
end

return M
