-- `require "snax.msgserver"`: a gate for clients that have logged in: they prove that they know the secret of their
-- login, send requests, and may connect again without losing an answer. Used by game servers.
--
-- The first message of a connection is "user@server#subid:index:code", with the names and the code in Base64; the code
-- is `hmac64` of the hash of the text before it, with the secret of the login. Each index may be used once, and must be
-- larger than the last one. The answer is "200 OK", "400 Bad Request", "401 Unauthorized", "403 Index Expired" or "404
-- User Not Found". A request is followed by a session of four bytes, most significant first; its answer is followed by
-- 1, or by 0 if the request has failed, and by the session.

local crypt = require "skynet.crypt"
local gateserver = require "snax.gateserver"
local netpack = require "skynet.netpack"
local skynet = require "skynet"
local socketdriver = require "skynet.socketdriver"

local base64decode <const>, base64encode <const> = crypt.base64decode, crypt.base64encode

local M = {}

-- As in skynet, so that the functions of the handler may use `skynet.rawcall(agent, "client", message)`.
skynet.register_protocol { name = "client", id = skynet.PTYPE_CLIENT }

-- How many answers a user's connection keeps, for requests that are repeated on a new connection: the handler's field
-- `expired_number`.
local kept = 128

local users = {} -- by name: { secret, version, index, username, fd, ip, responses }
local connections = {} -- by socket: a user
local handshakes = {} -- by socket: the address of a client without a proof of its name

-- `userid(username)`: returns the user, the id of the login, and the server of a name.
function M.userid(username)
  local uid, server, subid = username:match "^([^@]*)@([^#]*)#(.*)"
  return base64decode(uid), base64decode(subid), base64decode(server)
end

-- `username(uid, subid, server)`: returns the name of a login.
function M.username(uid, subid, server)
  return ("%s@%s#%s"):format(base64encode(uid), base64encode(server), base64encode(tostring(subid)))
end

-- `login(username, secret)`: lets a client with that secret connect under the name.
function M.login(username, secret)
  users[username] = { secret = secret, version = 0, index = 0, username = username, responses = {} }
end

-- `logout(username)`: forgets a name, and closes its connection.
function M.logout(username)
  local user = users[username]
  users[username] = nil
  if user and user.fd then
    gateserver.closeclient(user.fd)
    connections[user.fd] = nil
  end
end

-- `ip(username)`: returns the address of a connected client, or nil.
function M.ip(username)
  local user = users[username]
  return user and user.fd and user.ip
end

-- The first message ----------------------------------------------------------------------------

-- Checks the first message of a connection. Returns the answer, and the user if the proof is valid.
local function authenticate(text)
  local username, index, code = text:match "^([^:]*):([^:]*):([^:]*)"
  local user = users[username]
  if not user then return "404 User Not Found" end
  local number = math.tointeger(tonumber(index))
  local ok, given = pcall(base64decode, code)
  if not ok then return "400 Bad Request" end
  if not number or number <= user.version then return "403 Index Expired" end
  if crypt.hmac_hash(user.secret, username .. ":" .. index) ~= given then return "401 Unauthorized" end
  user.version = number
  return "200 OK", user
end

local function send(fd, text)
  socketdriver.send(fd, (netpack.pack(text)))
end

local function begin(handler, fd, text)
  local address = handshakes[fd]
  handshakes[fd] = nil
  local ok, answer, user = pcall(authenticate, text)
  if not ok then
    skynet.error("Invalid package", answer)
    answer, user = "400 Bad Request", nil
  end
  if user then
    if user.fd then
      connections[user.fd] = nil
      gateserver.closeclient(user.fd)
    end
    user.fd, user.ip = fd, address
    connections[fd] = user
  end
  send(fd, answer)
  if not user then return gateserver.closeclient(fd) end
  if handler.auth_handler then handler.auth_handler(user.username, fd) end
end

-- Requests -------------------------------------------------------------------------------------

-- Drops the answers that are older than the last `kept` requests.
local function drop_old(user)
  if user.index < 2 * kept then return end
  local oldest = user.index - kept
  for session, response in pairs(user.responses) do
    if response.index < oldest and response.bytes then user.responses[session] = nil end
  end
end

-- Runs the program's handler. Returns the bytes of the answer.
local function answer_request(handler, user, text, session)
  local ok, result = pcall(handler.request_handler, user.username, text)
  if not ok then
    skynet.error(tostring(result))
    return "\0" .. session
  end
  return (result or "") .. "\1" .. session
end

local function request(handler, user, fd, message)
  if #message < 4 then return gateserver.closeclient(fd) end
  local text, session = message:sub(1, -5), message:sub(-4)
  user.index = user.index + 1
  local response = user.responses[session]
  if response and response.bytes and response.fd == fd then
    -- A client that has the answer may use the session for another request.
    response = nil
  end
  if response then
    response.fd, response.index = fd, user.index
  else
    response = { fd = fd, index = user.index }
    user.responses[session] = response
    response.bytes = answer_request(handler, user, text, session)
  end
  -- The client may have connected again meanwhile.
  if response.bytes and connections[response.fd] == user then send(response.fd, response.bytes) end
  drop_old(user)
end

-- The gate -------------------------------------------------------------------------------------

local function ended(handler, fd)
  handshakes[fd] = nil
  gateserver.closeclient(fd)
  local user = connections[fd]
  connections[fd] = nil
  if not user then return end
  user.fd = nil
  if handler.disconnect_handler then handler.disconnect_handler(user.username) end
end

local function commands(handler)
  local CMD = { login = handler.login_handler, logout = handler.logout_handler, kick = handler.kick_handler }
  return function(name, _, ...)
    local f = CMD[name]
    if not f then error(("msgserver: there is no command '%s'"):format(tostring(name)), 0) end
    return f(...)
  end
end

local function opened(handler, conf)
  if not handler.register_handler then return end
  if not conf.servername then error("open: the field 'servername' is missing", 0) end
  return handler.register_handler(conf.servername)
end

-- `start(handler)`: makes this service a gate. The functions of the handler: `request_handler(username, message)`
-- returns the answer; `login_handler(uid, secret)` answers the command "login" of the login server,
-- `logout_handler(uid, subid)` "logout", `kick_handler(uid, subid)` "kick"; and if they are needed
-- `register_handler(servername)`, which runs when the gate opens, `auth_handler(username, fd)`, which runs when the
-- proof of a client is valid, and `disconnect_handler(username)`.
function M.start(handler)
  if type(handler) ~= "table" then require "lio.misuse".argument("start", 1, "table", handler) end
  if not handler.request_handler then
    require "lio.misuse".bad("start", 1, "the handler 'request_handler' is missing")
  end
  kept = handler.expired_number or kept
  gateserver.start {
    open = function(_, conf) return opened(handler, conf) end,
    connect = function(fd, address)
      handshakes[fd] = address
      gateserver.openclient(fd)
    end,
    disconnect = function(fd) ended(handler, fd) end,
    error = function(fd) ended(handler, fd) end,
    command = commands(handler),
    message = function(fd, message, size)
      local text = netpack.tostring(message, size)
      if handshakes[fd] then return begin(handler, fd, text) end
      local user = connections[fd]
      if not user then return gateserver.closeclient(fd) end
      request(handler, user, fd, text)
    end,
  }
end

return M
