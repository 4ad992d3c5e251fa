-- The first service of run.lua: starts a server with a gate, a watchdog and agents, then a login server and a game
-- server, and at last a client that uses them.

local skynet = require "skynet"

local HOST <const> = "127.0.0.1"

local function port(name)
  return math.tointeger(tonumber(skynet.getenv(name)))
end

skynet.start(function()
  local watchdog = skynet.newservice "watchdog"
  skynet.call(watchdog, "lua", "start", { address = HOST, port = port "echo_port", maxclient = 64, nodelay = true })

  local login = skynet.newservice "login"
  local game = skynet.newservice("game", login)
  skynet.call(game, "lua", "open", { address = HOST, port = port "game_port", maxclient = 64, servername = "one" })

  skynet.newservice("client", port "echo_port", port "login_port", port "game_port")
  skynet.exit()
end)
