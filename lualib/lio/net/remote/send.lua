-- `send` of the connections of `lio.net.remote`. The caller has checked the first argument.
--
-- This VM sends messages directly, through the connection's shared writer, as long as the system accepts them. Other
-- messages are collected, and one request sends the messages of several tasks together. Invariant: at most one
-- `remote_send` request is in progress; a separate task sends it (`sending`). `writer` is nil before the first
-- `remote_send`. It becomes false when another request sends bytes or ends the sending: from then on, all bytes are
-- sent by requests, in their order.

local failure <const> = require("lio.net.remote.request").failure
local ltask = require "ltask"
local misuse = require "lio.misuse"
local shared_writer = require "lio.shared_writer"

local call <const>, fork <const>, wait <const>, wakeup <const> = ltask.call, ltask.fork, ltask.wait, ltask.wakeup
local pack <const>, unpack <const>, type <const> = table.pack, table.unpack, type
local sub <const> = string.sub

-- A request can contain a few hundred values. A message of more strings is joined into one string.
local MAX_STRINGS <const> = 100
-- A task that sends this many messages without waiting lets other tasks run.
local BURST <const> = 32

-- Reports to the senders of a batch how its request ended. If it failed, `sent` is how many bytes of the batch were
-- sent, and `result` is the message; otherwise `result` is the number of the connection's shared writer.
local function report(c, batch, ok, done, result, sent, code)
  if not (ok and done) then
    c.writer = c.writer and nil
  elseif c.writer == nil and result then
    c.writer = shared_writer.find(result)
  end
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

-- The task that sends the messages in the outbox.
local function send_outbox(c)
  while c.outbox[1] do
    local batch = c.outbox
    c.outbox = {}
    local strings, n = batch[1], batch[1].n
    if #batch > 1 then
      strings, n = {}, 0
      for _, message in ipairs(batch) do
        table.move(message, 1, message.n, n + 1, strings)
        n = n + message.n
      end
    end
    report(c, batch, pcall(call, c.io, "remote_send", c.handle, unpack(strings, 1, n)))
  end
  c.sending = false
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

-- Sends the bytes that the system accepts now. Returns true if these are all bytes, otherwise their number; on failure
-- false, a message and a code.
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
return function(c, ...)
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
  c.outbox[#c.outbox + 1] = message
  c.burst = 0
  if not c.sending then
    c.sending = true
    fork(send_outbox, c)
  end
  local ok, done, problem, sent, code = wait(message)
  if ok then
    if done then return true end
    return nil, problem, sent + sent_directly, code
  end
  problem, code = failure(done, c.io)
  if not problem then misuse.raise(code) end
  return nil, problem, sent_directly, code
end
