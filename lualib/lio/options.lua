-- Checks tables of options: their names and values must satisfy the rules of the call. Used by every call with options.
--
-- `rules` is a table that maps an option's name to a rule. A rule has a description of the valid values, and a test.

local misuse = require "lio.misuse"

local M = {}

-- `rule(wanted, test)` returns a rule. `wanted` completes "must be …".
function M.rule(wanted, test)
  return { wanted = wanted, test = test }
end
local rule <const> = M.rule

-- `secret(wanted, test)` returns a rule for an option whose value no message may show.
function M.secret(wanted, test)
  return { wanted = wanted, test = test, is_secret = true }
end

local function of_type(kind, wanted)
  return rule(wanted, function(value) return type(value) == kind end)
end

-- `internal(rule)` returns a copy of a rule, for an option that only the library passes. Messages do not name it.
function M.internal(one)
  return { wanted = one.wanted, test = one.test, is_internal = true }
end

M.any = rule("a value", function() return true end)
M.boolean = of_type("boolean", "true or false")
M.is_false = rule("false", function(value) return value == false end)
M.string = of_type("string", "a string")
M.any_number = of_type("number", "a number")
M.table = of_type("table", "a table")
M.callable = rule("a function", misuse.is_callable)
M.seconds = rule("a positive number of seconds", function(value)
  return type(value) == "number" and value > 0
end)
M.positive = rule("a number above 0", function(value)
  return type(value) == "number" and value > 0 and value < math.huge
end)
M.seconds_from_0 = rule("a non-negative number of seconds", function(value)
  return type(value) == "number" and value >= 0
end)

-- `integer(low, high)` returns a rule for an integer from `low` to `high`. If `high` is nil, there is no upper bound.
function M.integer(low, high)
  local wanted = high and ("an integer from %d to %d"):format(low, high) or ("an integer of at least %d"):format(low)
  return rule(wanted, function(value)
    return math.type(value) == "integer" and value >= low and value <= (high or math.maxinteger)
  end)
end

-- `number(low, high)` returns a rule for a number from `low` to `high`. If `high` is nil, there is no upper bound.
function M.number(low, high)
  local wanted = high and ("a number from %d to %d"):format(low, high) or ("a number of at least %d"):format(low)
  return rule(wanted, function(value)
    return type(value) == "number" and value >= low and value <= (high or math.huge)
  end)
end

-- Returns whether a value is an integer, or a float such as `2 ^ 30` that has the value of an integer.
local function is_whole(value)
  return type(value) == "number" and math.tointeger(value) ~= nil
end

-- `whole(low, high)` returns a rule like that of `integer`, which also accepts floats that have an integer value. The
-- caller may have to convert these.
function M.whole(low, high)
  return rule(M.integer(low, high).wanted, function(value)
    return is_whole(value) and value >= low and value <= (high or math.maxinteger)
  end)
end

-- The rule for a limit that can be infinite. Accepts floats as `whole` does.
M.limit = rule("an integer of at least 0, or math.huge for no limit", function(value)
  return value == math.huge or is_whole(value) and value >= 0
end)

-- `one_of(…)` returns a rule for a value that is one of these strings.
function M.one_of(...)
  local known, shown = {}, {}
  for index, word in ipairs { ... } do known[word], shown[index] = true, ("%q"):format(word) end
  local last = table.remove(shown)
  return rule(table.concat(shown, ", ") .. " or " .. last, function(value) return known[value] == true end)
end

-- `either(a, b, …)` returns a rule for a value that satisfies one of these rules.
function M.either(...)
  local all, shown = { ... }, {}
  for index, one in ipairs(all) do shown[index] = one.wanted end
  return rule(table.concat(shown, " or "), function(value)
    for _, one in ipairs(all) do
      if one.test(value) then return true end
    end
    return false
  end)
end

-- Returns the smallest number of changes that turn one word into the other. A change inserts, removes or replaces a
-- character, or exchanges two adjacent characters.
local function distance(a, b)
  local before, row = nil, {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local next_row = { [0] = i }
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      local best = math.min(row[j] + 1, next_row[j - 1] + 1, row[j - 1] + (same and 0 or 1))
      if before and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        best = math.min(best, before[j - 2] + 1)
      end
      next_row[j] = best
    end
    before, row = row, next_row
  end
  return row[#b]
end

-- `nearest(name, rules)` returns the known name that differs least from `name`, or nil if more than a third of the
-- known name's characters would change.
function M.nearest(name, rules)
  if #name > 64 then return nil end
  local word, best, best_distance = name:lower(), nil, math.huge
  for known, one in pairs(rules) do
    local changes = distance(word, known)
    if type(one) == "table" and one.is_internal then changes = math.huge end
    if changes < best_distance or changes == best_distance and best and known < best then
      best, best_distance = known, changes
    end
  end
  if best and best_distance <= math.max(#best // 3, 1) and best_distance < #best then return best end
end

-- Returns the names of the rules that programs use, as text for an error message.
local function all_names(rules)
  local names = {}
  for name, one in pairs(rules) do
    if not one.is_internal then names[#names + 1] = name end
  end
  table.sort(names)
  return table.concat(names, ", ")
end

-- `hint(name, rules [, prefix = ""])`: returns a similar name, with the prefix, or all names, as the end of an error
-- message about an unknown name.
function M.hint(name, rules, prefix)
  local near = type(name) == "string" and M.nearest(name, rules)
  if near then return (" (did you mean '%s%s'?)"):format(prefix or "", near) end
  return next(rules) and " (known: " .. all_names(rules) .. ")" or ""
end

-- `unknown(call, name, rules [, what])`: raises an error for a name that is not in the rules. Suggests a similar name,
-- or lists all names.
function M.unknown(call, name, rules, what)
  what = what or "option"
  if type(name) ~= "string" then
    misuse.raise(("%s: %s names must be strings, got %s"):format(call, what, misuse.shown(name)))
  end
  misuse.raise(("%s: %s '%s' is unknown%s"):format(call, what, name, M.hint(name, rules)))
end

local function raise_wrong(call, name, wanted, shown, what)
  misuse.raise(("%s: %s '%s' must be %s, got %s"):format(call, what or "option", name, wanted, shown))
end

-- `wrong(call, name, wanted, value [, what])`: raises an error for an invalid value of an option.
function M.wrong(call, name, wanted, value, what)
  raise_wrong(call, name, wanted, misuse.shown(value), what)
end

-- Returns a secret value as error messages show it.
local function shown_secret(value)
  if type(value) == "string" then return ("a string of %d bytes"):format(#value) end
  return type(value) == "number" and "a number" or misuse.shown(value)
end

-- The result of `check` if no options are passed. It must not be changed.
local NONE <const> = {}

-- Returns the options as a plain table, including those that a metatable provides, so that each option is read only
-- once and is checked.
local function with_inherited(options, rules)
  if getmetatable(options) == nil then return options end
  local all = {}
  for name, value in pairs(options) do all[name] = value end
  for name in pairs(rules) do
    if all[name] == nil then all[name] = options[name] end
  end
  return all
end

-- `check(call, index, options, rules [, what = "option"])` returns the options, or an empty table for nil. Raises at
-- the program's line for an unknown name and for an invalid value. `call` is the name as the program writes it, such as
-- "net.connect"; `index` is the position of the argument; `what` is the word for an option in messages.
function M.check(call, index, options, rules, what)
  if options == nil then return NONE end
  if type(options) ~= "table" then
    misuse.argument(call:match "[%w_]+$", index, ("table of %ss"):format(what or "option"), options)
  end
  options = with_inherited(options, rules)
  for name, value in pairs(options) do
    local one = rules[name]
    if not one then M.unknown(call, name, rules, what) end
    if not one.test(value) then
      raise_wrong(call, name, one.wanted, (one.is_secret and shown_secret or misuse.shown)(value), what)
    end
  end
  return options
end

-- `to_integer(value)` returns a number rounded down, or `math.maxinteger` for infinity, which native code does not
-- accept.
function M.to_integer(value)
  return math.tointeger(value // 1) or math.maxinteger
end

return M
