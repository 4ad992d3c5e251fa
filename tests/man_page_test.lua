-- The manual page and the completions of shells, compared with what the executable shows for `--help`. Needs bash and
-- mandoc. Both hosts run these tests on the same executable.

local t = require "tests.kit"

local lio = t.quote(t.bin())

local function read(path)
  local file <close> = assert(io.open(t.root .. path))
  return file:read "a"
end

local function sorted(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, " ")
end

-- Returns what `lio WORDS --help` prints.
local function help(words)
  local r = t.run(lio .. " " .. words .. " --help")
  t.eq({ r.code, r.err }, { 0, "" })
  return r.out
end

-- Adds the options at the beginning of a line, such as `  -h, --help   show this help`, to a set.
local function add_options(set, line)
  local option, rest = line:match "^%s+(%-[%w-]*)(.*)$"
  while option do
    set[option] = true
    option, rest = rest:match "^, (%-[%w-]*)(.*)$"
  end
end

-- Returns the set of the options in a help text.
local function options_of(text)
  local set = {}
  for line in text:gmatch "[^\n]+" do add_options(set, line) end
  return set
end

-- Returns the set of the subcommands in the text of `lio --help`: lines that begin with a name and its arguments.
local function commands_of(text)
  local set = {}
  for line in text:gmatch "[^\n]+" do
    local name = line:match "^  (%l+) [%u%[%l]"
    if name and name ~= "script" then set[name] = true end
  end
  return set
end

-- Returns the lines of the manual page, as a terminal shows them.
local function manual_lines()
  local r = t.run("mandoc -T utf8 -O width=1000 " .. t.quote(t.root .. "packaging/lio.1"))
  t.eq({ r.code, r.err }, { 0, "" })
  return r.out:gsub(".\b", ""):gmatch "[^\n]+"
end

-- Reads the synopsis and the descriptions of the manual page: two tables, which map each subcommand, and "" for the
-- executable itself, to the set of its options. A description is a section or subsection whose text begins with the
-- name of the program and the subcommand.
local function manual()
  local synopsis, descriptions, place, set = {}, {}, nil, nil
  for line in manual_lines() do
    local text = line:match "^     (%S.*)$"
    if line:find "^%S" then
      place = line
      set = place == "DESCRIPTION" and {} or nil
      descriptions[""] = descriptions[""] or set
    elseif line:find "^   %S" then
      set = nil
    elseif place == "SYNOPSIS" and text then
      set = {}
      synopsis[text:match "^lio (%l+)" or ""] = set
      for option in text:gmatch "%[(%-[%w-]*)" do
        if option:find "^%-%w" then
          for letter in option:gmatch "%w" do set["-" .. letter] = true end
        else
          set[option] = true
        end
      end
    elseif place == "DESCRIPTION" and text then
      local command = not set and text:match "^lio (%l+)"
      if command then
        set = {}
        descriptions[command] = set
      elseif set then
        add_options(set, line)
      end
    end
  end
  return synopsis, descriptions
end

-- Returns the set without options that have a second name, which a summary may omit.
local function without_long(set)
  local rest = {}
  for name in pairs(set) do
    if not (name == "--help" and set["-h"] or name == "--version" and set["-v"]) then rest[name] = true end
  end
  return rest
end

local synopsis, described = manual()
local commands = commands_of(help "")
commands[""] = true

t.test("the manual page has no mistakes in its format", function()
  t.eq(t.run("mandoc -T lint -W warning " .. t.quote(t.root .. "packaging/lio.1")), { out = "", err = "", code = 0 })
end)

t.test("the manual page and its synopsis describe the same subcommands as --help", function()
  t.eq(sorted(described), sorted(commands))
  t.eq(sorted(synopsis), sorted(commands))
end)

t.test("the manual page and its synopsis describe the same options as --help", function()
  for command in pairs(commands) do
    local shown = without_long(options_of(help(command)))
    t.eq(sorted(without_long(described[command])), sorted(shown), "lio " .. command)
    -- The synopsis has neither `-`, which is a kind of script, nor the help of subcommands.
    shown["-"] = nil
    if command ~= "" then shown["-h"] = nil end
    t.eq(sorted(synopsis[command]), sorted(shown), "synopsis: lio " .. command)
  end
end)

t.test("the options with a second name work", function()
  t.eq(t.run(lio .. " --version"), t.run(lio .. " -v"))
  t.eq(t.run(lio .. " --help"), t.run(lio .. " -h"))
end)

-- Returns the set of the words that bash completes at the end of a command line, which is a list of words.
local function completed(...)
  local program = t.write(t.tmp() .. "/complete.sh", [[
    source "$1"
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _lio
    printf '%s\n' "${COMPREPLY[@]}"
  ]])
  local line = { "cd", t.quote(t.tmp()), "&& touch script.lua other.txt && bash", program }
  for _, word in ipairs { t.root .. "packaging/completions/lio.bash", "lio", ... } do
    line[#line + 1] = t.quote(word)
  end
  local r = t.run(table.concat(line, " "))
  t.eq({ r.code, r.err }, { 0, "" })
  local set = {}
  for word in r.out:gmatch "[^\n]+" do set[word] = true end
  return set
end

t.test("bash completes the options of the manual page", function()
  for command, options in pairs(described) do
    local words = command ~= "" and { command, "-" } or { "-" }
    t.eq(sorted(completed(table.unpack(words))), sorted(options), "lio " .. command)
  end
end)

t.test("bash completes subcommands, scripts and the arguments of subcommands", function()
  local names = { ["script.lua"] = true }
  for command in pairs(commands) do names[command ~= "" and command or "script.lua"] = true end
  t.eq(sorted(completed ""), sorted(names))
  t.eq(sorted(completed("--watch", "s")), "script.lua serve")
  t.eq(sorted(completed("-e", "")), "")
  t.eq(sorted(completed("-e", "x", "sc")), "script.lua")
  t.eq(sorted(completed("--", "s")), "script.lua")
  t.eq(sorted(completed("script.lua", "-")), "")
  t.eq(sorted(completed("script.lua", "o")), "other.txt")
  t.eq(sorted(completed("serve", "s")), "")
  t.eq(sorted(completed("serve", "--port", "")), "")
  t.eq(sorted(completed("test", "")), "script.lua")
  t.eq(sorted(completed("test", "--junit", "o")), "other.txt")
  t.eq(sorted(completed("new", "")), "app game service")
  t.eq(sorted(completed("check", "s")), "script.lua")
end)

-- Returns the options in a part of the completions for zsh.
local function zsh_options(text)
  local set = {}
  for line in text:gmatch "[^\n]+" do
    for short, long in line:gmatch "{(%-%w),(%-%-%w+)}'%[" do set[short], set[long] = true, true end
    local option = line:match "'%*?(%-[%w-]*)[+=]?%["
    if option then set[option] = true end
  end
  return set
end

t.test("zsh completes the options of the manual page", function()
  local text = read "packaging/completions/lio.zsh"
  local first, rest = text:match "\n_lio%(%) {\n(.-)\n  case %$words%[1%] in\n(.*)$"
  local found = { [""] = zsh_options(first) }
  -- `_arguments -S` completes `--` itself.
  found[""]["--"] = true
  for command, part in ("\n" .. rest):gmatch "\n    (%l+)%)\n(.-)\n      ;;" do found[command] = zsh_options(part) end
  t.eq(sorted(found), sorted(described))
  for command, options in pairs(described) do t.eq(sorted(found[command]), sorted(options), "lio " .. command) end
  for command in pairs(commands) do t.ok(command == "" or text:find("\n    '" .. command .. ":", 1, true), command) end
end)

t.test("fish completes the options of the manual page", function()
  local found = { [""] = { ["--"] = true } } -- fish completes `--` itself
  local text = read "packaging/completions/lio.fish"
  for condition, rest in text:gmatch "\ncomplete %-c lio %-n (%S+ ?%l*)'? ?([^\n]*)" do
    local command = condition:match "^'__lio_in (%l+)$" or ""
    local set = found[command] or {}
    found[command] = set
    for letter in rest:gmatch "%-s (%w)" do set["-" .. letter] = true end
    for word in rest:gmatch "%-l (%w+)" do set["--" .. word] = true end
    if rest:find "^%-a %- " then set["-"] = true end
  end
  t.eq(sorted(found), sorted(described))
  for command, options in pairs(described) do t.eq(sorted(found[command]), sorted(options), "lio " .. command) end
  for command in pairs(commands) do
    t.ok(command == "" or text:find("\ncomplete -c lio -n __lio_first -a " .. command .. " ", 1, true), command)
  end
end)

t.finish()
