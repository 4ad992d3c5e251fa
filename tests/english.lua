-- Checks the prose of the repository against a list of phrases that are hard to understand: comments, messages,
-- documentation, the names of tests, and the subjects of new commits. Part of `make lint`. Quotations and code spans
-- are not checked.
--
--   lua tests/english.lua [FILE …]     all tracked files by default; exits with 1 if it finds a phrase

-- The rules. Each consists of a phrase in lower case and the text to write instead. Two further fields are optional: a
-- pattern (the phrase is allowed if the text after it matches), and true if the messages of the library may contain the
-- phrase. A phrase matches whole words; a word with a hyphen is one word.
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
  { "any more", "no longer" }, { "no more", "no longer, no further", " than" },
  { "of theirs", "their" }, { "of ours", "our" }, { "of lua's", "Lua's" },
  { "at rest", "idle, stopped" }, { "a hand in", "supplied by" },
  { "takes note", "records" }, { "sees to", "ensures" }, { "see to", "ensure" },
  { "is over", "has ended", " [%dx]" }, { "are over", "have ended", " [%dx]" },
  { "gone", "closed, removed, ended" },
  { "but for", "except for" }, { "all but", "all except" }, { "save for", "except for" },
  { "passed over", "skipped" }, { "pass over", "skip" }, { "passes over", "skips" },
  { "befall", "happen to" }, { "whence", "where from" }, { "thereof", "of it" }, { "amidst", "during" },
  { "avalanche", "overload" }, { "→", "'Returns …', 'to'" },
  { "of its own", "its own, separate", nil, true }, { "of their own", "their own, separate", nil, true },
  { "is to be", "must be" }, { "are to be", "must be" }, { "was to be", "had to be" }, { "were to be", "had to be" },
  { "for want of", "because there is no" }, { "all the while", "during this time" },
  { "has come", "has arrived" }, { "have come", "have arrived" },
  { "that is no", "that is not a", " longer" }, { "that are no", "that are not", " longer" },
  { "if it is no", "if it is not a", " longer" }, { "when it is no", "if it is not a", " longer" },
  { "for ever", "forever, without a limit" }, { "outside of any", "outside of a task" },
  { "however many", "regardless of the number" }, { "however long", "even if it is long" },
  { "however they", "regardless of how they" }, { "however it", "regardless of how it" },
  { "however often", "even if it is repeated" }, { "however small", "even if it is small" },
  { "whatever", "regardless of, any" }, { "whichever", "any, the earlier of" },
  { "also if", "even if" }, { "also when", "even when" }, { "also while", "even while" },
  { "behind next", "after next" }, { "behind the body", "after the body" },
  { "in whatever way", "name the ways" }, { "in question", "name the thing" },
  { "learns", "is notified, records" }, { "remembers", "records, keeps" },
  { "notified of", "notified when" }, { "even by a", "even if, including" }, { "the reason of", "the reason for" },
  { "the reasons of", "the reasons for" }, { "makes the call of", "calls" }, { "makes the calls of", "calls" },
  { "the return of", "when … returns, the results of" }, { "until which", "when … expires, until … ends" },
  { "begins to", "starts …ing" }, { "began to", "started …ing" },
  { "names no", "contains no, has no" }, { "sets no", "does not set" },
  { "present slice", "current slice" }, { "present message", "current message" }, { "present size", "current size" },
  { "not reused soon", "not reused for a long time" },
}

-- Nouns that `who` may follow: those that name people.
local PEOPLE <const> = {
  people = true, users = true, user = true, authors = true, author = true, readers = true, reader = true,
  programmers = true, programmer = true, developers = true, contributors = true, those = true, clients = true,
}

-- Returns true if the rule's phrase is in `text`, which must be in lower case and have single spaces.
local function has_phrase(rule, text)
  local pattern = rule[1]:gsub("%p", "%%%0")
  if pattern:find "^%a" then pattern = "%f[%w_-]" .. pattern .. "%f[^%w_-]" end
  for after in text:gmatch(pattern .. "()") do
    if not (rule[3] and text:find("^" .. rule[3], after)) then return true end
  end
end

local function has_who(_, text)
  for before in (" " .. text):gmatch "([%w-]*)[^%w-]+who%f[^%w-]" do
    if not PEOPLE[before] then return true end
  end
end

-- Verbs that a participle follows, and words between a verb and `already` that are not participles.
local AUXILIARIES <const> = {
  is = true, are = true, was = true, were = true, has = true, have = true, had = true, been = true,
}
local ADVERBS <const> = { ["then"] = true, now = true, ["not"] = true, also = true, both = true, all = true }

-- Returns true if `already` ends a clause, or follows a participle: "runs already.", "is set already by".
local function has_late_already(_, text)
  for after in text:gmatch "%f[%w-]already%f[^%w-]()" do
    if text:find("^ ?[.,;:)|]", after) or text:find("^ ?$", after) then return true end
  end
  for before, between in (" " .. text):gmatch "%f[%w-](%a+) (%a+) already%f[^%w-]" do
    if AUXILIARIES[before] and not ADVERBS[between] then return true end
  end
end

for _, rule in ipairs(RULES) do rule.is_in = has_phrase end
table.insert(RULES, { "who", "name the actor", is_in = has_who })
table.insert(RULES, { "already", "'is already …ing', 'has already …ed', 'already exists'", is_in = has_late_already })

local function normalized(text) return text:lower():gsub("%s+", " ") end

local found = 0

local function report(place, line, phrase, instead)
  found = found + 1
  print(("%s:%d: '%s' (write: %s)"):format(place, line, phrase, instead))
end

-- Checks `text`, a piece of prose whose first line has the number `first` in the file `place`. For each phrase that it
-- contains, reports the line that contains the phrase, or `first` if the phrase is on two lines.
local function check(place, first, text, is_message)
  local prose = normalized(text)
  for _, rule in ipairs(RULES) do
    if not (is_message and rule[4]) and rule:is_in(prose) then
      local line, number = first, first
      for one in (text .. "\n"):gmatch "(.-)\n" do
        if rule:is_in(normalized(one)) then
          line = number
          break
        end
        number = number + 1
      end
      report(place, line, rule[1], rule[2])
    end
  end
end

-- Returns the text without code spans and quotations. Line breaks are kept.
local function bare(text)
  local function blank(span) return " x " .. span:gsub("[^\n]", "") end
  return (text:gsub("`[^`]*`", blank):gsub('"[^"]*"', blank))
end

-- Reports the sentences of a comment that begin with "What". A sentence must begin with a noun or a verb.
local function check_beginnings(place, first, text)
  for at in (". " .. text):gmatch "%.%s+()What%f[^%w]" do
    local _, breaks = text:sub(1, at - 3):gsub("\n", "")
    report(place, first + breaks, "What", "'The value that …', 'Returns …'")
  end
end

-- A run of comment lines is one piece of prose, because a phrase may be on two lines.
local Prose = {}
Prose.__index = Prose

function Prose:add(line, text)
  if not self.first then self.first, self.lines = line, {} end
  table.insert(self.lines, text)
end

function Prose:finish()
  if not self.first then return end
  local text = bare(table.concat(self.lines, "\n"))
  check(self.path, self.first, text)
  check_beginnings(self.path, self.first, text)
  self.first = nil
end

local function new_prose(path) return setmetatable({ path = path }, Prose) end

-- Checks the strings of a line of code that have at least three words, because these may be sentences.
local function check_strings(path, line, text)
  for quoted in text:gmatch '"([^"]*)"' do
    if quoted:find "%a %a+ %a" then check(path, line, (quoted:gsub("'[^']*'", " x ")), true) end
  end
end

-- Calls `f(number, line)` for each line of a file.
local function each_line(path, f)
  local number = 0
  for line in io.lines(path) do
    number = number + 1
    f(number, line)
  end
end

-- Checks the comments of a source file, which begin with the pattern `mark`. If `messages` is true, checks its strings
-- too.
local function check_code(path, mark, messages)
  local prose = new_prose(path)
  each_line(path, function(number, line)
    local before, comment = line:match("^(.-)" .. mark .. "(.*)$")
    if not before or select(2, before:gsub('"', "")) % 2 == 1 then before, comment = line, nil end
    if not comment or before:find "%S" then prose:finish() end
    if comment then prose:add(number, (comment:gsub("^[/!%-]*%s?", ""))) end
    if before:find "%S" then prose:finish() end
    if messages then check_strings(path, number, before) end
  end)
  prose:finish()
end

-- Checks Lua code. The strings of tests are data, except for the names of tests: the first argument of a call at the
-- beginning of a line, or of a call of `test`.
local function check_lua(path)
  local is_test = path:find "^tests/" or path:find "^bench/"
  check_code(path, "%-%-", not is_test)
  if not is_test then return end
  each_line(path, function(number, line)
    local name = line:match '^[%w_.]+%("([^"]*)"' or line:match 'test%("([^"]*)"'
    if name then check(path, number, name) end
  end)
end

-- Checks documentation: paragraphs, headings, rows of tables, and the comments of examples.
local function check_markdown(path)
  local prose, fence = new_prose(path), nil
  each_line(path, function(number, line)
    local mark = line:match "^%s*```(%w*)"
    if mark then
      prose:finish()
      fence = not fence and (mark == "" and "text" or mark) or nil
    elseif fence then
      local comment = fence == "lua" and line:match "%-%-%s*(.*)$"
      if comment and not comment:find "^>" then check(path, number, bare(comment)) end
    elseif line:find "^%s*$" or line:find "^|" or line:find "^#" then
      prose:finish()
      if line:find "%S" then check(path, number, bare(line)) end
    else
      prose:add(number, line)
    end
  end)
  prose:finish()
end

local function check_hash_comments(path) check_code(path, "#") end

local CHECKS <const> = {
  lua = check_lua,
  rs = function(path) check_code(path, "//", not path:find "tests") end,
  c = function(path) check_code(path, "//") end,
  js = function(path) check_code(path, "//") end,
  mjs = function(path) check_code(path, "//") end,
  md = check_markdown,
  sh = check_hash_comments,
  toml = check_hash_comments,
  py = check_hash_comments,
  Makefile = check_hash_comments,
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
  -- Commit subjects are checked from the first commit whose Makefile runs this check.
  local since = lines_of("git log --reverse --format=%cI -S'tests/english.lua' -- Makefile")[1]
  for _, line in ipairs(since and lines_of("git log --no-merges --format='%h %s' --since=" .. since) or {}) do
    local commit, subject = line:match "^(%x+) (.*)$"
    check("commit " .. commit, 1, bare(subject))
  end
end
for _, path in ipairs(paths) do
  local check_file = CHECKS[path:match "%.(%w+)$" or path:match "[^/]*$"]
  if check_file then check_file(path) end
end
if found > 0 then
  print(("%d phrases to rewrite"):format(found))
  os.exit(1)
end
