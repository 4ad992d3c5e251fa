-- A game whose server decides everything: lio examples/websocket/game.lua [port [seconds]]
--
-- Players move on a field and collect coins. Clients send only which keys are pressed. 20 times a second, the server
-- moves all players and sends the state of the field to all of them: the message is encoded once. A client that is too
-- slow misses states, and continues with a newer one. examples/websocket/game_players.lua plays.
--
-- With `seconds`, the server ends after this time. At the end, it prints how regular its steps were.

local json = require "lio.json"
local lio = require "lio"
local loop = require "lio.loop"
local web = require "lio.webserver"
local websocket = require "lio.websocket"

local port, seconds = ...
seconds = tonumber(seconds)

local STEP <const> = 1 / 20 -- seconds
local SIZE <const> = 1000 -- of the field
local SPEED <const> = 300 -- a second
local REACH <const> = 20 -- distance at which a player gets the coin
local MAX_PLAYERS <const> = 500

-- This number of queued bytes is several seconds of states. A client with more misses states until it has read them.
local viewers = websocket.topic { limit = 64 * 1024, slow = "drop" }
local players, count, last_id = {}, 0, 0 -- connection: { id, x, y, dx, dy, score }
local coin = { math.random(SIZE), math.random(SIZE) }
local step_number = 0

-- The world --------------------------------------------------------------------------------------------

local function move(value, direction)
  return math.min(SIZE, math.max(0, value + direction * SPEED * STEP))
end

local function step()
  step_number = step_number + 1
  for _, player in pairs(players) do
    player.x, player.y = move(player.x, player.dx), move(player.y, player.dy)
    if (player.x - coin[1]) ^ 2 + (player.y - coin[2]) ^ 2 < REACH ^ 2 then
      player.score = player.score + 1
      coin = { math.random(SIZE), math.random(SIZE) }
    end
  end
end

local function state()
  local list = json.array()
  for _, player in pairs(players) do
    list[#list + 1] = { player.id, math.floor(player.x), math.floor(player.y), player.score }
  end
  return json.encode { step = step_number, coin = coin, players = list }
end

-- Connections ------------------------------------------------------------------------------------------

local DIRECTIONS <const> = { [-1] = true, [0] = true, [1] = true }

local game = {}

function game.open(ws)
  if count >= MAX_PLAYERS then return ws:close(1013, "the game is full") end
  last_id, count = last_id + 1, count + 1
  players[ws] = {
    id = last_id, x = math.random(0, SIZE), y = math.random(0, SIZE), dx = 0, dy = 0, score = 0,
  }
  ws:send(json.encode { you = last_id, size = SIZE })
  viewers:add(ws)
end

-- An input is `[dx, dy]`, each -1, 0 or 1. It applies to the next steps, so a client gains nothing by sending more.
function game.message(ws, text)
  local player, input = players[ws], json.decode(text)
  if not player then return end
  if type(input) ~= "table" or not (DIRECTIONS[input[1]] and DIRECTIONS[input[2]]) then
    return ws:close(1008, "an input is [dx, dy]")
  end
  player.dx, player.dy = input[1], input[2]
end

function game.close(ws)
  if not players[ws] then return end
  players[ws], count = nil, count - 1
end

local app = web.new()
app:ws("/game", { max_message = 64, compress = false }, game)

-- The loop of the game -----------------------------------------------------------------------------------

local latest = 0.0 -- seconds

-- Each step has its time, counted from the start, so a late step does not delay those after it.
local function play()
  local began <const> = lio.now()
  while not seconds or lio.now() - began < seconds do
    step()
    viewers:send(state())
    local due = began + step_number * STEP
    latest = math.max(latest, lio.now() - due)
    loop.sleep(math.max(0, due - lio.now()))
  end
  loop.stop()
end

loop.grace = 1
loop.run(function()
  loop.fork(play)
  app:run(math.tointeger(tonumber(port)) or 8080, { addr = "127.0.0.1" })
end)
print(("%d steps; the latest step was %.0f ms late"):format(step_number, math.max(0, latest) * 1000))
