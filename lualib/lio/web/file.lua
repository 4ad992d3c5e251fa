-- Answers that are files: `res:file`, and what web/static.lua serves. Conditions and ranges are judged by
-- `lio.http`, the bytes go out by `net.sendfile`, those of small files together with the head.
--
-- Invariant: the open file belongs to the connection, which closes it when the request ends, however that
-- comes about.

local file = require "lio.file"
local http = require "lio.http"
local lio = require "lio"
local misuse = require "lio.misuse"
local options = require "lio.options"
local drop_body_fields <const> = require("lio.web.failure").drop_body_fields

-- Where a response keeps its connection, and that its request.
local CONNECTION <const>, CURRENT <const> = 1, 1

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

local function add(fields, name, value)
  fields[#fields + 1] = name
  fields[#fields + 1] = value
end

local function has(fields, name)
  for index = 1, #fields, 2 do
    if fields[index]:lower() == name then return true end
  end
  return false
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
  res[CONNECTION]:keep_file(nil)
end

-- Answers with an open regular file, which is the connection's from now on. `kind`: its media type;
-- `coding`: of its bytes, or nil; `varies`: whether another client may get other bytes; `cache`: the value
-- of `Cache-Control`, or nil.
function M.answer(res, f, kind, coding, varies, cache)
  local connection = res[CONNECTION]
  connection:keep_file(f)
  connection.x:touch(true)
  local fields = res.fields or {}
  res.fields = fields
  if varies then add(fields, "Vary", "Accept-Encoding") end
  if cache and not has(fields, "cache-control") then add(fields, "Cache-Control", cache) end
  local size = f:size()
  local first, length
  if not res.code or res.code == 200 then
    local status, tag, date
    status, tag, date, first, length = http.select(connection[CURRENT], f, coding)
    if not has(fields, "etag") then add(fields, "ETag", tag) end
    if not has(fields, "last-modified") then add(fields, "Last-Modified", date) end
    if status == 304 then return refuse(res, 304, nil) end
    if status == 412 then return refuse(res, 412, "Precondition Failed\n") end
    add(fields, "Accept-Ranges", "bytes")
    if status == 416 then
      add(fields, "Content-Range", "bytes */" .. size)
      return refuse(res, 416, "Range Not Satisfiable\n")
    end
    res.code = status
  end
  if coding then add(fields, "Content-Encoding", coding) end
  local shown, total, parts = kind, size, nil
  if type(first) == "table" then
    parts, total, shown = parts_of(first, kind, size)
    res:header("Content-Type", nil)
    fields = res.fields
  elseif first then
    total = length
    add(fields, "Content-Range", ("bytes %d-%d/%d"):format(first, first + length - 1, size))
  end
  if not has(fields, "content-type") then add(fields, "Content-Type", shown) end
  add(fields, "Content-Length", tostring(total))
  if connection.x:is_head() then
    res.body = ""
    return connection:keep_file(nil)
  end
  res.body, res.parts = f, parts or { { first = first or 0, length = total } }
end

local function fail(connection, message, code)
  connection.broken = true
  -- What the client does is not worth a line; a file that is cut while it is served is.
  if code ~= "closed" and code ~= "reset" and code ~= "timeout" then
    local req = connection[CURRENT]
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
        return fail(res[CONNECTION], message or "sendfile: the file has become shorter")
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
  local connection, f, parts = res[CONNECTION], res.body, res.parts
  local x, c = connection.x, connection.c
  begin(res)
  if res.mode == "none" then return end
  if res.mode ~= "length" or res.encoder then return send_pieces(res, f, parts, finish_pieces) end
  res.left = nil
  for _, part in ipairs(parts) do
    if part.head then x:chunk(part.head, false) end
    local ok, message, sent, code
    if part.length <= READ_MOST and x:chunk("", false) <= READ_MOST then
      ok, message, code = c:queue_file(f, part.first, part.length)
    else
      connection:limit()
      ok, message, sent, code = connection.net.sendfile(c, f, part.first, part.length)
    end
    if not ok then return fail(connection, message or sent, code) end
  end
  if parts.tail then x:chunk(parts.tail, false) end
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
    res[CONNECTION].x:touch(true)
    if status == 503 then M.exhausted(res[CONNECTION][CURRENT], res, message) end
    res.code, res.kind = status, nil
    res.body = http.reason(status) .. "\n"
    return nil, message, code
  end
  local kind, compressible = http.media_type(path)
  local varies = compressible and opts.precompressed ~= false and not res.code
  if varies then
    local copy, coding = http.compressed(folder, path, f, res[CONNECTION][CURRENT])
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
