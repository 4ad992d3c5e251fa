-- `require "skynet.socketchannel"`: requests and their responses on one connection, which is opened when it is needed
-- and opened again when it has ended. Used by drivers of databases and by programs.
--
-- The responses come in the order of the requests, or, if the channel has a function `response`, each with the session
-- of its request: skynet/channel/receive.lua.

local connecting = require "skynet.channel.connect"
local misuse = require "lio.misuse"
local receive = require "skynet.channel.receive"
local socket = require "skynet.socket"

local write <const>, lwrite <const> = socket.write, socket.lwrite
local running <const> = coroutine.running

local M = {}

-- The error of requests whose connection has ended.
local socket_error <const> = receive.error
M.error = socket_error

local Channel = {}
Channel.__index = Channel
Channel.__name = "skynet.socketchannel"

-- The options of `channel`, and the types of their values.
local OPTIONS <const> = {
  host = "string", port = "number", backup = "table", auth = "function", response = "function", nodelay = "boolean",
  overload = "function",
}

-- Raises unless the first argument of `call` is, or has, a valid list of further addresses, or nil.
local function check_backup(call, list)
  for i, one in ipairs(list or {}) do
    local host = type(one) == "table" and one.host or one
    if type(host) ~= "string" then
      local wanted = "backup %d must be a host, or a table with host and port, not %s"
      misuse.bad(call, 1, wanted:format(i, misuse.shown(one)))
    end
  end
end

local function check(options)
  misuse.check("channel", 1, options, "table")
  for name, kind in pairs(OPTIONS) do
    local value = options[name]
    if value ~= nil and type(value) ~= kind then
      misuse.bad("channel", 1, ("option '%s' must be a %s, not %s"):format(name, kind, misuse.shown(value)))
    end
  end
  if not options.host then misuse.bad("channel", 1, "option 'host' is missing") end
  if not options.port and not options.host:find ":%d+$" then misuse.bad("channel", 1, "option 'port' is missing") end
  check_backup("channel", options.backup)
end

-- `channel{ host=, port=, … }`: returns a channel. `response(sock)` makes it a channel with sessions: it reads a
-- response, and returns the session, whether the request has succeeded, and the data, or the error. `auth(channel)`
-- runs after each connect, and may use the channel. `backup` lists further addresses: hosts, or tables with `host` and
-- `port`. `nodelay`: see `socketdriver.nodelay`. `overload(is_overloaded)` runs when a MiB or more is waiting to be
-- sent, and when all is sent.
function M.channel(options)
  check(options)
  return setmetatable({
    options = options,
    host = options.host,
    port = options.port,
    backup = options.backup or {},
    address = 1, -- the place of the address for the next connect: 1 is `host`, the others are in `backup`
    closed = false, -- `close` was called, and no request since then
    sock = false, -- the connection; see receive.lua
    auth_task = false, -- the coroutine that runs `auth`
    waiting = {}, -- the coroutines that wait for a connect
  }, Channel)
end

-- `c:connect([once])`: connects if that is needed. If `once` is true, tries each address once, and raises if none
-- connects; otherwise, tries until one does. Returns true.
function Channel:connect(once)
  self.closed = false
  return connecting.connect(self, once)
end

-- Raises the error for a connection that has ended.
local function fail(self, sock)
  connecting.disconnect(self, sock)
  error(socket_error)
end

-- Sends a request, and the strings of the list `padding` after it, which let other data pass.
local function send(self, sock, request, padding)
  if not padding then
    if not write(sock.id, request) then fail(self, sock) end
    return
  end
  if not lwrite(sock.id, request) then fail(self, sock) end
  for _, piece in ipairs(padding) do
    if not lwrite(sock.id, piece) then fail(self, sock) end
  end
end

-- `c:request(request, response[, padding])`: sends a request, and returns its response. `response` is the request's
-- session, or, for a channel without sessions, a function that reads the response: it gets an object with `read(size)`
-- and `readline(separator)`, and returns whether the request has succeeded, and the data, or the error. If `response`
-- is nil, only sends. `padding` is a list of strings that are sent after the request. Raises the error of the response,
-- or `socketchannel.error` if the connection has ended.
function Channel:request(request, response, padding)
  if response ~= nil and not self.options.response then misuse.check_function("request", 2, response) end
  connecting.connect(self, true)
  local sock = self.sock
  send(self, sock, request, padding)
  if response == nil then return end
  return receive.wait(sock, response)
end

-- `c:response(response)`: waits for a response without a request: see `request`.
function Channel:response(response)
  if not self.options.response then misuse.check_function("response", 1, response) end
  connecting.connect(self, true)
  return receive.wait(self.sock, response)
end

-- `c:close()`: closes the connection. Requests without a response fail. The next request connects again only after
-- `connect`.
function Channel:close()
  if self.closed then return end
  self.closed = true
  connecting.disconnect(self, self.sock)
end

-- `c:changehost(host, port)`: sets the address for further connects. If the connection has another address, it is
-- closed; the next request connects.
function Channel:changehost(host, port)
  misuse.check("changehost", 1, host, "string")
  if port ~= nil then misuse.check_port("changehost", 2, port) end
  self.host = host
  if port then self.port = port end
  self.address = 1
  -- `auth` may change the host: then the connect begins again.
  if self.auth_task == running() then self.is_changed = true end
  if not self.closed then connecting.disconnect(self, self.sock) end
end

-- `c:changebackup(list)`: sets the further addresses.
function Channel:changebackup(list)
  if list ~= nil then misuse.check("changebackup", 1, list, "table") end
  check_backup("changebackup", list)
  self.backup = list or {}
end

-- A channel that the program has dropped closes its connection.
Channel.__gc = function(self)
  if self.sock then pcall(receive.close, self.sock) end
end

return M
