-- The programs of examples/websocket as child processes of this suite's host, with clients of `lio.websocket`.

local t = require "tests.kit"
local childkit = require "tests.kit.server_process"
local http = require "tests.kit.raw_http"
local json = require "lio.json"
local loop = require "lio.loop"
local websocket = require "lio.websocket"

-- Runs `f(connect, port, child)` while an example serves; `connect(path, opts)` opens a connection. The example must
-- end with exit code 0; `f` returns true if it has sent SIGTERM. Returns what it has printed after its address.
local function with(name, arguments, f)
  local script = t.quote(t.root .. "examples/websocket/" .. name .. ".lua")
  local words = { t.lio(), script, "0", table.unpack(arguments) }
  local child <close>, port = childkit.start("timeout --foreground -k 10 60 " .. table.concat(words, " "))
  local has_killed
  local ok, problem = xpcall(loop.run, debug.traceback, function()
    has_killed = f(function(path, opts)
      return assert(websocket.connect(("ws://127.0.0.1:%d%s"):format(port, path), opts))
    end, port, child)
  end)
  -- A second SIGTERM would end the program without its stop.
  if not has_killed then child:kill() end
  local rest = child:all()
  local code = child:close()
  if not ok then error(problem .. "\n" .. rest, 0) end
  t.eq(code, 0, rest)
  return rest
end

local function receive(ws)
  local text, message = ws:receive(10)
  return json.decode((t.ok(text, message or ws.reason)))
end

t.test("echo sends messages back, and closes its connections when it ends", function()
  with("echo", {}, function(connect, _, child)
    local list = {}
    for _, path in ipairs { "/echo", "/callbacks" } do
      local ws = connect(path, { origin = "http://another.example" })
      list[#list + 1] = ws
      t.ok(ws:send "hellö")
      t.eq({ ws:receive(10) }, { "hellö", "text" })
      t.ok(ws:send("\255\0", "binary"))
      t.eq({ ws:receive(10) }, { "\255\0", "binary" })
    end
    child:kill()
    for _, ws in ipairs(list) do
      t.eq({ ws:receive(10) }, { nil, "closed", "closed" })
      t.eq(ws.code, 1001)
    end
    return true
  end)
end)

t.test("chat: the members of a room get its messages, and those of other rooms do not", function()
  with("chat/main", {}, function(connect)
    local ada = connect "/rooms/one?name=Ada"
    t.eq(receive(ada), { messages = {} })
    t.eq(receive(ada), { members = { "Ada" } })
    local bob, eve = connect "/rooms/one?name=Bob", connect "/rooms/two?name=Eve"
    t.eq(receive(ada), { members = { "Ada", "Bob" } })
    t.eq({ receive(bob), receive(bob) }, { { messages = {} }, { members = { "Ada", "Bob" } } })
    t.eq({ receive(eve), receive(eve) }, { { messages = {} }, { members = { "Eve" } } })
    ada:send " hello\n<b> "
    local got = receive(bob).messages[1]
    t.eq({ got.from, got.text }, { "Ada", "hello <b>" })
    t.eq(receive(ada).messages[1].id, got.id)
    bob:close()
    t.eq(receive(ada), { members = { "Ada" } })
    t.eq({ eve:receive(0.05) }, { nil, "timeout", "timeout" })
    ada:close()
    eve:close()
  end)
end)

t.test("chat: a page that reconnects gets the messages that it has missed", function()
  with("chat/main", {}, function(connect)
    local ada = connect "/rooms/one?name=Ada"
    t.eq({ receive(ada), receive(ada) }, { { messages = {} }, { members = { "Ada" } } })
    ada:send "first"
    local first = receive(ada).messages[1].id
    ada:send "second"
    t.ok(receive(ada).messages[1].id > first)
    local bob = connect("/rooms/one?name=Bob&after=" .. first)
    local missed = receive(bob).messages
    t.eq({ #missed, missed[1].text }, { 1, "second" })
    bob:close()
    ada:close()
  end)
end)

t.test("chat: refuses other pages, members without names, and members that send too much", function()
  with("chat/main", {}, function(connect, port)
    local address = ("ws://127.0.0.1:%d/rooms/one?name=Ada"):format(port)
    local ws, _, code = websocket.connect(address, { origin = "http://another.example" })
    t.eq({ ws, code }, { nil, "refused" })
    ws = connect "/rooms/one?name=%20"
    t.is_nil(ws:receive(10))
    t.eq({ ws.code, ws.reason }, { 1008, "a name of 1 to 30 characters is needed" })
    ws = connect("/rooms/one?name=Ada", { origin = "http://127.0.0.1:" .. port })
    for _ = 1, 30 do ws:send "x" end
    local count = 0
    for text in ws:messages() do
      if text:find '"text":"x"' then count = count + 1 end
    end
    t.eq({ ws.code, ws.reason }, { 1008, "too many messages" })
    t.ok(count >= 10 and count < 30, count)
  end)
end)

t.test("chat: members over wss", function()
  local certificate, key = require("lio.tls").self_signed()
  local folder = t.tmp()
  local files = { t.quote(t.write(folder .. "/cert.pem", certificate)), t.quote(t.write(folder .. "/key.pem", key)) }
  with("chat/main", files, function(_, port)
    local address = ("wss://127.0.0.1:%d/rooms/one?name=Ada"):format(port)
    t.eq((select(3, websocket.connect(address))), "tls", "the certificate is not trusted")
    local ws <close> = assert(websocket.connect(address, {
      tls = { ca = certificate },
      origin = "https://127.0.0.1:" .. port,
    }))
    t.eq({ receive(ws), receive(ws) }, { { messages = {} }, { members = { "Ada" } } })
    ws:send(("x"):rep(500))
    t.eq(receive(ws).messages[1].text, ("x"):rep(500))
  end)
end)

t.test("chat serves its page with a policy that allows no foreign scripts", function()
  with("chat/main", {}, function(_, port)
    local c <close> = http.open(port)
    local r = c:request("GET", "/")
    t.eq({ r.status, r.headers["content-type"] }, { 200, "text/html; charset=utf-8" })
    t.ok(r.headers["content-security-policy"]:find("script-src 'self'", 1, true))
    for _, file in ipairs { "chat.js", "chat.css" } do
      t.ok(r.body:find('"' .. file .. '"', 1, true))
      t.eq(c:request("GET", "/" .. file).status, 200)
    end
  end)
end)

t.test("game sends its state 20 times a second to 20 players, and they collect coins", function()
  local played
  local rest = with("game", { 30 }, function(_, port)
    played = t.run(("timeout -k 1 60 %s %s %d 20 3"):format(
      t.lio(), t.quote(t.root .. "examples/websocket/game_players.lua"), port))
  end)
  t.eq({ played.err, played.code }, { "", 0 })
  local fewest, coins = played.out:match "^20 players, 3 seconds: at least (%d+) states each, .*, (%d+) coins\n$"
  -- 60 states in 3 seconds; a machine that is busy may delay some, and never sends more.
  fewest = math.tointeger(tonumber(fewest))
  t.ok(fewest and fewest >= 30 and fewest <= 65, played.out)
  t.ok(tonumber(coins) > 0, played.out)
  t.ok(tonumber(rest:match "(%d+) steps; ") >= 60, rest)
end)

t.test("game moves a player as its input says, and refuses other inputs", function()
  with("game", { 30 }, function(connect)
    local ws = connect "/game"
    local id = receive(ws).you
    -- Returns the player's place in the next state.
    local function place()
      local state = receive(ws)
      for _, player in ipairs(state.players) do
        if player[1] == id then return player[2], state.step end
      end
    end
    ws:send "[1,0]"
    local x = place()
    while x < 1000 do
      local before = x
      x = place()
      -- A step is a 20th of a second, at 300 a second; the input may have arrived after the state.
      t.ok(x == before or x == before + 15 or x == 1000, x - before)
    end
    ws:send "[2,0]"
    while ws:receive(10) do end
    t.eq({ ws.code, ws.reason }, { 1008, "an input is [dx, dy]" })
  end)
end)

t.test("game ends after its time", function()
  local r = t.run(("timeout -k 1 60 %s %s 0 0.2"):format(t.lio(), t.quote(t.root .. "examples/websocket/game.lua")))
  t.eq({ r.err, r.code }, { "", 0 })
  t.ok(r.out:find "\n[4-6] steps; the latest step was %d+ ms late\n$", r.out)
end)

t.test("auction: the service of an item sends each new price to the connections that watch it", function()
  with("auction/main", { 1 }, function(connect)
    local ada, bob = connect "/items/lamp?name=Ada", connect "/items/lamp?name=Bob"
    local eve = connect "/items/clock?name=Eve"
    for _, ws in ipairs { ada, bob } do t.eq(receive(ws), { item = "lamp", price = 0, sold = false }) end
    t.eq(receive(eve), { item = "clock", price = 0, sold = false })
    ada:send "50"
    for _, ws in ipairs { ada, bob } do
      t.eq(receive(ws), { item = "lamp", price = 50, bidder = "Ada", sold = false })
    end
    bob:send "50"
    t.eq(receive(bob), { refused = "a bid must be higher than 50" })
    for _, ws in ipairs { ada, bob } do
      t.eq(receive(ws), { item = "lamp", price = 50, bidder = "Ada", sold = true })
    end
    bob:send "51"
    t.eq(receive(bob), { refused = "the item is sold" })
    t.eq({ eve:receive(0.05) }, { nil, "timeout", "timeout" })
    local nothing = connect "/items/nothing?name=Eve"
    t.is_nil(nothing:receive(10))
    t.eq(nothing.code, 1008)
    for _, ws in ipairs { ada, bob, eve } do ws:close() end
  end)
end)

t.test("auction: a bid starts the time of the item again", function()
  with("auction/main", { 2 }, function(connect)
    local ws = connect "/items/chair?name=Ada"
    t.eq(receive(ws).price, 0)
    ws:send "10"
    t.eq(receive(ws), { item = "chair", price = 10, bidder = "Ada", sold = false })
    t.eq({ ws:receive(1) }, { nil, "timeout", "timeout" })
    local began = loop.now()
    ws:send "11"
    t.eq(receive(ws), { item = "chair", price = 11, bidder = "Ada", sold = false })
    t.eq(receive(ws), { item = "chair", price = 11, bidder = "Ada", sold = true })
    t.ok(loop.now() - began >= 1.9, loop.now() - began)
    ws:close()
  end)
end)

t.finish()
