-- Sends responses: at once with `res:write` and `res:flush`, or when the handler and its middleware have returned
-- (`Response:finish`, called by web/dispatch.lua). Decides whether a body is sent whole or in pieces: a string with
-- trailers is sent as one piece.

local classes = require "lio.web.response_class"
local exchanges = require "lio.web.exchange"
local misuse = require "lio.misuse"
local results = require "lio.web.handler_result"
local native <const> = require("lio.http").request

local exchange_of <const>, existing_exchange <const> = exchanges.of, exchanges.existing
local check_self <const>, check_open <const> = classes.check_self, classes.check_open
local Response <const> = classes.Response
local set_result <const>, describe_handler <const> = results.set_result, results.describe_handler
local type <const> = type

local TEXT <const> = "text/plain; charset=utf-8"
-- When this many bytes are queued, they are sent.
local FLUSH_AT <const> = 16 * 1024

local M = {}

-- Returns the content type of a body if no header field names one; nil if it is sent without a type.
local function content_type_of(res)
  local content_type = res.content_type
  if content_type == nil then return TEXT end
  return content_type or nil
end

-- Calls the functions added by `on_head`, the last one first. `body` is nil if the body is sent in pieces.
local function run_head_hooks(res, body)
  local hooks = res.head_hooks
  res.head_hooks = nil
  for index = #hooks, 1, -1 do hooks[index](res, body) end
end

-- Raises an error, because the field `code` contains a status that cannot be sent.
local function refuse_code(res)
  error(("%s: res.code must be an integer from 200 to 599, got %s"):format(
    describe_handler(res), misuse.shown(res.code)), 0)
end

-- Sends the head of a response whose body follows in pieces.
local function begin(res)
  native.record_effect(res.request, true)
  if res.head_hooks then run_head_hooks(res) end
  local code = res.code or 200
  res.sent_code = code
  res.framing, res.unwritten = native.begin_body(res.request, code, content_type_of(res))
  if not res.framing then refuse_code(res) end
end
M.begin = begin

-- Pieces ---------------------------------------------------------------------------------------------

-- Queues bytes from an encoder. Returns how many bytes are queued, and whether the last send failed.
local function queue_encoded(res, bytes)
  return native.queue_chunk(res.request, bytes)
end

-- Writes a piece of a body that is compressed. Pieces that are written in the same round of the loop are flushed
-- together.
local function write_encoded(res, piece)
  local exchange, encoder = exchange_of(res), res.encoder
  local queued, failed = queue_encoded(res, encoder:write(piece))
  if queued >= FLUSH_AT or failed then
    if exchange:send() then return true end
    return nil, "closed"
  end
  exchange:before_flush(function()
    if res.encoder == encoder and not exchange.aborted then queue_encoded(res, encoder:flush()) end
  end)
  return true
end

-- `res:write(piece)`: sends a piece of the body; the first call also sends the head. Pieces that are written in the
-- same round of the loop may be sent together. Waits while the peer is not reading. Returns true; or nil and "closed"
-- if the peer has closed.
function Response:write(piece)
  check_self(self, "write")
  if type(piece) ~= "string" then misuse.argument("write", 1, "string", piece) end
  local exchange = exchange_of(self)
  if exchange.aborted then
    if not self.framing and not exchange.peer_closed then check_open(self, "write", true) end
    return nil, "closed"
  end
  if not self.framing then
    check_open(self, "write", true)
    begin(self)
  end
  if self.framing == "none" then return true end
  if self.encoder then return write_encoded(self, piece) end
  if self.unwritten then
    self.unwritten = self.unwritten - #piece
    if self.unwritten < 0 then
      exchange.aborted = true
      misuse.raise "res:write: the body is longer than the Content-Length that was set"
    end
  end
  local queued, failed = native.queue_chunk(self.request, piece)
  -- If sending earlier pieces has failed meanwhile, `flush` returns the failure.
  if queued < FLUSH_AT and not failed then return true end
  return self:flush()
end

-- `res:flush()`: waits until the system has accepted all written bytes. Returns true, or nil and "closed".
function Response:flush()
  check_self(self, "flush")
  if not self.framing then
    check_open(self, "flush", true)
    begin(self)
  end
  local exchange = exchange_of(self)
  if exchange.aborted then return nil, "closed" end
  if self.encoder then queue_encoded(self, self.encoder:flush()) end
  if not exchange:send() then return nil, "closed" end
  return true
end

-- Ends a body that was written in pieces.
local function finish_pieces(res)
  local exchange = existing_exchange(res)
  if exchange and exchange.aborted then return end
  local encoder = res.encoder
  if encoder then
    res.encoder = nil
    queue_encoded(res, encoder:finish())
  end
  if res.unwritten and res.unwritten > 0 then
    exchange_of(res).aborted = true
    error("the handler wrote less than the Content-Length that it set", 0)
  end
  native.end_body(res.request, res.trailers and table.concat(res.trailers))
end
M.finish_pieces = finish_pieces

-- Sends the pieces that a function returns.
local function send_pieces(res, next_piece)
  -- A response to HEAD has no body: the function is not called.
  if native.is_head(res.request) then begin(res) end
  while res.framing ~= "none" do
    local piece = next_piece()
    if piece == nil then break end
    if not res:write(piece) then return end
  end
  if not res.framing then begin(res) end
  return finish_pieces(res)
end

-- The end of a handler -------------------------------------------------------------------------------

-- Returns a function that returns a string as the only piece of a body.
local function single_piece(body)
  return function()
    local piece = body
    body = nil
    return piece
  end
end

-- `res:finish(…)`: sends what the handler has set or returned.
function Response:finish(...)
  if self.framing then
    results.report_unsent(self, "handler", nil, (...))
    return finish_pieces(self)
  end
  -- The handler of `app:static` has already sent the response.
  if rawequal((...), self) and native.response_has_begun(self.request) then return end
  set_result(self, "handler", nil, ...)
  self:set_refusal()
  local body = self.body
  if self.trailers and type(body) == "string" then body = single_piece(body) end
  if type(body) == "function" then return send_pieces(self, body) end
  if type(body) == "userdata" then return require("lio.web.file").send(self) end
  local code = self.code or (body and 200 or 204)
  if self.head_hooks then
    self.code = code
    run_head_hooks(self, body or "")
    body = self.body
  end
  self.sent_code = code
  local sent = native.respond(self.request, code, content_type_of(self), body)
  if sent ~= true then
    if sent == nil then refuse_code(self) end
    exchange_of(self):send(body, sent)
  end
end

-- `res:sent()` returns the status (nil if no response was sent), the number of bytes of the body that were sent, and
-- whether the response was cut short.
function Response:sent()
  check_self(self, "sent")
  local exchange = existing_exchange(self)
  if exchange and exchange.taken_over then return self.sent_code, 0, false end
  local cut = exchange and (exchange.aborted or exchange.peer_closed) or false
  return self.sent_code, native.sent(self.request, cut), cut
end

return M
