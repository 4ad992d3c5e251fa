-- Players for examples/websocket/game.lua, as browsers would play: lio examples/websocket/game_players.lua [port
-- [players [seconds]]]
--
-- Each player is a task that walks to the coin. At the end, the program prints how many states the players have got,
-- and the longest time between two states.

local json = require "lio.json"
local lio = require "lio"
local loop = require "lio.loop"
local thread = require "lio.thread"
local websocket = require "lio.websocket"

local port = math.tointeger(tonumber(arg[1])) or 8080
local players = math.tointeger(tonumber(arg[2])) or 20
local seconds = tonumber(arg[3]) or 5

-- Returns the direction from one number to another.
local function direction(from, to)
  if math.abs(to - from) < 15 then return 0 end
  return from < to and 1 or -1
end

local function find(list, id)
  for _, player in ipairs(list) do
    if player[1] == id then return player end
  end
end

local function receive(ws)
  local text = assert(ws:receive(10))
  return json.decode(text)
end

-- Plays until the time has passed. Returns the number of states, the longest pause between two of them, and the score.
local function play()
  local ws <close> = assert(websocket.connect(("ws://127.0.0.1:%d/game"):format(port), {
    origin = "http://127.0.0.1:" .. port,
    headers = { ["User-Agent"] = "lio game_players" },
  }))
  local id = receive(ws).you
  local states, longest, score, last_step = 0, 0.0, 0, nil
  local began = lio.now()
  local before, sent = began, ""
  while lio.now() - began < seconds do
    local state = receive(ws)
    local now, me = lio.now(), find(state.players, id)
    if last_step then assert(state.step > last_step, "a state is older than the one before") end
    longest = math.max(longest, now - before)
    before, last_step, states = now, state.step, states + 1
    if me then
      score = me[4]
      local input = json.encode { direction(me[2], state.coin[1]), direction(me[3], state.coin[2]) }
      if input ~= sent then
        assert(ws:send(input))
        sent = input
      end
    end
  end
  return states, longest, score
end

loop.run(function()
  local threads = {}
  for index = 1, players do threads[index] = thread.spawn(play) end
  local fewest, longest, coins = math.huge, 0, 0
  for _, one in ipairs(threads) do
    local ok, states, pause, score = thread.wait(one)
    if not ok then error(states, 0) end
    fewest, longest, coins = math.min(fewest, states), math.max(longest, pause), coins + score
  end
  print(("%d players, %g seconds: at least %d states each, longest pause %.0f ms, %d coins"):format(
    players, seconds, fewest, longest * 1000, coins))
end)
