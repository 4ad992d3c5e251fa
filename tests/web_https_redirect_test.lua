-- `web.https_redirect`: the redirect's address and status, refused hosts, and requests that are not redirected.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local web = require "lio.webserver"

-- Sends one request to an app, which `build(app)` has completed. `fields` are all header fields. Returns the response.
local function exchange(build, method, target, fields, version)
  local app, response = web.new(), nil
  build(app)
  http.with(app, function(open)
    fields = table.concat(fields, "\r\n") .. "\r\n\r\n"
    response = open():ask(("%s %s HTTP/%s\r\n%s"):format(method, target, version or "1.1", fields), method)
  end)
  return response
end

-- Sends one request to an app with the middleware. Returns the response.
local function ask(options, ...)
  return exchange(function(app)
    app:use(web.https_redirect(options))
    app:any("/*rest", function() return "served" end)
  end, ...)
end

-- Returns the address to which a GET request with this `Host` is redirected, or the status of a refusal.
local function location(options, host, target)
  local r = ask(options, "GET", target or "/", { "Host: " .. host })
  return r.headers.location or r.status
end

t.test("a plain request is redirected to the same path and query over HTTPS", function()
  local r = ask(nil, "GET", "/a%20b/c?x=1&y=%2F", { "Host: example.com" })
  t.eq({ r.status, r.headers.location, r.body }, { 301, "https://example.com/a%20b/c?x=1&y=%2F", "" })
  t.eq(location(nil, "example.com:8080", "/"), "https://example.com/")
  t.eq(location(nil, "EXAMPLE.com", "/?"), "https://example.com/?")
  t.eq(location(nil, "[::1]:8080", "/x"), "https://[::1]/x")
  t.eq(location(nil, "127.0.0.1:8080", "/x"), "https://127.0.0.1/x")
end)

t.test("the redirect keeps the method and the body of a request that is not GET or HEAD", function()
  for method, status in pairs { GET = 301, HEAD = 301, POST = 308, PUT = 308, DELETE = 308 } do
    t.eq(ask(nil, method, "/x", { "Host: a.example" }).status, status, method)
  end
end)

t.test("the port and the status can be chosen", function()
  t.eq(location({ port = 8443 }, "a.example:8080", "/x?y"), "https://a.example:8443/x?y")
  t.eq(location({ port = 443 }, "a.example", "/"), "https://a.example/")
  t.eq(ask({ status = 307 }, "GET", "/", { "Host: a.example" }).status, 307)
  t.eq(ask({ status = 302 }, "POST", "/", { "Host: a.example" }).status, 302)
end)

t.test("a host that is not valid gets 400, so that no client chooses another part of the address", function()
  for _, host in ipairs { "a.example@evil.example", "evil.example/", "a b", "a.example:80@x", "evil\\example", "" } do
    local r = ask(nil, "GET", "/", { "Host: " .. host })
    t.eq({ host, r.status, r.headers.location }, { host, 400 })
  end
  t.eq(ask(nil, "GET", "/", { "Connection: close" }, "1.0").status, 400)
end)

t.test("the path of a request does not become the host", function()
  t.eq(location(nil, "a.example", "//evil.example/x"), "https://a.example//evil.example/x")
  -- The target is a URL: only its path is used. The parser takes the host from it (RFC 9112 section 3.2.2).
  t.eq(location({ hosts = { "a.example" } }, "a.example", "http://evil.example/x"), 421)
  t.eq(location(nil, "a.example", "http://b.example/x?y"), "https://b.example/x?y")
  t.eq(ask(nil, "CONNECT", "a.example:80", { "Host: a.example:80" }).headers.location, "https://a.example/")
end)

t.test("with a list of hosts, every other host gets 421", function()
  local options <const> = { hosts = { "a.example", "*.B.example", "[::1]" } }
  t.eq(location(options, "A.example:80"), "https://a.example/")
  t.eq(location(options, "x.b.example"), "https://x.b.example/")
  t.eq(location(options, "y.x.b.example"), "https://y.x.b.example/")
  t.eq(location(options, "[::1]:80"), "https://[::1]/")
  for _, host in ipairs { "b.example", "xb.example", "a.example.evil", ".b.example", "c.example" } do
    t.eq({ host, location(options, host) }, { host, 421 })
  end
end)

t.test("a request over TLS to a trusted proxy is served", function()
  local function through_proxy(proto)
    return exchange(function(app)
      app:use(web.trust_proxy { proxies = { "loopback" } })
      app:use(web.https_redirect())
      app:get("/", function() return "served" end)
    end, "GET", "/", { "Host: a.example", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: " .. proto })
  end
  t.eq(through_proxy("https").body, "served")
  t.eq(through_proxy("http").headers.location, "https://a.example/")
end)

t.test("without a trusted proxy, a client cannot claim to use TLS", function()
  t.eq(ask(nil, "GET", "/", { "Host: a.example", "X-Forwarded-Proto: https" }).status, 301)
end)

t.test("wrong options raise", function()
  t.raises("option 'port'", web.https_redirect, { port = 0 })
  t.raises("option 'status'", web.https_redirect, { status = 200 })
  t.raises("option 'hosts' is empty", web.https_redirect, { hosts = {} })
  t.raises("option 'prot' is unknown %(did you mean 'port'%?%)", web.https_redirect, { prot = 1 })
  for _, host in ipairs { "https://a.example", "a.example:80", "*", "a*.example", "" } do
    t.raises("option 'hosts' must list host names", web.https_redirect, { hosts = { host } })
  end
  t.raises("option 'hosts' must list host names", web.https_redirect, { hosts = { 1 } })
end)

t.finish()
