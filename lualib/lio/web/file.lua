-- Answers that are files: `res:file`, and what web/static.lua serves. Conditions and ranges are judged by
-- `lio.http`, the bytes go out by sendfile(2), those of small files together with the head.
--
-- Invariant: the open file belongs to the exchange, which closes it when the request ends, however that
-- comes about.

local exchanges = require "lio.web.exchange"
local file = require "lio.file"
local http = require "lio.http"
local lio = require "lio"
local misuse = require "lio.misuse"
local options = require "lio.options"
local drop_body_fields <const> = require("lio.web.handler_error").drop_body_fields
local exchange_of <const> = exchanges.of

-- Where a response keeps its server, by which number that knows its request, and the request itself.
local SERVER <const>, ID <const>, REQUEST <const> = 1, 2, 3

-- Up to so many bytes are read and sent with the head by one call; the kernel copies longer ones.
local READ_MOST <const> = 32 * 1024
-- What a failed opening means to the client; what is not here is the server's fault.
local STATUS <const> = {
  ["not found"] = 404, outside = 404, ["not a file"] = 404, ENOTDIR = 404, denied = 403, EMFILE = 503, ENFILE = 503,
}
-- Seconds in which being out of descriptors is logged once.
local QUIET <const> = 60

local M = { STATUS = STATUS }

-- The rule of the option `max_age`.
M.max_age = options.rule("a finite number of seconds from 0", function(value)
  return type(value) == "number" and value >= 0 and value < math.huge
end)

local complained = -math.huge

-- The process, or the system, is out of descriptors: the client may come again.
function M.exhausted(req, res, message)
  local now = lio.now()
  if now - complained >= QUIET then
    complained = now
    io.stderr:write("lio: ", req.method, " ", req.target, ": ", message, "; files are answered with 503\n")
  end
  drop_body_fields(res)
  res:header("Retry-After", 1)
end

local OPTIONS <const> = {
  root = options.string, type = options.string, name = options.string, max_age = M.max_age,
  immutable = options.boolean, cache_control = options.string, precompressed = options.boolean,
}

-- The value of `Cache-Control` that options ask for, or nil.
function M.cache_control(opts)
  if opts.cache_control then return opts.cache_control end
  if not opts.max_age then return nil end
  return ("public, max-age=%d%s"):format(opts.max_age // 1 | 0, opts.immutable and ", immutable" or "")
end

local function add(res, name, value)
  res[SERVER]:add_field(res[ID], name, value)
end

-- Adds a field unless there is one of that name.
local function add_new(res, name, value)
  if not res[SERVER]:get_field(res[ID], name) then add(res, name, value) end
end

-- The heads of the parts of several ranges, what stands behind the last, and the length of it all.
local function parts_of(ranges, kind, size)
  local boundary = http.boundary()
  local parts, total = {}, 0
  for index = 1, #ranges, 2 do
    local first, length = ranges[index], ranges[index + 1]
    local head = ("%s--%s\r\nContent-Type: %s\r\nContent-Range: bytes %d-%d/%d\r\n\r\n"):format(
      index > 1 and "\r\n" or "", boundary, kind, first, first + length - 1, size)
    parts[#parts + 1] = { head = head, first = first, length = length }
    total = total + #head + length
  end
  parts.tail = "\r\n--" .. boundary .. "--\r\n"
  return parts, total + #parts.tail, "multipart/byteranges; boundary=" .. boundary
end

local function refuse(res, status, text)
  res.code, res.body, res.kind = status, text, nil
  exchange_of(res):keep_file(nil)
end

-- Answers with an open regular file, which is the exchange's from now on. `kind`: its media type;
-- `coding`: of its bytes, or nil; `varies`: whether another client may get other bytes; `cache`: the value
-- of `Cache-Control`, or nil.
function M.answer(res, f, kind, coding, varies, cache)
  local exchange = exchange_of(res)
  exchange:keep_file(f)
  res[SERVER]:touch(res[ID], true)
  if varies then add(res, "Vary", "Accept-Encoding") end
  if cache then add_new(res, "Cache-Control", cache) end
  local size = f:size()
  local first, length
  if not res.code or res.code == 200 then
    local status, tag, date
    status, tag, date, first, length = http.select(res[REQUEST], f, coding)
    add_new(res, "ETag", tag)
    add_new(res, "Last-Modified", date)
    if status == 304 then return refuse(res, 304, nil) end
    if status == 412 then return refuse(res, 412, "Precondition Failed\n") end
    add(res, "Accept-Ranges", "bytes")
    if status == 416 then
      add(res, "Content-Range", "bytes */" .. size)
      return refuse(res, 416, "Range Not Satisfiable\n")
    end
    res.code = status
  end
  if coding then add(res, "Content-Encoding", coding) end
  local shown, total, parts = kind, size, nil
  if type(first) == "table" then
    parts, total, shown = parts_of(first, kind, size)
    res:header("Content-Type", nil)
  elseif first then
    total = length
    add(res, "Content-Range", ("bytes %d-%d/%d"):format(first, first + length - 1, size))
  end
  add_new(res, "Content-Type", shown)
  add(res, "Content-Length", tostring(total))
  if res[SERVER]:is_head(res[ID]) then
    res.body = ""
    return exchange:keep_file(nil)
  end
  res.body, res.parts = f, parts or { { first = first or 0, length = total } }
end

local SHORTER <const> = "sendfile: the file has become shorter"

local function fail(res, message, code)
  exchange_of(res).broken = true
  -- What the client does is not worth a line; a file that is cut while it is served is.
  if code ~= "closed" and code ~= "timeout" then
    local req = res[REQUEST]
    io.stderr:write("lio: ", req.method, " ", req.target, ": ", message, "\n")
  end
end

-- Sends the file by reads and writes: middleware changes the bytes on their way, or sends fields behind them.
local function send_pieces(res, f, parts, finish_pieces)
  for _, part in ipairs(parts) do
    if part.head and not res:write(part.head) then return end
    local first, over = part.first, part.first + part.length
    while first < over do
      local piece, message = f:read(first, math.min(READ_MOST, over - first))
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

-- Sends the file that `res` was given. Called by `Response:finish`, which has the other two.
function M.send(res, begin, finish_pieces)
  local server, id, f, parts = res[SERVER], res[ID], res.body, res.parts
  begin(res)
  if res.mode == "none" then return finish_pieces(res) end
  if res.mode ~= "length" or res.encoder then return send_pieces(res, f, parts, finish_pieces) end
  res.left = nil
  for _, part in ipairs(parts) do
    if part.head then server:chunk(id, part.head) end
    if part.length <= READ_MOST and server:queued(id) <= READ_MOST then
      local piece, message = f:read(part.first, part.length)
      if not piece or #piece < part.length then return fail(res, message or SHORTER) end
      server:chunk(id, piece)
    else
      local queued = server:push_file(id, f, part.first, part.length)
      local ok, code = exchange_of(res):send()
      if not ok or not queued then return fail(res, SHORTER, code) end
    end
  end
  if parts.tail then server:chunk(id, parts.tail) end
  return finish_pieces(res)
end

-- `Content-Disposition` for a download of that name (RFC 6266): the name in ASCII, and as it is.
local function disposition(name)
  local plain = name:gsub('[^\32-\126]', "_"):gsub('["\\%%]', "_")
  if plain == name then return ('attachment; filename="%s"'):format(name) end
  return ("attachment; filename=\"%s\"; filename*=UTF-8''%s"):format(plain, http.escape(name))
end

-- The folder that a path is below; nothing for a path that is the program's own.
local function open_root(path)
  if path then return file.folder(path) end
end

-- `res:file(path [, opts])`, see there.
function M.respond(res, path, opts)
  if type(path) ~= "string" then misuse.argument("file", 1, "path", path) end
  opts = options.check("res:file", 2, opts, OPTIONS)
  local folder <close>, message, code = open_root(opts.root)
  local f
  if folder then
    f, message, code = folder:open(path)
  elseif not message then
    f, message, code = file.open(path)
  end
  if f and f:kind() ~= "file" then
    f:close()
    f, message, code = nil, "open: a directory", "not a file"
  end
  if not f then
    local status = STATUS[code]
    if not status then misuse.raise("res:file: " .. message) end
    res[SERVER]:touch(res[ID], true)
    if status == 503 then M.exhausted(res[REQUEST], res, message) end
    res.code, res.kind = status, nil
    res.body = http.reason(status) .. "\n"
    return nil, message, code
  end
  local kind, compressible = http.media_type(path)
  local varies = compressible and opts.precompressed ~= false and not res.code
  if varies then
    local copy, coding = http.compressed(folder, path, f, res[REQUEST])
    if copy then
      f:close()
      if opts.name then res:header("Content-Disposition", disposition(opts.name)) end
      M.answer(res, copy, opts.type or kind, coding, true, M.cache_control(opts))
      return res
    end
  end
  if opts.name then res:header("Content-Disposition", disposition(opts.name)) end
  M.answer(res, f, opts.type or kind, nil, varies, M.cache_control(opts))
  return res
end

return M
