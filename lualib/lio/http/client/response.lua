-- Answers as programs see them. Part of `lio.http.client`. Fields: `status`, `reason`, `version`, `headers`
-- (case-blind, as those of requests), `url` (of the last request), `history` (the answers that led there),
-- `body` (unless it is streamed), `trailers` (once the body was read).
--
-- Invariant: while the body is not read to its end, the answer owns its connection; the end gives it back to
-- the pool, everything else (`close`, a failure, the collector) closes it.

local decoding = require "lio.http.client.decoding"

-- Encoded bytes that may come beyond the limit, as a coding can make data longer: one in so many, and this.
local CODING_PART <const>, CODING_MORE <const> = 64, 64 * 1024
-- Encoded bytes that may decode to nothing, one after the other.
local MOST_EMPTY <const> = 1024 * 1024

local M = {}

local Response = { __name = "lio.http.response" }

-- Header values by name; those that decoding has made untrue are gone.
local Headers = {}

function Headers.__index(headers, name)
  if type(name) ~= "string" or headers[2] and headers[2][name:lower()] then return nil end
  return headers[1]:field(name)
end

function Headers.__pairs(headers)
  local all = headers[1]:fields()
  for name in pairs(headers[2] or {}) do all[name] = nil end
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

-- `new(conn, pool, status, head, request)` → response that owns `conn`. Of `request`: `timing`, `limit`, `decode`,
-- `url`, `method`.
function M.new(conn, pool, status, head, request)
  local self = setmetatable({
    status = status,
    reason = head:reason(),
    version = head:version(),
    url = tostring(request.url),
    history = request.history,
    headers = setmetatable({ head, false }, Headers),
    head = head,
    conn = conn,
    pool = pool,
    timing = request.timing,
    limit = request.limit,
    count = 0,
    encoded = 0,
    empty = 0,
  }, Response)
  local has_body = request.method ~= "HEAD" and status ~= 204 and status ~= 304 and status ~= 101
  if request.decode and has_body and status ~= 206 then
    self.decoder = decoding.of(head:field "content-encoding", request.limit)
    if self.decoder then self.headers[2] = { ["content-encoding"] = true, ["content-length"] = true } end
  end
  return self
end

-- Gives the connection back when the body is at its end; closes it otherwise.
local function let_go(self)
  local conn = self.conn
  if not conn then return end
  self.conn = nil
  if conn.x:is_complete() then self.ended_trailers = conn.x:trailers() end
  self.pool:release(conn)
end

local function fail(self, message, code)
  local conn = self.conn
  self.conn = nil
  if conn then conn:close() end
  self.problem = { message, code }
  return nil, message, code
end

-- `res:close()`: gives up the rest of the body, and with it the connection. Idempotent.
function Response:close()
  local conn = self.conn
  if not conn then return end
  if conn.x:is_complete() then return let_go(self) end
  fail(self, "closed", "closed")
end

Response.__close = Response.close
Response.__gc = Response.close

-- `res:header_all(name)` → list of the values, in order.
function Response:header_all(name)
  if self.headers[2] and self.headers[2][name:lower()] then return {} end
  return self.head:field_all(name)
end

-- `res:header_list()` → flat list of names and values, as sent, in order.
function Response:header_list()
  local list, gone = self.head:list(), self.headers[2]
  if not gone then return list end
  local kept = {}
  for at = 1, #list, 2 do
    if not gone[list[at]:lower()] then table.move(list, at, at + 1, #kept + 1, kept) end
  end
  return kept
end

-- What comes out of the decoder, if there is one, and within the limit.
local function taken(self, data)
  self.count = self.count + #data
  if self.count > self.limit then return fail(self, "the body is larger than allowed", "too long") end
  return data
end

-- Decodes what has come. A server could send what decodes to nothing for ever: encoded bytes are bounded, too.
local function decode(self, data)
  local most = self.limit // CODING_PART + CODING_MORE
  self.encoded = self.encoded + #data
  self.empty = self.empty + #data
  if self.encoded - most > self.limit or self.empty > MOST_EMPTY then
    return nil, "the encoded body is larger than allowed", "too long"
  end
  local text, message, code = self.decoder:write(data)
  if text and text ~= "" then self.empty = 0 end
  return text, message, code
end

-- `res:piece()` → the next piece of the body; nil at its end; nil, message, code.
function Response:piece()
  if self.problem then return nil, self.problem[1], self.problem[2] end
  while self.conn do
    local conn = self.conn
    local data, message, code = conn:read(conn.x.piece, self.timing, not self.decoder and self.limit or nil)
    if message then return fail(self, message, code) end
    if data and self.decoder then
      data, message, code = decode(self, data)
      if not data then return fail(self, message, code) end
    elseif not data then
      data = ""
      if self.decoder then
        data, message, code = self.decoder:finish()
        if not data then return fail(self, message, code) end
      end
      let_go(self)
    end
    if data ~= "" then return taken(self, data) end
  end
  return nil
end

-- `for piece in res:stream() do`: the body in pieces, as they come; the next one is read when it is asked
-- for. A body that ends early or cannot be read raises. To leave the loop closes the answer.
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
    local data, message, code = conn:read(conn.x.body, self.timing, self.limit)
    if not data then return fail(self, message, code) end
    let_go(self)
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

-- `res:text()` → the body, or what is left of it, as a string; or nil, message, code.
function Response:text()
  if self.body then return self.body end
  if self.problem then return nil, self.problem[1], self.problem[2] end
  if not self.conn then return "" end
  local text, message, code = read_whole(self)
  if not text then return nil, message, code end
  self.body = text
  return text
end

-- `res:json()` → the decoded body; or nil, message, code.
function Response:json()
  local text, message, code = self:text()
  if not text then return nil, message, code end
  return require("lio.json").decode(text)
end

-- `res:take_over()` → the connection of an answer that switches protocols (101), with what is buffered of it; it
-- is the caller's to close then.
function Response:take_over()
  local conn = self.conn
  if self.status ~= 101 or not conn then error("take_over: the answer does not switch protocols", 2) end
  self.conn = nil
  return conn:hand_over()
end

-- What `history` keeps of an answer that was followed.
function M.summary(self)
  return { status = self.status, url = self.url, headers = self.headers }
end

-- Reads what is left of an answer that nobody wants, if that is cheap.
function M.discard(self, most)
  local _ <close> = self
  self.decoder, self.limit = nil, most
  if not self.conn.x:is_complete() then read_whole(self) else let_go(self) end
end

-- Whether nothing is left of the body.
function M.settle(self)
  if self.status ~= 101 and self.conn.x:is_complete() then
    self.decoder = nil
    let_go(self)
    return true
  end
end

return M
