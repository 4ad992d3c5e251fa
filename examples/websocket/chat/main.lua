-- Chat rooms in a web page: lio examples/websocket/chat/main.lua [port [certificate key]]
--
-- Open the printed address in two windows. With the files of a certificate and its key, the page uses https and wss.
-- Stop the server and start it again: the pages reconnect.
--
-- Each room is a topic. A connection that is silent has no task, so a server can have many of them.

local json = require "lio.json"
local lio = require "lio"
local loop = require "lio.loop"
local web = require "lio.webserver"
local websocket = require "lio.websocket"

local port, certificate, key = ...

local HISTORY <const> = 50 -- messages that a new member gets
local LENGTH <const> = 500 -- characters of a message
local RATE <const>, BURST <const> = 1, 10 -- messages a second, and at once

local rooms = {} -- name: { topic, history }
local members = {} -- connection: { name, room, allowed, since }
local last_id = 0

-- Returns a number for a message that is larger than all numbers before, even those before a restart.
local function new_id()
  last_id = math.max(last_id + 1, lio.wall() * 1000 // 1 | 0)
  return last_id
end

local function room_of(name)
  local room = rooms[name]
  if not room then
    -- A member with more than 256 KiB of unsent messages is disconnected; its page connects again.
    room = { topic = websocket.topic { limit = 256 * 1024, slow = "close" }, history = {} }
    rooms[name] = room
  end
  return room
end

local function names_in(room)
  local names = json.array()
  for _, ws in ipairs(room.topic:members()) do names[#names + 1] = members[ws].name end
  table.sort(names)
  return names
end

local function send_members(room)
  room.topic:send(json.encode { members = names_in(room) })
end

-- Returns the text without control characters and without white space at its ends, or nil if it is empty or too long.
local function clean(text, length)
  if type(text) ~= "string" then return nil end
  local line = text:gsub("%c", " "):match "^%s*(.-)%s*$" or ""
  local count = utf8.len(line)
  if count and count > 0 and count <= length then return line end
end

-- Returns whether the member may send a message now (a token bucket).
local function take_turn(member)
  local now = lio.now()
  member.allowed = math.min(BURST, member.allowed + (now - member.since) * RATE)
  member.since = now
  if member.allowed < 1 then return false end
  member.allowed = member.allowed - 1
  return true
end

local chat = {}

function chat.open(ws, req)
  local name = clean(req.query.name, 30)
  if not name then return ws:close(1008, "a name of 1 to 30 characters is needed") end
  local room = room_of(req.params.room)
  members[ws] = { name = name, room = room, allowed = BURST, since = lio.now() }
  local after, missed = math.tointeger(tonumber(req.query.after)) or 0, json.array()
  for _, message in ipairs(room.history) do
    if message.id > after then missed[#missed + 1] = message end
  end
  ws:send(json.encode { messages = missed })
  -- The connection may have ended while the task waited.
  if room.topic:add(ws) then send_members(room) end
end

function chat.message(ws, text)
  local member = members[ws]
  if not member then return end
  local line = clean(text, LENGTH)
  if not line then return ws:close(1008, "a message has 1 to " .. LENGTH .. " characters") end
  if not take_turn(member) then return ws:close(1008, "too many messages") end
  local room, message = member.room, { id = new_id(), from = member.name, text = line }
  table.insert(room.history, message)
  if #room.history > HISTORY then table.remove(room.history, 1) end
  room.topic:send(json.encode { messages = { message } })
end

function chat.close(ws)
  local member = members[ws]
  if not member then return end
  members[ws] = nil
  send_members(member.room)
end

local app = web.new()
local folder = arg[0]:match "^(.*/)[^/]*$" or "./"

app:use(function(_, res, next)
  res:header("Content-Security-Policy",
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'")
  next()
end)
app:static("/", folder .. "page")
app:ws("/rooms/:room<[a-z0-9-]+>", { max_message = 4096 }, chat)

loop.grace = 2
app:run(math.tointeger(tonumber(port)) or 8080, {
  addr = "127.0.0.1",
  tls = certificate and { cert = certificate, key = key } or nil,
})
