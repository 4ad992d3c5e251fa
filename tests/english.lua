-- Checks the prose of the repository against a list of words that make readers stop: comments, messages, documentation,
-- the names of tests, and the subjects of new commits. Quotations and code spans are not checked.
--
--   lua tests/english.lua [FILE …]     all tracked files by default; exits with 1 if it finds something

-- Each rule: a Lua pattern on lower-case prose with single spaces, and what to write instead. A rule without magic
-- characters matches whole words.
local RULES <const> = {
  { "nobody", "name the actor: 'no task', 'no client', …" },
  { "somebody", "name the actor: 'a task', 'a client', …" },
  { "anybody", "name the actor" },
  { "everybody", "name the actors: 'all tasks', …" },
  { "everyone", "name the actors: 'all tasks', …" },
  { "someone", "name the actor" },
  { "anyone", "name the actor" },
  { "whoever", "name the actor: 'the caller', …" },
  { "whom", "name the actor, as a subject" },
  { "so many", "'as many', or the number's name" },
  { "so much", "'as much', or the amount's name" },
  { "the like", "name the things" },
  { "as if", "say what happens" },
  { "all the same", "'still', 'identical'" },
  { "the books", "name the table or list" },
  { "hear", "receive, get" }, { "hears", "receives, gets" }, { "heard", "received, got" },
  { "tell", "report, notify, show" }, { "tells", "reports, notifies, shows" },
  { "told", "notified, configured" }, { "telling", "reporting" },
  { "look", "check, read, search" }, { "looks", "checks, reads, searches" },
  { "looked", "checked, read, searched" }, { "looking", "checking, reading, searching" },
  { "lives", "exists, is" }, { "lived", "existed, was" }, { "living", "running, not ended" },
  { "stand", "be, exist" }, { "stands", "is, exists" }, { "stood", "was, existed" }, { "standing", "being" },
  { "lies", "is at, is on" }, { "lay", "was at" }, { "lain", "been" },
  { "newcomer", "the new one, by its noun" }, { "mend", "fix" }, { "mends", "fixes" }, { "mended", "fixed" },
  { "becomes of", "happens to" }, { "become of", "happen to" }, { "became of", "happened to" },
  { "comes to", "results in" },
  { "goes on", "continues" }, { "go on", "continue" }, { "went on", "continued" }, { "going on", "continuing" },
  { "gives way", "yields" }, { "give way", "yield" }, { "gave way", "yielded" },
  { "any more", "no longer" }, { "no more", "no longer, no further" },
  { "of theirs", "their" }, { "of ours", "our" }, { "of lua's", "Lua's" },
  { "at rest", "idle, stopped" }, { "a hand in", "supplied by" },
  { "takes note", "records" }, { "sees to", "ensures" }, { "see to", "ensure" },
  { "is over", "has ended" }, { "are over", "have ended" }, { "is off", "is cancelled" },
  { "gone", "closed, removed, ended" },
  { "but for", "except for" }, { "all but", "all except" }, { "save for", "except for" },
  { "passed over", "skipped" }, { "pass over", "skip" }, { "passes over", "skips" },
  { "befall", "happen to" }, { "whence", "where from" }, { "thereof", "of it" }, { "amidst", "during" },
  { "avalanche", "overload" }, { "→", "'Returns …', 'to'" },
}

-- `who` needs a noun before it that names people.
local PEOPLE <const> = {
  people = true, users = true, user = true, authors = true, author = true, readers = true, reader = true,
  programmers = true, programmer = true, developers = true, contributors = true, those = true, clients = true,
}

for _, rule in ipairs(RULES) do
  local pattern = rule[1]:gsub("%p", "%%%0")
  if rule[1]:find "^%a" then pattern = "%f[%w_]" .. pattern .. "%f[^%w_']" end
  rule.pattern = pattern
end

local found = 0

-- Reports what is wrong with one piece of prose.
local function check(place, text)
  text = text:lower():gsub("%s+", " ")
  for _, rule in ipairs(RULES) do
    if text:find(rule.pattern) then
      found = found + 1
      print(("%s: '%s' (write: %s)"):format(place, rule[1], rule[2]))
    end
  end
  for before in text:gmatch "(%f[%w][%w]*)[^%w]*%f[%w]who%f[^%w']" do
    if not PEOPLE[before] then
      found = found + 1
      print(("%s: '%s who' (write: name the actor)"):format(place, before))
    end
  end
  if text:find "^[^%w]*who%f[^%w']" then
    found = found + 1
    print(("%s: 'who' (write: name the actor)"):format(place))
  end
end

-- Without code spans and quotations.
local function bare(text)
  return (text:gsub("`[^`]*`", " x "):gsub('"[^"]*"', " x "))
end

-- A run of comment lines is one piece of prose, so that a phrase may break at a line's end.
local Prose = {}
Prose.__index = Prose

function Prose:add(line, text)
  if not self.from then self.from, self.lines = line, {} end
  table.insert(self.lines, text)
end

function Prose:finish()
  if not self.from then return end
  check(("%s:%d"):format(self.path, self.from), bare(table.concat(self.lines, " ")))
  self.from = nil
end

local function new_prose(path) return setmetatable({ path = path }, Prose) end

-- The strings of a line of code that are sentences: three words and more.
local function strings(path, line, text)
  for quoted in text:gmatch '"([^"]*)"' do
    if quoted:find "%a %a+ %a" then check(("%s:%d"):format(path, line), (quoted:gsub("'[^']*'", " x "))) end
  end
end

local function each_line(path, f)
  local line = 0
  for text in io.lines(path) do
    line = line + 1
    f(line, text)
  end
end

-- Code whose comments begin with `mark`. `messages`: strings are checked as well.
local function code(path, mark, messages)
  local prose = new_prose(path)
  each_line(path, function(line, text)
    local before, comment = text:match("^(.-)" .. mark .. "(.*)$")
    if before and select(2, before:gsub('"', "")) % 2 == 0 then
      if before:find "%S" then prose:finish() end
      prose:add(line, (comment:gsub("^[/!%-]*%s?", "")))
      if before:find "%S" then prose:finish() end
    else
      before = text
      prose:finish()
    end
    if messages then strings(path, line, before) end
  end)
  prose:finish()
end

local function lua(path)
  local is_test = path:find "^tests/" or path:find "^bench/"
  code(path, "%-%-", not is_test)
  if not is_test then return end
  each_line(path, function(line, text)
    local name = text:match '[%w_]*test%("([^"]*)"'
    if name then check(("%s:%d"):format(path, line), name) end
  end)
end

-- Documentation: paragraphs, table rows, and the comments of examples.
local function markdown(path)
  local prose, fence = new_prose(path), nil
  each_line(path, function(line, text)
    local mark = text:match "^%s*```(%w*)"
    if mark then
      prose:finish()
      fence = not fence and (mark == "" and "text" or mark) or nil
    elseif fence then
      local comment = fence == "lua" and text:match "%-%-%s*(.*)$"
      if comment and not comment:find "^>" then check(("%s:%d"):format(path, line), bare(comment)) end
    elseif text:find "^%s*$" or text:find "^|" or text:find "^#" then
      prose:finish()
      if text:find "%S" then check(("%s:%d"):format(path, line), bare(text)) end
    else
      prose:add(line, text)
    end
  end)
  prose:finish()
end

local KINDS <const> = {
  lua = lua,
  rs = function(path) code(path, "//", not path:find "tests") end,
  c = function(path) code(path, "//") end,
  md = markdown,
  sh = function(path) code(path, "#") end,
  toml = function(path) code(path, "#") end,
}

local function lines_of(command)
  local pipe <close> = assert(io.popen(command))
  local all = {}
  for line in pipe:lines() do all[#all + 1] = line end
  return all
end

local paths = { table.unpack(arg) }
if not paths[1] then
  paths = lines_of "git ls-files"
  -- Subjects are checked from the commit on that brought the list.
  local since = lines_of("git log --format=%h --diff-filter=A -- tests/english.lua")[1]
  if since then
    for _, subject in ipairs(lines_of("git log --no-merges --format=%s " .. since .. "..HEAD")) do
      check("commit", bare(subject))
    end
  end
end
for _, path in ipairs(paths) do
  local kind = KINDS[path:match "%.(%w+)$"]
  if path:find "^Makefile$" then kind = KINDS.sh end
  if kind and path ~= "tests/english.lua" then kind(path) end
end
if found > 0 then
  print(("%d phrases to rewrite"):format(found))
  os.exit(1)
end
