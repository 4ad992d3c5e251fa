-- Finds the global variables that a program uses. Used by check.lua.
--
-- A recursive-descent parser that keeps only the scopes of local variables. It finds the line of each name, which the
-- compiled code does not have: an assignment with several lines has the line of its end there. Invariant: Lua has
-- compiled the program, so the parser checks no syntax. It reads the syntax of Lua 5.4 and 5.5.

local lexers = require "lio.check.lexer"

local M = {}

local BLOCK_ENDS <const> = { ["end"] = true, ["else"] = true, ["elseif"] = true, ["until"] = true }
local UNARY <const> = { ["not"] = true, ["-"] = true, ["#"] = true, ["~"] = true }
local BINARY <const> = {}
for operator in ("+ - * / // % ^ .. == ~= < <= > >= and or & | ~ << >>"):gmatch "%S+" do BINARY[operator] = true end

-- `kind`, `text` and `line` are those of the current token, which has not been consumed. `scope` maps the names of a
-- block's variables to "local" or "global"; its field `[1]` is the scope around it.
local Parser = {}
Parser.__index = Parser

-- Tokens and scopes -----------------------------------------------------------------------------------

function Parser:advance()
  local text, line = self.text, self.line
  if self.ahead then
    self.kind, self.text, self.line = table.unpack(self.ahead)
    self.ahead = nil
  else
    self.kind, self.text, self.line = self.lexer:next()
  end
  return text, line
end

-- Returns the kind of the token after the current one.
function Parser:peek()
  self.ahead = self.ahead or { self.lexer:next() }
  return self.ahead[1]
end

-- Consumes the current token if it has this kind. Returns whether it has.
function Parser:accept(kind)
  if self.kind ~= kind then return false end
  self:advance()
  return true
end

function Parser:open_scope() self.scope = { self.scope } end

function Parser:close_scope() self.scope = self.scope[1] end

function Parser:declare(name, kind) self.scope[name] = kind or "local" end

function Parser:is_local(name)
  local scope = self.scope
  while scope do
    if scope[name] then return scope[name] == "local" end
    scope = scope[1]
  end
  return false
end

-- Records the use of a variable, unless it is local, or the field of a local `_ENV`.
function Parser:use(name, line, is_write)
  if name == "_ENV" or self:is_local(name) or self:is_local "_ENV" then return end
  table.insert(self.uses, { name = name, line = line, is_write = is_write or false, is_top = self.depth == 0 })
end

-- Records that the program declares or assigns a global variable.
function Parser:define(name) self.defined[name] = true end

-- Expressions -----------------------------------------------------------------------------------------

function Parser:expressions()
  repeat self:expression() until not self:accept ","
end

function Parser:constructor()
  self:advance()
  while self.kind ~= "}" do
    if self:accept "[" then
      self:expression()
      self:advance()
      self:advance()
    elseif self.kind == "name" and self:peek() == "=" then
      self:advance()
      self:advance()
    end
    self:expression()
    if not self:accept "," then self:accept ";" end
  end
  self:advance()
end

-- Reads the arguments of a call, if the current token begins them. Returns whether it does.
function Parser:arguments()
  if self.kind == "string" then
    self:advance()
  elseif self.kind == "{" then
    self:constructor()
  elseif self:accept "(" then
    if self.kind ~= ")" then self:expressions() end
    self:advance()
  else
    return false
  end
  return true
end

-- Reads one suffix of an expression. Returns whether there was one.
function Parser:suffix()
  if self:accept "." then
    self:advance()
  elseif self:accept "[" then
    self:expression()
    self:advance()
  elseif self:accept ":" then
    self:advance()
    self:arguments()
  else
    return self:arguments()
  end
  return true
end

-- Reads a variable, a call, or an expression in parentheses. If it is only a name, the name is not recorded, and is
-- returned with its line. If it is `_G.name`, returns nil, nil and the name.
function Parser:primary()
  if self:accept "(" then
    self:expression()
    self:advance()
  else
    local name, line = self:advance()
    if self.kind == "." and name == "_G" and not self:is_local(name) then
      self:use(name, line)
      self:advance()
      local field = self:advance()
      if not self:suffix() then return nil, nil, field end
    elseif self:suffix() then
      self:use(name, line)
    else
      return name, line
    end
  end
  repeat until not self:suffix()
end

local CONSTANTS <const> = {
  number = true, string = true, ["nil"] = true, ["true"] = true, ["false"] = true, ["..."] = true,
}

function Parser:expression()
  repeat
    while UNARY[self.kind] do self:advance() end
    if CONSTANTS[self.kind] then
      self:advance()
    elseif self.kind == "{" then
      self:constructor()
    elseif self:accept "function" then
      self:body()
    else
      local name, line = self:primary()
      if name then self:use(name, line) end
    end
    local continues = BINARY[self.kind]
    if continues then self:advance() end
  until not continues
end

-- Statements ------------------------------------------------------------------------------------------

function Parser:block()
  self:open_scope()
  self:statements()
  self:close_scope()
end

function Parser:statements()
  while self.kind ~= "end" or self.text ~= "" do
    if BLOCK_ENDS[self.kind] then return end
    self:statement()
  end
end

-- Reads the parameters and the block of a function. `has_self`: it is a method.
function Parser:body(has_self)
  self.depth = self.depth + 1
  self:open_scope()
  if has_self then self:declare "self" end
  self:advance()
  while not self:accept ")" do
    self:accept "..." -- in Lua 5.5 a name may follow
    if self.kind == "name" then self:declare((self:advance())) end
    self:accept ","
  end
  self:statements()
  self:advance()
  self:close_scope()
  self.depth = self.depth - 1
end

-- Reads `<const>` or another attribute, if there is one.
function Parser:attribute()
  if not self:accept "<" then return end
  self:advance()
  self:advance()
end

-- Reads a list of names with attributes. Returns their names and lines.
function Parser:names()
  local names, lines = {}, {}
  self:attribute()
  repeat
    local name, line = self:advance()
    table.insert(names, name)
    table.insert(lines, line)
    self:attribute()
  until not self:accept ","
  return names, lines
end

local statements = {}

statements["local"] = function(self)
  if self:accept "function" then
    self:declare((self:advance()))
    return self:body()
  end
  local names = self:names()
  if self:accept "=" then self:expressions() end
  for _, name in ipairs(names) do self:declare(name) end
end

statements["function"] = function(self)
  local name, line = self:advance()
  local is_variable, has_self = self.kind == "(", false
  while self.kind ~= "(" do
    has_self = self.kind == ":"
    self:advance()
    self:advance()
  end
  self:use(name, line, is_variable)
  self:body(has_self)
end

statements["for"] = function(self)
  local names = self:names()
  self:advance()
  self:expressions()
  self:advance()
  self:open_scope()
  for _, name in ipairs(names) do self:declare(name) end
  self:statements()
  self:close_scope()
  self:advance()
end

statements["if"] = function(self)
  repeat
    self:expression()
    self:advance()
    self:block()
  until not self:accept "elseif"
  if self:accept "else" then self:block() end
  self:advance()
end

statements["while"] = function(self)
  self:expression()
  self:advance()
  self:block()
  self:advance()
end

statements["do"] = function(self)
  self:block()
  self:advance()
end

-- The condition of `repeat` belongs to the scope of its block.
statements["repeat"] = function(self)
  self:open_scope()
  self:statements()
  self:advance()
  self:expression()
  self:close_scope()
end

statements["return"] = function(self)
  if not BLOCK_ENDS[self.kind] and self.kind ~= "end" and self.kind ~= ";" then self:expressions() end
  self:accept ";"
end

statements["goto"] = Parser.advance

statements["::"] = function(self)
  self:advance()
  self:advance()
end

statements["break"] = function() end
statements[";"] = statements["break"]

-- A declaration of Lua 5.5: `global name`, `global function name`, `global *`.
function Parser:global()
  self:advance()
  if self:accept "function" then
    local name = self:advance()
    self:declare(name, "global")
    self:define(name)
    return self:body()
  end
  self:attribute()
  if self:accept "*" then return end
  local names = self:names()
  if self:accept "=" then self:expressions() end
  for _, name in ipairs(names) do
    self:declare(name, "global")
    self:define(name)
  end
end

-- Reads a call or an assignment.
function Parser:call_or_assignment()
  local targets = {}
  repeat
    local name, line, field = self:primary()
    if name then table.insert(targets, { name, line }) end
    if field and (self.kind == "=" or self.kind == ",") then self:define(field) end
  until not self:accept ","
  if self:accept "=" then self:expressions() end
  for _, target in ipairs(targets) do self:use(target[1], target[2], true) end
end

local AFTER_GLOBAL <const> = { name = true, ["function"] = true, ["*"] = true, ["<"] = true }

function Parser:statement()
  local read = statements[self.kind]
  if read then
    self:advance()
    return read(self)
  end
  if self.text == "global" and self.kind == "name" and AFTER_GLOBAL[self:peek()] then return self:global() end
  self:call_or_assignment()
end

-- `find(text)` returns a list of the uses of global variables, in the order in which they are evaluated: tables with
-- `name`, `line`, `is_write`, and `is_top`, whether the use is outside of functions. Also returns the set of the names
-- that the program declares (`global name`) or assigns as `_G.name`.
function M.find(text)
  local parser = setmetatable({ lexer = lexers.new(text), depth = 0, uses = {}, defined = {} }, Parser)
  parser:advance()
  parser:block()
  return parser.uses, parser.defined
end

return M
