-- One connection to a server: sends a request, and reads the response. Part of `lio.http.client`.
--
-- From `pool:acquire` until the response is read, a connection belongs to one task. Otherwise, the connection is idle
-- in the pool, and is closed if the server sends anything. Invariant: a connection that is left in the middle of a
-- request or response is closed and never used again. The argument `timeouts` is a table with `read` and `write`
-- (seconds for each wait) and `deadline` (a time on the clock of `lio.now`).

local defer = require "lio.defer"
local http = require "lio.http"
local now <const> = require("lio").now
local try_send <const> = require("lio.stream").methods.try_send

local READ <const>, WRITE <const> = 1, 2
-- The maximum number of interim responses (1xx) to one request.
local MAX_INTERIM <const> = 100

local M = {}

local Connection = {}
Connection.__index = Connection

-- `new(driver, c, options)` returns the connection on the stream `c`. `options`: `headers` (the maximum size of a
-- response's head in bytes) and `fields` (the maximum number of its fields).
function M.new(driver, c, options)
  local self = setmetatable({
    driver = driver,
    net = driver.net,
    c = c,
    responses = http.responses(c, options.headers, options.fields),
    request_count = 0,
    interim_count = 0,
    idle = false,
    waits_for_both = false, -- a task waits until the stream is readable or writable
    sending = false, -- another task sends the rest of a request
    is_last = false, -- the request contains `Connection: close`
    is_unusable = false,
    waited = now(), -- when a task last waited
  }, Connection)
  driver:set_event_handler(c, self)
  return self
end

-- Called by the loop for events of the stream.
function Connection:on_events(events)
  if self.idle then
    if not self.responses:is_quiet() then self:close() end
  elseif self.waits_for_both and events & (READ | WRITE) ~= 0 then
    self.driver:wake_reader(self.c, true)
  else
    self.driver:dispatch(self.c, events)
  end
end

-- Called when the timer of an idle connection fires.
function Connection:expired()
  if self.idle then self:close() end
end

local function leave_pool(self)
  if self.timer then
    self.driver.timers:free(self.timer)
    self.timer = nil
  end
  if self.on_close then self.on_close(self) end
end

-- Closes the connection; a task that waits on the connection gets "closed". Idempotent.
function Connection:close()
  if self.closed then return end
  self.closed, self.is_unusable = true, true
  self.net.close(self.c)
  leave_pool(self)
end

-- `detach()` removes the connection from the pool and returns its stream, which the caller then owns.
function Connection:detach()
  self.closed, self.is_unusable = true, true
  self.driver:set_event_handler(self.c)
  self.net.timeout(self.c)
  leave_pool(self)
  return self.c
end

-- Returns whether another request can be sent on the connection.
function Connection:is_reusable()
  return not (self.is_unusable or self.sending or self.is_last) and self.responses:is_reusable()
end

-- Waiting ----------------------------------------------------------------------------------------------

local function timed_out(what)
  return nil, what .. ": timeout", "timeout"
end

-- Waits until the stream is readable; if `both` is true, until it is readable or writable. Returns true; or nil,
-- message, code. `what` describes the wait in the message of a timeout.
function Connection:wait(seconds, timeouts, both, what)
  local deadline = timeouts.deadline
  if deadline then
    local left = deadline - now()
    if left <= 0 then return timed_out(what) end
    if not seconds or left < seconds then seconds = left end
  end
  self.waits_for_both = both
  local reason = self.driver:wait_readable(self.c, seconds)
  self.waits_for_both, self.waited = false, now()
  if reason == "timeout" then return timed_out(what) end
  if reason == "closed" then return nil, "closed", "closed" end
  return true
end

-- Lets other tasks run during long work on a body. Returns true; or nil, message, code.
function Connection:yield(timeouts)
  self.driver:sleep(0)
  self.waited = now()
  if self.closed then return nil, "closed", "closed" end
  if timeouts.deadline and self.waited >= timeouts.deadline then return timed_out "reading the body" end
  return true
end

-- Reads the head of the final response without waiting. Returns status, head; false if the head has not arrived; or
-- nil, message, code.
function Connection:poll_head()
  while true do
    local status, head, code = self.responses:head()
    if not status then return status, head, code end
    if status >= 200 then return status, head end
    if status == 101 then
      if self.upgrades then return status, head end
      return nil, "the server switched protocols, which was not requested", "protocol"
    end
    self.interim_count = self.interim_count + 1
    self.continued = self.continued or status == 100
    if self.interim_count > MAX_INTERIM then return nil, "too many interim responses", "protocol" end
  end
end

-- Waits at most `seconds` (default: `timeouts.read`) for the head of the final response; an interim response restarts
-- this time. Returns status, head; or nil, message, code. If `until_continue` is true, returns false when the server
-- has requested the body or the time has passed.
function Connection:await_head(timeouts, seconds, until_continue)
  seconds = seconds or timeouts.read
  local since, interim_count = now(), self.interim_count
  while true do
    local status, head, code = self:poll_head()
    if status ~= false then return status, head, code end
    if until_continue and self.continued then return false end
    if self.interim_count ~= interim_count then since, interim_count = now(), self.interim_count end
    local left = seconds and math.max(since + seconds - now(), 0)
    local ok, message, why = self:wait(left, timeouts, false, "waiting for the response")
    if not ok then
      if until_continue and why == "timeout" and not (timeouts.deadline and now() >= timeouts.deadline) then
        return false
      end
      return nil, message, why
    end
  end
end

-- `conn:read(f, timeouts, limit)` calls `f`, a method of `conn.responses` that reads the body, and waits for data while
-- `f` returns false. Returns the results of `f`; or nil, message, code if waiting fails.
function Connection:read(f, timeouts, limit)
  while true do
    local data, message, code = f(self.responses, limit)
    if data ~= false then
      if message then self.is_unusable = true end
      return data, message, code
    end
    local ok
    ok, message, code = self:wait(timeouts.read, timeouts, false, "reading the body")
    if not ok then
      self.is_unusable = true
      return nil, message, code
    end
  end
end

-- Sending ----------------------------------------------------------------------------------------------

-- Sends strings. Returns true; or nil, message, code. If a response arrives before all strings are sent, returns false,
-- status, head; `self.unsent` then contains the unsent bytes, unless sending has failed.
function Connection:send(timeouts, ...)
  local done, message, _, code = try_send(self.c, 0, ...)
  while done ~= true do
    local status, head, why = self:poll_head()
    if status then
      if done then self.unsent = table.concat({ ... }):sub(done + 1) end
      return false, status, head
    end
    if not done then return nil, message, code end
    if status == nil then return nil, head, why end
    local ok
    ok, message, code = self:wait(timeouts.write, timeouts, true, "sending")
    if not ok then return nil, message, code end
    done, message, _, code = try_send(self.c, done, ...)
  end
  return true
end

-- Sends strings from a separate task, while another task reads the response. Returns true; or nil, message, code.
local function send_aside(self, _, ...)
  local ok, message, _, code = self.net.send(self.c, ...)
  return ok, message, code
end

-- Sends a piece of a body with `send`, which is `Connection.send` or `send_aside`. Returns the results of `send`.
local function send_piece(send, self, timeouts, request, piece)
  if piece == "" then return true end
  if not request.length then return send(self, timeouts, ("%x\r\n"):format(#piece), piece, "\r\n") end
  request.left = request.left - #piece
  if request.left < 0 then error("the request's body function returned more bytes than the Content-Length", 0) end
  return send(self, timeouts, piece)
end

local function end_pieces(send, self, timeouts, request)
  request.finished = true
  if not request.length then return send(self, timeouts, "0\r\n\r\n") end
  if request.left == 0 then return true end
  return nil, "the body is shorter than its announced length", "body"
end

-- Sends the remaining pieces of a body with `send`. Returns the same results as `Connection:send`.
local function send_pieces(send, self, timeouts, request)
  while not request.finished do
    local piece, problem = request.body:next()
    if piece == nil then
      if problem then return nil, tostring(problem), "body" end
      return end_pieces(send, self, timeouts, request)
    end
    local ok, message, code = send_piece(send, self, timeouts, request, piece)
    if not ok then return ok, message, code end
    if send ~= send_aside and request.left ~= 0 then
      -- If the response has already arrived, `on_early_response` decides whether to send the remaining pieces.
      local status, head, why = self:poll_head()
      if status then return false, status, head end
      if status == nil then return nil, head, why end
    end
  end
  return true
end

-- Sends the rest of a request in a separate task. Called if the server responds before it has received the whole
-- request.
local function continue_sending(self, timeouts, request)
  self.sending = true
  self.net.timeout(self.c, nil, timeouts.write)
  local guard = defer(function()
    if self.sending then self:close() end
  end)
  self.driver.scheduler.start(function()
    local _ <close> = guard
    local unsent = self.unsent
    if unsent and not send_aside(self, timeouts, unsent) then return end
    if send_pieces(send_aside, self, timeouts, request) then self.sending = false end
  end)
end

-- Called if the response has arrived before the whole request was sent. The rest is sent only if the status is below
-- 300.
local function on_early_response(self, timeouts, request, status)
  if status >= 300 then
    self.is_unusable = true
  elseif self.unsent or not request.finished then
    continue_sending(self, timeouts, request)
  end
end

-- Sends the head and the body. Returns the same results as `Connection:send`.
local function send_request(self, timeouts, request)
  local body = request.body
  if body and body.text and not request.expects then
    request.finished = true
    return self:send(timeouts, request.head, body.text)
  end
  request.finished = body == nil
  local ok, status, head = self:send(timeouts, request.head)
  if not ok then return ok, status, head end
  if body and request.expects then
    local code
    status, head, code = self:await_head(timeouts, request.expects, true)
    if status then
      -- The server has received no body and may still expect one.
      self.is_unusable = true
      return false, status, head
    end
    if status == nil then return nil, head, code end
  end
  if body and body.text then
    request.finished = true
    return self:send(timeouts, body.text)
  end
  return send_pieces(Connection.send, self, timeouts, request)
end

-- `conn:request(timeouts, request)` sends a request. Returns the status and the head of the final response; or nil,
-- message, code. Uses these fields of `request`: `head` (a string), `is_head`, `body`, `length` (nil: chunked),
-- `upgrades`, `expects` (how many seconds to wait for 100 Continue, or nil), `is_last` (whether the request contains
-- `Connection: close`).
function Connection:request(timeouts, request)
  self.request_count = self.request_count + 1
  self.interim_count, self.continued, self.upgrades, self.unsent = 0, false, request.upgrades, nil
  self.is_last = request.is_last
  request.left = request.length
  self.responses:expect(request.is_head)
  local ok, status, head = send_request(self, timeouts, request)
  if ok == nil then
    self.is_unusable = true
    return nil, status, head
  end
  if ok then return self:await_head(timeouts) end
  if not self.is_unusable then on_early_response(self, timeouts, request, status) end
  return status, head
end

return M
