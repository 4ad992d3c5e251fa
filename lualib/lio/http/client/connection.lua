-- One connection to a server: sends a request, reads its answer. Part of `lio.http.client`.
--
-- A connection is one task's from `pool:acquire` until its answer is read; between, it is idle in the pool,
-- where whatever the server sends, its end included, closes it. Invariant: one that is left in the
-- middle of anything is closed and never used again. `timing`: `read` and `write` (seconds a wait may last),
-- `deadline` (`lio.now`, for all of it).

local http = require "lio.http"
local now <const> = require("lio").now
local put <const> = require("lio.stream").methods.put

local READ <const>, WRITE <const> = 1, 2
-- Interim answers to one request.
local MOST_INTERIM <const> = 100

local M = {}

local Connection = {}
Connection.__index = Connection

-- `new(driver, c, options)` → the connection on the stream `c`. `options`: `headers`, `fields` (limits).
function M.new(driver, c, options)
  local self = setmetatable({
    driver = driver,
    net = driver.net,
    c = c,
    x = http.answers(c, options.headers, options.fields),
    uses = 0,
    idle = false,
    both = false,
    sending = false,
    is_last = false,
    broken = false,
    interim = 0,
  }, Connection)
  driver:set_event_handler(c, self)
  return self
end

-- The loop has events.
function Connection:on_events(events)
  if self.idle then
    if not self.x:is_quiet() then self:close() end
  elseif self.both and events & (READ | WRITE) ~= 0 then
    self.driver:wake_reader(self.c, true)
  else
    self.driver:dispatch(self.c, events)
  end
end

-- The timer of an idle connection.
function Connection:expired()
  if self.idle then self:close() end
end

-- Closes the connection; who waits on it is told. Idempotent.
function Connection:close()
  if self.gone then return end
  self.gone, self.broken = true, true
  self.net.close(self.c)
  if self.timer then
    self.driver.timers:free(self.timer)
    self.timer = nil
  end
  if self.on_close then self.on_close(self) end
end

-- Whether another request may be sent on it.
function Connection:is_reusable()
  return not (self.broken or self.sending or self.is_last) and self.x:is_reusable()
end

local function expired(what)
  return nil, what .. ": timeout", "timeout"
end

-- Waits until there may be more to read or, when `both`, room to send. → true, or nil, message, code.
function Connection:wait(seconds, timing, both, what)
  local deadline = timing.deadline
  if deadline then
    local left = deadline - now()
    if left <= 0 then return expired(what) end
    if not seconds or left < seconds then seconds = left end
  end
  self.both = both
  local reason = self.driver:wait_readable(self.c, seconds)
  self.both = false
  if reason == "timeout" then return expired(what) end
  if reason == "closed" then return nil, "closed", "closed" end
  return true
end

-- Looks for the final answer's head. → status, head; false when it has not come; nil, message, code.
function Connection:look()
  while true do
    local status, head, code = self.x:head()
    if not status then return status, head, code end
    if status >= 200 then return status, head end
    if status == 101 then
      if self.upgrades then return status, head end
      return nil, "the server switches protocols, which nobody asked for", "protocol"
    end
    self.interim = self.interim + 1
    self.continued = self.continued or status == 100
    if self.interim > MOST_INTERIM then return nil, "too many interim answers", "protocol" end
  end
end

-- Waits for the final answer's head, `seconds` at most from the last interim one. → status, head; nil, message,
-- code; false when `until_continue` and the server has asked for the body, or the time is over.
function Connection:await_head(timing, seconds, until_continue)
  seconds = seconds or timing.read
  local since, interim = now(), self.interim
  while true do
    local status, head, code = self:look()
    if status ~= false then return status, head, code end
    if until_continue and self.continued then return false end
    if self.interim ~= interim then since, interim = now(), self.interim end
    local left = seconds and math.max(since + seconds - now(), 0)
    local ok, message, why = self:wait(left, timing, false, "waiting for the answer")
    if not ok then
      if until_continue and why == "timeout" and not (timing.deadline and now() >= timing.deadline) then
        return false
      end
      return nil, message, why
    end
  end
end

-- Sends strings, looking for an answer when they do not go out at once. → true; nil, message, code; or, when
-- an answer came first, false, status, head, with `rest` being what was not sent.
function Connection:send(timing, ...)
  local done, message, _, code = put(self.c, 0, ...)
  while done ~= true do
    local status, head, why = self:look()
    if status then
      if done then self.rest = table.concat({ ... }):sub(done + 1) end
      return false, status, head
    end
    if not done then return nil, message, code end
    if status == nil then return nil, head, why end
    local ok
    ok, message, code = self:wait(timing.write, timing, true, "sending")
    if not ok then return nil, message, code end
    done, message, _, code = put(self.c, done, ...)
  end
  return true
end

-- As `send`, in a task of its own while another reads the answer.
local function send_behind(self, _, ...)
  local ok, message, _, code = self.net.send(self.c, ...)
  return ok, message, code
end

-- Sends one piece of a body in the form that the head has announced.
local function send_piece(send, self, timing, request, piece)
  if piece == "" then return true end
  if not request.length then return send(self, timing, ("%x\r\n"):format(#piece), piece, "\r\n") end
  request.left = request.left - #piece
  if request.left < 0 then error("the function of the request's body gave more than its Content-Length", 0) end
  return send(self, timing, piece)
end

local function end_pieces(send, self, timing, request)
  request.finished = true
  if not request.length then return send(self, timing, "0\r\n\r\n") end
  if request.left == 0 then return true end
  return nil, "the body is shorter than was announced", "body"
end

-- Sends the rest of a body, `send` being one of the two functions above. → as it.
local function send_pieces(send, self, timing, request)
  while not request.finished do
    local piece, problem = request.body:next()
    if piece == nil then
      if problem then return nil, tostring(problem), "body" end
      return end_pieces(send, self, timing, request)
    end
    local ok, message, code = send_piece(send, self, timing, request, piece)
    if not ok then return ok, message, code end
    if send ~= send_behind and request.left ~= 0 then
      -- A server that refuses need not be sent the rest.
      local status, head, why = self:look()
      if status then return false, status, head end
      if status == nil then return nil, head, why end
    end
  end
  return true
end

-- The server answers already although it has not had all of the body: what is left is sent while the answer
-- is read.
local function go_on_sending(self, timing, request)
  self.sending = true
  self.net.timeout(self.c, nil, timing.write)
  local guard = setmetatable({}, { __close = function()
    if self.sending then self:close() end
  end })
  self.driver.scheduler.start(function()
    local _ <close> = guard
    local rest = self.rest
    if rest and not send_behind(self, timing, rest) then return end
    if send_pieces(send_behind, self, timing, request) then self.sending = false end
  end)
end

-- The answer came before all of the request was sent. A refusal ends the sending.
local function answered_early(self, timing, request, status)
  if status >= 300 then
    self.broken = true
  elseif self.rest or not request.finished then
    go_on_sending(self, timing, request)
  end
end

-- Sends head and body. → as `send`, or the final answer's status and head when there is one already.
local function send_request(self, timing, request)
  local body = request.body
  if body and body.text and not request.expects then
    request.finished = true
    return self:send(timing, request.head, body.text)
  end
  request.finished = body == nil
  local ok, status, head = self:send(timing, request.head)
  if not ok then return ok, status, head end
  if body and request.expects then
    local code
    status, head, code = self:await_head(timing, request.expects, true)
    if status then
      -- The server has had no body and may still expect one.
      self.broken = true
      return false, status, head
    end
    if status == nil then return nil, head, code end
  end
  if body and body.text then
    request.finished = true
    return self:send(timing, body.text)
  end
  return send_pieces(Connection.send, self, timing, request)
end

-- `request(timing, request)` → status, head of the final answer; or nil, message, code. Of `request`: `head`
-- (text), `is_head`, `body`, `length` (nil: chunked), `upgrades`, `expects` (seconds or nil), `is_last` (it asks
-- to close).
function Connection:request(timing, request)
  self.uses = self.uses + 1
  self.interim, self.continued, self.upgrades, self.rest = 0, false, request.upgrades, nil
  self.is_last = request.is_last
  request.left = request.length
  self.x:expect(request.is_head)
  local ok, status, head = send_request(self, timing, request)
  if ok == nil then
    self.broken = true
    return nil, status, head
  end
  if ok then return self:await_head(timing) end
  if not self.broken then answered_early(self, timing, request, status) end
  return status, head
end

-- `hand_over()` → the stream, which is somebody else's from now on: the pool has a place free.
function Connection:hand_over()
  self.gone, self.broken = true, true
  self.driver:set_event_handler(self.c)
  self.net.timeout(self.c)
  if self.timer then
    self.driver.timers:free(self.timer)
    self.timer = nil
  end
  if self.on_close then self.on_close(self) end
  return self.c
end

-- Reads on in the body: `f` is a method of the answers. → as `f`, but never false.
function Connection:read(f, timing, limit)
  while true do
    local data, message, code = f(self.x, limit)
    if data ~= false then
      if message then self.broken = true end
      return data, message, code
    end
    local ok
    ok, message, code = self:wait(timing.read, timing, false, "reading the body")
    if not ok then
      self.broken = true
      return nil, message, code
    end
  end
end

return M
