-- One message for many WebSocket connections: `broadcast`, and topics, which know their connections. Part of
-- `lio.websocket`. The frame is encoded once, and compressed once; the queues of slow connections share its bytes.

local connections = require "lio.websocket.connection"
local core = require "lio.websocket.core"
local misuse = require "lio.misuse"
local options = require "lio.options"

-- The default limit: how many bytes may be queued for a connection.
local LIMIT <const> = 1024 * 1024

local OPTIONS <const> = {
  kind = options.one_of("text", "binary"),
  limit = options.integer(0),
  slow = options.one_of("drop", "close"),
}

local M = {}

local function is_websocket(value) return getmetatable(value) == connections.WebSocket end

-- Sends a message to the connections in `list`, whose connections of lio.net are in `streams`. Returns the number of
-- connections that have accepted it, and the list of those that have not, or nil.
local function deliver(call, list, streams, message, opts)
  misuse.check(call, 2, message, "string")
  local count, queued, missed, failed = core.broadcast(streams, message, opts.kind or "text", opts.limit or LIMIT)
  if not count then misuse.raise(queued) end
  for _, place in ipairs(queued or {}) do
    local ws = list[place]
    ws.driver:flush_later(ws.c)
  end
  if not (missed and missed[1]) then return count end
  local late, lost = {}, {}
  for index, place in ipairs(missed) do late[index] = list[place] end
  for index, place in ipairs(failed) do lost[index] = list[place] end
  -- The end of a connection changes the list of a topic.
  for _, ws in ipairs(lost) do ws:abort() end
  if opts.slow == "close" then
    for _, ws in ipairs(late) do
      -- A connection that is closing is not slow.
      if not ws.is_closing then ws:abort() end
    end
  end
  return count, late
end

-- `broadcast(list, message [, opts])`: sends a message to a list of connections, without waiting. `opts`: `kind`
-- ("text" or "binary"), `limit` (a connection for which more bytes are queued, 1 MiB by default, does not get the
-- message), `slow` ("drop", the default: such a connection misses the message; "close": it is closed). Returns how many
-- connections have accepted the message; if some have not, also a list of them.
function M.broadcast(list, message, opts)
  misuse.check("broadcast", 1, list, "table")
  opts = options.check("websocket.broadcast", 3, opts, OPTIONS)
  local streams = {}
  for index, ws in ipairs(list) do
    streams[index] = is_websocket(ws) and ws.c or misuse.bad("broadcast", 1,
      ("a list of WebSocket connections expected, got %s at place %d"):format(misuse.shown(ws), index))
  end
  return deliver("broadcast", list, streams, message, opts)
end

-- Topics -----------------------------------------------------------------------------------------------

-- `list`: the connections; `streams`: their connections of lio.net, at the same places; `places`: connection: place.
local Topic = {}
Topic.__index = Topic
Topic.__name = "lio.websocket.topic"

local function check_topic(topic, call)
  if getmetatable(topic) ~= Topic then misuse.no_colon("topic", call) end
end

-- `topic([opts])` returns an empty topic. `opts` are those of `broadcast`, for each `send`.
function M.topic(opts)
  return setmetatable({
    opts = options.check("websocket.topic", 1, opts, OPTIONS), list = {}, streams = {}, places = {},
  }, Topic)
end

-- `topic:add(ws)`: adds a connection, which is removed when it ends. Returns whether it was added: false if the topic
-- already has it, or if it has ended.
function Topic:add(ws)
  check_topic(self, "add")
  if not is_websocket(ws) then misuse.argument("add", 1, "WebSocket connection", ws) end
  if self.places[ws] or ws.ended then return false end
  local place = #self.list + 1
  self.list[place], self.streams[place], self.places[ws] = ws, ws.c, place
  ws.topics = ws.topics or {}
  ws.topics[self] = true
  return true
end

-- `topic:remove(ws)`: removes a connection. Returns whether the topic had it.
function Topic:remove(ws)
  check_topic(self, "remove")
  local place = self.places[ws]
  if not place then return false end
  local last = #self.list
  local moved = self.list[last]
  self.list[place], self.streams[place], self.places[moved] = moved, moved.c, place
  self.list[last], self.streams[last], self.places[ws] = nil, nil, nil
  ws.topics[self] = nil
  return true
end

-- `topic:send(message [, kind])`: sends a message to all connections of the topic, without waiting. Returns the same as
-- `broadcast`.
function Topic:send(message, kind)
  check_topic(self, "send")
  local opts = self.opts
  if kind ~= nil then
    opts = setmetatable({ kind = kind }, { __index = opts })
    options.check("topic:send", 2, { kind = kind }, OPTIONS)
  end
  return deliver("send", self.list, self.streams, message, opts)
end

-- `topic:count()` returns the number of connections.
function Topic:count()
  check_topic(self, "count")
  return #self.list
end

-- `topic:members()` returns a list of the connections.
function Topic:members()
  check_topic(self, "members")
  return table.move(self.list, 1, #self.list, 1, {})
end

return M
