-- `web.rate_limit`: which requests are refused, the fields of the responses, and how clients are distinguished. The
-- clock of the limit is replaced, so no test depends on time.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local lru = require "lio.web.lru"
local web = require "lio.webserver"

-- Returns a limit whose clock is `limit.now`.
local function new(options)
  local limit = web.rate_limit(options)
  limit.now = 1000
  limit.clock = function() return limit.now end
  return limit
end

-- Serves `GET /` with the limit while it runs `f(ask)`. `ask(fields)` sends a request and returns the response.
local function serve(limit, f)
  local app = web.new()
  app:use(limit)
  app:get("/", function() return "x" end)
  http.with(app, function(open)
    local client = open()
    f(function(fields) return client:request("GET", "/", fields) end)
  end)
end

local function fields_of(r)
  return { r.status, r.headers["ratelimit-limit"], r.headers["ratelimit-remaining"], r.headers["ratelimit-reset"],
    r.headers["retry-after"] }
end

t.test("a client may send `burst` requests at once, and then `rate` in `per` seconds", function()
  local limit = new { rate = 2, per = 10, burst = 3 }
  serve(limit, function(ask)
    t.eq(fields_of(ask()), { 200, "3", "2", "5" })
    t.eq(fields_of(ask()), { 200, "3", "1", "10" })
    local r = ask()
    t.eq(fields_of(r), { 200, "3", "0", "15" })
    t.eq(r.headers["ratelimit-policy"], "2;w=10")
    r = ask()
    t.eq(fields_of(r), { 429, "3", "0", "15", "5" })
    t.eq(r.body, "Too Many Requests\n")
    limit.now = limit.now + 4.5
    t.eq(fields_of(ask()), { 429, "3", "0", "11", "1" })
    limit.now = limit.now + 0.5
    t.eq(fields_of(ask()), { 200, "3", "0", "15" })
    t.eq(ask().status, 429)
    -- The bucket never has more than `burst` tokens.
    limit.now = limit.now + 1000000
    for _ = 1, 3 do t.eq(ask().status, 200) end
    t.eq(ask().status, 429)
  end)
end)

t.test("by default, `per` is a minute and `burst` is `rate`", function()
  serve(new { rate = 60 }, function(ask)
    local r = ask()
    t.eq({ r.headers["ratelimit-policy"], fields_of(r) }, { "60;w=60", { 200, "60", "59", "1" } })
  end)
end)

t.test("the fields can be left out, but not Retry-After", function()
  serve(new { rate = 1, headers = false }, function(ask)
    t.eq(fields_of(ask()), { 200 })
    t.eq(fields_of(ask()), { 429, nil, nil, nil, "60" })
  end)
end)

t.test("a client that accepts JSON gets JSON", function()
  serve(new { rate = 1 }, function(ask)
    ask()
    t.eq(ask({ "Accept: application/json" }).body, '{"error":"Too Many Requests","status":429}\n')
  end)
end)

t.test("a function names the client, or leaves a request unlimited", function()
  serve(new { rate = 1, key = function(req) return req:header "x-key" end }, function(ask)
    t.eq({ ask({ "X-Key: a" }).status, ask({ "X-Key: b" }).status, ask({ "X-Key: a" }).status }, { 200, 200, 429 })
    t.eq({ fields_of(ask()), fields_of(ask()) }, { { 200 }, { 200 } })
  end)
end)

t.test("a key of another type is an error: a field that is sent twice would get a new bucket each time", function()
  for _, key in ipairs { {}, print, 0 / 0 } do
    local r
    local log = http.logged(function()
      serve(new { rate = 1, key = function() return key end }, function(ask) r = ask() end)
    end)
    t.eq(r.status, 500)
    t.ok(log:find("web.rate_limit: option 'key' must return a string, number, boolean or nil, got ", 1, true), log)
  end
  local limit = new { rate = 1 }
  t.raises("^tests/web_rate_limit_test.lua:%d+: bad argument #1 to 'take' %(a string, number or boolean expected, "
    .. "got a table%)$", function() limit:take {} end)
  t.raises("a string, number or boolean expected, got nil", limit.reset, limit, nil)
  t.eq({ (limit:take(false)), (limit:take(false)), (limit:take(1)) }, { true, false, true })
end)

t.test("a long key is stored as a digest", function()
  local limit = new { rate = 1 }
  local long <const> = ("a"):rep(1000000)
  t.eq({ (limit:take(long)), (limit:take(long)), (limit:take(long .. "b")) }, { true, false, true })
  t.eq(#limit.buckets:oldest(), 71)
  limit:reset(long)
  t.eq((limit:take(long)), true)
  limit = new { rate = 1 }
  limit:take(("a"):rep(64))
  t.eq(limit.buckets:oldest(), ("a"):rep(64))
end)

t.test("a function may respond to a refused request", function()
  local limit = new { rate = 1, on_limit = function(req, res, seconds)
    res:header("X-Path", req.path)
    return { wait = seconds }
  end }
  serve(limit, function(ask)
    ask()
    local r = ask()
    t.eq({ r.status, r.body, r.headers["x-path"], r.headers["retry-after"] }, { 429, '{"wait":60}', "/", "60" })
  end)
end)

t.test("reset fills the bucket of a client", function()
  local limit = new { rate = 1 }
  serve(limit, function(ask)
    t.eq({ ask().status, ask().status }, { 200, 429 })
    limit:reset "127.0.0.2"
    t.eq(ask().status, 429)
    limit:reset "127.0.0.1"
    t.eq(ask().status, 200)
  end)
end)

t.test("a client is an IPv4 address, or a network of IPv6 with 64 bits", function()
  local key <const> = web.rate_limit({ rate = 1 }).key
  for addr, want in pairs {
    ["192.0.2.1"] = "192.0.2.1",
    ["2001:db8:1:2:3:4:5:6"] = "2001:db8:1:2::/64",
    ["2001:db8:1:2::6"] = "2001:db8:1:2::/64",
    ["2001:db8::6"] = "2001:db8:0:0::/64",
    ["2001:db8::3:4:5:6"] = "2001:db8:0:0::/64",
    ["2001::2:3:4:5:6:7"] = "2001:0:2:3::/64",
    ["::1"] = "0:0:0:0::/64",
    ["::ffff:192.0.2.1"] = "::ffff:192.0.2.1",
    ["unix:"] = "unix:",
  } do
    t.eq(key { remote_addr = addr }, want, addr)
  end
  t.is_nil(key {})
end)

t.test("the number of buckets is limited", function()
  local limit = new { rate = 1, clients = 2 }
  t.eq({ limit:take "a", limit:take "b" }, { true, true, 0, limit.buckets:get "b" })
  t.eq((limit:take "a"), false)
  t.eq((limit:take "c"), true) -- replaces b
  t.eq((limit:take "a"), false)
  t.eq((limit:take "b"), true)
end)

t.test("fractions of tokens are not lost by rounding", function()
  local limit = new { rate = 10, per = 1 }
  for _ = 1, 10 do t.eq((limit:take "a"), true) end
  for _ = 1, 1000 do
    t.eq((limit:take "a"), false)
    limit.now = limit.now + 0.1
    t.eq((limit:take "a"), true)
  end
end)

t.test("the table of recently used entries forgets the entry that was not used for the longest time", function()
  local recent = lru.new(3)
  t.is_nil(recent:oldest())
  for _, key in ipairs { "a", "b", "c" } do recent:set(key, key:upper()) end
  t.eq({ recent:oldest() }, { "a", "A" })
  t.eq(recent:get "a", "A")
  t.eq({ recent:oldest() }, { "b", "B" })
  recent:set("d", "D")
  t.eq({ recent:get "a", recent:get "b", recent:get "c", recent:get "d", recent.count }, { "A", nil, "C", "D", 3 })
  recent:set("a", nil)
  recent:set("x", nil)
  t.eq({ recent:get "a", recent.count }, { nil, 2 })
  recent:set("c", "C2")
  t.eq({ { recent:oldest() }, recent:get "c", recent.count }, { { "d", "D" }, "C2", 2 })
end)

t.test("invalid options are refused", function()
  for message, options in pairs {
    ["web.rate_limit: option 'rate' is missing: an integer of at least 1"] = {},
    ["web.rate_limit: option 'rate' must be an integer from 1 to 1000000000, got 0"] = { rate = 0 },
    ["web.rate_limit: option 'per' must be a positive number of seconds of at most 1000000000, got 0"] = {
      rate = 1, per = 0,
    },
    ["web.rate_limit: option 'per' must be a positive number of seconds of at most 1000000000, got inf"] = {
      rate = 1, per = math.huge,
    },
    ["web.rate_limit: option 'brust' is unknown (did you mean 'burst'?)"] = { rate = 1, brust = 1 },
    ["web.rate_limit: option 'clients' must be an integer of at least 1, got 0"] = { rate = 1, clients = 0 },
    ["web.rate_limit: option 'key' must be a function, got \"x\""] = { rate = 1, key = "x" },
  } do
    t.eq(select(2, pcall(web.rate_limit, options)):gsub("^.-:%d+: ", ""), message)
  end
end)

t.finish()
