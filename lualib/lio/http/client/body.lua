-- The body of a request: a string, a list of strings, a function that returns pieces, or an open file. Part of
-- `lio.http.client`. Fields: `text` (the whole body, if it is a string), `length` (bytes, if known), `begun` (whether a
-- piece has been read).

local PIECE <const> = 64 * 1024

local M = {}

local Body = {}
Body.__index = Body

-- `body:next()` returns the next piece; nil at the end; or nil and a message.
function Body:next()
  self.begun = true
  return self.read()
end

-- `body:rewind()`: goes back to the start of the body if possible. Returns whether the body is at its start.
function Body:rewind()
  if self.text or not self.begun then return true end
  if not self.start then return false end
  self.begun = false
  return self.file:seek("set", self.start) ~= nil
end

local function of_file(file)
  local body = setmetatable({ file = file, begun = false }, Body)
  local start = file:seek "cur"
  local length = start and file:seek "end"
  if length then
    file:seek("set", start)
    body.start, body.length = start, length - start
  end
  -- If the file grows, only the announced length is sent.
  function body.read()
    local most = PIECE
    if body.length then most = math.min(most, body.length - (file:seek "cur" - start)) end
    if most == 0 then return nil end
    return file:read(most)
  end
  return body
end

local function of_function(f)
  local body = setmetatable({ begun = false }, Body)
  function body.read()
    local piece, message = f()
    if piece == nil then return nil, message end
    if type(piece) ~= "string" then
      error("the function of a request's body must return strings, not " .. type(piece), 0)
    end
    return piece
  end
  return body
end

-- Joins the strings and numbers of a list. Raises for any other table.
local function of_list(list)
  local count = #list
  for key, value in pairs(list) do
    local is_place = math.type(key) == "integer" and key >= 1 and key <= count
    if not is_place or type(value) ~= "string" and type(value) ~= "number" then
      local what = is_place and "a " .. type(value) .. " at [" .. key .. "]" or "the key '" .. tostring(key) .. "'"
      error("body must be a string, a list of strings, a function or an open file, not a table with " .. what
        .. " (option 'json' sends a table as JSON, option 'form' as a form)", 0)
    end
  end
  return table.concat(list)
end

-- `of(value)` returns a body, or nil for nil. Raises for a value that cannot be a body.
function M.of(value)
  if value == nil then return nil end
  local kind = type(value)
  if kind == "function" then return of_function(value) end
  if io.type(value) == "file" then return of_file(value) end
  if kind == "table" then value = of_list(value) end
  if type(value) ~= "string" then
    error("body must be a string, a list of strings, a function or an open file, not " .. (io.type(value) or kind), 0)
  end
  return setmetatable({ text = value, length = #value, begun = false }, Body)
end

return M
