-- A client of all servers. It prints what it gets, and ends the program.

local crypt = require "skynet.crypt"
local skynet = require "skynet"
local socket = require "skynet.socket"

local HOST <const> = "127.0.0.1"
local echo_port <const>, login_port <const>, game_port <const> = ...

-- Messages with a length of two bytes before them, most significant byte first.
local function send(id, text)
  socket.write(id, string.pack(">s2", text))
end

local function receive(id)
  return (socket.read(id, socket.header(assert(socket.read(id, 2), "the server has closed the connection"))))
end

local function use_echo()
  local id = assert(socket.open(HOST, echo_port))
  send(id, "hello")
  print(receive(id))
  socket.close(id)
end

-- Returns the server's answer, and the secret of the login.
local function log_in(user, password)
  local id = assert(socket.open(HOST, login_port))
  local function write(bytes) socket.write(id, crypt.base64encode(bytes) .. "\n") end
  local function read() return crypt.base64decode((assert(socket.readline(id)))) end
  local challenge = read()
  local key = crypt.randomkey()
  write(crypt.dhexchange(key))
  local secret = crypt.dhsecret(read(), key)
  write(crypt.hmac64(challenge, secret))
  write(crypt.desencode(secret, ("%s@one:%s"):format(user, password)))
  local answer = socket.readline(id)
  socket.close(id)
  return answer, secret
end

-- Connects to the game server. `index` is larger than that of the last connection. Returns the server's answer, and a
-- function that sends a request and returns its answer.
local function enter(user, subid, secret, index)
  local id = assert(socket.open(HOST, game_port))
  local proof = ("%s@%s#%s:%d"):format(crypt.base64encode(user), crypt.base64encode "one", crypt.base64encode(subid),
    index)
  send(id, proof .. ":" .. crypt.base64encode(crypt.hmac64(crypt.hashkey(proof), secret)))
  local function request(session, text)
    send(id, text .. string.pack(">I4", session))
    local answer = receive(id)
    local is_ok, answered = string.unpack(">BI4", answer, #answer - 4)
    assert(answered == session)
    return is_ok == 1 and answer:sub(1, -6) or "the request has failed"
  end
  return receive(id), request, id
end

skynet.start(function()
  skynet.fork(function()
    use_echo()
    print((log_in("ann", "guess")))
    local answer, secret = log_in("ann", "secret")
    print(answer)
    local subid = crypt.base64decode(answer:match "^200 (.*)")

    local result, request, id = enter("ann", subid, secret, 1)
    print(result)
    print(request(1, "look"))
    socket.close(id)

    -- On a new connection, a session that was answered gets the same answer.
    result, request = enter("ann", subid, secret, 2)
    print(result)
    print(request(1, "look"))
    print(request(2, "walk"))
    skynet.abort()
  end)
end)
