-- `req:validate(rules [, opts])`: converts the values of a request and checks them. Called by web/request.lua.
--
-- A rule is the name of a type, such as "integer" or, for an optional value, "integer?"; or a table with `type` and
-- further conditions (see `FIELDS`). Invariant: a mistake in the rules raises at the program's line, even if the
-- request has no such value; a mistake in the request is a problem for the client.

local checks = require "lio.web.validate_checks"
local http = require "lio.http"
local json = require "lio.json"
local misuse = require "lio.misuse"
local options = require "lio.options"
local pattern = require "lio.web.pattern"

local native <const> = http.request
local convert <const> = checks.convert

-- Rules -------------------------------------------------------------------------------------------------

local TYPES <const> = {
  string = true, integer = true, number = true, boolean = true, array = true, object = true, any = true,
}

local NUMBER <const> = options.rule("a number", function(value) return type(value) == "number" and value == value end)

local FIELDS <const> = {
  type = options.string,
  optional = options.boolean,
  default = options.any,
  min = NUMBER, -- the least number, or the least length of a string (in characters) or a list
  max = NUMBER,
  pattern = options.string, -- a Lua pattern that the whole string matches
  one_of = options.table,
  each = options.either(options.string, options.table), -- the rule for the items of an array
  fields = options.table, -- the rules for the fields of an object
  check = options.callable, -- `check(value)` returns whether the value is valid, or nil and a message
  message = options.string, -- replaces the message of each condition
}

-- For each condition, the types that have it.
local MEANT_FOR <const> = {
  min = { string = true, integer = true, number = true, array = true },
  max = { string = true, integer = true, number = true, array = true },
  pattern = { string = true },
  one_of = { string = true, integer = true, number = true },
  each = { array = true },
  fields = { object = true },
}

local compile_all

-- Returns the type of a rule, and whether the value is optional.
local function type_of(call, text)
  local name = text:match "^(.-)%??$"
  if not TYPES[name] then
    local near = options.nearest(name, TYPES)
    misuse.raise(("%s: type '%s' is unknown%s"):format(call, name, near and (" (did you mean '%s'?)"):format(near)
      or "; a type is string, integer, number, boolean, array, object or any"))
  end
  return name, text:sub(-1) == "?"
end

local function check_pattern(call, text)
  local problem = pattern.problem(text)
  if problem then misuse.raise(("%s: the pattern '%s': %s"):format(call, text, problem)) end
end

-- Returns a checked copy of a rule. `name` is the path of the value in messages.
local function compile(name, rule)
  local call = ("req:validate: the rule of '%s'"):format(name)
  if type(rule) == "string" then rule = { type = rule } end
  if type(rule) ~= "table" then
    misuse.raise(("%s must be the name of a type or a table, got %s"):format(call, misuse.shown(rule)))
  end
  options.check(call, 1, rule, FIELDS, "condition")
  local done = {}
  for key, value in pairs(rule) do done[key] = value end
  local is_optional
  done.type, is_optional = type_of(call, rule.type or (rule.fields and "object" or rule.each and "array" or "string"))
  done.optional = rule.optional or is_optional or rule.default ~= nil
  for condition, types in pairs(MEANT_FOR) do
    if done[condition] ~= nil and not types[done.type] then
      misuse.raise(("%s: '%s' cannot have the condition '%s'"):format(call, done.type, condition))
    end
  end
  if rule.pattern then check_pattern(call, rule.pattern) end
  if rule.min and rule.max and rule.min > rule.max then
    misuse.raise(("%s: 'min' (%s) is greater than 'max' (%s)"):format(call, rule.min, rule.max))
  end
  if rule.one_of and #rule.one_of == 0 then misuse.raise(call .. ": 'one_of' must be a list of at least one value") end
  if rule.each then done.each = compile(name .. "[]", rule.each) end
  if rule.fields then done.fields = compile_all(rule.fields, name .. ".") end
  return done
end

function compile_all(rules, prefix)
  local compiled = {}
  for name, rule in pairs(rules) do
    if type(name) ~= "string" then
      misuse.raise("req:validate: the names of values must be strings, got " .. misuse.shown(name))
    end
    compiled[name] = compile(prefix .. name, rule)
  end
  return compiled
end

-- The compiled rules, by the tables of the program.
local known = setmetatable({}, { __mode = "k" })

-- Refusals ----------------------------------------------------------------------------------------------

-- The error that a request raises that does not satisfy the rules: `status`, and `problems`, a list of tables with
-- `field` and `message`.
local Invalid = { __name = "lio.invalid_request" }

function Invalid.__tostring(invalid)
  local texts = {}
  for index, problem in ipairs(invalid.problems) do
    texts[index] = problem.field == "" and problem.message or problem.field .. " " .. problem.message
  end
  return table.concat(texts, "; ")
end

-- Raises the refusal of a request. If the handler does not catch it, it is the response.
local function refuse(req, exchange, status, problems)
  local invalid = setmetatable({ status = status, problems = problems }, Invalid)
  native.record_effect(req, true)
  exchange.refusal = {
    status = status,
    reason = tostring(invalid),
    raised = invalid,
    json = json.encode({ error = http.reason(status), status = status, problems = problems }, { sort = true }) .. "\n",
  }
  error(invalid, 0)
end

-- Values ------------------------------------------------------------------------------------------------

local SOURCES <const> = {}

function SOURCES.query(req) return req.query end
function SOURCES.params(req) return req.params end
function SOURCES.form(req) return req:form() end
function SOURCES.json(req) return req:json() end

-- Returns the source of a request's values by its Content-Type: "" without one; nil for a type that is not known.
local function source_of_type(req)
  local media = (req:header "content-type" or ""):match("^%s*([^;%s]*)"):lower()
  if media == "" then return "" end
  if media == "application/json" or media:find "%+json$" then return "json" end
  if media == "application/x-www-form-urlencoded" or media == "multipart/form-data" then return "form" end
end

-- Returns the name of the source of a request's values. `wanted`: the option `from`.
local function source_of(req, exchange, wanted)
  if wanted == "query" or wanted == "params" or wanted == "form" then return wanted end -- `req:form` checks the type
  local found = source_of_type(req)
  if not wanted then
    if found then return found == "" and "query" or found end
    refuse(req, exchange, 415, { { field = "", message = "JSON or a form expected" } })
  end
  -- A page of another site can send a form or plain text without asking, but not JSON.
  if found == "" or found == wanted then return wanted end
  refuse(req, exchange, 415, { { field = "", message = "JSON expected" } })
end

local OPTIONS <const> = { from = options.one_of("json", "form", "query", "params") }

return function(req, exchange, rules, opts)
  misuse.check("validate", 1, rules, "table")
  opts = options.check("req:validate", 2, opts, OPTIONS)
  local compiled = known[rules]
  if not compiled then
    compiled = compile_all(rules, "")
    known[rules] = compiled
  end
  local from = source_of(req, exchange, opts.from)
  local values, reason, status = SOURCES[from](req)
  if not values then refuse(req, exchange, status, { { field = "", message = reason } }) end
  local problems = {}
  local found = convert(compiled, values, from ~= "json", problems)
  if problems[1] then
    table.sort(problems, function(a, b) return a.field < b.field end)
    refuse(req, exchange, 422, problems)
  end
  return found
end
