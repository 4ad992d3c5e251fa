-- `web.csrf`: which requests need a token, where they send it, and invalid options.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local web = require "lio.webserver"

local FORM <const> = "Content-Type: application/x-www-form-urlencoded"
local MULTIPART <const> = "Content-Type: multipart/form-data; boundary=B"

-- Serves an app with the middleware, while it runs `f(send)`. `send(method, target, fields, body)` sends a request with
-- the cookie of the last response that has set one, and returns the response.
local function serve(options, f)
  local app = web.new { body = 1000 }
  app:use(web.sessions { secret = ("s"):rep(32) })
  app:use(web.csrf(options))
  app:get("/token", function(req) return req.csrf_token() end)
  for _, method in ipairs { "GET", "OPTIONS", "POST", "PUT", "PATCH", "DELETE" } do
    app:route(method, "/", function(req) return req.method .. " " .. (req:arg "x" or "-") end)
  end
  http.with(app, function(open)
    local client, cookie = open(), nil
    f(function(method, target, fields, body)
      local all = { cookie and "Cookie: " .. cookie or "X: y" }
      for _, field in ipairs(fields or {}) do all[#all + 1] = field end
      local r = client:request(method, target, all, body)
      if r.headers["set-cookie"] then cookie = r.headers["set-cookie"]:match "^[^;]*" end
      return r
    end)
  end)
end

t.test("safe methods need no token, and visitors without a form get no session", function()
  serve(nil, function(send)
    for _, method in ipairs { "GET", "HEAD", "OPTIONS" } do
      local r = send(method, "/")
      t.eq({ r.status, r.headers["set-cookie"] }, { 200, nil }, method)
    end
  end)
end)

t.test("other methods need the token of the session, in a header field or in a form", function()
  serve(nil, function(send)
    t.eq({ send("POST", "/", { "X-CSRF-Token: x" }).status, send("POST", "/").status }, { 403, 403 })
    local token = send("GET", "/token").body
    t.eq({ #token, send("GET", "/token").body }, { 43, token })
    t.eq(send("POST", "/", { FORM }, "x=1&_csrf=" .. token).body, "POST 1")
    t.eq(send("POST", "/", { MULTIPART }, '--B\r\nContent-Disposition: form-data; name="_csrf"\r\n\r\n' .. token
      .. '\r\n--B\r\nContent-Disposition: form-data; name="x"\r\n\r\n2\r\n--B--\r\n').body, "POST 2")
    for _, method in ipairs { "POST", "PUT", "PATCH", "DELETE" } do
      t.eq(send(method, "/", { "X-CSRF-Token: " .. token }).status, 200, method)
      for _, wrong in ipairs { "", "x", token .. "x", token:upper() } do
        local r = send(method, "/", { "X-CSRF-Token: " .. wrong })
        t.eq({ r.status, r.body }, { 403, "Forbidden\n" }, method .. wrong)
      end
    end
    for _, body in ipairs { "x=1", "_csrf=", "_csrf=x", "_csrf=" .. token .. "&_csrf=" .. token } do
      t.eq(send("POST", "/", { FORM }, body).status, 403, body)
    end
    t.eq(send("POST", "/", { "Content-Type: text/plain" }, "_csrf=" .. token).status, 403)
    t.eq(send("POST", "/", { FORM }, "x=" .. ("1"):rep(2000)).status, 413)
  end)
end)

t.test("a token is valid only in its session", function()
  local token
  serve(nil, function(send) token = send("GET", "/token").body end)
  serve(nil, function(send)
    t.ok(send("GET", "/token").body ~= token)
    t.eq(send("POST", "/", { "X-CSRF-Token: " .. token }).status, 403)
  end)
end)

t.test("the names of the fields are options", function()
  serve({ field = "token", header = "X-Token" }, function(send)
    local token = send("GET", "/token").body
    t.eq(send("POST", "/", { "X-Token: " .. token }).status, 200)
    t.eq(send("POST", "/", { FORM }, "token=" .. token).status, 200)
    t.eq(send("POST", "/", { "X-CSRF-Token: " .. token }).status, 403)
  end)
end)

t.test("without sessions, requests fail; and invalid options are refused", function()
  local log = http.logged(function()
    t.eq(http.once(function(app) app:use(web.csrf()):get("/", function() return "x" end) end, "GET", "/").status, 500)
  end)
  t.ok(log:find("web.csrf: the request has no session; call app:use(web.sessions { … }) before", 1, true), log)
  t.raises("web.csrf: option 'header' must be the name of a header field, got \"a b\"", web.csrf, { header = "a b" })
  t.raises("web.csrf: option 'fields' is unknown %(did you mean 'field'%?%)", web.csrf, { fields = "x" })
end)

t.finish()
