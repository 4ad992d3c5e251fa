-- The game server: players connect to it after their login. Each login has a service `player`, which answers requests.

local msgserver = require "snax.msgserver"
local skynet = require "skynet"

local login <const> = ...

local users = {} -- by name of the login: { uid, subid, player }
local server_name
local last_subid = 0

local server = {}

function server.register_handler(name)
  server_name = name
  skynet.call(login, "lua", "register", name, skynet.self())
end

function server.login_handler(uid, secret)
  last_subid = last_subid + 1
  local username = msgserver.username(uid, last_subid, server_name)
  users[username] = { uid = uid, subid = last_subid, player = skynet.newservice("player", uid) }
  msgserver.login(username, secret)
  return last_subid
end

local function leave(uid, subid)
  local username = msgserver.username(uid, subid, server_name)
  local user = users[username]
  users[username] = nil
  msgserver.logout(username)
  if user then skynet.send(user.player, "lua", "stop") end
end

function server.logout_handler(uid, subid)
  leave(uid, subid)
  skynet.call(login, "lua", "logout", uid, subid)
end

server.kick_handler = leave

function server.disconnect_handler(username)
  skynet.error(("%s has lost the connection"):format(msgserver.userid(username)))
end

function server.request_handler(username, message)
  return (skynet.rawcall(users[username].player, "client", message))
end

msgserver.start(server)
