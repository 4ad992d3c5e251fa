-- `web.sessions`: data that is kept between requests in signed or encrypted cookies or in a store, when the cookie is
-- set, expiry, and what a client cannot do.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local crypto = require "lio.crypto"
local json = require "lio.json"
local loop = require "lio.loop"
local web = require "lio.webserver"

local SECRET <const> = ("s"):rep(32)
local OTHER <const> = ("o"):rep(32)

-- Returns middleware whose clock is `sessions.now`.
local function new(options)
  local sessions = web.sessions(options)
  sessions.now = 1000
  sessions.clock = function() return sessions.now end
  return sessions
end

-- A browser that keeps one cookie. `send(target)` sends a GET with the cookie and returns the response; the response's
-- field `set_cookie` is its Set-Cookie, or nil.
local Browser = {}
Browser.__index = Browser

function Browser:send(target)
  local r = self.client:request("GET", target, self.cookie and { "Cookie: " .. self.cookie })
  r.set_cookie = r.headers["set-cookie"]
  if r.set_cookie then
    self.cookie = not r.set_cookie:find "Max%-Age=0" and r.set_cookie:match "^[^;]*" or nil
  end
  return r
end

-- Serves an app with the sessions and the handlers of the table `routes`, by path, while it runs `f(browser, open)`.
-- `open()` returns another browser.
local function serve(sessions, routes, f)
  local app = web.new()
  app:use(sessions)
  for path, handler in pairs(routes) do app:get(path, handler) end
  http.with(app, function(open)
    local function browser() return setmetatable({ client = open() }, Browser) end
    f(browser(), browser)
  end)
end

local ROUTES <const> = {
  ["/count"] = function(req)
    req.session.count = (req.session.count or 0) + 1
    return tostring(req.session.count)
  end,
  ["/read"] = function(req) return tostring(req.session.count) end,
  ["/clear"] = function(req)
    req.session.count = nil
    return "cleared"
  end,
  ["/destroy"] = function(req)
    req.session:destroy()
    return "destroyed"
  end,
  ["/regenerate"] = function(req)
    req.session:regenerate()
    return "regenerated"
  end,
}

-- Returns the content of a signed cookie: the expiry and the data.
local function content_of(cookie)
  local expiry, text = crypto.base64url_decode(cookie:match "=([%w_-]*)%."):match "^(%d+) (.*)$"
  return tonumber(expiry), json.decode(text)
end

-- The ways to keep sessions that behave alike.
local KINDS <const> = {
  signed = function() return { secret = SECRET } end,
  encrypted = function() return { secret = SECRET, encrypted = true } end,
  ["in a store"] = function() return { store = web.memory_store() } end,
  ["in a store, with a signed id"] = function() return { store = web.memory_store(), secret = SECRET } end,
}

for kind, options_of in pairs(KINDS) do
  t.test("a session is kept between the requests of one client: " .. kind, function()
    serve(new(options_of()), ROUTES, function(one, open)
      local other = open()
      t.eq({ one:send("/count").body, one:send("/count").body, other:send("/count").body }, { "1", "2", "1" })
      t.eq({ one:send("/read").body, other:send("/read").body, open():send("/read").body }, { "2", "1", "nil" })
    end)
  end)

  t.test("the cookie is set only if the session has changed: " .. kind, function()
    serve(new(options_of()), ROUTES, function(one)
      t.is_nil(one:send("/read").set_cookie)
      t.ok(one:send("/count").set_cookie)
      t.is_nil(one:send("/read").set_cookie)
      t.ok(one:send("/clear").set_cookie:find "^session=; .*Max%-Age=0")
      t.is_nil(one.cookie)
      t.eq(one:send("/read").body, "nil")
      t.is_nil(one:send("/clear").set_cookie)
    end)
  end)

  t.test("a destroyed session has no data: " .. kind, function()
    serve(new(options_of()), ROUTES, function(one)
      t.is_nil(one:send("/destroy").set_cookie)
      one:send "/count"
      t.ok(one:send("/destroy").set_cookie:find "^session=; .*Max%-Age=0")
      t.eq(one:send("/read").body, "nil")
    end)
  end)

  t.test("a session expires: " .. kind, function()
    local options = options_of()
    options.max_age = 100
    local sessions = new(options)
    if options.store then options.store.clock = sessions.clock end
    serve(sessions, ROUTES, function(one)
      t.ok(one:send("/count").set_cookie:find "Max%-Age=100")
      sessions.now = sessions.now + 99
      t.eq(one:send("/read").body, "1")
      t.eq(one:send("/count").body, "2")
      sessions.now = sessions.now + 99
      t.eq(one:send("/read").body, "2")
      sessions.now = sessions.now + 1
      t.eq(one:send("/read").body, "nil")
      t.eq(one:send("/count").body, "1")
    end)
  end)

  t.test("a rolling session expires only if it is not used: " .. kind, function()
    local options = options_of()
    options.max_age, options.rolling = 100, true
    local sessions = new(options)
    if options.store then options.store.clock = sessions.clock end
    serve(sessions, ROUTES, function(one)
      t.is_nil(one:send("/read").set_cookie)
      one:send "/count"
      for _ = 1, 3 do
        sessions.now = sessions.now + 99
        local r = one:send "/read"
        t.eq(r.body, "1")
        t.ok(r.set_cookie:find "Max%-Age=100")
      end
      sessions.now = sessions.now + 100
      t.eq(one:send("/read").body, "nil")
    end)
  end)

  t.test("a cookie that was changed or made up is ignored: " .. kind, function()
    serve(new(options_of()), ROUTES, function(one)
      one:send "/count"
      local good = one.cookie
      local flipped = good:sub(-2, -2) == "A" and "B" or "A"
      for _, bad in ipairs {
        "session=", "session=x", "session=.", "session=a.b", "session=" .. ("A"):rep(43), "session=%%%",
        good:sub(1, -6), (good:gsub("=.", "=" .. (good:find "=A" and "B" or "A"))),
        good:sub(1, -3) .. flipped .. good:sub(-1), good .. "AAAA", (good:gsub("^session", "other")),
      } do
        one.cookie = bad
        local r = one:send "/read"
        t.eq({ r.status, r.body, r.set_cookie }, { 200, "nil" }, bad)
      end
      one.cookie = good
      t.eq(one:send("/read").body, "1")
    end)
  end)
end

t.test("secrets are rotated: new cookies use the first one, and the others are still valid", function()
  for _, encrypted in ipairs { false, true } do
    local cookie
    serve(new { secret = OTHER, encrypted = encrypted }, ROUTES, function(one)
      one:send "/count"
      cookie = one.cookie
    end)
    local renewed
    serve(new { secrets = { SECRET, OTHER }, encrypted = encrypted }, ROUTES, function(one)
      one.cookie = cookie
      t.eq(one:send("/count").body, "2")
      renewed = one.cookie
    end)
    serve(new { secret = SECRET, encrypted = encrypted }, ROUTES, function(one)
      one.cookie = cookie
      t.eq(one:send("/read").body, "nil")
      one.cookie = renewed
      t.eq(one:send("/read").body, "2")
    end)
  end
end)

t.test("a cookie is not valid under another name, and a signed one is not valid where cookies are encrypted", function()
  local cookie
  serve(new { secret = SECRET, name = "one" }, ROUTES, function(one)
    one:send "/count"
    cookie = one.cookie
  end)
  t.ok(cookie:find "^one=")
  serve(new { secret = SECRET, name = "two" }, ROUTES, function(one)
    one.cookie = cookie:gsub("^one", "two")
    t.eq(one:send("/read").body, "nil")
  end)
  serve(new { secret = SECRET, name = "one", encrypted = true }, ROUTES, function(one)
    one.cookie = cookie
    t.eq(one:send("/read").body, "nil")
  end)
end)

t.test("a client can read a signed session, and not an encrypted one", function()
  serve(new { secret = SECRET, max_age = 50 }, ROUTES, function(one)
    one:send "/count"
    local expiry, data = content_of(one.cookie)
    t.eq({ expiry, data }, { 1050, { count = 1 } })
  end)
  serve(new { secret = SECRET, encrypted = true }, ROUTES, function(one)
    one:send "/count"
    local value = crypto.base64url_decode(one.cookie:match "=(.*)")
    t.ok(not value:find("count", 1, true))
    local key = crypto.hmac("sha256", SECRET, "lio.web.sessions: encryption")
    t.eq(crypto.decrypt(key, value, "session"), '1210600 {"count":1}')
  end)
end)

t.test("the attributes of the cookie have safe defaults, and can be chosen", function()
  local function attributes(options)
    local found
    options.secret = SECRET
    serve(new(options), ROUTES, function(one) found = one:send("/count").set_cookie end)
    return found:match "^[^;]*; (.*)$"
  end
  t.eq(attributes {}, "Path=/; Max-Age=1209600; HttpOnly; SameSite=Lax")
  t.eq(attributes { path = "/x", domain = "example.com", max_age = 60, secure = true, http_only = false,
    same_site = "none" }, "Path=/x; Domain=example.com; Max-Age=60; Secure; SameSite=None")
  t.eq(attributes { name = "__Host-s", secure = true, same_site = "strict" },
    "Path=/; Max-Age=1209600; Secure; HttpOnly; SameSite=Strict")
end)

t.test("over TLS, the cookie is secure", function()
  local app, found = web.new(), nil
  app:use(function(req, _, next)
    req.is_tls = true
    return next()
  end)
  app:use(new { secret = SECRET })
  app:get("/", ROUTES["/count"])
  http.with(app, function(open) found = open():request("GET", "/").headers["set-cookie"] end)
  t.ok(found:find "; Secure;", found)
end)

t.test("a session has strings, numbers, booleans and tables, and changes inside tables count", function()
  serve(new { secret = SECRET }, {
    ["/set"] = function(req)
      req.session.list = { 1, "b", { c = true } }
      return "set"
    end,
    ["/change"] = function(req)
      req.session.list[3].d = 2.5
      return "changed"
    end,
    ["/get"] = function(req)
      local names = {}
      for name in pairs(req.session) do names[#names + 1] = name end
      return { names = names, list = req.session.list }
    end,
  }, function(one)
    one:send "/set"
    t.ok(one:send("/change").set_cookie)
    t.eq(json.decode(one:send("/get").body), { names = { "list" }, list = { 1, "b", { c = true, d = 2.5 } } })
  end)
end)

t.test("a flash value is returned once", function()
  serve(new { secret = SECRET }, {
    ["/set"] = function(req)
      req.session:flash("notice", "saved")
      req.session:flash("number", 7)
      return "set"
    end,
    ["/get"] = function(req)
      return { notice = req.session:flash "notice", number = req.session:flash "number", none = req.session:flash "x" }
    end,
  }, function(one)
    one:send "/set"
    local r = one:send "/get"
    t.eq(json.decode(r.body), { notice = "saved", number = 7 })
    t.ok(r.set_cookie:find "Max%-Age=0")
    t.eq(one:send("/get").body, "{}")
  end)
end)

t.test("in a store, the cookie contains only a random id, which changes when the session is regenerated", function()
  local store = web.memory_store()
  local ids = {}
  local routes = { ["/id"] = function(req)
    ids[#ids + 1] = req.session:id() or "none"
    return "x"
  end }
  for path, handler in pairs(ROUTES) do routes[path] = handler end
  serve(new { store = store }, routes, function(one, open)
    one:send "/id"
    one:send "/count"
    local before = one.cookie:match "^session=([%w_-]+)$"
    t.eq(#before, 43)
    t.eq(store:load(before), '{"count":1}')
    one:send "/regenerate"
    local after = one.cookie:match "^session=([%w_-]+)$"
    t.ok(#after == 43 and after ~= before)
    t.eq({ store:load(before), store:load(after) }, { nil, '{"count":1}' })
    one:send "/id"
    t.eq(ids, { "none", after })
    -- A client that has learned the id before can no longer use it.
    local thief = open()
    thief.cookie = "session=" .. before
    t.eq(thief:send("/read").body, "nil")
    -- An id that the client has made up is not used for its new session.
    thief:send "/count"
    t.ok(thief.cookie ~= "session=" .. before)
    one:send "/destroy"
    t.is_nil(store:load(after))
  end)
end)

-- Calls `f(store)` with a memory store, and with a store that has only the three methods that are required.
local function each_store(f)
  f(web.memory_store())
  local inner, plain = web.memory_store(), {}
  for _, method in ipairs { "load", "save", "destroy" } do
    plain[method] = function(_, ...) return inner[method](inner, ...) end
  end
  f(plain)
end

t.test("Regression: a request that ran during a logout brought the session back", function()
  for _, target in ipairs { "/destroy", "/regenerate" } do
    each_store(function(store)
      local routes, reached, go_on = { ["/count"] = ROUTES["/count"], ["/read"] = ROUTES["/read"] }, nil, false
      routes["/destroy"], routes["/regenerate"] = ROUTES["/destroy"], ROUTES["/regenerate"]
      routes["/slow"] = function(req)
        req.session.count = 100
        reached = true
        while not go_on do loop.sleep(0.001) end
        return "slow"
      end
      serve(new { store = store }, routes, function(one, open)
        one:send "/count"
        local before, slow, r = one.cookie, open(), nil
        slow.cookie = before
        loop.fork(function() r = slow:send "/slow" end)
        while not reached do loop.sleep(0.001) end
        one:send(target)
        go_on = true
        while not r do loop.sleep(0.001) end
        t.eq({ r.status, r.set_cookie }, { 200, nil })
        t.is_nil(store:load(before:match "=(.*)"))
        t.eq(one:send("/read").body, target == "/destroy" and "nil" or "1")
      end)
    end)
  end
end)

t.test("data that is set after destroy belongs to a new session", function()
  local store = web.memory_store()
  serve(new { store = store }, {
    ["/count"] = ROUTES["/count"],
    ["/renew"] = function(req)
      req.session:destroy()
      req.session.count = 10
      return "renewed"
    end,
    ["/read"] = ROUTES["/read"],
  }, function(one)
    one:send "/count"
    local before = one.cookie
    one:send "/renew"
    t.ok(one.cookie ~= before)
    t.is_nil(store:load(before:match "=(.*)"))
    t.eq(one:send("/read").body, "10")
  end)
end)

t.test("a store that fails makes the response an error", function()
  local failing
  local store = {}
  for _, method in ipairs { "load", "save", "destroy" } do
    store[method] = function()
      if failing == method then return nil, method .. " is down" end
      return method == "load" and '{"count":1}' or true
    end
  end
  serve(new { store = store }, ROUTES, function(one)
    for method, target in pairs { load = "/read", save = "/count", destroy = "/destroy" } do
      one.cookie = "session=" .. ("A"):rep(43)
      failing = method
      local log = http.logged(function() t.eq(one:send(target).status, 500) end)
      t.ok(log:find(("web.sessions: the store failed in '%s': %s is down"):format(method, method), 1, true), log)
    end
    failing = nil
    one.cookie = "session=" .. ("A"):rep(43)
    t.eq(one:send("/read").body, "1")
  end)
end)

t.test("the memory store forgets sessions that have expired, and the oldest one if it is full", function()
  local store, now = web.memory_store { sessions = 2 }, 0
  store.clock = function() return now end
  store:save("a", "A", 10)
  store:save("b", "B", 20)
  t.eq({ store:load "a", store:load "b" }, { "A", "B" })
  now = 10
  t.eq({ store:load "a", store:load "b", store.entries.count }, { nil, "B", 1 })
  store:save("c", "C", 5)
  store:save("d", "D", 5)
  t.eq({ store:load "b", store:load "c", store:load "d" }, { nil, "C", "D" })
  now = 15
  store:save("e", "E", 5)
  t.eq(store.entries.count, 1)
  t.eq({ store:update("e", "E2", 5), store:load "e" }, { true, "E2" })
  store:destroy "e"
  t.eq({ store:update("e", "E3", 5), store:load "e" }, { false, nil })
  t.eq({ store:load "e", store.entries.count }, { nil, 0 })
end)

t.test("a session that does not fit in a cookie is an error", function()
  local function set(length)
    return function(req)
      req.session.text = ("x"):rep(length)
      return "set"
    end
  end
  serve(new { secret = SECRET }, { ["/fits"] = set(2900), ["/long"] = set(3000) }, function(one)
    t.ok(#one:send("/fits").set_cookie <= 4096)
    local log = http.logged(function()
      local r = one:send "/long"
      t.eq({ r.status, r.set_cookie }, { 500 })
    end)
    t.ok(log:find "web%.sessions: the cookie would have 41%d%d bytes, but browsers accept only 4096: keep less", log)
  end)
end)

t.test("data that JSON cannot represent, and fields with names of methods, are errors", function()
  for message, set in pairs {
    ["web.sessions: the session cannot be saved: .*function"] = function(session) session.x = print end,
    ["web.sessions: the name 'destroy' of a session's field is that of a method"]
      = function(session) session.destroy = true end,
    ["web.sessions: req.session was replaced; set its fields instead"] = function(_, req) req.session = {} end,
  } do
    serve(new { secret = SECRET }, { ["/"] = function(req)
      set(req.session, req)
      return "x"
    end }, function(one)
      local log = http.logged(function() t.eq(one:send("/").status, 500) end)
      t.ok(log:find(message), log)
    end)
  end
end)

t.test("the changes of a handler that raises an error are not saved", function()
  local routes = { ["/raise"] = function(req)
    req.session.count = 100
    error "x"
  end }
  for path, handler in pairs(ROUTES) do routes[path] = handler end
  serve(new { secret = SECRET }, routes, function(one)
    one:send "/count"
    http.logged(function()
      local r = one:send "/raise"
      t.eq({ r.status, r.set_cookie }, { 500 })
    end)
    t.eq(one:send("/read").body, "1")
  end)
end)

t.test("a handler that writes its body in pieces must change the session before", function()
  local problem, read
  serve(new { secret = SECRET }, {
    ["/pieces"] = function(req, res)
      req.session.count = 1
      res:write "one"
      local _
      _, problem = pcall(function() req.session.count = 2 end)
      _, read = pcall(function() req.session:destroy() end)
      res:write(("%d %s"):format(req.session.count, next(req.session) or "-"))
      for name in pairs(req.session) do res:write(name) end
    end,
    ["/read"] = ROUTES["/read"],
  }, function(one)
    local r = one:send "/pieces"
    t.ok(r.set_cookie)
    t.eq(r.body, "one1 -count")
    t.ok(problem:find("web_sessions_test%.lua:%d+: req%.session%.count: the head of the response has been sent, so the "
      .. "session can no longer be changed$"), problem)
    t.ok(read:find("web_sessions_test%.lua:%d+: session:destroy: the head of the response has been sent"), read)
    t.eq(one:send("/read").body, "1")
  end)
end)

t.test("caches learn that the response depends on the cookie", function()
  local routes = { ["/unrelated"] = function() return "x" end, ["/all"] = function(req)
    for name in pairs(req.session) do error(name) end
    return "nothing"
  end }
  for path, handler in pairs(ROUTES) do routes[path] = handler end
  serve(new { secret = SECRET }, routes, function(one)
    t.is_nil(one:send("/unrelated").headers.vary)
    -- Regression: the responses to visitors without a session had no Vary.
    t.eq(one:send("/read").headers.vary, "Cookie")
    t.eq(one:send("/all").headers.vary, "Cookie")
    t.eq(one:send("/count").headers.vary, "Cookie")
    t.eq(one:send("/read").headers.vary, "Cookie")
    t.eq(one:send("/clear").headers.vary, "Cookie")
  end)
end)

t.test("a field '_flash' that the program has set is an error of flash", function()
  serve(new { secret = SECRET }, { ["/"] = function(req)
    req.session._flash = 5
    for _, call in ipairs { { "x" }, { "x", 1 } } do
      t.raises("^tests/web_sessions_test.lua:%d+: session:flash: the field '_flash' must not be set, because it keeps "
        .. "these values; got 5$", function() req.session:flash(table.unpack(call)) end)
    end
    req.session._flash = nil
    return "x"
  end }, function(one) t.eq(one:send("/").status, 200) end)
end)

t.test("a store that loads something else than a string is an error", function()
  local store = { load = function() return 5 end, save = function() end, destroy = function() end }
  local r
  local log = http.logged(function()
    serve(new { store = store }, { ["/"] = function() return "x" end }, function(one)
      one.cookie = "session=" .. ("A"):rep(43)
      r = one:send "/"
    end)
  end)
  t.eq(r.status, 500)
  t.ok(log:find("web.sessions: the store's 'load' must return a string or nil, got 5", 1, true), log)
end)

t.test("methods must be called with a colon", function()
  serve(new { secret = SECRET }, { ["/"] = function(req)
    for _, call in ipairs { "destroy", "regenerate", "flash", "id" } do
      t.raises("session:" .. call .. ": call it with a colon", req.session[call])
    end
    t.raises("bad argument #1 to 'flash' %(string expected, got number%)", req.session.flash, req.session, 1)
    return "x"
  end }, function(one) t.eq(one:send("/").status, 200) end)
end)

t.test("options that are missing, unsafe or contradictory are refused", function()
  for message, options in pairs {
    ["web.sessions: option 'secret' is missing: a string of at least 32 bytes that only the server knows"] = {},
    ["web.sessions: option 'secret' must be a string of at least 32 bytes, such as crypto.random(32, \"hex\"), "
      .. "got a string of 5 bytes"] = { secret = "short" },
    ["web.sessions: option 'secret' must be a string of at least 32 bytes, such as crypto.random(32, \"hex\"), "
      .. "got a number"] = { secret = 12345 },
    ["web.sessions: option 'secrets' must be a list of strings of at least 32 bytes, got a string of 32 bytes"]
      = { secrets = SECRET },
    ["web.sessions: option 'secrets' must be a list of strings of at least 32 bytes, got a table"] = { secrets = {} },
    ["web.sessions: give either 'secret' or 'secrets'"] = { secret = SECRET, secrets = { SECRET } },
    ["web.sessions: option 'encrypted' needs a secret"] = { store = web.memory_store(), encrypted = true },
    ["web.sessions: option 'store' must be an object with the methods 'load', 'save' and 'destroy', got a table"]
      = { store = { load = print, save = print } },
    ["web.sessions: option 'same_site' \"none\" needs 'secure'"] = { secret = SECRET, same_site = "none" },
    ["web.sessions: option 'same_site' must be \"strict\", \"lax\" or \"none\", got \"Lax\""]
      = { secret = SECRET, same_site = "Lax" },
    ["web.sessions: __Host-x needs secure"] = { secret = SECRET, name = "__Host-x" },
    ["web.sessions: not a cookie name: a b"] = { secret = SECRET, name = "a b" },
    ["web.sessions: option 'max_age' must be an integer from 1 to 1000000000, got 0"] = {
      secret = SECRET, max_age = 0,
    },
    ["web.sessions: option 'maxage' is unknown (did you mean 'max_age'?)"] = { secret = SECRET, maxage = 1 },
  } do
    t.eq(select(2, pcall(web.sessions, options)):gsub("^.-:%d+: ", ""), message)
  end
  t.raises("web.memory_store: option 'sessions' must be an integer of at least 1, got 0",
    web.memory_store, { sessions = 0 })
end)

t.finish()
