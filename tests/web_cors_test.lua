-- `web.cors`: preflights, the fields of other responses, which origins are allowed, and options that are refused.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local web = require "lio.webserver"

-- Serves `GET /` with CORS, and sends one request. `fields` is a list of header lines. Returns the response.
local function ask(options, method, fields, handler)
  return http.once(function(app)
    app:use(web.cors(options))
    app:get("/", handler or function() return "data" end)
  end, method, "/", fields)
end

-- Returns the response's fields for CORS and `vary`, by lower-case name without the common prefix.
local function fields_of(response)
  local found = { vary = response.headers.vary }
  for name, value in pairs(response.headers) do
    local short = name:match "^access%-control%-(.*)$"
    if short then found[short] = value end
  end
  return found
end

local function preflight(options, origin, method, headers)
  local fields = { "Origin: " .. origin, "Access-Control-Request-Method: " .. (method or "PUT") }
  if headers then fields[#fields + 1] = "Access-Control-Request-Headers: " .. headers end
  local response = ask(options, "OPTIONS", fields)
  t.eq({ response.status, response.body }, { 204, "" })
  return fields_of(response)
end

local PREFLIGHT_VARY <const> = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"

t.test("a page of an allowed origin may read a response", function()
  local options <const> = { origins = { "https://a.example", "https://b.example" }, expose = { "X-Total", "ETag" } }
  local r = ask(options, "GET", { "Origin: https://b.example" })
  t.eq({ r.status, r.body }, { 200, "data" })
  t.eq(fields_of(r), {
    ["allow-origin"] = "https://b.example", ["expose-headers"] = "X-Total, ETag", vary = "Origin",
  })
end)

t.test("a single origin needs no list", function()
  local r = ask({ origins = "https://a.example" }, "GET", { "Origin: https://a.example" })
  t.eq(fields_of(r), { ["allow-origin"] = "https://a.example", vary = "Origin" })
end)

t.test("other origins, and requests without an origin, get the response without permission", function()
  for _, fields in ipairs { { "Origin: https://c.example" }, { "Origin: null" }, { "Origin: http://a.example" }, {} } do
    local r = ask({ origins = { "https://a.example" }, expose = { "X" }, credentials = true }, "GET", fields)
    t.eq({ r.status, r.body, fields_of(r) }, { 200, "data", { vary = "Origin" } })
  end
end)

t.test("with the origin '*', every page may read a response", function()
  t.eq(fields_of(ask({ origins = "*", expose = "*" }, "GET", { "Origin: https://a.example" })),
    { ["allow-origin"] = "*", ["expose-headers"] = "*" })
  t.eq(fields_of(ask({ origins = "*" }, "GET", {})), { ["allow-origin"] = "*" })
end)

t.test("a preflight is answered with the permitted methods and header fields", function()
  t.eq(preflight({ origins = { "https://a.example" } }, "https://a.example"), {
    ["allow-origin"] = "https://a.example",
    ["allow-methods"] = "GET, HEAD, PUT, PATCH, POST, DELETE",
    ["allow-headers"] = "Content-Type",
    vary = PREFLIGHT_VARY,
  })
  t.eq(preflight({
    origins = { "https://a.example" }, methods = { "GET", "POST" }, headers = { "Authorization", "X-Id" },
    credentials = true, max_age = 600,
  }, "https://a.example"), {
    ["allow-origin"] = "https://a.example",
    ["allow-credentials"] = "true",
    ["allow-methods"] = "GET, POST",
    ["allow-headers"] = "Authorization, X-Id",
    ["max-age"] = "600",
    vary = PREFLIGHT_VARY,
  })
end)

t.test("a preflight of another origin gets no permission", function()
  t.eq(preflight({ origins = { "https://a.example" }, credentials = true }, "https://c.example"),
    { vary = PREFLIGHT_VARY })
end)

t.test("headers = '*' permits the requested fields", function()
  t.eq(preflight({ origins = "*", headers = "*", methods = { "PUT" } }, "https://a.example", "PUT", "x-one, x-two"), {
    ["allow-origin"] = "*", ["allow-methods"] = "PUT", ["allow-headers"] = "x-one, x-two",
    vary = "Access-Control-Request-Method, Access-Control-Request-Headers",
  })
  t.is_nil(preflight({ origins = "*", headers = "*" }, "https://a.example")["allow-headers"])
  t.is_nil(preflight({ origins = "*", headers = {} }, "https://a.example", "PUT", "x")["allow-headers"])
end)

t.test("OPTIONS without the fields of a preflight is an ordinary request", function()
  local r = ask({ origins = "*" }, "OPTIONS", { "Origin: https://a.example" })
  t.eq({ r.status, r.headers.allow, fields_of(r) }, { 204, "GET, HEAD, OPTIONS", { ["allow-origin"] = "*" } })
  r = ask({ origins = "*" }, "OPTIONS", { "Access-Control-Request-Method: PUT" })
  t.eq({ r.status, r.headers.allow }, { 204, "GET, HEAD, OPTIONS" })
end)

t.test("an origin is compared as browsers send it", function()
  local origins <const> = {
    "HTTPS://A.Example:443", "http://b.example:80", "http://c.example:8080", "https://*.d.example", "null",
    "https://[::1]:8443", "app://x",
  }
  for origin, is_allowed in pairs {
    ["https://a.example"] = true, ["https://a.example:444"] = false, ["http://a.example"] = false,
    ["http://b.example"] = true, ["http://c.example:8080"] = true, ["http://c.example"] = false,
    ["https://x.d.example"] = true, ["https://x.y.d.example"] = true, ["https://d.example"] = false,
    ["https://.d.example"] = false, ["https://xd.example"] = false, ["http://x.d.example"] = false,
    ["https://x.d.example.evil.example"] = false, ["null"] = true, ["https://[::1]:8443"] = true, ["app://x"] = true,
    ["https://a.example.evil.example"] = false, ["https://evil.example/https://a.example"] = false,
  } do
    local found = ask({ origins = origins }, "GET", { "Origin: " .. origin }).headers["access-control-allow-origin"]
    t.eq(found, is_allowed and origin or nil, origin)
  end
end)

t.test("a function may decide about the origin", function()
  local function allows(origin, req) return origin:find "%.example$" ~= nil and req.path == "/" end
  t.eq(fields_of(ask({ origins = allows, credentials = true }, "GET", { "Origin: https://z.example" })),
    { ["allow-origin"] = "https://z.example", ["allow-credentials"] = "true", vary = "Origin" })
  t.eq(fields_of(ask({ origins = allows }, "GET", { "Origin: https://z.other" })), { vary = "Origin" })
end)

t.test("responses to errors, and those without a route, have the fields too", function()
  http.logged(function()
    local r = ask({ origins = "*" }, "GET", { "Origin: https://a.example" }, function() error "x" end)
    t.eq({ r.status, r.headers["access-control-allow-origin"] }, { 500, "*" })
  end)
  local r = ask({ origins = "*" }, "DELETE", { "Origin: https://a.example" })
  t.eq({ r.status, r.headers["access-control-allow-origin"] }, { 405, "*" })
end)

t.test("Vary keeps what the handler has set", function()
  local function handler(_, res)
    res:header("Vary", "Accept-Language")
    return "x"
  end
  t.eq(ask({ origins = { "https://a.example" } }, "GET", {}, handler).headers.vary, "Accept-Language, Origin")
  local function same(_, res)
    res:header("Vary", "Accept, origin")
    return "x"
  end
  t.eq(ask({ origins = { "https://a.example" } }, "GET", {}, same).headers.vary, "Accept, origin")
  local function any(_, res)
    res:header("Vary", "*")
    return "x"
  end
  t.eq(ask({ origins = { "https://a.example" } }, "GET", {}, any).headers.vary, "*")
end)

t.test("options that would be unsafe or have no effect are refused", function()
  for message, options in pairs {
    ['web.cors: option \'origins\' is missing: a list such as { "https://example.com" }, or "*"'] = {},
    ['web.cors: \'credentials\' with the origin "*" would give every page the user\'s data: list the origins']
      = { origins = "*", credentials = true },
    ['web.cors: with \'credentials\', browsers ignore "*" in \'expose\': list the header fields']
      = { origins = { "https://a.example" }, credentials = true, expose = "*" },
    ["web.cors: option 'origin' is unknown (did you mean 'origins'?)"] = { origin = "*" },
    ["web.cors: option 'origins' must be '*' or an origin or a list of origins or a function, got 5"]
      = { origins = 5 },
    ["web.cors: option 'origins': \"a.example\" is not an origin, such as \"https://example.com\" or "
      .. "\"https://*.example.com\""] = { origins = "a.example" },
    ["web.cors: option 'methods' must be a list of names, got a table"] = { origins = "*", methods = { "GET POST" } },
    ["web.cors: option 'headers' must be '*' or a list of names, got a table"] = { origins = "*", headers = { "a\n" } },
    ["web.cors: option 'max_age' must be an integer of at least 0, got -1"] = { origins = "*", max_age = -1 },
  } do
    t.eq(select(2, pcall(web.cors, options)):gsub("^.-:%d+: ", ""), message)
  end
  for _, origin in ipairs { "a.example", "https://a.example/", "https://*", "https://a.*.example", "*", "", 1 } do
    local message = t.raises("web_cors_test", function() web.cors { origins = { origin } } end)
    t.ok(message:find('is not an origin, such as "https://example.com" or "https://*.example.com"', 1, true), message)
  end
end)

t.finish()
