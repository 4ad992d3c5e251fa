-- The format of HTTP/1 messages, for http.httpd and http.httpc: heads, bodies with a length, bodies in chunks. A
-- message is read by a function `read(size)`, which raises if the connection has ended; see http.sockethelper.

local trim <const> = require "lio.http.trim"

local M = {}

-- The limits of a head, or of trailers, and of a line in a chunked body, in bytes.
local HEAD_MAX <const>, LINE_MAX <const> = 8192, 256

-- Bytes that were read: `data`. Those from the position `at` on were not used. Used bytes are removed only when more
-- are read, so a message in many small chunks is not copied for each of them.
local Input = {}
Input.__index = Input

-- `input(read)`: returns an object that reads through `read`.
function M.input(read)
  return setmetatable({ read = read, data = "", at = 1 }, Input)
end

-- `input:line(limit)`: returns the next line without its end; nil if it is longer than `limit`.
function Input:line(limit)
  local from = self.at
  while true do
    local first, last = self.data:find("\r\n", from, true)
    if first then
      if first - self.at > limit then return nil end
      local line = self.data:sub(self.at, first - 1)
      self.at = last + 1
      return line
    end
    local rest = self:rest()
    if #rest > limit + 1 then return nil end
    self.data, self.at = rest .. self.read(), 1
    -- The last byte of `rest` may be the first half of the line's end.
    from = math.max(#rest, 1)
  end
end

-- `input:bytes(size)`: returns that many bytes.
function Input:bytes(size)
  local from <const> = self.at
  if #self.data - from + 1 >= size then
    self.at = from + size
    return self.data:sub(from, from + size - 1)
  end
  local rest = self:rest()
  self.data, self.at = "", 1
  return rest .. self.read(size - #rest)
end

-- `input:rest()`: returns the bytes that were read and not used. They remain.
function Input:rest()
  return self.data:sub(self.at)
end

-- Returns the next lines up to an empty one, without it; nil if they have more than HEAD_MAX bytes. If `is_head`, empty
-- lines before the first one are skipped.
local function read_lines(input, is_head)
  local lines, size = {}, 0
  while true do
    local line = input:line(HEAD_MAX - size)
    if not line then return nil end
    if line == "" and not (is_head and #lines == 0) then return lines end
    size = size + #line + 2
    if line ~= "" then lines[#lines + 1] = line end
    if size > HEAD_MAX then return nil end
  end
end

-- `input:head()`: returns the lines of a head; nil if the head is too long.
function Input:head()
  return read_lines(self, true)
end

-- `input:trailers()`: returns the lines of trailers; nil if they are too long.
function Input:trailers()
  return read_lines(self, false)
end

-- `add(values, name, value)`: stores a value by its name. If a name occurs several times, its value is the list of the
-- values.
function M.add(values, name, value)
  local known = values[name]
  if known == nil then
    values[name] = value
  elseif type(known) == "table" then
    known[#known + 1] = value
  else
    values[name] = { known, value }
  end
end

-- `fields(lines, from[, header])`: adds the fields of the lines from that one on to a table: names in lower case, and a
-- list of values for a name that occurs several times. Returns the table; nil if a line is no field.
function M.fields(lines, from, header)
  header = header or {}
  local name
  for i = from, #lines do
    local line = lines[i]
    if line:find "^[ \t]" then
      -- An old form: the value continues on the next line.
      if not name or type(header[name]) ~= "string" then return nil end
      header[name] = header[name] .. " " .. trim(line)
    else
      local value
      name, value = line:match "^([^%s:]+):(.*)$"
      if not name then return nil end
      name = name:lower()
      M.add(header, name, trim(value))
    end
  end
  return header
end

-- Reads the chunks of a body. Returns the body; nil and a status if it is malformed or longer than `limit`.
local function chunks(input, limit, header)
  local parts, size = {}, 0
  while true do
    local line = input:line(LINE_MAX)
    local digits = line and line:match "^(%x+)%s*;?" or ""
    local length = #digits <= 8 and tonumber(digits, 16)
    if not length then return nil, 400 end
    if length == 0 then break end
    size = size + length
    if limit and size > limit then return nil, 413 end
    parts[#parts + 1] = input:bytes(length)
    if input:bytes(2) ~= "\r\n" then return nil, 400 end
  end
  local lines = input:trailers()
  if not lines or not M.fields(lines, 1, header) then return nil, 400 end
  return table.concat(parts)
end

-- `body(input, header, limit)`: reads a body as its fields describe it. Returns the body, or nil if the fields describe
-- none; on failure false and a status: 400 malformed, 413 longer than `limit`, 501 an unknown coding.
function M.body(input, header, limit)
  local coding, length = header["transfer-encoding"], header["content-length"]
  if coding and coding ~= "identity" then
    if type(coding) ~= "string" or coding:lower() ~= "chunked" then return false, 501 end
    -- A message with both is ambiguous: RFC 9112 section 6.1.
    if length then return false, 400 end
    local body, status = chunks(input, limit, header)
    if not body then return false, status end
    return body
  end
  if not length then return nil end
  local size = type(length) == "string" and length:match "^%d+$" and math.tointeger(tonumber(length))
  if not size then return false, 400 end
  if limit and size > limit then return false, 413 end
  return input:bytes(size)
end

-- `check_field(name, value)`: raises if a field could end the head early.
function M.check_field(name, value)
  if type(name) ~= "string" then error("the name of a field must be a string, not a " .. type(name), 0) end
  if name:find "[^!#$%%&'*+%-.^_`|~%w]" or name == "" then error(("invalid name of a field: %q"):format(name), 0) end
  if value:find "[\r\n%z]" then error(("the value of the field '%s' has a line break"):format(name), 0) end
end

-- `head(first, header)`: returns a head without its empty line. A value may be a list of values.
function M.head(first, header)
  local lines = { first }
  for name, value in pairs(header or {}) do
    for _, one in ipairs(type(value) == "table" and value or { value }) do
      one = tostring(one)
      M.check_field(name, one)
      lines[#lines + 1] = name .. ": " .. one
    end
  end
  lines[#lines + 1] = ""
  return table.concat(lines, "\r\n")
end

return M
