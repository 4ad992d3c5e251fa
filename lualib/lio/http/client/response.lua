-- Responses as programs see them. Part of `lio.http.client`. Fields: `status`, `reason`, `version`, `headers`
-- (case-insensitive), `url` (of the last request), `history` (the redirects that were followed), `body` (unless it is
-- streamed), `trailers` (once the body has been read).
--
-- Invariant: until the body has been read, the response owns its connection. At the end of the body, the connection is
-- released to the pool; `close`, a failure and the garbage collector close the connection.

local decoding = require "lio.http.client.decoding"
local now <const> = require("lio").now

-- Encoding can make a body longer, so the encoded body may exceed the limit by 1/OVERHEAD_PART of the limit plus
-- OVERHEAD bytes.
local OVERHEAD_PART <const>, OVERHEAD <const> = 64, 64 * 1024
-- Decoding yields to other tasks when its task has not waited for this number of seconds.
local MAX_TURN <const> = 0.005

local M = {}

local Response = { __name = "lio.http.response" }

-- Header values by name. A headers object has two fields: HEAD, the native head; and HIDDEN, the set of the names that
-- are hidden because they do not describe the decoded body, or false. The keys of these fields are tables, because
-- every string can be the name of a header field.
local HEAD <const>, HIDDEN <const> = {}, {}
local Headers = {}

function Headers.__index(headers, name)
  if type(name) ~= "string" or headers[HIDDEN] and headers[HIDDEN][name:lower()] then return nil end
  return headers[HEAD]:field(name)
end

function Headers.__pairs(headers)
  local all = headers[HEAD]:fields()
  for name in pairs(headers[HIDDEN] or {}) do all[name] = nil end
  return next, all, nil
end

local getters = {}

function getters.trailers(self)
  return self.ended_trailers or {}
end

function Response.__index(self, name)
  local getter = getters[name]
  if getter then return getter(self) end
  return Response[name]
end

-- `new(conn, status, head, request)` returns a response that owns `conn`. Uses these fields of `request`: `timeouts`,
-- `limit`, `decode`, `url`, `method`, `history`.
function M.new(conn, status, head, request)
  local self = setmetatable({
    status = status,
    reason = head:reason(),
    version = head:version(),
    url = tostring(request.url),
    history = request.history,
    headers = setmetatable({ [HEAD] = head, [HIDDEN] = false }, Headers),
    head = head,
    conn = conn,
    timeouts = request.timeouts,
    limit = request.limit,
    count = 0, -- bytes of the decoded body
    encoded_count = 0, -- bytes of the encoded body
  }, Response)
  local has_body = request.method ~= "HEAD" and status ~= 204 and status ~= 304 and status ~= 101
  if request.decode and has_body and status ~= 206 then
    self.decoder = decoding.of(head:field "content-encoding")
    if self.decoder then self.headers[HIDDEN] = { ["content-encoding"] = true, ["content-length"] = true } end
  end
  return self
end

-- Releases the connection at the end of the body.
local function release(self)
  local conn = self.conn
  if not conn then return end
  self.conn = nil
  if conn.responses:is_complete() then self.ended_trailers = conn.responses:trailers() end
  conn.pool:release(conn)
end

local function fail(self, message, code)
  local conn = self.conn
  self.conn = nil
  if conn then conn:close() end
  self.failure = { message = message, code = code }
  return nil, message, code
end

-- `res:close()`: if the body has been read completely, releases the connection; otherwise closes the connection.
-- Idempotent.
function Response:close()
  local conn = self.conn
  if not conn then return end
  if not conn.responses:is_complete() then
    fail(self, "closed", "closed")
    return
  end
  release(self)
  -- The rest of the body has arrived, but has not been decoded.
  if self.decoder then self.failure = { message = "closed", code = "closed" } end
end

Response.__close = Response.close
Response.__gc = Response.close

-- `res:header_all(name)` returns a list of the values of a header field, in order.
function Response:header_all(name)
  if self.headers[HIDDEN] and self.headers[HIDDEN][name:lower()] then return {} end
  return self.head:field_all(name)
end

-- `res:header_list()` returns all header fields, as sent and in order: a list in which each name is followed by its
-- value.
function Response:header_list()
  local list, hidden = self.head:field_list(), self.headers[HIDDEN]
  if not hidden then return list end
  local kept = {}
  for at = 1, #list, 2 do
    if not hidden[list[at]:lower()] then table.move(list, at, at + 1, #kept + 1, kept) end
  end
  return kept
end

-- Adds the length of `data`, a piece of the body after any decoding, to the count. Returns `data`; if the limit is
-- exceeded, nil, message, code.
local function count_data(self, data)
  self.count = self.count + #data
  if self.count > self.limit then return fail(self, "the body is larger than allowed", "too long") end
  return data
end

-- Reads a piece of the encoded body for the decoder; at the end of the body, ends the decoder. A server could send
-- endless data that decodes to nothing, so encoded bytes are limited too. Returns ""; nil at the end; or nil, message,
-- code.
local function read_encoded(self)
  local conn = self.conn
  local data, message, code = conn:read(conn.responses.piece, self.timeouts)
  if message then return nil, message, code end
  if not data then return self.decoder:finish() end
  self.encoded_count = self.encoded_count + #data
  if self.encoded_count - self.limit // OVERHEAD_PART - OVERHEAD > self.limit then
    return nil, "the encoded body is larger than allowed", "too long"
  end
  local ok
  ok, message, code = self.decoder:feed(data)
  return ok and "", message, code
end

-- Returns decoded data, often ""; nil at the end of the body; or nil, message, code. A few bytes can take long to
-- decode, so other tasks run and the time limit of the request is checked in between.
local function decode(self)
  if now() - self.conn.waited > MAX_TURN then
    local ok, message, code = self.conn:yield(self.timeouts)
    if not ok then return nil, message, code end
    if not self.conn then return nil, "closed", "closed" end
  end
  local data, message, code = self.decoder:step()
  if data or message then return data, message, code end
  return read_encoded(self)
end

local function read_piece(self)
  local conn = self.conn
  return conn:read(conn.responses.piece, self.timeouts, self.limit)
end

-- `res:piece()` returns the next piece of the body; nil at its end; or nil, message, code.
function Response:piece()
  while self.conn do
    local data, message, code = (self.decoder and decode or read_piece)(self)
    if message then return fail(self, message, code) end
    if not data then
      release(self)
      return nil
    end
    if data ~= "" then return count_data(self, data) end
  end
  if self.failure then return nil, self.failure.message, self.failure.code end
  return nil
end

-- `for piece in res:stream() do`: iterates over the body in pieces; each piece is read when the loop needs it. Raises
-- if the body ends early or cannot be read. Leaving the loop closes the response.
function Response:stream()
  return function()
    local piece, message = self:piece()
    if not piece and message then error("response body: " .. message, 2) end
    return piece
  end, nil, nil, self
end

local function read_whole(self)
  if not self.decoder then
    local conn = self.conn
    local data, message, code = conn:read(conn.responses.body, self.timeouts, self.limit)
    if not data then return fail(self, message, code) end
    release(self)
    return data
  end
  local pieces = {}
  while true do
    local piece, message, code = self:piece()
    if message then return nil, message, code end
    if not piece then return table.concat(pieces) end
    pieces[#pieces + 1] = piece
  end
end

-- `res:text()` returns the body, or its unread part, as a string; or nil, message, code.
function Response:text()
  if self.body then return self.body end
  if self.failure then return nil, self.failure.message, self.failure.code end
  if not self.conn then return "" end
  local text, message, code = read_whole(self)
  if not text then return nil, message, code end
  self.body = text
  return text
end

-- `res:json()` returns the value of a JSON body; or nil, message, code.
function Response:json()
  local text, message, code = self:text()
  if not text then return nil, message, code end
  return require("lio.json").decode(text)
end

-- `res:take_over()` returns the connection of a response that switches protocols (101), with its buffered bytes. The
-- caller must close the connection.
function Response:take_over()
  local conn = self.conn
  if self.status ~= 101 or not conn then error("take_over: the response does not switch protocols", 2) end
  self.conn = nil
  return conn:detach()
end

-- `summary(res)` returns the entry of `history` for a redirect that was followed.
function M.summary(self)
  return { status = self.status, url = self.url, headers = self.headers }
end

-- `discard(res, max)`: reads a body that is not needed, so that the connection can be reused. If the body has more than
-- `max` bytes, closes the connection.
function M.discard(self, max)
  local _ <close> = self
  self.decoder, self.limit = nil, max
  if not self.conn.responses:is_complete() then read_whole(self) else release(self) end
end

-- `release_if_complete(res)`: if no part of the body is unread, releases the connection and returns true.
function M.release_if_complete(self)
  if self.status ~= 101 and self.conn.responses:is_complete() then
    self.decoder = nil
    release(self)
    return true
  end
end

return M
