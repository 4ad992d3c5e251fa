-- Converts values by the compiled rules of web/validate.lua, and collects the problems. Texts of queries and forms are
-- converted to the type of their rule; values from JSON must have this type.

local json = require "lio.json"

local M = {}

-- Further problems are not collected, so a response is not larger than the request by a large factor.
local MAX_PROBLEMS <const> = 100

local BOOLEANS <const> = {
  ["true"] = true, ["1"] = true, on = true, yes = true, ["false"] = false, ["0"] = false, off = false, no = false,
}

-- For each type, a function that returns the converted value, or nil if there is none. `is_text`: the value comes from
-- a query or a form, and is a string.
local CONVERT <const> = {}

function CONVERT.string(value)
  return type(value) == "string" and value or nil
end

function CONVERT.integer(value, is_text)
  if is_text then
    if not value:find "^%s*[+-]?%d+%s*$" then return nil end
    -- For a number beyond 64 bits, `tonumber` returns a float.
    value = tonumber(value)
    return math.type(value) == "integer" and value or nil
  end
  return type(value) == "number" and math.tointeger(value) or nil
end

function CONVERT.number(value, is_text)
  if is_text then
    -- `tonumber` also accepts hexadecimal numbers, which have other characters.
    value = not value:find "[^%d%s.eE+-]" and tonumber(value)
  end
  local is_finite = type(value) == "number" and value == value and math.abs(value) ~= math.huge
  return is_finite and value or nil
end

function CONVERT.boolean(value, is_text)
  if is_text then return BOOLEANS[value:lower()] end
  if type(value) == "boolean" then return value end
end

function CONVERT.any(value) return value end

-- A list, or a single text of a query or a form.
function CONVERT.array(value, is_text)
  if is_text and type(value) == "string" then return { value } end
  if type(value) ~= "table" then return nil end
  return (getmetatable(value) == json.array_mt or is_text or #value > 0) and value or nil
end

function CONVERT.object(value)
  return type(value) == "table" and getmetatable(value) ~= json.array_mt and value or nil
end

-- The problem of a value that does not have the type of its rule.
local WANTED <const> = {
  string = "must be a string", integer = "must be an integer", number = "must be a number",
  boolean = "must be true or false", array = "must be a list", object = "must be an object",
}

-- Returns the number that `min` and `max` limit, and its unit.
local function measure(rule, value)
  if rule.type == "string" then return utf8.len(value), " character" end
  if rule.type == "array" then return #value, " item" end
  return value, nil
end

local function limit_text(word, limit, unit)
  local suffix = unit and unit .. (limit == 1 and "" or "s") or ""
  return ("must %s %s %s%s"):format(unit and "have" or "be", word, limit, suffix)
end

-- Returns the problem of the size of a converted value, or nil.
local function size_problem_of(rule, value)
  if not rule.min and not rule.max then return nil end
  local size, unit = measure(rule, value)
  if rule.min and size < rule.min then return limit_text("at least", rule.min, unit) end
  if rule.max and size > rule.max then return limit_text("at most", rule.max, unit) end
end

-- Returns the problem of a converted value whose size is right, or nil.
local function problem_of(rule, value)
  if rule.pattern and not value:find("^" .. rule.pattern .. "$") then return "has an invalid form" end
  if rule.one_of then
    local is_known, shown = false, {}
    for index, one in ipairs(rule.one_of) do
      is_known, shown[index] = is_known or one == value, tostring(one)
    end
    if not is_known then return "must be one of: " .. table.concat(shown, ", ") end
  end
  if rule.check then
    local ok, message = rule.check(value)
    if not ok then return type(message) == "string" and message or "is invalid" end
  end
end

local convert_fields, convert_value

-- Returns the list of the converted items.
local function convert_items(rule, values, is_text, problems, path)
  local items = {}
  for index, item in ipairs(values) do
    if #problems == MAX_PROBLEMS then break end
    items[index] = convert_value(rule, item, is_text, problems, ("%s[%d]"):format(path, index))
  end
  return items
end

local function add_problem(problems, rule, path, message)
  if #problems < MAX_PROBLEMS then problems[#problems + 1] = { field = path, message = rule.message or message } end
end

-- Returns the converted value; or nil after a problem. `path` is the name of the value in problems. The conditions are
-- checked only if no part of the value has a problem.
function convert_value(rule, value, is_text, problems, path)
  local function fail(message) add_problem(problems, rule, path, message) end
  -- A text that was sent several times is a list.
  if is_text and type(value) == "table" and rule.type ~= "array" and rule.type ~= "any" then
    return fail "must be given only once"
  end
  local converted = CONVERT[rule.type](value, is_text)
  if converted == nil then return fail(WANTED[rule.type]) end
  if rule.type == "string" and not utf8.len(converted) then return fail "must be UTF-8 text" end
  local problem = size_problem_of(rule, converted)
  if problem then return fail(problem) end
  local before = #problems
  if rule.each then
    converted = convert_items(rule.each, converted, is_text, problems, path)
  elseif rule.fields then
    converted = convert_fields(rule.fields, converted, is_text, problems, path .. ".")
  end
  if #problems > before then return nil end
  problem = problem_of(rule, converted)
  if problem then return fail(problem) end
  return converted
end

-- Returns whether a request has no value. Browsers send an empty text for an input without a value.
local function is_absent(rule, value, is_text)
  if value == nil or value == json.null then return true end
  return is_text and value == "" and rule.type ~= "string" and rule.type ~= "any"
end

function convert_fields(rules, values, is_text, problems, prefix)
  local found = {}
  for name, rule in pairs(rules) do
    local value = values[name]
    if #problems == MAX_PROBLEMS then break end
    if not is_absent(rule, value, is_text) then
      found[name] = convert_value(rule, value, is_text, problems, prefix .. name)
    elseif rule.optional then
      found[name] = rule.default
    else
      add_problem(problems, rule, prefix .. name, "is missing")
    end
  end
  return found
end

-- `convert(rules, values, is_text, problems)` returns a table of the converted values. Adds the problems to the list
-- `problems`.
function M.convert(rules, values, is_text, problems)
  return convert_fields(rules, values, is_text, problems, "")
end

return M
