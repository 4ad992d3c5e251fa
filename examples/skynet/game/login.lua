-- The login server: checks passwords, and passes the secret of each login to the game server.

local login = require "snax.loginserver"
local skynet = require "skynet"

local games = {} -- by name: the address of a game server
local online = {} -- by user: { game, subid }

local server = {
  host = "127.0.0.1",
  port = assert(math.tointeger(tonumber(skynet.getenv "login_port"))),
  instance = 2,
}

-- Runs in a slave. The token is the client's, after decryption.
function server.auth_handler(token)
  local user, game, password = token:match "^([^@]+)@([^:]+):(.+)$"
  assert(password == "secret", "the password is wrong")
  return game, user
end

-- Runs in the master, as `command_handler` does.
function server.login_handler(name, uid, secret)
  local game = assert(games[name], "there is no such game server")
  local last = online[uid]
  if last then skynet.call(last.game, "lua", "kick", uid, last.subid) end
  local subid = skynet.call(game, "lua", "login", uid, secret)
  online[uid] = { game = game, subid = subid }
  return subid
end

local CMD = {}

function CMD.register(name, game)
  games[name] = game
end

function CMD.logout(uid, subid)
  if online[uid] and online[uid].subid == subid then online[uid] = nil end
end

function server.command_handler(command, ...)
  return CMD[command](...)
end

login(server)
