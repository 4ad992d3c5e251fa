-- Reads the definitions in lualib/meta (LuaLS annotations) into tables. docs/build.lua generates pages from them, and
-- tests/meta_test.lua compares them with the modules.
--
-- A file is one page: a module (`lio.net.lua`, with `---@meta lio.net`), or a topic of a module
-- (`lio.net.sockets.lua`, with `---@meta _`, so that LuaLS offers no `require` of it). A topic that adds functions to
-- the module itself declares the module's class again.
--
-- Invariant: an unknown kind of line raises an error with the file and the line, so nothing is left out silently.

local M = {}

-- Returns the paths of the files in lualib/meta, sorted by name. `root` is "" or a folder with a slash at its end.
local function files(root)
  local list = {}
  local pipe = assert(io.popen("ls '" .. root .. "lualib/meta'"))
  for name in pipe:lines() do
    if name:match "%.lua$" then list[#list + 1] = root .. "lualib/meta/" .. name end
  end
  pipe:close()
  table.sort(list, function(a, b) return a:gsub("%.lua$", "") < b:gsub("%.lua$", "") end)
  return list
end

-- Returns the position at which the type that begins at `from` ends. A space ends a type, except in brackets and after
-- `:`, `,` and `|`.
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

-- Splits `type name text` or `type`. Returns type, name, text.
local function split_type(text)
  local last = type_end(text, 1)
  local name, rest = text:sub(last + 1):match "^%s+(%S+)%s*(.-)%s*$"
  return text:sub(1, last), name, rest or ""
end

-- Splits `a: x, b?: y` at the commas outside of brackets. Returns a list of { name, optional, type }.
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

-- For each annotation, a function that adds its content to the block of comments in which it is.
local tags = {}

function tags.class(block, text)
  assert(not block.class, "an empty line must separate classes")
  local name, parents = text:match "^([%w%._]+)%s*:?%s*(.-)$"
  block.class = { name = name, parents = {}, fields = {}, functions = {}, overloads = {}, text = "" }
  for parent in parents:gmatch "[%w%._]+" do table.insert(block.class.parents, parent) end
end

function tags.field(block, text)
  -- `[integer]` are the elements of a list.
  local name, optional, rest = text:match "^(%[?[%w_]+%]?)(%??)%s+(.+)$"
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

-- The results of a success or of a failure, for checkers that read this annotation. The other annotations of the
-- function contain the same types, so the pages do not need it.
function tags.return_overload() end

function tags.private(block)
  block.private = true
end

local function new_block()
  return { lines = {}, params = {}, returns = {}, overloads = {} }
end

-- Returns the text of a block: its lines, with the empty lines between paragraphs.
local function text_of(block)
  return (table.concat(block.lines, "\n"):gsub("^%s+", ""):gsub("%s+$", ""))
end

-- Adds a block of comments to the module. `line` is the line after the block; it may be empty.
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
  if module.topic and not module.text and #module.classes == 0 and line == "" then
    module.text = text_of(block)
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
    local tag, rest = comment:match "^@([%a_]+)%s*(.*)$"
    if tag == "meta" then
      if rest == "_" then module.of, module.topic = module.name:match "^(.+)%.(.-)$" end
      assert(rest == "_" or rest == module.name, "a module must have the name of its file")
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
  assert(plain, "neither an annotation nor a definition: " .. line)
end

-- Reads one file. Returns its page: { name, classes, aliases, variables }, with `topic`, `of` (the module's name) and
-- `text` if it is a topic. The first class of a module is the module itself. A class has name, parents, text, fields,
-- functions, overloads, variable; a function has name, is_method, names (of its parameters, as in the code), params,
-- returns, overloads, private, text.
local function read(path)
  local module = { name = path:match "([^/]+)%.lua$", classes = {}, aliases = {}, variables = {} }
  local state, number = {}, 0
  for line in io.lines(path) do
    number = number + 1
    local ok, message = pcall(read_line, module, state, line)
    if not ok then error(("%s:%d: %s"):format(path, number, message), 0) end
  end
  return module
end

-- Reads all files of lualib/meta; for `root` see `files`. Returns the list of their pages. Each page has the list of
-- its `topics`.
function M.read(root)
  local pages, by_name = {}, {}
  for index, path in ipairs(files(root)) do
    local page = read(path)
    pages[index], by_name[page.name], page.topics = page, page, {}
    if page.topic then
      local module = assert(by_name[page.of], path .. ": no module " .. page.of)
      assert(page.text, path .. ": no sentence about the topic")
      table.insert(module.topics, page)
    end
  end
  return pages
end

local function append(list, more)
  table.move(more, 1, #more, #list + 1, list)
end

-- Joins the pages of a module into one table of the same form. If several pages declare a class, the class gets the
-- parents, fields and functions of all of them.
local function join(module)
  local joined, by_name = { name = module.name, classes = {}, aliases = {} }, {}
  for _, page in ipairs { module, table.unpack(module.topics) } do
    append(joined.aliases, page.aliases)
    for _, class in ipairs(page.classes) do
      local whole = by_name[class.name]
      if not whole then
        whole = { name = class.name, parents = {}, fields = {}, functions = {} }
        by_name[class.name] = whole
        table.insert(joined.classes, whole)
      end
      for _, key in ipairs { "parents", "fields", "functions" } do append(whole[key], class[key]) end
    end
  end
  return joined
end

-- Returns the modules among the pages that `read` has returned. Each contains the definitions of its topics.
function M.modules(pages)
  local modules = {}
  for _, page in ipairs(pages) do
    if not page.topic then modules[#modules + 1] = join(page) end
  end
  return modules
end

return M
