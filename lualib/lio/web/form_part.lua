-- One file of a multipart form, as handlers see it: in a temporary file, or still coming in (`on_file`).
--
-- Made by web/form.lua, which closes it when the request ends: a part that was not moved is gone then. A small
-- one gets its file when somebody asks for the path.
-- Fields: `name`, `filename` (as the client gave it), `basename` (that is safe as a file's name),
-- `content_type`, `headers`, `size` (bytes that have come), `path` (that of the temporary file).

local http = require "lio.http"
local misuse = require "lio.misuse"
local options = require "lio.options"

local PIECE <const> = 64 * 1024 -- bytes that are read or copied at a time
local LONGEST <const> = 255 -- bytes of a name in a folder

local M = {}

local Part = {}
Part.__name = "lio.part"

-- Cuts a name in the middle of no UTF-8 character; a short extension stays.
local function shorten(name)
  if #name <= LONGEST then return name end
  local extension = name:match("%.[^.]*$") or ""
  if #extension > 32 then extension = "" end
  local last = LONGEST - #extension
  while last > 0 and (name:byte(last + 1) or 0) & 0xC0 == 0x80 do last = last - 1 end
  return name:sub(1, last) .. extension
end

-- The last component of a path in anybody's notation, without what no file's name should have: `"file"`
-- when nothing is left.
local function basename(filename)
  local name = filename:match("[^/\\]*$"):gsub("[%c\127]", ""):gsub("^%s+", ""):gsub("%s+$", "")
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

-- A part that is coming in, of `form`, which has the parser and the limits.
function M.new(form, name, filename, headers)
  return setmetatable({
    name = name,
    filename = filename,
    headers = headers,
    content_type = headers["content-type"] or "application/octet-stream",
    size = 0,
    form = form,
    file = false,
    complete = false, -- all of it has come
    read_on = false, -- some of it was handed out
  }, Part)
end

local function check_open(part, call)
  if getmetatable(part) ~= Part then
    misuse.raise(("part:%s: call it with a colon, as in part:%s(…)"):format(call, call))
  end
  if part.closed then misuse.raise(("part:%s: the part is gone, as its request has ended"):format(call)) end
end

-- `part:keep()` → part: takes what is still to come into a temporary file. Raises when the form is refused.
function Part:keep()
  check_open(self, "keep")
  if self.file then return self end
  if self.complete or self.read_on then misuse.raise "part:keep: the part was read already" end
  self.form:store(self)
  return self
end

-- The next piece of one that is coming in.
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

-- `for piece in part:stream() do`: the content in pieces. Of a part that is coming in each is read when it is
-- asked for, and none is kept.
function Part:stream()
  check_open(self, "stream")
  if not self.file then
    self.read_on = true
    return function()
      check_open(self, "stream")
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

-- `part:read([limit])` → the content; or nil, reason, status when it is larger than `limit` bytes.
function Part:read(limit)
  check_open(self, "read")
  if limit ~= nil then misuse.check("read", 1, limit, "number") end
  limit = limit or math.huge
  local pieces, length = {}, 0
  if self.complete and self.size > limit then return nil, "the file is larger than allowed", 413 end
  for piece in self:stream() do
    length = length + #piece
    if length > limit then return nil, "the file is larger than allowed", 413 end
    pieces[#pieces + 1] = piece
  end
  return table.concat(pieces)
end

-- `part:open([mode = "rb"])` → a file as of `io.open`, at its start; or nil, message, code.
function Part:open(mode)
  check_open(self, "open")
  if mode ~= nil then misuse.check("open", 1, mode, "string") end
  self:keep()
  local path, message, code = self.moved_to, nil, nil
  if not path then path, message, code = self.file:path() end
  if not path then return nil, message, code end
  return io.open(path, mode or "rb")
end

-- Another file system needs a copy; others have their turn meanwhile.
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

-- `part:move(path [, opts])` → true: the file stays, under that name; or nil, message, code: `"exists"` when
-- there is one, which `opts.replace` replaces. May be called again for another name.
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

-- `part:close()`: gives the temporary file back before the request ends. Idempotent.
function Part:close()
  self.closed = true
  if self.file then self.file:close() end
end

-- The metatable of parts.
M.Part = Part

return M
