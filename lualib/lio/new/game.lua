-- The files of `lio new game`: an authoritative loop of 20 ticks per second, and a line protocol over TCP.

return {
  ["main.lua"] = [[
-- Serves the game: `lio main.lua`. Try it with `nc 127.0.0.1 8080`, then `join Ada` and `move 1 0`.

local loop = require "lio.loop"
local server = require "server"

loop.run(function()
  local addr, port = os.getenv "ADDR" or "127.0.0.1", tonumber(os.getenv "PORT") or 8080
  local game = assert(server.start(addr, port))
  io.stdout:write(("serving the game on %s:%d\n"):format(game:address()))
  io.stdout:flush()
  game:run()
end)
]],

  ["world.lua"] = [[
-- The state of the game and its rules, without network and clock, so that tests can step it.

local SIZE <const> = 100 -- the world is a square of SIZE × SIZE
local SPEED <const> = 10 -- units per second

local World = {}
World.__index = World

local M = {}

function M.new()
  return setmetatable({ players = {}, last_id = 0, ticks = 0 }, World)
end

-- Adds a player in the middle of the world. Returns the player's id.
function World:join(name)
  self.last_id = self.last_id + 1
  self.players[self.last_id] = { name = name, x = SIZE / 2, y = SIZE / 2, dx = 0, dy = 0 }
  return self.last_id
end

function World:leave(id)
  self.players[id] = nil
end

-- Sets the direction of a player: `dx` and `dy` are -1, 0 or 1. The server decides how far the player moves.
function World:steer(id, dx, dy)
  local player = self.players[id]
  player.dx, player.dy = math.max(-1, math.min(1, dx)), math.max(-1, math.min(1, dy))
end

-- Moves every player for `seconds`.
function World:step(seconds)
  self.ticks = self.ticks + 1
  for _, player in pairs(self.players) do
    player.x = math.max(0, math.min(SIZE, player.x + player.dx * SPEED * seconds))
    player.y = math.max(0, math.min(SIZE, player.y + player.dy * SPEED * seconds))
  end
end

-- Returns the state as one line: the number of the tick, and id:x:y of each player.
function World:state()
  local ids, words = {}, { "state " .. self.ticks }
  for id in pairs(self.players) do ids[#ids + 1] = id end
  table.sort(ids)
  for _, id in ipairs(ids) do
    local player = self.players[id]
    words[#words + 1] = ("%d:%.1f:%.1f"):format(id, player.x, player.y)
  end
  return table.concat(words, " ")
end

return M
]],

  ["server.lua"] = [[
-- The network and the clock of the game. A client sends lines: `join NAME`, `move DX DY`, `quit`. The server sends
-- `welcome ID`, `error …`, and after each tick the state of the world. Only the server changes the world.

local loop = require "lio.loop"
local net = require "lio.net"
local worlds = require "world"

local TICK <const> = 1 / 20 -- seconds
local LONGEST_LINE <const> = 200 -- bytes
local LONGEST_QUEUE <const> = 64 * 1024 -- bytes that may wait for a client that does not read
local IDLE <const> = 60 -- seconds after which a client that sends nothing loses its connection
local SLOW <const> = 5 -- seconds that an answer may wait for a client that does not read

local Server = {}
Server.__index = Server

local M = {}

-- The commands of clients. A handler returns the line to answer with, or nil.
local commands = {}

function commands.join(self, player, name)
  if player.id then return "error joined twice" end
  if not name:find "^%w+$" then return "error the name has characters other than letters and digits" end
  player.id = self.world:join(name)
  return "welcome " .. player.id
end

function commands.move(self, player, words)
  local dx, dy = words:match "^(-?%d+) (-?%d+)$"
  if not player.id then return "error join first" end
  if not dx then return "error move needs two numbers" end
  self.world:steer(player.id, tonumber(dx), tonumber(dy))
end

-- Reads the lines of one client until it leaves.
local function serve_client(self, connection)
  local player = {}
  connection:timeout(self.idle, SLOW)
  self.connections[connection] = true
  for line in function() return connection:recv("line", LONGEST_LINE) end do
    local word, rest = line:match "^(%l+) ?(.-)\r?$"
    if word == "quit" then break end
    local command = commands[word]
    local answer = command and command(self, player, rest) or not command and "error unknown command"
    if answer and not connection:send(answer .. "\n") then break end
  end
  self.connections[connection] = nil
  if player.id then self.world:leave(player.id) end
end

-- `start(addr, port [, idle])` returns a server that listens; or nil and a message. Call it in a task of the loop. A
-- client that sends nothing for `idle` seconds loses its connection.
function M.start(addr, port, idle)
  local self = setmetatable({ world = worlds.new(), connections = {}, idle = idle or IDLE }, Server)
  local listener, message = net.listen(addr, port)
  if not listener then return nil, message end
  self.listener = listener
  self.server = net.serve(listener, function(connection) serve_client(self, connection) end)
  return self
end

-- Returns the address and the port.
function Server:address()
  return self.listener:address()
end

-- Steps the world once, and sends its state to every client. A client that does not read loses its connection, and
-- delays no other.
function Server:tick()
  self.world:step(TICK)
  local list = {}
  for connection in pairs(self.connections) do list[#list + 1] = connection end
  local _, missed = net.broadcast(list, self.world:state() .. "\n", LONGEST_QUEUE)
  for connection in pairs(missed or {}) do connection:close() end
end

-- Runs the game until `stop`. The next tick is due at a fixed time, so that the delays of ticks do not add up.
function Server:run()
  local due = loop.now()
  while not self.is_stopped do
    due = due + TICK
    loop.sleep(math.max(0, due - loop.now()))
    self:tick()
  end
end

function Server:stop()
  self.is_stopped = true
  self.server:stop(0)
end

return M
]],

  ["world_test.lua"] = [[
-- `lio test` runs this file: the rules of the game.

local testing = require "lio.testing"
local worlds = require "world"

testing.test("a player moves in its direction and stops at the border", function()
  local world = worlds.new()
  local id = world:join "Ada"
  world:steer(id, 1, -1)
  world:step(1)
  testing.eq(world:state(), "state 1 1:60.0:40.0")
  for _ = 1, 10 do world:step(1) end
  testing.eq(world:state(), "state 11 1:100.0:0.0")
end)

testing.test("a direction is at most one unit", function()
  local world = worlds.new()
  local id = world:join "Ada"
  world:steer(id, 1000, 0)
  world:step(1)
  testing.eq(world:state(), "state 1 1:60.0:50.0")
end)

testing.test("a player that leaves disappears", function()
  local world = worlds.new()
  world:leave(world:join "Ada")
  world:step(1)
  testing.eq(world:state(), "state 1")
end)
]],

  ["server_test.lua"] = [[
-- `lio test` runs this file: the protocol, over a real connection.

local net = require "lio.net"
local server = require "server"
local testing = require "lio.testing"

testing.test("a client joins, moves and sees the state", function()
  local game = assert(server.start("127.0.0.1", 0))
  local client = assert(net.connect("127.0.0.1", select(2, game:address())))
  local function ask(line)
    client:send(line .. "\n")
    return client:recv "line"
  end
  testing.eq(ask "move 1 0", "error join first")
  testing.eq(ask "join Ada", "welcome 1")
  testing.eq(ask "join Bob", "error joined twice")
  testing.eq(ask "jump", "error unknown command")
  client:send "move 1 0\n"
  testing.eq(ask "move x", "error move needs two numbers") -- the lines before it have been handled
  game:tick()
  testing.eq(client:recv "line", "state 1 1:50.5:50.0")
  client:close()
  game:stop()
end)

testing.test("a client that does not read loses its connection, and delays no other", function()
  local game = assert(server.start("127.0.0.1", 0))
  local function join(name)
    local client = assert(net.connect("127.0.0.1", select(2, game:address())))
    client:send("join " .. name .. "\n")
    testing.ok(client:recv("line"):find "^welcome ")
    return client
  end
  local reader, sleeper = join "Ada", join "Bob"
  for _ = 1, 1000 do game.world:join "Extra" end -- long messages fill the buffers of the system sooner
  local connections = game.connections
  while next(connections, next(connections)) do -- until one of the two is left
    game:tick()
    testing.ok(reader:recv "line")
  end
  testing.ok(sleeper:recv "all")
  game:tick()
  testing.ok(reader:recv("line"):find "^state %d+ 1:")
  reader:close()
  sleeper:close()
  game:stop()
end)

testing.test("a client that sends nothing loses its connection", function()
  local game = assert(server.start("127.0.0.1", 0, 0.01))
  local client = assert(net.connect("127.0.0.1", select(2, game:address())))
  testing.eq(client:recv "line", nil)
  client:close()
  game:stop()
end)
]],

  ["README.md"] = [[
# $name$

A game server on lio. The server alone changes the world, 20 times per second;
clients send their input and get the state.

| command | what it does |
|---|---|
| `lio main.lua` | serves on 127.0.0.1:8080 (`ADDR` and `PORT` in the environment change the address) |
| `nc 127.0.0.1 8080` | a client: `join Ada`, `move 1 0`, `quit` |
| `lio test` | runs the tests in `world_test.lua` and `server_test.lua` |
| `lio check` | reports syntax errors and undefined globals |

| file | content |
|---|---|
| `world.lua` | the state and the rules, without network and clock |
| `server.lua` | the protocol and the ticks |
| `main.lua` | the start |
| `Dockerfile`, `$name$.service` | for Docker and for systemd |
]],
}
