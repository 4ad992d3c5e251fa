-- The tokens of a Lua program. Used by check/globals.lua. Invariant: Lua has compiled the program, so no token is
-- invalid, and this file checks nothing.

local M = {}

local KEYWORDS <const> = {}
for word in ([[
  and break do else elseif end false for function goto if in local nil not or repeat return then true until while
]]):gmatch "%a+" do
  KEYWORDS[word] = true
end

local Lexer = {}
Lexer.__index = Lexer

-- `new(text)` returns a lexer. A first line that begins with `#` is skipped, as Lua does.
function M.new(text)
  local lexer = setmetatable({ text = text, position = 1, line = 1, line_break = 0 }, Lexer)
  if text:sub(1, 3) == "\xEF\xBB\xBF" then lexer.position = 4 end
  if text:sub(lexer.position, lexer.position) == "#" then
    lexer.position = text:find("[\r\n]", lexer.position) or #text + 1
  end
  return lexer
end

-- Counts the line breaks in the text from the current position to `last`, and continues after it. Two different
-- characters of "\r\n" or "\n\r" are one line break. The position of the next line break is kept, so that each byte is
-- searched only once.
function Lexer:pass(last)
  while self.line_break <= last do
    local position = self.line_break
    if position >= self.position then
      local pair = self.text:sub(position, position + 1)
      position = position + ((pair == "\r\n" or pair == "\n\r") and 1 or 0)
      self.line = self.line + 1
    end
    self.line_break = self.text:find("[\r\n]", position + 1) or math.huge
  end
  self.position = last + 1
end

-- Returns the position of the last byte of the long bracket that begins at `position`; nil if there is none.
function Lexer:long_bracket(position)
  local level = self.text:match("^%[(=*)%[", position)
  if not level then return nil end
  local _, last = self.text:find("]" .. level .. "]", position + #level + 2, true)
  return last
end

-- Skips white space and comments.
function Lexer:skip()
  while true do
    local _, last = self.text:find("^%s+", self.position)
    if last then
      self:pass(last)
    elseif self.text:find("^%-%-", self.position) then
      self:pass(self:long_bracket(self.position + 2) or (self.text:find("[\r\n]", self.position) or #self.text + 1) - 1)
    else
      return
    end
  end
end

-- Returns the position of the last byte of a string in quotes.
function Lexer:quoted(quote)
  local position = self.position + 1
  while true do
    local found = self.text:find('[\\' .. quote .. ']', position)
    if self.text:sub(found, found) == quote then return found end
    -- A backslash before "\r\n" escapes both bytes, but the second one is neither a quote nor a backslash.
    position = found + 2
  end
end

-- Returns the position of the last byte of a number: digits, letters and dots, and the sign of an exponent.
function Lexer:number()
  local exponent = self.text:find("^0[xX]", self.position) and "[pP]" or "[eE]"
  local position = self.position
  while true do
    local _, signed = self.text:find("^" .. exponent .. "[+-]", position)
    local _, last = self.text:find("^[%w_.]", position)
    if not last then return position - 1 end
    position = (signed or last) + 1
  end
end

-- Operators with several characters, the longest first.
local OPERATORS <const> = { "...", "..", "==", "~=", "<=", ">=", "//", "::", "<<", ">>" }

function Lexer:operator()
  for _, operator in ipairs(OPERATORS) do
    if self.text:sub(self.position, self.position + #operator - 1) == operator then
      return self.position + #operator - 1
    end
  end
  return self.position
end

-- `lexer:next()` returns the next token: its kind, text and line. The kind is "name", "string", "number", "end", or for
-- keywords and operators the text itself. The line is that of the token's first character.
function Lexer:next()
  self:skip()
  local first, line = self.position, self.line
  local char = self.text:sub(first, first)
  local kind, last, _
  if char == "" then return "end", "", line end
  if char:find "[%a_]" then
    _, last = self.text:find("^[%w_]+", first)
    kind = "name"
  elseif char == '"' or char == "'" then
    kind, last = "string", self:quoted(char)
  elseif char == "[" and self:long_bracket(first) then
    kind, last = "string", self:long_bracket(first)
  elseif char:find "%d" or self.text:find("^%.%d", first) then
    kind, last = "number", self:number()
  else
    last = self:operator()
  end
  local text = self.text:sub(first, last)
  self:pass(last)
  if not kind or KEYWORDS[text] then kind = text end
  return kind, text, line
end

return M
