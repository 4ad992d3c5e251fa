-- `web.hsts`: the field `Strict-Transport-Security`, which only responses over TLS have.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local web = require "lio.webserver"

-- Sends one request through a trusted proxy to an app with the middleware. Returns the response. `proto`: the protocol
-- between the client and the proxy.
local function ask(options, proto, target)
  return http.once(function(app)
    app:use(web.trust_proxy { proxies = { "loopback" } })
    app:use(web.hsts(options))
    app:get("/", function() return "served" end)
    app:get("/error", function() error "deliberate" end)
  end, "GET", target or "/", { "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: " .. proto })
end

local function field(...)
  return ask(...).headers["strict-transport-security"]
end

t.test("a response over TLS makes browsers use HTTPS for a year", function()
  t.eq(field(nil, "https"), "max-age=31536000")
end)

t.test("a plain response does not have the field", function()
  t.is_nil(field(nil, "http"))
  t.eq(ask(nil, "http").body, "served")
end)

t.test("responses for errors have the field, too", function()
  t.eq(field(nil, "https", "/none"), "max-age=31536000")
  http.logged(function() t.eq(field(nil, "https", "/error"), "max-age=31536000") end)
end)

t.test("the options are in the field", function()
  t.eq(field({ max_age = 0 }, "https"), "max-age=0")
  t.eq(field({ max_age = 60, include_subdomains = true }, "https"), "max-age=60; includeSubDomains")
  t.eq(field({ max_age = 63072000, include_subdomains = true, preload = true }, "https"),
    "max-age=63072000; includeSubDomains; preload")
  t.eq(field({ include_subdomains = false, preload = false }, "https"), "max-age=31536000")
end)

t.test("wrong options raise", function()
  t.raises("option 'max_age'", web.hsts, { max_age = -1 })
  t.raises("option 'include_subdomain' is unknown %(did you mean 'include_subdomains'%?%)", web.hsts,
    { include_subdomain = true })
  for _, options in ipairs { {}, { include_subdomains = true, max_age = 31535999 }, { max_age = 31536000 } } do
    options.preload = true
    t.raises("option 'preload' needs include_subdomains = true and a max_age of at least 31536000", web.hsts, options)
  end
end)

t.finish()
