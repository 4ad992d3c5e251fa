-- `require "snax.loginserver"`: a server for logins. Clients and server agree on a secret, and the program decides
-- which game server a client may use. Used by login services.
--
-- The protocol has lines of Base64: a challenge for the client; the client's public number; the server's public number;
-- the client's answer to the challenge, with the secret of both; the token, encrypted with the secret. The answer is
-- "200 " with the program's result; "400 Bad Request", "401 Unauthorized", "403 Forbidden" or "406 Not Acceptable".
--
-- The service that the program starts is the master, which accepts; it creates the same service again, several times,
-- as slaves, which talk with the clients.

local crypt = require "skynet.crypt"
local skynet = require "skynet"
local socket = require "skynet.socket"

-- The longest line of a client, in bytes.
local LIMIT <const> = 8192
-- How many slaves there are, unless the configuration says otherwise.
local SLAVES <const> = 8

-- The errors after which a client gets no further answer.
local function final_error(text)
  return setmetatable({}, { __tostring = function() return text end })
end
local socket_error <const> = final_error "the client has closed the connection"
local wrong_answer <const> = final_error "the client's answer to the challenge is wrong"

local function check(data)
  if not data then error(socket_error, 0) end
  return data
end

local function write(fd, text)
  check(socket.write(fd, text))
end

local function read_base64(fd)
  return crypt.base64decode(check(socket.readline(fd)))
end

-- Slaves -------------------------------------------------------------------------------------

-- Agrees on a secret with a client. Returns the secret and the token of the client; or nil if the client does not know
-- the secret.
local function handshake(fd)
  local challenge = crypt.randomkey()
  write(fd, crypt.base64encode(challenge) .. "\n")
  local client_number = read_base64(fd)
  if #client_number ~= 8 then error("the client's public number is invalid", 0) end
  local private = crypt.randomkey()
  write(fd, crypt.base64encode(crypt.dhexchange(private)) .. "\n")
  local secret = crypt.dhsecret(client_number, private)
  if read_base64(fd) ~= crypt.hmac64(challenge, secret) then
    write(fd, "400 Bad Request\n")
    error(wrong_answer, 0)
  end
  return secret, crypt.desdecode(secret, read_base64(fd))
end

-- Returns true or false, the server, the user and the secret; on failure false and an error, or nil and an error if the
-- client needs no answer.
local function authenticate(auth_handler, fd)
  local started, secret, token = pcall(handshake, fd)
  if not started then
    if secret == socket_error or secret == wrong_answer then return nil, tostring(secret) end
    return false, tostring(secret)
  end
  local ok, server, uid = pcall(auth_handler, token)
  if not ok then return false, tostring(server) end
  return true, server, uid, secret
end

local function launch_slave(auth_handler)
  skynet.dispatch("lua", function(_, _, fd)
    local started, problem = socket.start(fd)
    if not started then return skynet.retpack(nil, problem) end
    socket.limit(fd, LIMIT)
    local result = table.pack(authenticate(auth_handler, fd))
    socket.abandon(fd)
    skynet.retpack(table.unpack(result, 1, result.n))
  end)
end

-- The master ---------------------------------------------------------------------------------

local logging_in = {} -- the users whose login is being handled

-- Handles a login that a slave has authenticated. Returns the line for the client, and the error to log, if any.
local function log_in(conf, server, uid, secret)
  if not conf.multilogin then
    if logging_in[uid] then
      return "406 Not Acceptable\n", ("the user %s is already logging in"):format(tostring(uid))
    end
    logging_in[uid] = true
  end
  local ok, result = pcall(conf.login_handler, server, uid, secret)
  logging_in[uid] = nil
  if ok then return ("200 %s\n"):format(crypt.base64encode(tostring(result or ""))) end
  return "403 Forbidden\n", tostring(result)
end

local function accept(conf, slave, fd, address)
  local called, ok, server, uid, secret = pcall(skynet.call, slave, "lua", fd, address)
  local answer, problem
  if not called then
    problem = tostring(ok)
  elseif ok then
    answer, problem = log_in(conf, server, uid, secret)
  else
    answer, problem = ok == false and "401 Unauthorized\n" or nil, server
  end
  if answer then socket.write(fd, answer) end
  if problem then skynet.error(("invalid client (fd = %d) error = %s"):format(fd, problem)) end
  socket.close_fd(fd)
end

local function launch_master(conf)
  local slaves, balance = {}, 1
  skynet.dispatch("lua", function(_, _, command, ...) skynet.retpack(conf.command_handler(command, ...)) end)
  for i = 1, conf.instance or SLAVES do slaves[i] = skynet.newservice(_G.SERVICE_NAME) end
  local host = conf.host or "0.0.0.0"
  local id, bound, port = socket.listen(host, conf.port)
  skynet.error(("login server listen at : %s %d"):format(bound, port))
  socket.start(id, function(fd, address)
    local slave = slaves[balance]
    balance = balance % #slaves + 1
    accept(conf, slave, fd, address)
  end)
end

local function check_conf(conf)
  if type(conf) ~= "table" then require "lio.misuse".argument("login", 1, "table", conf) end
  for _, name in ipairs { "auth_handler", "login_handler", "command_handler", "port" } do
    if conf[name] == nil then require "lio.misuse".bad("login", 1, ("the field '%s' is missing"):format(name)) end
  end
end

-- `login(conf)`: makes this service a login server. `conf.host` and `conf.port` are the address, `conf.name` the name
-- that the master registers (".login" by default), `conf.instance` the number of slaves, `conf.multilogin` allows
-- several logins of a user at a time. `auth_handler(token)` returns the server and the user, `login_handler(server,
-- user, secret)` what the client gets; both raise to refuse. `command_handler(command, …)` answers other services.
return function(conf)
  check_conf(conf)
  local name = "." .. (conf.name or "login")
  skynet.start(function()
    if skynet.localname(name) then return launch_slave(conf.auth_handler) end
    skynet.register(name)
    launch_master(conf)
  end)
end
