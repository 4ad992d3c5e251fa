-- `req:arg` and `req:validate`: values of a request that a handler can use without further checks.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local json = require "lio.json"

local JSON <const> = { "Content-Type: application/json" }
local FORM <const> = { "Content-Type: application/x-www-form-urlencoded" }

-- Returns the response to a request with a handler, and the log.
local function respond(handler, method, target, fields, body)
  local response
  local log = http.logged(function()
    response = http.once(function(app)
      app:route(method, "/p/:id", handler):route(method, "/", handler)
    end, method, target, fields, body)
  end)
  return response, log
end

-- Returns the validated values of a request; or the status and the problems, as `field: message`.
local function validate(rules, opts, method, target, fields, body)
  local found
  local r, log = respond(function(req)
    found = req:validate(rules, opts)
    return 200
  end, method, target, fields, body)
  t.eq(log, "")
  if found then return found end
  t.eq(r.headers["content-type"], "application/json")
  local content = json.decode(r.body)
  t.eq(content.status, r.status)
  local problems = { r.status }
  for _, problem in ipairs(content.problems) do problems[#problems + 1] = problem.field .. ": " .. problem.message end
  return problems
end

local function of_query(rules, query)
  return validate(rules, nil, "GET", "/?" .. query)
end

local function of_json(rules, value)
  return validate(rules, nil, "POST", "/", JSON, type(value) == "string" and value or json.encode(value))
end

t.test("req:arg returns the first string of the route, the query or the form, in this order", function()
  local function arg(...)
    local name, default = ...
    return function(req) return req:arg(name, default) or "none" end
  end
  local function body(...) return respond(...).body end
  t.eq(body(arg "id", "GET", "/p/a%2Fb?id=2"), "a/b")
  t.eq(body(arg "q", "GET", "/?q=1&q=2"), "1")
  t.eq(body(arg "q", "GET", "/?q"), "")
  t.eq(body(arg "q", "GET", "/"), "none")
  t.eq(body(arg("q", "d"), "GET", "/"), "d")
  t.eq(body(arg "q", "POST", "/?q=1", FORM, "q=2"), "1")
  t.eq(body(arg "q", "POST", "/", FORM, "q=2&q=3"), "2")
  t.eq(body(arg "q", "POST", "/", { "Content-Type: multipart/form-data; boundary=b" },
    "--b\r\nContent-Disposition: form-data; name=q\r\n\r\n7\r\n--b--\r\n"), "7")
  t.eq(body(arg "q", "POST", "/", JSON, '{"q":1}'), "none")
  local r = respond(function(req)
    req:arg "q"
  end, "POST", "/", { "Content-Type: multipart/form-data" }, "x")
  t.eq(r.status, 400, "a form that is refused is the response")
end)

t.test("req:arg checks its arguments", function()
  local first, second
  respond(function(req)
    first = select(2, pcall(req.arg, req, 5))
    second = select(2, pcall(req.arg, req, "x", 5))
  end, "GET", "/")
  t.ok(first:find "bad argument #1 to 'arg' %(string expected, got number%)", first)
  t.ok(second:find "bad argument #2 to 'arg' %(string expected, got number%)", second)
end)

t.test("texts of a query are converted to the types of their rules", function()
  local rules = { s = "string", i = "integer", n = "number", b = "boolean", a = "array", x = "any" }
  t.eq(of_query(rules, "s=t&i=-7&n=1.5e2&b=on&a=1&a=2&x=y&other=1"),
    { s = "t", i = -7, n = 150.0, b = true, a = { "1", "2" }, x = "y" })
  t.eq(of_query({ a = { each = "integer" } }, "a=5"), { a = { 5 } })
  t.eq(of_query(rules, "s=&i=1.5&n=0x10&b=maybe&a=&x="), {
    422, "a: is missing", "b: must be true or false", "i: must be an integer", "n: must be a number",
  })
  t.eq(of_query({ i = "integer", n = "number" }, "i=9223372036854775808&n=1e999"),
    { 422, "i: must be an integer", "n: must be a number" })
  t.eq(of_query({ i = "integer", s = "string" }, "i=1&i=2&s=a&s=b"),
    { 422, "i: must be given only once", "s: must be given only once" })
end)

t.test("a text is a number if it is a finite decimal number, with white space around it", function()
  local rule = { n = "number" }
  for text, number in pairs {
    ["1e5"] = 1e5, [".5"] = 0.5, ["5."] = 5.0, ["%2B5"] = 5, ["-.5E%2B1"] = -5.0, ["++5%09%0A"] = 5, ["007"] = 7,
  } do
    t.eq(of_query(rule, "n=" .. text), { n = number })
  end
  for _, text in ipairs {
    "1e", "e5", ".", "-", "%2B-5", "1.2.3", "1+5", "1e5.", "0x10", "0x1p4", "1_0", "1,5", "inf", "nan", "-inf", "5%00",
  } do
    t.eq(of_query(rule, "n=" .. text), { 422, "n: must be a number" }, text)
  end
end)

-- Patterns with adjacent repetitions took a time that grows with the cube of the length: 15 s for 2000 digits.
t.test("a long text of a number is converted or refused at once", function()
  local rules = { n = "number", i = "integer" }
  local function try(text) return validate(rules, nil, "POST", "/", FORM, "n=" .. text .. "&i=" .. text) end
  local size <const> = 400 * 1000
  local refused <const> = { 422, "i: must be an integer", "n: must be a number" }
  local ones <const>, blanks <const> = ("1"):rep(size), ("+"):rep(size)
  for _, text in ipairs { ones, ones .. "x", "." .. ones .. "x", blanks .. "1x", ones .. blanks .. "x" } do
    t.eq(try(text), refused)
  end
  t.eq(try(blanks .. "7" .. ("+"):rep(size // 4)), { n = 7, i = 7 })
  t.eq(validate({ n = "number" }, nil, "POST", "/", FORM, "n=." .. ("5"):rep(size)), { n = 5 / 9 })
end)

t.test("an absent value is a problem unless the rule makes it optional", function()
  t.eq(of_query({ a = "string", b = "integer" }, "b="), { 422, "a: is missing", "b: is missing" })
  t.eq(of_query({ a = "string?", b = { type = "integer", default = 5 }, c = { optional = true } }, "b="), { b = 5 })
  t.eq(of_json({ a = "integer?" }, '{"a":null}'), {})
  t.eq(of_json({ a = "integer" }, '{"a":null}'), { 422, "a: is missing" })
end)

t.test("values of JSON must have the type of their rule", function()
  local rules = { s = "string", i = "integer", n = "number", b = "boolean", a = "array", o = "object" }
  t.eq(of_json(rules, '{"s":"x","i":2.0,"n":3,"b":false,"a":[],"o":{}}'),
    { s = "x", i = 2, n = 3, b = false, a = {}, o = {} })
  t.eq(of_json(rules, '{"s":1,"i":"2","n":"3","b":"true","a":{"x":1},"o":[1]}'), {
    422, "a: must be a list", "b: must be true or false", "i: must be an integer", "n: must be a number",
    "o: must be an object", "s: must be a string",
  })
  t.eq(of_json({ o = "object", a = "array" }, '{"o":[],"a":{}}'), { 422, "a: must be a list", "o: must be an object" })
end)

t.test("conditions limit numbers, lengths and forms", function()
  local rules = {
    n = { type = "integer", min = 1, max = 3 }, s = { min = 2, max = 3 }, one = { min = 1 }, p = { pattern = "%a+" },
    o = { one_of = { "x", "y" } }, a = { type = "array", max = 1 },
  }
  t.eq(of_query(rules, "n=3&s=%C3%A4%C3%B6%C3%BC&one=1&p=ab&o=y&a=1"),
    { n = 3, s = "äöü", one = "1", p = "ab", o = "y", a = { "1" } })
  t.eq(of_query(rules, "n=4&s=abcd&one=&p=a1&o=z&a=1&a=2"), {
    422, "a: must have at most 1 item", "n: must be at most 3", "o: must be one of: x, y",
    "one: must have at least 1 character", "p: has an invalid form", "s: must have at most 3 characters",
  })
  t.eq(of_query({ n = { type = "number", min = 0.5 } }, "n=0"), { 422, "n: must be at least 0.5" })
  t.eq(of_query({ p = { pattern = "%d", message = "must be a digit" } }, "p=ab"), { 422, "p: must be a digit" })
end)

t.test("a function of a rule can refuse a value", function()
  local rules = { n = { type = "integer", check = function(n) return n % 2 == 0, "must be even" end },
    m = { check = function() return false end, optional = true } }
  t.eq(of_query(rules, "n=4"), { n = 4 })
  t.eq(of_query(rules, "n=3&m=1"), { 422, "m: is invalid", "n: must be even" })
end)

t.test("rules of items and fields apply inside lists and objects", function()
  local rules = {
    tags = { each = { max = 2 } },
    lines = { each = { fields = { sku = "string", count = { type = "integer", min = 1 } } } },
  }
  t.eq(of_json(rules, { tags = { "a" }, lines = { { sku = "x", count = 2, other = 1 } } }),
    { tags = { "a" }, lines = { { sku = "x", count = 2 } } })
  t.eq(of_json(rules, { tags = { "a", "bcd" }, lines = { { count = 0 }, 5 } }), {
    422, "lines[1].count: must be at least 1", "lines[1].sku: is missing", "lines[2]: must be an object",
    "tags[2]: must have at most 2 characters",
  })
end)

t.test("conditions are not checked on a value whose parts have problems", function()
  local called = 0
  local function count() called = called + 1 return true end
  t.eq(of_json({ r = { fields = { a = "integer", b = "integer" }, check = count } }, { r = { a = 1 } }),
    { 422, "r.b: is missing" })
  t.eq(of_json({ r = { each = "integer", check = count } }, { r = { 1, "x", 3 } }),
    { 422, "r[2]: must be an integer" })
  t.eq(called, 0)
end)

t.test("the length of a list is checked before its items, and at most 100 problems are collected", function()
  local items = {}
  for index = 1, 200 do items[index] = 1 end
  t.eq(of_json({ r = { each = "string", max = 5 } }, { r = items }), { 422, "r: must have at most 5 items" })
  t.eq(#of_json({ r = { each = "string" } }, { r = items }), 1 + 100)
  local fields = {}
  for index = 1, 200 do fields["f" .. index] = "string" end
  t.eq(#of_json(fields, {}), 1 + 100)
end)

t.test("a string must be UTF-8", function()
  t.eq(of_query({ s = "string", a = { each = "string" } }, "s=a%ff&a=%ff"),
    { 422, "a[1]: must be UTF-8 text", "s: must be UTF-8 text" })
end)

t.test("the source is chosen by the Content-Type, or by the option 'from'", function()
  local rules = { a = "string" }
  t.eq(validate(rules, nil, "POST", "/?a=query", FORM, "a=form"), { a = "form" })
  t.eq(validate(rules, nil, "POST", "/?a=query"), { a = "query" })
  t.eq(validate(rules, { from = "query" }, "POST", "/?a=query", FORM, "a=form"), { a = "query" })
  t.eq(validate({ id = "integer" }, { from = "params" }, "GET", "/p/7"), { id = 7 })
  t.eq(validate(rules, nil, "POST", "/", { "Content-Type: application/vnd.x+json; charset=utf-8" }, '{"a":"1"}'),
    { a = "1" })
  t.eq(validate(rules, nil, "POST", "/", { "Content-Type: text/plain" }, "a"), { 415, ": JSON or a form expected" })
  t.eq(validate(rules, { from = "json" }, "POST", "/", nil, "{"),
    { 400, ": the body is not valid JSON: EOF while parsing an object at line 1 column 1" })
  t.eq(validate(rules, { from = "json" }, "POST", "/", nil, "5"),
    { 400, ": the body must be a JSON object or array, got number" })
  t.eq(validate(rules, { from = "json" }, "POST", "/", nil, " "), { 400, ": the body is empty, JSON expected" })
  t.eq(validate(rules, { from = "json" }, "POST", "/", { "Content-Type: application/json" }, '{"a":"1"}'), { a = "1" })
  -- Regression: a page of another site can send these types without asking.
  for _, kind in ipairs { "text/plain", FORM[1]:match ": (.*)", "multipart/form-data; boundary=x", "x" } do
    t.eq(validate(rules, { from = "json" }, "POST", "/", { "Content-Type: " .. kind }, '{"a":"1"}'),
      { 415, ": JSON expected" }, kind)
  end
end)

t.test("a handler can catch the refusal and respond itself; otherwise the refusal stays the response", function()
  local rules = { n = "integer" }
  local caught
  local r, log = respond(function(req)
    local ok, invalid = pcall(req.validate, req, rules)
    caught = { ok, invalid.status, invalid.problems, tostring(invalid) }
    return 400, "own\n"
  end, "GET", "/?n=x")
  t.eq({ r.status, r.body, log }, { 400, "own\n", "" })
  t.eq(caught, { false, 422, { { field = "n", message = "must be an integer" } }, "n must be an integer" })
  r = respond(function(req) pcall(req.validate, req, rules) end, "GET", "/")
  t.eq({ r.status, json.decode(r.body).problems }, { 422, { { field = "n", message = "is missing" } } })
end)

t.test("middleware sees the refusal as a response, and on_error is not called", function()
  local seen, called
  local r = http.once(function(app)
    app:use(function(_, res, next)
      next()
      seen = { res.code, getmetatable(res.error).__name }
    end)
    app:on_error(function() called = true end)
    app:get("/", function(req) req:validate { a = "string" } end)
  end, "GET", "/")
  t.eq({ r.status, seen, called }, { 422, { 422, "lio.invalid_request" }, nil })
end)

t.test("a mistake in a rule raises at the program's line, for any request", function()
  local function raises(message, rules, opts)
    local raised
    respond(function(req)
      raised = select(2, pcall(req.validate, req, rules, opts))
      return 200
    end, "GET", "/")
    t.ok(tostring(raised):find(message), tostring(raised))
  end
  raises("^.-req:validate: the rule of 'a': type 'integr' is unknown %(did you mean 'integer'%?%)$", { a = "integr" })
  raises("type 'q' is unknown; a type is string, integer, number, boolean, array, object or any$", { a = "q" })
  raises("the rule of 'a' must be the name of a type or a table, got 5$", { a = 5 })
  raises("the rule of 'a': condition 'mn' is unknown %(did you mean 'min'%?%)$", { a = { mn = 1 } })
  raises("the rule of 'a': condition 'min' must be a number, got \"1\"$", { a = { min = "1" } })
  raises("the rule of 'a': 'integer' cannot have the condition 'pattern'$", { a = { type = "integer", pattern = "x" } })
  raises("the rule of 'a': the pattern '%[': malformed pattern", { a = { pattern = "[" } })
  for text, problem in pairs {
    ["%d+["] = "malformed pattern %(missing ']'%)$", ["a%"] = "malformed pattern %(ends with '%%'%)$",
    ["[a%"] = "missing ']'", ["%bx"] = "missing arguments to '%%b'", ["%fx"] = "missing '%[' after '%%f' in pattern$",
    ["%f[x"] = "missing ']'", ["(a"] = "unfinished capture$", ["a)"] = "invalid pattern capture$",
    ["%1"] = "invalid capture index %%1$", ["(%1)"] = "invalid capture index %%1$",
    [("()"):rep(33)] = "too many captures$", ["^%d"] = "it matches the whole string, so leave out '^' and '%$'",
    ["a$"] = "it matches the whole string",
  } do
    raises("the rule of 'a': the pattern '.*': .*" .. problem, { a = { pattern = text, optional = true } })
  end
  for text, value in pairs {
    ["[]a]+"] = "]a", ["[^]]"] = "a", ["%^%$"] = "^$", ["[$]"] = "$", ["%b()"] = "(a)", ["(a)%1"] = "aa",
    ["a%%"] = "a%", ["%f[a]a+"] = "aa", ["((a)b)"] = "ab", ["[%]]"] = "]",
  } do
    t.eq(of_json({ a = { pattern = text } }, { a = value }), { a = value }, text)
  end
  raises("the rule of 'a': condition 'min' must be a number, got nan$", { a = { min = 0 / 0 } })
  raises("the rule of 'a': 'min' %(5%) is greater than 'max' %(2%)$", { a = { min = 5, max = 2 } })
  raises("the rule of 'a': 'one_of' must be a list of at least one value$", { a = { one_of = {} } })
  raises("the rule of 'a%[%]%.b': type 'x' is unknown", { a = { each = { fields = { b = "x" } } } })
  raises("the names of values must be strings, got 1$", { "string" })
  raises("req:validate: option 'from' must be \"json\", \"form\", \"query\" or \"params\", got \"body\"$", {},
    { from = "body" })
  raises("bad argument #1 to 'validate' %(table expected, got nil%)", nil)
  local r, log = respond(function(req) req:validate { a = "integr" } end, "GET", "/")
  t.eq(r.status, 500)
  t.ok(log:find "web_validate_test.lua:%d+: req:validate: the rule of 'a'", log)
end)

t.finish()
