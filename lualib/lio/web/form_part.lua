-- A part of a multipart form that is a file, as handlers see it: in a temporary file, or still being received
-- (`on_file`).
--
-- web/form.lua creates parts, and closes them at the end of the request: the file of a part that was not moved is then
-- deleted. A small file is in memory until its path is requested.
-- Fields: `name`, `filename` (as the client sent it), `basename` (safe as the name of a file), `content_type`,
-- `headers`, `size` (bytes received), `path` (of the temporary file, or of the moved file).

local http = require "lio.http"
local misuse = require "lio.misuse"
local options = require "lio.options"
local trim <const> = require "lio.http.trim"

-- The number of bytes that are read or copied at a time, and the maximum length of a file name in bytes.
local PIECE <const> = 64 * 1024
local LONGEST <const> = 255

local M = {}

local Part = {}
Part.__name = "lio.part"

-- Shortens a name to `LONGEST` bytes without splitting a UTF-8 character. Keeps a short extension.
local function shorten(name)
  if #name <= LONGEST then return name end
  local extension = name:match("%.[^.]*$") or ""
  if #extension > 32 then extension = "" end
  local last = LONGEST - #extension
  while last > 0 and (name:byte(last + 1) or 0) & 0xC0 == 0x80 do last = last - 1 end
  return name:sub(1, last) .. extension
end

-- Returns the last component of a path, which may have slashes or backslashes, without control characters or
-- surrounding blanks; "file" if no name is left.
local function basename(filename)
  local last = filename:match "^.*[/\\](.*)$" or filename
  local name = trim((last:gsub("[%c\127]", "")))
  if name == "" or name == "." or name == ".." then return "file" end
  return shorten(name)
end

local getters = {}

function getters.basename(part) return basename(part.filename) end

function getters.path(part)
  if part.moved_to then return part.moved_to end
  part:keep()
  return (part.file:path())
end

function Part.__index(part, name)
  local getter = getters[name]
  if getter then return getter(part) end
  return Part[name]
end

-- `new(form, name, filename, headers)` returns a part that is being received. `form` has the parser and the limits.
function M.new(form, name, filename, headers)
  return setmetatable({
    name = name,
    filename = filename,
    headers = headers,
    content_type = headers["content-type"] or "application/octet-stream",
    size = 0,
    form = form,
    file = false,
    spool = false, -- the temporary file while the part is being stored
    taken = false, -- the pieces that a call of `read` has received, and not returned
    complete = false, -- the whole part was received
    streamed = false, -- the handler reads the part in pieces
  }, Part)
end

local function check_self(part, call)
  if getmetatable(part) ~= Part then misuse.no_colon("part", call) end
end

local function check_open(part, call)
  check_self(part, call)
  if part.closed then misuse.raise(("part:%s: the part is closed, %s"):format(call, part.closed)) end
end

-- `part:keep()`: stores a part that is being received in a temporary file. Returns part. Raises if the form is refused.
function Part:keep()
  check_open(self, "keep")
  if self.file then return self end
  if self.complete or self.streamed then misuse.raise "part:keep: the part has already been read" end
  self.form:store(self)
  return self
end

-- Marks a part that is being received as read in pieces. Raises if it is being stored.
local function begin_reading(part, call)
  if part.spool then misuse.raise(("part:%s: the part is being stored, or could not be stored"):format(call)) end
  part.streamed = true
end

-- Returns the next piece of a part that is being received; nil at the end of the part.
local function next_piece(part)
  if part.complete then return nil end
  local piece = part.form:piece()
  if piece then
    part.size = part.size + #piece
  else
    part.complete = true
  end
  return piece
end

-- `for piece in part:stream() do`: iterates over the content in pieces. A part that is being received is read piece by
-- piece, and not stored.
function Part:stream()
  check_open(self, "stream")
  if not self.file then
    begin_reading(self, "stream")
    return function()
      check_open(self, "stream")
      local taken = self.taken
      if taken and taken[1] then return table.remove(taken, 1) end
      return next_piece(self)
    end
  end
  local offset = 0
  return function()
    check_open(self, "stream")
    local piece, message = self.file:read(offset, PIECE)
    if not piece then error(message, 2) end
    offset = offset + #piece
    return piece ~= "" and piece or nil
  end
end

-- Returns the content of a part that is being received. The received pieces stay in `taken` if the limit is exceeded,
-- or if the task is killed.
local function receive_whole(part, limit)
  begin_reading(part, "read")
  local pieces, length = part.taken or {}, 0
  part.taken = pieces
  for _, piece in ipairs(pieces) do length = length + #piece end
  while length <= limit do
    check_open(part, "read")
    local piece = next_piece(part)
    if not piece then
      part.taken = false
      return table.concat(pieces)
    end
    pieces[#pieces + 1] = piece
    length = length + #piece
  end
  return nil, "the file is larger than allowed", 413
end

-- `part:read([limit])` returns the content; or nil, reason, status if it is longer than `limit` bytes. Then a call with
-- a larger limit may follow.
function Part:read(limit)
  check_open(self, "read")
  if limit ~= nil then misuse.check("read", 1, limit, "number") end
  limit = limit or math.huge
  if self.complete and self.size > limit then return nil, "the file is larger than allowed", 413 end
  if not self.file then return receive_whole(self, limit) end
  local pieces = {}
  for piece in self:stream() do pieces[#pieces + 1] = piece end
  return table.concat(pieces)
end

-- `part:open([mode = "rb"])` returns a file as `io.open` does; or nil, message, code.
function Part:open(mode)
  check_open(self, "open")
  if mode ~= nil then misuse.check("open", 1, mode, "string") end
  self:keep()
  local path, message, code = self.moved_to, nil, nil
  if not path then path, message, code = self.file:path() end
  if not path then return nil, message, code end
  return io.open(path, mode or "rb")
end

-- Copies a part to another file system. Other tasks run meanwhile.
local function copy(part, path, replace)
  local target = http.spool(path:match("^(.*/)[^/]*$") or ".")
  local driver, offset = part.form.driver, 0
  local ok, message, code
  repeat
    local piece
    piece, message, code = part.file:read(offset, PIECE)
    if not piece then break end
    offset = offset + #piece
    ok, message, code = target:write(piece)
    if ok and offset % (16 * PIECE) == 0 then driver:sleep(0) end
  until not ok or piece == ""
  if ok then ok, message, code = target:link(path, replace) end
  target:close()
  return ok, message, code
end

local OF_MOVE <const> = { replace = options.boolean }

-- `part:move(path [, opts])`: moves the file to `path`, so that it is not deleted at the end of the request. May be
-- called again with another path. Returns true; or nil, message, code. The code is `"exists"` if a file of that name
-- exists and `opts.replace` is not set.
function Part:move(path, opts)
  check_open(self, "move")
  misuse.check("move", 1, path, "string")
  local replace = options.check("part:move", 2, opts, OF_MOVE).replace or false
  self:keep()
  local ok, message, code = self.file:link(path, replace)
  if code == "other device" then ok, message, code = copy(self, path, replace) end
  if not ok then return nil, message, code end
  self.moved_to = path
  return true
end

-- `close(part, reason)`: deletes the temporary file. `reason` completes the errors from later calls. Idempotent.
function M.close(part, reason)
  part.closed = part.closed or reason
  if part.file then part.file:close() end
  if part.spool then part.spool:close() end
end

-- `part:close()`: deletes the temporary file without waiting for the end of the request. Idempotent.
function Part:close()
  check_self(self, "close")
  M.close(self, "because part:close() was called")
end

-- The metatable of parts.
M.Part = Part

return M
