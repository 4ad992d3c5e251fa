-- The command lines of the subcommands of the executable (`lio serve`, `lio new`, `lio check`).
--
-- A mistake is reported in one line, with a hint, and the exit code is 1, as for the executable's own options.

local options = require "lio.options"

local M = {}

local Command = {}
Command.__index = Command

-- `new(name, usage, words)` returns a command. `usage` is the text of `--help`; `words` maps the names of the options,
-- without dashes, to "flag" or "value".
function M.new(name, usage, words)
  return setmetatable({ name = name, usage = usage, words = words }, Command)
end

-- `command:fail(format, …)`: ends the process with a message.
function Command:fail(...)
  io.stderr:write("lio ", self.name, ": ", string.format(...), "\n")
  os.exit(1, true)
end

-- `command:wrong(format, …)`: ends the process with a message about the command line.
function Command:wrong(...)
  self:fail("%s; see lio %s --help", string.format(...), self.name)
end

function Command:help()
  io.stdout:write(self.usage)
  os.exit(0, true)
end

-- Reports an unknown option, with the option that the user may have meant.
function Command:unknown(word)
  local near = options.nearest(word:match "^%-*([^=]*)", self.words)
  self:wrong("unknown option '%s'%s", word, near and (" (did you mean '--%s'?)"):format(near) or "")
end

-- `command:parse(…)` returns the options, a table, and the other arguments, a list. An option with a value is `--name
-- value` or `--name=value`. After `--`, every argument is one of the others.
function Command:parse(...)
  local words, found, others = table.pack(...), {}, {}
  local index, ends = 1, false
  while index <= words.n do
    local word = words[index]
    local name, sign, value = word:match "^%-%-([%w-]+)(=?)(.*)$"
    local kind = name and self.words[name]
    if ends or word:sub(1, 1) ~= "-" then
      others[#others + 1] = word
    elseif word == "--" then
      ends = true
    elseif word == "-h" or word == "--help" then
      self:help()
    elseif kind == "flag" and sign == "" then
      found[name] = true
    elseif kind == "flag" then
      self:wrong("'--%s' takes no value", name)
    elseif kind == "value" then
      if sign == "" then
        index = index + 1
        value = words[index] or self:wrong("'%s' needs a value", word)
      end
      found[name] = value
    else
      self:unknown(word)
    end
    index = index + 1
  end
  return found, others
end

return M
