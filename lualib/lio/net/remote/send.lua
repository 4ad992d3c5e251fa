-- `send` of the connections of `lio.net.remote`. The caller has checked the first argument.
--
-- This VM sends messages directly, through the connection's shared writer, as long as the system accepts them. Other
-- messages are collected, and one request sends the messages of several tasks together. A file that the calling service
-- has opened is also a message, and is sent in pieces. Invariant: at most one `remote_send` request is in progress; a
-- separate task sends it (`sending`). `writer` is nil before the first `remote_send`. It becomes false when a request
-- of another kind sends bytes or shuts down the connection; from then on, all bytes are sent in requests, in order.

local failure <const> = require("lio.net.remote.request").failure
local ltask = require "ltask"
local misuse = require "lio.misuse"
local shared_writer = require "lio.shared_writer"

local call <const>, fork <const>, wait <const>, wakeup <const> = ltask.call, ltask.fork, ltask.wait, ltask.wakeup
local pack <const>, unpack <const>, type <const> = table.pack, table.unpack, type
local sub <const> = string.sub

-- A request can contain a few hundred values. If a message has more strings, they are joined into one string.
local MAX_STRINGS <const> = 100
-- A task that sends this many messages without waiting lets other tasks run.
local BURST <const> = 32
-- The maximum size in bytes of a file's pieces; each request sends one piece.
local PIECE <const> = 256 * 1024
local EBADF <const> = 9

local M = {}

-- Sends strings in a request. Returns the results of `pcall` for the request. If the service could not send all bytes,
-- these are true, nil, the message, the number of sent bytes, and the code.
local function request(c, ...)
  local ok, done, result, sent, code = pcall(call, c.io, "remote_send", c.id, ...)
  if not (ok and done) then
    c.writer = c.writer and nil
  elseif c.writer == nil and result then
    -- `result` is the id of the connection's shared writer.
    c.writer = shared_writer.find(result)
  end
  return ok, done, result, sent, code
end

-- Reports to the senders of a batch how its request ended. If the service could not send all bytes, `sent` is the
-- number of sent bytes, and `result` is the message.
local function report(batch, ok, done, result, sent, code)
  for _, message in ipairs(batch) do
    if not ok then
      wakeup(message, ok, done)
    elseif done then
      wakeup(message, true, true)
    else
      local own = math.min(sent, message.size)
      sent = sent - own
      if own == message.size and own > 0 then
        wakeup(message, true, true)
      else
        wakeup(message, true, nil, result, own, code)
      end
    end
  end
end

local function send_batch(c, batch)
  local strings, n = batch[1], batch[1].n
  if #batch > 1 then
    strings, n = {}, 0
    for _, message in ipairs(batch) do
      table.move(message, 1, message.n, n + 1, strings)
      n = n + message.n
    end
  end
  report(batch, request(c, unpack(strings, 1, n)))
end

-- Sends a message of `send_file`. Stops if the task that called `send_file` is killed.
local function send_pieces(c, message)
  local sent = 0
  while not message.is_over do
    local data, problem, code = message.read(sent)
    if not data then return wakeup(message, true, nil, problem, sent, code) end
    if data == "" then return wakeup(message, true, true) end
    local ok, done, result, partial
    ok, done, result, partial, code = request(c, data)
    if not ok then return wakeup(message, false, done, nil, sent) end
    if not done then return wakeup(message, true, nil, result, sent + partial, code) end
    sent = sent + #data
  end
end

-- Removes the messages for the next request from the outbox: one message while the outbox may contain a file, otherwise
-- all messages.
local function take_batch(c)
  local messages = c.outbox
  if not c.has_file then
    c.outbox = {}
    return messages
  end
  local first = table.remove(messages, 1)
  c.has_file = messages[1] ~= nil
  return { first }
end

-- The task that sends the messages in the outbox.
local function send_outbox(c)
  while c.outbox[1] do
    local batch = take_batch(c)
    if batch[1].read then send_pieces(c, batch[1]) else send_batch(c, batch) end
  end
  c.sending = false
end

-- Puts a message into the outbox, and waits until it is sent. If the request succeeded, returns true, followed by true,
-- or by nil, message, sent, code. If the request failed, returns false and the error.
local function queue(c, message)
  c.outbox[#c.outbox + 1] = message
  c.burst = 0
  if not c.sending then
    c.sending = true
    fork(send_outbox, c)
  end
  return wait(message)
end

-- Returns a message: a list of its strings, with their number `n` and their total `size` in bytes.
local function pack_message(...)
  local message = pack(...)
  local size = 0
  for index = 1, message.n do
    local kind = type(message[index])
    if kind == "number" then
      message[index] = tostring(message[index])
    elseif kind ~= "string" then
      misuse.argument("send", index + 1, "string", message[index])
    end
    size = size + #message[index]
  end
  if message.n > MAX_STRINGS then message = { table.concat(message), n = 1 } end
  message.size = size
  return message
end

-- Sends the bytes that the system accepts now. Returns true if all bytes were sent, otherwise the number of sent bytes;
-- on failure, false, a message and a code.
local function send_directly(c, ...)
  c.burst = c.burst + 1
  local sent, all, code = c.writer:send(...)
  if all == true then return true end
  if code then return false, all, code end
  return sent or 0
end

-- Returns the message without its first `sent` bytes.
local function without(message, sent)
  local data = table.concat(message, "", 1, message.n)
  return { sub(data, sent + 1), n = 1, size = #data - sent }
end

-- `send(c, …)`: like `net.send`.
function M.send(c, ...)
  local sent_directly = 0
  if c.writer and not c.sending and c.burst < BURST then
    local problem, code
    sent_directly, problem, code = send_directly(c, ...)
    if sent_directly == true then return true end
    if not sent_directly then return nil, problem, 0, code end
  end
  local message = pack_message(...)
  if c.closed then return nil, "closed", 0, "closed" end
  if sent_directly > 0 then message = without(message, sent_directly) end
  local ok, done, problem, sent, code = queue(c, message)
  if ok then
    if done then return true end
    return nil, problem, sent + sent_directly, code
  end
  problem, code = failure(done, c.io)
  if not problem then misuse.raise(code) end
  return nil, problem, sent_directly, code
end

-- A message of `send_file`. `read(sent)` returns the next bytes of the file, `""` at the end, or nil, message, code.
local File = {}

function File.__close(message)
  message.is_over = true
end

-- Returns a function that reads the bytes of a message from a file of `lio.file` or `io.open`. The position of the file
-- stays the same.
local function reader(file, offset, length)
  local is_standard = io.type(file) ~= nil
  local function read(at, count)
    if not is_standard then return file:read(at, count) end
    local before = file:seek()
    file:seek("set", at)
    local data, message, number = file:read(count)
    file:seek("set", before)
    if not data and message then return nil, message, number == EBADF and "EBADF" or "EIO" end
    return data or ""
  end
  return function(sent)
    if sent == length then return "" end
    local ok, data, message, code = pcall(read, offset + sent, math.min(length - sent, PIECE))
    if not ok then return nil, "sendfile: the file is closed", "closed" end
    if data == "" then return nil, "sendfile: the file has become shorter", "truncated" end
    return data, message, code
  end
end

-- `send_file(c, file, offset, length)`: like `net.sendfile`, for an open file. The arguments have been checked. No
-- bytes of other messages are between the bytes of the file.
function M.send_file(c, file, offset, length)
  if c.closed then return nil, "closed", 0, "closed" end
  local message <close> = setmetatable({ read = reader(file, offset, length) }, File)
  c.has_file = true
  local ok, done, problem, sent, code = queue(c, message)
  if not ok then
    problem, code = failure(done, c.io)
    if not problem then misuse.raise(code) end
  elseif done then
    return true
  end
  return nil, problem, sent, code
end

return M
