-- Reads the definitions of lualib/meta (LuaLS annotations) into tables. docs/build.lua generates pages from the
-- tables, and tests/meta_test.lua compares them with the modules.
--
-- Invariant: an unknown annotation raises, with file and line, so no definition is skipped silently.

local M = {}

-- Returns the paths of the files in lualib/meta below `root` (a folder that ends in a slash, or ""), in alphabetical
-- order.
function M.files(root)
  local list = {}
  local pipe = assert(io.popen("ls '" .. root .. "lualib/meta'"))
  for name in pipe:lines() do
    if name:match "%.lua$" then list[#list + 1] = root .. "lualib/meta/" .. name end
  end
  pipe:close()
  table.sort(list, function(a, b) return a:gsub("%.lua$", "") < b:gsub("%.lua$", "") end)
  return list
end

-- Returns the position of the last character of the type that begins at `from`. A space ends the type, unless the
-- space is inside brackets or follows a `:`, `,` or `|`.
local function type_end(text, from)
  local depth, quote = 0, false
  for at = from, #text do
    local char = text:sub(at, at)
    if char == '"' then quote = not quote end
    if not quote then
      if char:find "[%(<{%[]" then depth = depth + 1 end
      if char:find "[%)>}%]]" then depth = depth - 1 end
      if char == " " and depth == 0 and not text:sub(from, at - 1):find "[:,|]%s*$" then return at - 1 end
    end
  end
  return #text
end

-- Splits `type name text`, or `type`. Returns type, name and text.
local function split_type(text)
  local last = type_end(text, 1)
  local name, rest = text:sub(last + 1):match "^%s+(%S+)%s*(.-)%s*$"
  return text:sub(1, last), name, rest or ""
end

-- Splits `a: x, b?: y` at the commas outside brackets. Returns a list of { name, optional, type }.
local function split_params(text)
  local list, at = {}, 1
  while at <= #text do
    local name, optional, from = text:match("^%s*([%w_%.]+)(%??)%s*:%s*()", at)
    assert(name, "cannot read the parameters: " .. text)
    local depth, last = 0, #text + 1
    for i = from, #text do
      local char = text:sub(i, i)
      if char:find "[%(<{]" then depth = depth + 1 end
      if char:find "[%)>}]" then depth = depth - 1 end
      if char == "," and depth == 0 then
        last = i
        break
      end
    end
    list[#list + 1] = { name = name, optional = optional == "?", type = text:sub(from, last - 1) }
    at = last + 1
  end
  return list
end

-- Functions by annotation: each adds its annotation to the current block of comments.
local tags = {}

function tags.class(block, text)
  assert(not block.class, "an empty line must separate classes")
  local name, parents = text:match "^([%w%._]+)%s*:?%s*(.-)$"
  block.class = { name = name, parents = {}, fields = {}, functions = {}, overloads = {}, text = "" }
  for parent in parents:gmatch "[%w%._]+" do table.insert(block.class.parents, parent) end
end

function tags.field(block, text)
  local name, optional, rest = text:match "^([%w_]+)(%??)%s+(.+)$"
  local last = type_end(rest, 1)
  table.insert(block.class.fields, {
    name = name,
    optional = optional == "?",
    type = rest:sub(1, last),
    text = rest:sub(last + 2),
  })
end

function tags.alias(block, text)
  assert(not block.alias, "an empty line must separate aliases")
  local name, type = text:match "^([%w%._]+)%s*(.*)$"
  block.alias = { name = name, type = type }
end

function tags.param(block, text)
  local name, optional, rest = text:match "^([%w_%.]-)(%??)%s+(.+)$"
  local last = type_end(rest, 1)
  table.insert(block.params, {
    name = name,
    optional = optional == "?",
    type = rest:sub(1, last),
    text = rest:sub(last + 2),
  })
end

tags["return"] = function(block, text)
  local type, name, rest = split_type(text)
  table.insert(block.returns, { type = type, name = name, text = rest })
end

function tags.overload(block, text)
  local params = assert(text:match "^fun%((.*)%):" or text:match "^fun%((.*)%)$", "not a function: " .. text)
  table.insert(block.class and block.class.overloads or block.overloads, split_params(params))
end

function tags.private(block)
  block.private = true
end

local function new_block()
  return { lines = {}, params = {}, returns = {}, overloads = {} }
end

-- Returns the text of a block: its lines joined, with the empty lines between paragraphs.
local function text_of(block)
  return (table.concat(block.lines, "\n"):gsub("^%s+", ""):gsub("%s+$", ""))
end

-- Adds a finished block of comments to the module. `line` is the line after the block; it may be empty.
local function take(module, block, line)
  local class = block.class
  if class then
    class.text = text_of(block)
    table.insert(module.classes, class)
    local variable = line:match "^local ([%w_]+) = {}$"
    if variable then
      class.variable = variable
      module.variables[variable] = class
    end
    return
  end
  if block.alias then
    block.alias.text = text_of(block)
    table.insert(module.aliases, block.alias)
    return
  end
  local variable, separator, name, params = line:match "^function ([%w_]+)([%.:])([%w_]+)%((.-)%) end$"
  assert(variable, "a definition must follow: " .. line)
  local owner = assert(module.variables[variable], "no class has the variable " .. variable)
  local names = {}
  for param in params:gmatch "[^,%s]+" do names[#names + 1] = param end
  table.insert(owner.functions, {
    name = name,
    is_method = separator == ":",
    names = names,
    params = block.params,
    returns = block.returns,
    overloads = block.overloads,
    private = block.private,
    text = text_of(block),
  })
end

local function read_line(module, state, line)
  local comment = line:match "^%-%-%-(.*)$"
  if comment then
    local tag, rest = comment:match "^@(%a+)%s*(.*)$"
    if tag == "meta" then
      module.name = rest
      return
    end
    state.block = state.block or new_block()
    local alias, alternative = state.block.alias, comment:match "^| (.+)$"
    if alias and alternative then
      alias.type = alias.type .. (alias.type ~= "" and "|" or "") .. alternative
      return
    end
    if not tag then
      table.insert(state.block.lines, comment)
      return
    end
    local handle = assert(tags[tag], "unknown annotation @" .. tag)
    handle(state.block, rest)
    return
  end
  if state.block then
    local block = state.block
    state.block = nil
    return take(module, block, line)
  end
  local plain = line == "" or line:find "^%-%- " or line:find "^return [%w_]+$"
  assert(plain, "neither annotation nor definition: " .. line)
end

-- Reads one file. Returns { name, classes, aliases, variables }. The first class is the module itself. A class
-- has name, parents, text, fields, functions, overloads, variable; a function has name, is_method, names (of
-- its parameters, as in the code), params, returns, overloads, private, text.
function M.read(path)
  local module = { classes = {}, aliases = {}, variables = {} }
  local state, number = {}, 0
  for line in io.lines(path) do
    number = number + 1
    local ok, message = pcall(read_line, module, state, line)
    if not ok then error(("%s:%d: %s"):format(path, number, message), 0) end
  end
  return module
end

return M
