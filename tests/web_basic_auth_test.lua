-- `web.basic_auth`: which credentials are accepted, the request for others, and invalid options.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local crypto = require "lio.crypto"
local web = require "lio.webserver"

local CHEAP <const> = { memory = 64, iterations = 1 }

-- Serves `GET /`, which returns `req.user`, while it runs `f(ask)`. `ask(authorization, field)` sends a request and
-- returns the response.
local function serve(options, f)
  local app = web.new()
  app:use(web.basic_auth(options))
  app:get("/", function(req) return tostring(req.user) end)
  http.with(app, function(open)
    local client = open()
    f(function(authorization, field)
      return client:request("GET", "/", { authorization and "Authorization: " .. authorization or "X: y", field })
    end)
  end)
end

local function basic(pair) return "Basic " .. crypto.base64_encode(pair) end

local ASK <const> = 'Basic realm="Restricted", charset="UTF-8"'

-- Checks that the response asks for credentials.
local function is_asked(r, message)
  t.eq({ r.status, r.headers["www-authenticate"], r.body }, { 401, ASK, "Unauthorized\n" }, message)
end

t.test("a user with the right password gets the response, and others are asked", function()
  serve({ users = { alice = "secret", bob = "p:w ü" } }, function(ask)
    t.eq({ ask(basic "alice:secret").body, ask(basic "bob:p:w ü").body }, { "alice", "bob" })
    for _, pair in ipairs { "alice:Secret", "alice:", "alice", "alice:secretx", "bob:secret", "carol:secret", ":", "",
      "alice:secret\n" } do
      is_asked(ask(basic(pair)), pair)
    end
  end)
end)

t.test("a request with malformed or other credentials is asked", function()
  serve({ users = { alice = "secret" } }, function(ask)
    is_asked(ask())
    for _, value in ipairs { "Basic", "Basic =", "Basic é", "Bearer " .. crypto.base64_encode "alice:secret",
      basic "alice:secret" .. " x", "Digest username=\"alice\"" } do
      is_asked(ask(value), value)
    end
    t.eq(ask("bAsIc  " .. crypto.base64_encode "alice:secret").body, "alice")
  end)
end)

t.test("passwords may be given as hashes", function()
  local hash = assert(crypto.password_hash("secret", CHEAP))
  serve({ users = { alice = hash, bob = "plain" } }, function(ask)
    for _ = 1, 2 do
      t.eq({ ask(basic "alice:secret").body, ask(basic "bob:plain").body }, { "alice", "bob" })
      is_asked(ask(basic "alice:wrong"))
      is_asked(ask(basic("alice:" .. hash)))
      is_asked(ask(basic "bob:secret"))
      is_asked(ask(basic "carol:secret"))
    end
  end)
end, { leaks = true })

t.test("a hash is verified once for a password that is right, and each time for one that is wrong", function()
  local hash = assert(crypto.password_hash("secret", CHEAP))
  local verify, calls = crypto.password_verify, {}
  crypto.password_verify = function(password, given)
    calls[#calls + 1] = password
    return verify(password, given)
  end
  local statuses = {}
  serve({ users = { alice = hash, bob = "plain" } }, function(ask)
    -- An unknown name, and one with a plain password, cost the same work.
    for _, pair in ipairs { "alice:secret", "alice:secret", "alice:x", "alice:x", "carol:secret", "carol:secret",
      "bob:plain", "bob:plain", "bob:secret", "bob:secret" } do
      statuses[#statuses + 1] = ask(basic(pair)).status
    end
  end)
  crypto.password_verify = verify
  t.eq(calls, { "secret", "x", "x", "secret", "secret", "plain", "secret", "secret" })
  t.eq(statuses, { 200, 200, 401, 401, 401, 401, 200, 200, 401, 401 })
end)

t.test("if passwords cannot be verified now, the response is 503", function()
  local hash = assert(crypto.password_hash("secret", CHEAP))
  local verify = crypto.password_verify
  crypto.password_verify = function() return nil, "password_verify: too many passwords wait", "busy" end
  serve({ users = { alice = hash } }, function(ask)
    local log = http.logged(function()
      local r = ask(basic "alice:secret")
      t.eq({ r.status, r.headers["retry-after"], r.headers["www-authenticate"] }, { 503, "1" })
    end)
    t.eq(log, "lio: web.basic_auth: password_verify: too many passwords wait\n")
  end)
  crypto.password_verify = verify
end)

t.test("a function may check the credentials, and return the user", function()
  serve({ check = function(name, password, req)
    if name == "fail" then return nil, "no database" end
    if name == "forged" then return nil, "no\nentry\27[1m" end
    if password ~= "secret" or req.path ~= "/" then return false end
    return name == "alice" and true or name == "bob" and "user:bob" or nil
  end }, function(ask)
    t.eq({ ask(basic "alice:secret").body, ask(basic "bob:secret").body }, { "alice", "user:bob" })
    is_asked(ask(basic "alice:x"))
    is_asked(ask(basic "carol:secret"))
    http.logged(function() t.eq(ask(basic "fail:secret").status, 503) end)
    local log = http.logged(function() ask(basic "forged:secret") end)
    t.eq(log, "lio: web.basic_auth: no?entry?[1m\n")
  end)
end)

t.test("the realm is shown as it is", function()
  serve({ users = { a = "b" }, realm = 'The "inner" \\ ring' }, function(ask)
    t.eq(ask().headers["www-authenticate"], [[Basic realm="The \"inner\" \\ ring", charset="UTF-8"]])
  end)
end)

t.test("a client that accepts JSON gets JSON", function()
  serve({ users = { a = "b" } }, function(ask)
    t.eq(ask(nil, "Accept: application/json").body, '{"error":"Unauthorized","status":401}\n')
  end)
end)

t.test("invalid options are refused", function()
  for message, options in pairs {
    ["web.basic_auth: give either 'users' or 'check'"] = {},
    ["web.basic_auth: option 'user' is unknown (did you mean 'users'?)"] = { user = {} },
    ["web.basic_auth: option 'realm' must be a string without control characters, got \"a?b\""]
      = { users = {}, realm = "a\nb" },
    ["web.basic_auth: option 'users': a name must be a string without colons, got \"a:b\""]
      = { users = { ["a:b"] = "x" } },
    ["web.basic_auth: option 'users': a name must be a string without colons, got 1"] = { users = { "alice" } },
    ["web.basic_auth: option 'users': the password of 'a' must be a non-empty string"] = { users = { a = "" } },
    ["web.basic_auth: option 'users': the hash of 'b' is invalid"] = { users = { b = "$argon2id$v=19$x" } },
  } do
    t.eq(select(2, pcall(web.basic_auth, options)):gsub("^.-:%d+: ", ""), message)
  end
  t.raises("give either 'users' or 'check'", web.basic_auth, { users = {}, check = print })
end)

t.finish()
