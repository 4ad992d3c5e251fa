-- A WebSocket connection: messages, pings, the closing handshake. Created by web/websocket.lua and
-- websocket/connect.lua. The frames are native (`lio.websocket.core`, src/modules/websocket/), on top of a connection
-- of `lio.net`.
--
-- Invariant: the native code calls `on_end` once, when no further message can arrive; the connection is then closed,
-- and all waits on it end.

local core = require "lio.websocket.core"
local defer = require "lio.defer"
local misuse = require "lio.misuse"
local stream = require "lio.stream"

local send <const> = core.send
local now <const> = require("lio").now

-- How long the closing handshake may take, in seconds.
local CLOSE_TIME <const> = 5
-- Messages are sent at once while at most this number of bytes waits for the peer; `send` waits if more are queued.
local HIGH_WATER <const> = 64 * 1024

local NORMAL <const>, ABNORMAL <const> = 1000, 1006
-- The default limit of `try_send`: how many bytes may be queued for the peer.
local LIMIT <const> = 1024 * 1024

local M = {}

-- Fields: `c` (the connection of lio.net), `driver`, `protocol` (the subprotocol, or nil), `is_compressed`, `topics`
-- (the topics to which it belongs, or nil), `on_closed` (called once at the end, or nil), `timer`, `ping_after` and
-- `timeout` (seconds, or false), `awaits_pong`, `queued_at_ping` (bytes), `is_closing` (whether `close` was called, or
-- the connection has ended), `is_awaited` (whether a task waits for the peer's close frame), `ended`, `closers` (the
-- tokens of other tasks in `close`, or nil), `code` and `reason` (of the end, once it is known). For web/websocket.lua:
-- `app_server`, and `served` (the callbacks, while they receive; see web/websocket_callbacks.lua).
local WebSocket = {}
WebSocket.__index = WebSocket
WebSocket.__name = "lio.websocket"

M.WebSocket = WebSocket

-- connection of lio.net: WebSocket connection
local all = setmetatable({}, { __mode = "k" })

-- driver: the native `receive` for its tasks, or a function in Lua
local receivers = setmetatable({}, { __mode = "k" })

-- The end ----------------------------------------------------------------------------------------------

-- Called when no further message can arrive. Closes the connection, and wakes the tasks that wait.
local function finish(ws, code, reason)
  if ws.ended then return end
  ws.ended, ws.is_closing, ws.code, ws.reason = true, true, code, reason
  all[ws.c] = nil
  local driver <const> = ws.driver
  if ws.timer then driver.timers:free(ws.timer) end
  driver:set_event_handler(ws.c, nil)
  driver.net.close(ws.c)
  for topic in pairs(ws.topics or {}) do topic:remove(ws) end
  for token in pairs(ws.closers or {}) do driver:wake(token, true) end
  local on_closed = ws.on_closed
  if on_closed then on_closed(ws) end
end

-- Called by native code: the peer's side of the connection has ended with this code.
local function on_end(c, code, reason)
  local ws = all[c]
  if ws then finish(ws, code, reason) end
end

-- Called by native code: bytes are queued, and no task waits until they are sent.
local function on_queued(c)
  local ws = all[c]
  if ws then ws.driver:flush_later(c) end
end

-- Receiving --------------------------------------------------------------------------------------------

-- The function that receives without waiting: returns a message and its kind; false if none has arrived; nil at the
-- end.
local poll = core.poller(on_end, on_queued)

-- Returns the function that receives a message on a connection of lio.net and waits for it, for the tasks of a driver.
local function receiver_of(driver)
  local receive = receivers[driver]
  if receive then return receive end
  if driver.is_native then
    receive = core.receiver(on_end, on_queued)
  else
    receive = function(c)
      while true do
        local message, kind = poll(c)
        if message ~= false then return message, kind end
        if driver:wait_readable(c) == "closed" then return nil end
      end
    end
  end
  receivers[driver] = receive
  return receive
end

-- The function that calls `callback(ws, message, kind)` for each message that has arrived on `c`.
M.pass = core.passer(on_end, on_queued)

local function check(ws, call)
  if getmetatable(ws) ~= WebSocket then misuse.no_colon("ws", call) end
end

-- Returns whether the messages are passed to callbacks.
local function receives_for_callbacks(ws)
  local served <const> = ws.served
  return served ~= nil and served.is_receiving and not ws.is_closing
end

-- Raises if the messages are passed to callbacks.
local function check_receiver(ws, call)
  check(ws, call)
  if receives_for_callbacks(ws) then misuse.raise(call .. ": the callbacks of this connection receive its messages") end
end

-- Returns whether a task receives on the connection, or callbacks do.
local function has_receiver(ws)
  return receives_for_callbacks(ws) or stream.has_native_reader(ws.c) or ws.driver.read_queue.holders[ws.c] ~= nil
end

-- Returns the next message and its kind; nil at the end; or nil, "timeout" if none has arrived until `deadline`.
local function receive_until(ws, deadline)
  while true do
    local message, kind = poll(ws.c)
    if message ~= false then return message, kind end
    local left = deadline - now()
    local reason = left > 0 and ws.driver:wait_readable(ws.c, left) or "timeout"
    if reason == "timeout" then return nil, reason end
    if reason == "closed" then return nil end
  end
end

-- `for message, kind in ws:messages() do`: iterates over the messages until the connection ends; `kind` is "text" or
-- "binary". Afterwards `ws.code` and `ws.reason` say how the connection has ended. Only one task may receive.
function WebSocket:messages()
  check_receiver(self, "messages")
  return self.receive_from, self.c
end

-- `ws:receive([seconds])` returns the next message and its kind, "text" or "binary"; nil, "closed", "closed" if the
-- connection has ended; nil, "timeout", "timeout" if none has arrived within `seconds`.
function WebSocket:receive(seconds)
  check_receiver(self, "receive")
  misuse.check_optional_seconds("receive", 1, seconds)
  if self.ended then return nil, "closed", "closed" end
  local message, kind
  if not seconds then
    message, kind = self.receive_from(self.c)
  else
    if has_receiver(self) then misuse.raise "receive: another task is already receiving on this connection" end
    message, kind = receive_until(self, now() + seconds)
    if message == nil and kind then return nil, kind, kind end
  end
  if message then return message, kind end
  return nil, "closed", "closed"
end

-- Sending ----------------------------------------------------------------------------------------------

-- Waits until the queued bytes have been sent. Returns true; or nil, message, code.
local function wait_until_sent(ws)
  local ok, message, _, code = ws.driver.net.send(ws.c)
  if ok then return true end
  finish(ws, ABNORMAL, message)
  return nil, message, code
end

-- Continues after `send` of the native code has returned `queued, message, code`: the number of bytes that are queued
-- for the peer; or nil, message, code.
local function after_send(ws, queued, message, code)
  if not queued then
    if code == "misuse" then misuse.raise(message) end
    -- While the connection closes, the peer's close frame may still arrive.
    if not ws.is_closing then finish(ws, ABNORMAL, message) end
    return nil, message, code
  end
  if queued < 0 then
    -- The peer accepts everything: other tasks get their turn.
    ws.driver:sleep(0)
    return true
  end
  if queued > HIGH_WATER then return wait_until_sent(ws) end
  ws.driver:flush_later(ws.c)
  return true
end

-- `ws:send(message [, kind])`: sends a message. `kind` is "text" (default), and then the message must be UTF-8, or
-- "binary". Waits while more than 64 KiB are queued for the peer. Returns true; or nil, message, code if the connection
-- has ended or is closing.
function WebSocket:send(message, kind)
  local queued, text, code = send(self.c, message, kind)
  if queued == true then return true end
  return after_send(self, queued, text, code)
end

-- `ws:try_send(message [, kind [, limit]])`: like `send`, but never waits. Returns false, "full" if more than `limit`
-- bytes (1 MiB) are queued for the peer; the message is then not sent.
function WebSocket:try_send(message, kind, limit)
  check(self, "try_send")
  if limit ~= nil and (math.type(limit) ~= "integer" or limit < 0) then
    misuse.bad("try_send", 3, "limit must be an integer of at least 0")
  end
  if self.c:queued() > (limit or LIMIT) then return false, "full" end
  local queued, text, code = send(self.c, message, kind)
  if queued == true then return true end
  if not queued then return after_send(self, nil, text, code) end
  if queued > 0 then self.driver:flush_later(self.c) end
  return true
end

-- `ws:ping([payload])`: sends a ping with a payload of at most 125 bytes. The connection sends pings by itself, see the
-- option `ping`. Returns true; false, "full" if more than 1 MiB is queued for the peer; or nil, message, code.
function WebSocket:ping(payload)
  check(self, "ping")
  if self.c:queued() > LIMIT then return false, "full" end
  local queued, message, code = core.ping(self.c, payload or "")
  if queued == true then return true end
  if not queued then return after_send(self, nil, message, code) end
  if queued > 0 then self.driver:flush_later(self.c) end
  return true
end

-- `ws:queued()` returns how many bytes the peer has not accepted yet.
function WebSocket:queued()
  check(self, "queued")
  return self.c:queued()
end

-- Closing ----------------------------------------------------------------------------------------------

-- Waits until the connection has ended, at most CLOSE_TIME seconds.
local function await_end(ws)
  local driver <const> = ws.driver
  local token <const> = driver:new_token()
  ws.closers = ws.closers or {}
  ws.closers[token] = true
  local _ <close> = defer(function() ws.closers[token] = nil end)
  driver:wait(token, CLOSE_TIME)
end

-- Skips messages until the peer has closed its side, at most CLOSE_TIME seconds. Then ends the connection, even if the
-- task is killed.
local function await_close(ws)
  ws.is_awaited = true
  local _ <close> = defer(function() finish(ws, ABNORMAL, "the peer has not answered the close frame") end)
  if has_receiver(ws) then
    -- The task that receives will call `on_end`.
    await_end(ws)
  else
    local deadline = now() + CLOSE_TIME
    repeat
      local message, problem = receive_until(ws, deadline)
    until not message or problem == "timeout"
  end
end

-- `ws:close([code [, reason]])`: ends the connection: sends a close frame, and waits at most 5 seconds for the peer's.
-- Messages that arrive meanwhile are discarded, unless another task receives them. `code` is 1000 (default) or another
-- code that RFC 6455 section 7.4 lets an endpoint send; `reason` is a text of at most 123 bytes. Returns true.
-- Idempotent. Outside of a task, does not wait: a new task does. Afterwards `ws.code` and `ws.reason` are those of the
-- peer's close frame (RFC 6455 section 7.1.5), or 1006 if none has arrived.
function WebSocket:close(code, reason)
  check(self, "close")
  if self.ended then return true end
  code = code or NORMAL
  local sent, message, problem = core.close(self.c, code, reason or "")
  if not sent then
    if problem == "misuse" then misuse.raise(message) end
    finish(self, ABNORMAL, message)
    return true
  end
  local driver <const>, is_first <const> = self.driver, not self.is_closing
  self.is_closing = true
  driver:flush_later(self.c)
  if self.served and is_first then
    -- From now on, the messages are not for the callbacks.
    driver:set_event_handler(self.c, nil)
  end
  if coroutine.isyieldable() then
    if self.is_awaited then await_end(self) else await_close(self) end
  elseif is_first then
    driver.scheduler.fork(await_close, self)
  end
  return true
end

WebSocket.__close = function(ws) ws:close() end

-- `ws:abort()`: closes the connection at once, without a close frame. Returns true. Idempotent.
function WebSocket:abort()
  check(self, "abort")
  finish(self, ABNORMAL, "aborted")
  return true
end

-- `ws:is_closed()` returns whether the connection has ended.
function WebSocket:is_closed()
  check(self, "is_closed")
  return self.ended
end

function WebSocket:__tostring()
  return (tostring(self.c):gsub("^connection", "websocket"))
end

-- Liveness ---------------------------------------------------------------------------------------------

-- Returns whether a peer that has sent nothing may be alive: no task receives, so that its bytes are unread, and it has
-- accepted bytes since the ping.
local function may_be_alive(ws)
  if has_receiver(ws) then return false end
  local queued <const> = ws.c:queued()
  return queued == 0 or queued ~= ws.queued_at_ping
end

-- Called when the timer fires. If the peer has been silent, sends a ping; if it has been silent since a ping, ends the
-- connection.
function WebSocket:expired()
  if self.ended then return end
  local seconds = self.ping_after
  if core.take_life(self.c) then
    self.awaits_pong = false
  elseif self.awaits_pong and may_be_alive(self) then
    self.awaits_pong = false
  elseif self.awaits_pong then
    return finish(self, ABNORMAL, "the peer does not answer")
  else
    self.awaits_pong = true
    self:ping()
    self.queued_at_ping = self.c:queued()
    seconds = self.timeout
  end
  if not self.ended then self.driver.timers:set(self.timer, seconds) end
end

-- Creating ---------------------------------------------------------------------------------------------

-- `new(driver, c, settings)` returns the WebSocket connection on top of `c`, after the handshake. `settings`: `role`
-- ("server" or "client"), `deflate` (the agreed parameters of the compression in their native form, or nil),
-- `protocol`, `ping` and `timeout` (seconds, or false), `max_message`, `max_frame` (bytes), `max_ratio`,
-- `compress_from` (bytes), `max_rate` (messages a second, or nil).
function M.new(driver, c, settings)
  core.start(c, settings.role == "client", settings.deflate, settings.max_message, settings.max_frame,
    settings.max_ratio, settings.compress_from, settings.max_rate)
  local ws = setmetatable({
    c = c,
    driver = driver,
    receive_from = receiver_of(driver),
    protocol = settings.protocol,
    is_compressed = settings.deflate ~= nil,
    ping_after = settings.ping,
    timeout = settings.timeout,
    is_closing = false,
    ended = false,
  }, WebSocket)
  all[c] = ws
  if settings.ping then
    ws.timer = driver.timers:create(ws)
    driver.timers:set(ws.timer, settings.ping)
  end
  return ws
end

return M
