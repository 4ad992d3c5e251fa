-- Every pattern that the library gives to find, match, gmatch or gsub takes linear time, also on a hostile text.
-- No timeout can stop a call of the string library: a pattern such as "%s+$" is quadratic, and a peer that chooses the
-- text would stop the whole server. The steps of a matcher are counted, so the result does not depend on a clock.

local t = require "tests.kit"
local lexer = require "lio.check.lexer"
local work = require "tests.kit.pattern_work"

-- The length of the hostile texts, and the number of steps for each byte that a pattern may take. Linear patterns take
-- up to 12, and quadratic ones at least 32.
local SIZE <const>, STEPS <const> = 128, 20

-- Patterns that are not linear, by file, with the reason why a peer cannot make use of it.
local ENDS <const> = "The text always ends with the separator, so every match succeeds."
local ALLOWED <const> = {
  ["lio/check.lua"] = { ["/*$"] = "A path on the command line." },
  ["lio/check/project.lua"] = { ["/*$"] = "A path on the command line." },
  ["lio/new.lua"] = { ["/+$"] = "A path on the command line.", ["[^/]*$"] = "A path on the command line." },
  ["lio/net/remote/object.lua"] = { ["%S+$"] = "The name of a class of the library." },
  ["lio/options.lua"] = { ["[%w_]+$"] = "The name of a function of the library." },
  ["lio/repl/completion.lua"] = {
    ["()([%w_.]*)([.:])([%w_]*)$"] = "What the user has typed at the prompt.",
    ["[%w_]*$"] = "What the user has typed at the prompt.",
  },
  ["lio/service/boot.lua"] = { ["[^/]*$"] = "The path of the program." },
  ["lio/task_list.lua"] = { ["\n+$"] = "A traceback." },
  ["lio/testing.lua"] = { ["[^/]*$"] = "The path of the program." },
  ["lio/testing/command/events.lua"] = { ["([^\2]*)\2"] = ENDS },
  ["lio/testing/command/tap.lua"] = { ["(.-)\n"] = ENDS },
  ["lio/testing/command/text.lua"] = { ["(.-)\n"] = ENDS },
  ["lio/testing/show.lua"] = { ["(.-)\n"] = ENDS },
  ["lio/tls/fingerprint.lua"] = {
    ["%-%-%-%-%-BEGIN CERTIFICATE%-%-%-%-%-(.-)%-%-%-%-%-END"] = "A certificate that `lio cert` has made.",
  },
  ["lio/web/sse.lua"] = { ["(.-)\n"] = ENDS },
  ["lio/web/static.lua"] = { ["/+$"] = "The prefix of a route." },
  ["lio/web/url_for.lua"] = { ["([^/]*)/"] = ENDS },
  ["lio/webserver.lua"] = { ["/+$"] = "The prefix of a route." },
  ["lio/webservice.lua"] = { ["/+$"] = "The prefix of a route.", ["%w+$"] = "The name of a function of the library." },
}

-- Returns the list of the tokens of a file: tables with `kind` and `text`.
local function tokens_of(path)
  local f <close> = assert(io.open(path))
  local source, tokens = lexer.new(f:read "a"), {}
  repeat
    local kind, text = source:next()
    tokens[#tokens + 1] = { kind = kind, text = text }
  until kind == "end" and text == "" -- not the keyword `end`
  return tokens
end

-- Returns whether the argument list after the token `at` contains `true`, as that of a plain search does.
local function is_plain(tokens, at)
  local depth = 1
  while depth > 0 do
    at = at + 1
    local kind = tokens[at].kind
    if kind == "true" then return true end
    depth = depth + (kind == "(" and 1 or kind == ")" and -1 or 0)
  end
  return false
end

local METHODS <const> = { find = true, match = true, gmatch = true, gsub = true }

-- Returns a list of the patterns that are literals in a file: tables with `method` and `text`.
local function patterns_of(path)
  local tokens, found = tokens_of(path), {}
  for at = 2, #tokens - 3 do
    local has_parenthesis = tokens[at + 1].kind == "("
    local literal = at + (has_parenthesis and 2 or 1)
    if METHODS[tokens[at].text] and tokens[at - 1].kind == ":" and tokens[literal].kind == "string"
      and tokens[literal + 1].kind ~= ".." and not (has_parenthesis and is_plain(tokens, literal)) then
      found[#found + 1] = { method = tokens[at].text, text = assert(load("return " .. tokens[literal].text))() }
    end
  end
  return found
end

-- Returns a hostile text for which the pattern takes too many steps, or nil.
local function weakness_of(pattern)
  local items = work.compile(pattern.text, pattern.method == "gmatch")
  if not items.has_repetition then return nil end
  local is_repeated = pattern.method == "gmatch" or pattern.method == "gsub"
  for text in work.hostile(items, SIZE) do
    if #text >= SIZE // 2 and not work.run(items, text, is_repeated, STEPS * #text) then return text end
  end
end

local function count(text, pattern)
  if pattern.method == "gsub" then return (select(2, text:gsub(pattern.text, ""))) end
  local matches = 0
  for _ in text:gmatch(pattern.text) do matches = matches + 1 end
  return matches
end

-- The patterns by file, and a list of all different ones.
local by_file, different = {}, {}
do
  local known = {}
  local p <close> = assert(io.popen("cd " .. t.quote(t.root .. "lualib") .. " && find . -name '*.lua' | sort"))
  for line in p:lines() do
    local file = line:gsub("^%./", "")
    by_file[file] = patterns_of(t.root .. "lualib/" .. file)
    for _, pattern in ipairs(by_file[file]) do
      local key = pattern.method .. " " .. pattern.text
      known[key] = known[key] or pattern
      if known[key] == pattern then different[#different + 1] = pattern end
      pattern.first = known[key]
    end
  end
end

t.test("the patterns of the library are found", function()
  t.ok(#different > 200, #different)
  t.eq(by_file["lio/web/session_cookie.lua"][1].text, "^([%w_-]*)%.([%w_-]*)$")
end)

t.test("the matcher that counts steps finds what Lua finds", function()
  for _, pattern in ipairs(different) do
    local items = work.compile(pattern.text, pattern.method == "gmatch")
    local tried = 0
    for text in work.hostile(items, 6) do
      tried = tried + 1
      if tried > 60 then break end
      local about = ("%s %q of %q"):format(pattern.method, pattern.text, text)
      if pattern.method == "gmatch" or pattern.method == "gsub" then
        t.eq(select(2, work.run(items, text, true, math.huge)), count(text, pattern), about)
      else
        local first, last = text:find(pattern.text)
        t.eq({ select(2, work.run(items, text, false, math.huge)) }, { first, last }, about)
      end
    end
  end
end)

t.test("patterns that are known to be slow take too many steps", function()
  for _, text in ipairs {
    "%s+$", "[^/]*$", "^(.-)%s*$", "^%s*(.-)%s*$", "([^:]*):([^:]*):([^:]*)", "^([%w%-._~]+):?(%d*)$",
    "^%s*[+-]?%d+%.?%d*[eE]?[+-]?%d*%s*$", "^%s*[+-]?%.%d+[eE]?[+-]?%d*%s*$", "^.*a.*b", "<(.-)>x",
  } do
    t.ok(weakness_of { method = "find", text = text }, text)
  end
  t.ok(weakness_of { method = "gmatch", text = "([^&=]*)=([^&]*)" })
end)

t.test("no pattern of the library is slower than linear on a hostile text", function()
  local slow = {}
  for _, pattern in ipairs(different) do pattern.weakness = weakness_of(pattern) end
  for file, patterns in pairs(by_file) do
    local allowed = {}
    for text in pairs(ALLOWED[file] or {}) do allowed[text] = true end
    for _, pattern in ipairs(patterns) do
      local weakness = pattern.first.weakness
      if weakness and not (ALLOWED[file] or {})[pattern.text] then
        slow[#slow + 1] = ("%s: %q is slow on %q"):format(file, pattern.text, weakness)
      elseif weakness then
        allowed[pattern.text] = nil
      end
    end
    for text in pairs(allowed) do slow[#slow + 1] = ("%s: %q need not be in ALLOWED"):format(file, text) end
  end
  table.sort(slow)
  t.eq(slow, {})
end)

t.finish()
