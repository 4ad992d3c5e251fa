-- The programs of docs/middleware.md serve what the page says. Each program is run as it is, and gets requests.
-- The programs may use: app

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local crypto = require "lio.crypto"
local json = require "lio.json"

local folder <const> = t.tmp()
local VARIABLES <const> = { SESSION_SECRET = ("s"):rep(32), SESSION_FOLDER = folder }
local GUIDE <const> = "docs/middleware.md"

-- Runs the first program below a heading, and calls `f(open, err)` while its app serves requests: `open()` returns a
-- client, and `err` is a list of the texts that the program writes to `io.stderr`.
local function serve(heading, f)
  local file <close> = assert(io.open(t.root .. GUIDE))
  local section = assert(("\n" .. file:read "a"):match("\n#+ " .. heading:gsub("%p", "%%%0") .. "\n(.*)$"), heading)
  local text = assert(section:match "\n```lua\n(.-\n)```\n")
  local written = {}
  local err = { write = function(_, ...)
    written[#written + 1] = table.concat { ... }
    return true
  end }
  local env = setmetatable({
    os = setmetatable({ getenv = function(name) return VARIABLES[name] end }, { __index = os }),
    io = setmetatable({ stderr = err }, { __index = io }),
  }, { __index = _G })
  local app = assert(load(text .. "return app", "=" .. GUIDE, "t", env))()
  http.with(app, function(open) f(open, written) end)
end

local function basic(pair) return "Authorization: Basic " .. crypto.base64_encode(pair) end

local function cookie_of(response) return "Cookie: " .. response.headers["set-cookie"]:match "^[^;]*" end

t.test("HTTPS: the redirect, and HSTS", function()
  serve("HTTPS: `web.https_redirect` and `web.hsts`", function(open)
    local r = open():ask("GET /a?b HTTP/1.1\r\nHost: www.example.com\r\n\r\n", "GET")
    t.eq({ r.status, r.headers.location }, { 301, "https://www.example.com/a?b" })
    t.is_nil(r.headers["strict-transport-security"])
    t.eq(open():ask("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "GET").status, 421)
  end)
end)

t.test("the stack of middleware", function()
  serve("Sessions, users, limits and CORS", function(open)
    local client = open()
    local r = client:request("GET", "/", { "Origin: https://app.example.com" })
    t.eq({ r.status, r.body }, { 200, "Hello, stranger\n" })
    t.eq({ r.headers["access-control-allow-origin"], r.headers["ratelimit-policy"] },
      { "https://app.example.com", "300;w=60" })
    t.eq(#r.headers["x-request-id"], 36)
    t.eq(client:request("GET", "/admin").status, 401)
    t.eq(client:request("GET", "/admin", { basic "admin:change me" }).status, 404)
  end)
end)

t.test("sessions: log in, read, log out", function()
  serve("Sessions", function(open)
    local client = open()
    local form <const> = { "Content-Type: application/x-www-form-urlencoded" }
    t.eq(client:request("GET", "/").status, 401)
    t.eq(client:request("POST", "/login", form, "name=alice&password=x").status, 403)
    t.eq(client:request("POST", "/login", form, "name=bob&password=correct+horse").status, 403)
    t.eq(client:request("POST", "/login", form, "name=alice").status, 403)
    local r = client:request("POST", "/login", form, "name=alice&password=correct+horse")
    t.eq({ r.status, r.headers.location }, { 303, "/" })
    r = client:request("GET", "/", { cookie_of(r) })
    t.eq(r.body, "alice: You are logged in.\n")
    local cookie <const> = cookie_of(r)
    t.eq(client:request("GET", "/", { cookie }).body, "alice: welcome back\n")
    r = client:request("POST", "/logout", { cookie }, "")
    t.ok(r.headers["set-cookie"]:find "^session=; Path=/; Max%-Age=0; HttpOnly; SameSite=Lax$")
  end)
end, { leaks = true })

t.test("a store in a folder", function()
  serve("Stores", function(open)
    local client = open()
    local r = client:request("GET", "/")
    t.eq(r.body, "1 visits\n")
    local cookie <const> = cookie_of(r)
    t.eq(client:request("GET", "/", { cookie }).body, "2 visits\n")
    t.eq(client:request("GET", "/", { cookie }).body, "3 visits\n")
    t.eq(client:request("GET", "/").body, "1 visits\n")
    local id = cookie:match "=(.*)$"
    t.write(folder .. "/" .. id, ("%d\n{\"visits\":9}"):format(os.time() - 1))
    t.eq(client:request("GET", "/", { cookie }).body, "1 visits\n")
  end)
end)

t.test("basic_auth", function()
  serve("Users and passwords: `web.basic_auth`", function(open)
    local client = open()
    local r = client:request("GET", "/")
    t.eq({ r.status, r.headers["www-authenticate"] }, { 401, 'Basic realm="Staff", charset="UTF-8"' })
    t.eq(client:request("GET", "/", { basic "alice:correct horse" }).body, "Hello, alice\n")
    t.eq(client:request("GET", "/", { basic "backup:a long random password" }).body, "Hello, backup\n")
    t.eq(client:request("GET", "/", { basic "alice:wrong" }).status, 401)
  end)
end)

t.test("rate_limit", function()
  serve("Limits: `web.rate_limit`", function(open)
    local client = open()
    local function log_in(name)
      return client:request("POST", "/login", { "Content-Type: application/x-www-form-urlencoded" }, "name=" .. name)
    end
    for _ = 1, 5 do t.eq(log_in "alice".body, "logged in\n") end
    local r = log_in "alice"
    t.eq({ r.status, r.headers["retry-after"] }, { 429, "60" })
    t.eq(log_in "bob".status, 200)
  end)
end)

t.test("cors", function()
  serve("Pages of other origins: `web.cors`", function(open)
    local client = open()
    local r = client:request("GET", "/api/items", { "Origin: https://x.preview.example.com" })
    t.eq(json.decode(r.body), { "a", "b" })
    t.eq({ r.headers["access-control-allow-origin"], r.headers["access-control-expose-headers"] },
      { "https://x.preview.example.com", "X-Total" })
    r = client:request("OPTIONS", "/api/items", { "Origin: https://app.example.com",
      "Access-Control-Request-Method: PUT" })
    t.eq({ r.status, r.headers["access-control-max-age"] }, { 204, "600" })
  end)
end)

t.test("csrf: a form with the token", function()
  serve("Forged requests: `web.csrf`", function(open)
    local client = open()
    local r = client:request("GET", "/")
    local fields <const> = { cookie_of(r), "Content-Type: application/x-www-form-urlencoded" }
    local token = r.body:match 'name=_csrf value="([^"]*)"'
    t.eq(client:request("POST", "/", fields, "").status, 403)
    t.eq(client:request("POST", "/", fields, "_csrf=" .. token).body, "bought\n")
  end)
end)

t.test("request_id", function()
  serve("Ids of requests: `web.request_id`", function(open, err)
    local r = open():request("GET", "/", { "X-Request-Id: abc" })
    t.eq({ r.body, r.headers["x-request-id"] }, { "this is request abc\n", "abc" })
    t.ok(err)
  end)
end)

t.test("every program of the page is tested", function()
  local file <close> = assert(io.open(t.root .. GUIDE))
  local _, count = file:read "a":gsub("\n```lua\n", "")
  t.eq(count, 9)
end)

t.finish()
