-- Sends files as responses, for `res:file` and web/static.lua. `lio.http` evaluates conditions and ranges. Large files
-- are sent by sendfile(2); small files are read, and sent together with the head.
--
-- Invariant: the open file belongs to the exchange, which closes it at the end of the request, even after an error.

local exchanges = require "lio.web.exchange"
local file = require "lio.file"
local http = require "lio.http"
local lio = require "lio"
local misuse = require "lio.misuse"
local options = require "lio.options"
local sending = require "lio.web.response_sending"

local native <const> = http.request
local exchange_of <const> = exchanges.of
local begin <const>, finish_pieces <const> = sending.begin, sending.finish_pieces

-- A range of up to this many bytes is read and sent with the head; a longer range is sent by sendfile(2).
local MAX_PIECE <const> = 32 * 1024
-- The status of the response for each error code of opening a file. Any other code causes the status 500.
local STATUS <const> = {
  ["not found"] = 404, outside = 404, ["not a file"] = 404, ENOTDIR = 404, denied = 403, EMFILE = 503, ENFILE = 503,
}
-- The minimum number of seconds between two log entries about a lack of descriptors.
local QUIET <const> = 60

local M = { STATUS = STATUS }

-- The rule for the option `max_age`.
M.max_age = options.rule("a finite, non-negative number of seconds", function(value)
  return type(value) == "number" and value >= 0 and value < math.huge
end)

local last_report = -math.huge

-- `report_exhausted(req, res, message)`: logs that the process or the system is out of descriptors, and asks the client
-- to try again.
function M.report_exhausted(req, res, message)
  local now = lio.now()
  if now - last_report >= QUIET then
    last_report = now
    io.stderr:write("lio: ", req.method, " ", req.target, ": ", message, "; requests for files get status 503\n")
  end
  native.drop_body_fields(res.request)
  res:header("Retry-After", 1)
end

local OPTIONS <const> = {
  root = options.string, type = options.string, name = options.string, max_age = M.max_age,
  immutable = options.boolean, cache_control = options.string, precompressed = options.boolean,
}

-- `cache_control(opts)` returns the value of `Cache-Control` for the options, or nil.
function M.cache_control(opts)
  if opts.cache_control then return opts.cache_control end
  if not opts.max_age then return nil end
  return ("public, max-age=%d%s"):format(options.to_integer(opts.max_age), opts.immutable and ", immutable" or "")
end

local function add(res, name, value)
  native.add_field(res.request, name, value)
end

-- Adds a field unless a field of that name exists.
local function add_missing(res, name, value)
  if not native.get_field(res.request, name) then add(res, name, value) end
end

-- Converts a list of ranges (`first` and `length`) to the parts of a multipart body: sets the `head` of each part,
-- which is sent before its range, and `parts.tail`, which is sent after the last range. Returns the length and the
-- content type of the body.
local function make_parts(parts, kind, size)
  local boundary = http.boundary()
  local total = 0
  for index, part in ipairs(parts) do
    part.head = ("%s--%s\r\nContent-Type: %s\r\nContent-Range: bytes %d-%d/%d\r\n\r\n"):format(
      index > 1 and "\r\n" or "", boundary, kind, part.first, part.first + part.length - 1, size)
    total = total + #part.head + part.length
  end
  parts.tail = "\r\n--" .. boundary .. "--\r\n"
  return total + #parts.tail, "multipart/byteranges; boundary=" .. boundary
end

local function respond_without_file(res, status, text)
  res.code, res.body, res.content_type = status, text, nil
  exchange_of(res):keep_file(nil)
end

-- `add_vary(res)`: adds `Vary`, because a client that accepts other codings may get other bytes.
function M.add_vary(res) add(res, "Vary", "Accept-Encoding") end

-- `respond_with(res, f, kind, coding, cache)`: responds with an open regular file, which then belongs to the exchange.
-- `kind`: the media type; `coding`: the coding of the file's bytes, or nil; `cache`: the value of `Cache-Control`, or
-- nil.
function M.respond_with(res, f, kind, coding, cache)
  local exchange = exchange_of(res)
  exchange:keep_file(f)
  native.record_effect(res.request, true)
  if cache then add_missing(res, "Cache-Control", cache) end
  local size = f:size()
  local first, length -- the range, or a list of ranges
  if not res.code or res.code == 200 then
    local status, tag, date
    status, tag, date, first, length = http.choose_response(res.request, f, coding)
    add_missing(res, "ETag", tag)
    add_missing(res, "Last-Modified", date)
    if status == 304 then return respond_without_file(res, 304, nil) end
    if status == 412 then return respond_without_file(res, 412, "Precondition Failed\n") end
    add(res, "Accept-Ranges", "bytes")
    if status == 416 then
      add(res, "Content-Range", "bytes */" .. size)
      return respond_without_file(res, 416, "Range Not Satisfiable\n")
    end
    res.code = status
  end
  if coding then add(res, "Content-Encoding", coding) end
  local shown, total, parts = kind, size, nil
  if type(first) == "table" then
    parts = first
    total, shown = make_parts(parts, kind, size)
    res:header("Content-Type", nil)
  elseif first then
    total = length
    add(res, "Content-Range", ("bytes %d-%d/%d"):format(first, first + length - 1, size))
  end
  add_missing(res, "Content-Type", shown)
  add(res, "Content-Length", tostring(total))
  if native.is_head(res.request) then
    res.body = ""
    return exchange:keep_file(nil)
  end
  res.body, res.file_parts = f, parts or { { first = first or 0, length = total } }
end

local SHORTER <const> = "sendfile: the file has become shorter"

local function fail(res, message, code)
  exchange_of(res).aborted = true
  -- Logs a file that became shorter while it was sent, but not a client that has closed.
  if code ~= "closed" and code ~= "timeout" then
    local req = res.request
    io.stderr:write("lio: ", req.method, " ", req.target, ": ", message, "\n")
  end
end

-- Sends the file in pieces. Used if middleware changes the bytes, or if trailer fields follow the body.
local function send_pieces(res, f, parts)
  for _, part in ipairs(parts) do
    if part.head and not res:write(part.head) then return end
    local first, past = part.first, part.first + part.length
    while first < past do
      local piece, message = f:read(first, math.min(MAX_PIECE, past - first))
      if not piece or piece == "" then
        return fail(res, message or SHORTER)
      end
      if not res:write(piece) then return end
      first = first + #piece
    end
  end
  if parts.tail and not res:write(parts.tail) then return end
  return finish_pieces(res)
end

-- `send(res)`: sends the file that is the body. Called by `Response:finish`.
function M.send(res)
  local req, f, parts = res.request, res.body, res.file_parts
  begin(res)
  if res.framing == "none" then return finish_pieces(res) end
  if res.framing ~= "length" or res.encoder then return send_pieces(res, f, parts) end
  -- Another task must not write after the file.
  res.unwritten = 0
  for _, part in ipairs(parts) do
    if part.head then native.queue_chunk(req, part.head) end
    if part.length <= MAX_PIECE and native.queued(req) <= MAX_PIECE then
      local piece, message = f:read(part.first, part.length)
      if not piece or #piece < part.length then return fail(res, message or SHORTER) end
      native.queue_chunk(req, piece)
    else
      local queued = native.queue_file(req, f, part.first, part.length)
      local ok, code = exchange_of(res):send()
      if not ok or not queued then return fail(res, SHORTER, code) end
    end
  end
  if parts.tail then native.queue_chunk(req, parts.tail) end
  return finish_pieces(res)
end

-- Returns the value of `Content-Disposition` for a download called `name` (RFC 6266). If the name is not plain ASCII,
-- it is given both in ASCII and in UTF-8.
local function disposition(name)
  local plain = name:gsub('[^\32-\126]', "_"):gsub('["\\%%]', "_")
  if plain == name then return ('attachment; filename="%s"'):format(name) end
  return ("attachment; filename=\"%s\"; filename*=UTF-8''%s"):format(plain, http.percent_encode(name))
end

-- Opens the folder of the option `root`. Returns no value if `path` is nil.
local function open_root(path)
  if path then return file.folder(path) end
end

-- Opens a regular file, relative to `folder` if that is not nil. Returns the file; or nil, message, code.
local function open_file(folder, path)
  local f, message, code
  if folder then
    f, message, code = folder:open(path)
  else
    f, message, code = file.open(path)
  end
  if f and f:kind() ~= "file" then
    f:close()
    return nil, "open: a directory", "not a file"
  end
  return f, message, code
end

-- Responds if a file could not be opened. Raises if STATUS does not contain the code. Returns nil, message, code.
local function refuse(res, message, code)
  local status = STATUS[code]
  if not status then misuse.raise("res:file: " .. message) end
  native.record_effect(res.request, true)
  if status == 503 then M.report_exhausted(res.request, res, message) end
  res.code, res.content_type = status, nil
  res.body = http.reason(status) .. "\n"
  return nil, message, code
end

-- `respond(res, path, opts)` implements `res:file`. Returns true, or nil, message, code.
function M.respond(res, path, opts)
  if type(path) ~= "string" then misuse.argument("file", 1, "path", path) end
  opts = options.check("res:file", 2, opts, OPTIONS)
  local folder <close>, message, code = open_root(opts.root)
  local f
  if not message then f, message, code = open_file(folder, path) end
  if not f then return refuse(res, message, code) end
  local kind, compressible = http.media_type(path)
  local varies = compressible and opts.precompressed ~= false and not res.code
  local coding
  if varies then
    local copy
    copy, coding = http.open_compressed_copy(folder, path, f, res.request)
    if copy then
      f:close()
      f = copy
    end
  end
  if opts.name then res:header("Content-Disposition", disposition(opts.name)) end
  if varies then M.add_vary(res) end
  M.respond_with(res, f, opts.type or kind, coding, M.cache_control(opts))
  return true
end

return M
