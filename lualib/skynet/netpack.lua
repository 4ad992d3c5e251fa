-- `require "skynet.netpack"`: messages with a length of two bytes before them, most significant byte first. Used by
-- snax.gateserver, and by programs with their own gate server.
--
-- A message is a Lua string, and its size the length of the string: `tostring` returns it, and `skynet.trash` has
-- nothing to do.

local frames = require "skynet.frames"
local misuse = require "lio.misuse"
local socketdriver = require "skynet.socketdriver"

local frame <const>, read_event <const> = frames.frame, socketdriver.unpack

-- The size of the largest message.
local LARGEST <const> = 65535

local M = {}

-- The types of events, as in socketdriver.
local CONNECT <const>, CLOSE <const>, ACCEPT <const>, ERROR <const>, WARNING <const> = 2, 3, 4, 5, 7

-- Raises unless a value is a queue of `filter`, or nil.
local function check_queue(call, queue)
  if queue ~= nil and type(queue) ~= "userdata" then misuse.argument(call, 1, "queue", queue) end
end

-- The results of `filter` for the other events.
local function describe(queue, kind, id, number, data)
  if kind == ACCEPT then return queue, "open", number, data end
  if kind == CONNECT then return queue, "init", id, data, number end
  if kind == WARNING then return queue, "warning", id, number end
  if queue then queue:forget(id) end
  if kind == CLOSE then return queue, "close", id end
  if kind == ERROR then return queue, "error", id, data end
  return queue
end

-- `filter(queue, data, size)`: the `unpack` of a protocol "socket" for framed messages. `queue` is nil, or the first
-- result of the last call. Returns the queue, and what has happened: "data" with the socket, a message and its size;
-- "more" if several messages are queued for `pop`; "open" with the new socket and its address; "close" with the socket;
-- "error" with the socket and a message; "warning" with the socket and the KiB that are waiting to be sent; "init" with
-- a listener, its address and its port; nothing if no message is complete.
function M.filter(queue, data)
  check_queue("filter", queue)
  local kind, id, number = read_event(data)
  if kind ~= 1 then return describe(queue, kind, id, number, data) end
  queue = queue or frames.new()
  local message = queue:push(id, data)
  if not message then return queue end
  if message == true then return queue, "more" end
  return queue, "data", id, message, #message
end

-- `pop(queue)`: returns the socket of the next queued message, the message and its size; nothing if none is queued.
function M.pop(queue)
  check_queue("pop", queue)
  if not queue then return end
  local id, message = queue:pop()
  if id then return id, message, #message end
end

-- `clear(queue)`: drops all messages, and what has arrived of incomplete ones.
function M.clear(queue)
  check_queue("clear", queue)
  if queue then queue:clear() end
end

-- `pack(message[, size])`: returns the message with its length before it, and the size of both. Raises if the message
-- has more than 65,535 bytes.
function M.pack(message, size)
  if type(message) == "userdata" then message = require "skynet.packed_message".take_string(message, size) end
  if type(message) == "number" then message = tostring(message) end
  misuse.check("pack", 1, message, "string")
  if #message > LARGEST then
    misuse.bad("pack", 1, ("the message has %d bytes; at most %d are possible"):format(#message, LARGEST))
  end
  local bytes = frame(message)
  return bytes, #bytes
end

-- `tostring(message[, size])`: returns a message as a string; for nil, the empty string.
M.tostring = require "skynet.packed_message".tostring

return M
