-- Runs luacheck on the Lua programs in the strings of the tests: services, and scripts that suites write to files.
-- Part of `make lint`.
--
--   lua tests/embedded_programs.lua [FILE …]     all Lua files of tests/ by default; exits with 1 if it finds something
--
-- A string is a program if it compiles as Lua and contains a keyword. Strings joined by `..` are one program. A
-- placeholder replaces each other operand and each directive of string.format. A string that does not compile is not
-- checked. A program may use globals in capital letters.
--
-- Suites put some strings before other programs: constants (`local NAME = …`), and strings joined to an unknown
-- operand. All programs of the file may use the names that these strings define at their top level. A comment in a
-- suite or in its kit lists further names that programs may use, and that may be unused where they are defined:
--   -- The programs may use: net, loop
-- The programs of a suite that says "The programs are wrong on purpose" in a comment are not checked.

-- Replacements for an unknown part of a program. The first replacement with which the program compiles is used.
local FILLERS <const> = { "PLACEHOLDER() ", "PLACEHOLDER ", "" }

-- The options of luacheck are those for tests in .luacheckrc. Whitespace (6…) is not checked, because suites join lines
-- of programs.
local LUACHECK <const> = "luacheck --no-config --std lua54 --no-max-line-length --codes --formatter plain "
  .. "--ignore 212 512 6 -- "

local KEYWORDS <const> = {}
for word in ("and break do else elseif end for function goto if in local not or repeat return then until while"
  ):gmatch "%a+" do
  KEYWORDS[word] = true
end

local function has_keyword(text)
  for word in text:gmatch "[%a_][%w_]*" do
    if KEYWORDS[word] then return true end
  end
end

-- Tokens --------------------------------------------------------------------------------------

local ESCAPES <const> = { a = "\a", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", v = "\v" }

local function unescape(text)
  return (text:gsub("\\z%s*", ""):gsub("\\(.)", function(c) return ESCAPES[c] or c:match "[\n\\\"']" end))
end

-- Returns the index of the last byte of the quoted string that begins at `at`.
local function quoted_end(source, at)
  local quote = source:sub(at, at)
  repeat
    at = source:find("[\\" .. quote .. "]", at + 1)
    local escape = source:sub(at, at) == "\\"
    if escape then at = at + 1 end
  until not escape
  return at
end

-- Returns the index of the last byte of the long bracket that begins at `at`, and its content, or nil if there is no
-- long bracket.
local function long_end(source, at)
  local level, from = source:match("^%[(=*)%[()", at)
  if not level then return nil end
  local close, last = source:find("]" .. level .. "]", from, true)
  return last, source:sub(from, close - 1)
end

-- Scans the token at `at`. Returns the index of its last byte and, if it is a string, the string's value.
local function scan(source, at)
  local last, text = long_end(source, at)
  if last then return last, text:gsub("^\n", "") end
  if source:find("^[\"']", at) then
    last = quoted_end(source, at)
    return last, unescape(source:sub(at + 1, last - 1))
  end
  return select(2, source:find("^[%w_]+", at)) or select(2, source:find("^%.%.+", at)) or at
end

-- Returns the tokens of a source, without comments. A token has its `source`; a string also has its `text` and `line`.
local function tokenize(source)
  local tokens, at, line = {}, 1, 1
  while true do
    local from = source:find("%S", at)
    if not from then return tokens end
    line = line + select(2, source:sub(at, from - 1):gsub("\n", ""))
    local last, text
    if source:find("^%-%-", from) or from == 1 and source:find "^#" then
      last = long_end(source, from + 2) or (source:find("\n", from, true) or #source + 1) - 1
    else
      last, text = scan(source, from)
      local starts_below = text and source:find("^%[=*%[\n", from)
      tokens[#tokens + 1] = { source = source:sub(from, last), text = text, line = line + (starts_below and 1 or 0) }
    end
    line = line + select(2, source:sub(from, last):gsub("\n", ""))
    at = last + 1
  end
end

-- Texts ---------------------------------------------------------------------------------------

local CLOSING <const> = { ["("] = ")", ["{"] = "}", ["["] = "]" }

-- Returns the index of the token after the operand at `at`, which is a name or a bracket, followed by calls, fields and
-- methods.
local function behind_operand(tokens, at)
  at = at + (CLOSING[tokens[at].source] and 0 or 1)
  while tokens[at] do
    local source = tokens[at].source
    if source == "." or source == ":" then
      at = at + 2
    elseif CLOSING[source] then
      local depth = 0
      repeat
        depth = depth + (tokens[at].source == source and 1 or tokens[at].source == CLOSING[source] and -1 or 0)
        at = at + 1
      until depth == 0
    elseif tokens[at].text then
      at = at + 1
    else
      break
    end
  end
  return at
end

-- Reports whether the string at `at` is the argument of a call without parentheses.
local function is_argument(tokens, at)
  local before = tokens[at - 1] and tokens[at - 1].source
  return before and before:find "^[%a_)%]]" and not KEYWORDS[before]
end

-- Reports whether the token at `at` begins the value of `local NAME =` or `local NAME <const> =`.
local function is_constant(tokens, at)
  if tokens[at - 1] and tokens[at - 1].source == "(" then at = at - 1 end
  local function source(i) return tokens[at - i] and tokens[at - i].source end
  return source(1) == "=" and (source(3) == "local" or source(2) == ">" and source(6) == "local")
end

-- Returns the texts of a source. A text is a list of string tokens, with `false` for each other operand. If its field
-- `shared` is true, other programs follow it.
local function texts_of(source)
  local tokens, texts, used = tokenize(source), {}, {}
  local function source_at(i) return tokens[i] and tokens[i].source end
  for first in ipairs(tokens) do
    if tokens[first].text and not used[first] then
      local text, at = {}, first
      text.shared = is_constant(tokens, first) or source_at(first - 1) == ".."
      repeat
        if tokens[at].text then
          text[#text + 1] = tokens[at]
          used[at] = true
          at = at + 1
        else
          text[#text + 1], text.shared = false, true
          at = behind_operand(tokens, at)
        end
        local joined = source_at(at) == ".." and not is_argument(tokens, first)
        at = at + 1
      until not joined
      texts[#texts + 1] = text
    end
  end
  return texts
end

-- Programs ------------------------------------------------------------------------------------

-- Returns the text with `filler` in place of unknown operands, and a list that maps each line of the text to a line of
-- the file.
local function assemble(text, filler, line_of)
  local parts, lines = {}, { 0 }
  for i, token in ipairs(text) do
    parts[i] = token and token.text or filler
    if token then
      -- A quoted string is on one line of the file, even if it has escaped newlines.
      local step = token.source:find "^%[" and 1 or 0
      lines[#lines] = line_of(token.line)
      for line = 1, select(2, token.text:gsub("\n", "")) do lines[#lines + 1] = line_of(token.line + line * step) end
    end
  end
  return table.concat(parts), lines
end

-- Returns the program in a text, with the fields `source`, `lines` and `shared`, or nil if the text is not a program.
local function program(text, line_of)
  for _, filler in ipairs(FILLERS) do
    local source, lines = assemble(text, filler, line_of)
    if not has_keyword(source) then return nil end
    if load(source, "=text", "t") then return { source = source, lines = lines, shared = text.shared } end
    source = source:gsub("%%[-+ #0]*[%d.]*[diuoxXaAeEfgGqcs]", filler):gsub("%%%%", "%%")
    if load(source, "=text", "t") then return { source = source, lines = lines, shared = true } end
  end
end

-- Appends the programs in the strings of a source to `list`, and the programs in the strings of these programs.
local function collect(source, line_of, list)
  for _, text in ipairs(texts_of(source)) do
    local one = program(text, line_of)
    if one then
      list[#list + 1] = one
      collect(one.source, function(line) return one.lines[line] end, list)
    end
  end
end

-- Adds the names that a program defines at its top level: in lines that are indented like its first line.
local function add_definitions(source, names)
  local indent = source:match "^\n*( *)"
  for line in source:gmatch "[^\n]+" do
    if line:find("^" .. indent .. "%S") then
      for list in line:gsub("function", ""):gsub("<%a+>", ""):gmatch "%f[%w_]local *([%w_, ]+)" do
        for name in list:gmatch "[%w_]+" do names[name] = true end
      end
    end
  end
end

-- Luacheck ------------------------------------------------------------------------------------

local function read_file(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function write_file(path, text)
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
end

local function lines_of(command)
  local pipe <close> = assert(io.popen(command))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  return list
end

-- Adds the names that are listed in comments of a suite, and of the kits that the suite requires.
local function add_listed(source, names)
  for list in source:gmatch "%-%- The programs may use: ([%w_, ]+)" do
    for name in list:gmatch "[%w_]+" do names[name] = true end
  end
  for kit in source:gmatch 'require "tests%.kit%.([%w_]+)"' do
    add_listed(read_file("tests/kit/" .. kit .. ".lua"), names)
  end
end

-- Returns the programs of a file. In each, `known` is the set of names that it may use, and `listed` the names from
-- comments.
local function programs_of(path)
  local source = read_file(path)
  if source:find("-- [^\n]*The programs are wrong on purpose", 1) then return {} end
  local list, listed = {}, { arg = true }
  local known = setmetatable({}, { __index = listed })
  collect(source, function(line) return line end, list)
  add_listed(source, listed)
  for _, one in ipairs(list) do
    one.path, one.known, one.listed = path, known, listed
    if one.shared then add_definitions(one.source, known) end
  end
  return list
end

local function names_of(...)
  local list = {}
  for _, set in ipairs { ... } do
    for name in pairs(set) do list[#list + 1] = name end
  end
  return table.concat(list, " ")
end

local paths = arg[1] and { table.unpack(arg) } or lines_of "git ls-files 'tests/*.lua'"
local folder = lines_of("mktemp -d")[1]
local programs, printed, found = {}, {}, 0
for _, path in ipairs(paths) do
  for _, one in ipairs(programs_of(path)) do
    programs[#programs + 1] = one
    local header = "-- luacheck: globals " .. names_of(one.known, one.listed) .. "\n"
    write_file(("%s/%d.lua"):format(folder, #programs), header .. one.source)
  end
end
for _, report in ipairs(lines_of(LUACHECK .. folder)) do
  local number, line, code, message = report:match "/(%d+)%.lua:(%d+):%d+: %((%a%d+)%) (.*)$"
  local one = assert(programs[tonumber(number)], report)
  local name = message:match "'(.-)'" or ""
  local deliberate = code:find "^W1" and not name:find "%l"
  -- The programs that follow a shared text may use the names that it defines.
  local used_elsewhere = code:find "^W[23]" and (one.listed[name] or one.shared and one.known[name])
  if not deliberate and not used_elsewhere then
    local text = ("%s:%d: %s (%s)"):format(one.path, one.lines[tonumber(line) - 1], message, code)
    if not printed[text] then
      printed[text], found = true, found + 1
      print(text)
    end
  end
end
os.execute("rm -rf " .. folder)
print(("%d programs in the strings of %d files: %d warnings"):format(#programs, #paths, found))
os.exit(found == 0)
