-- `web.request_id`: the id of a request, its field in the response and its place in the log.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local json = require "lio.json"
local web = require "lio.webserver"

local UUID <const> = "^%x%x%x%x%x%x%x%x%-%x%x%x%x%-4%x%x%x%-[89ab]%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x$"

-- Sends one request. Returns the response, and `req.id`.
local function ask(options, fields, handler)
  local seen
  local response = http.once(function(app)
    app:use(web.request_id(options))
    app:get("/", function(req, ...)
      seen = req.id
      return handler and handler(req, ...) or "x"
    end)
  end, "GET", "/", fields)
  return response, seen
end

t.test("each request has a random UUID, also in the response", function()
  local first, id = ask()
  t.ok(id:find(UUID), id)
  t.eq(first.headers["x-request-id"], id)
  local second, other = ask({}, { "X-Request-Id: from-the-client" })
  t.ok(other:find(UUID) and other ~= id, other)
  t.eq(second.headers["x-request-id"], other)
end)

t.test("the id of a trusted client is used if it has only harmless characters", function()
  local r, id = ask({ trust = true }, { "X-Request-Id: aZ09-_.:+/=@~" })
  t.eq({ r.headers["x-request-id"], id }, { "aZ09-_.:+/=@~", "aZ09-_.:+/=@~" })
  t.eq(select(2, ask({ trust = true }, { "X-Request-Id: " .. ("x"):rep(128) })), ("x"):rep(128))
  for _, bad in ipairs { ("x"):rep(129), "a b", 'a"b', "é", "" } do
    t.ok(select(2, ask({ trust = true }, { "X-Request-Id: " .. bad })):find(UUID), bad)
  end
  t.ok(select(2, ask { trust = true }):find(UUID))
end)

t.test("a function may decide whether a client is trusted", function()
  local options <const> = { trust = function(req) return req.remote_addr == "127.0.0.1" and req:header "x-proxy" end }
  t.eq(select(2, ask(options, { "X-Request-Id: a", "X-Proxy: 1" })), "a")
  t.ok(select(2, ask(options, { "X-Request-Id: a" })):find(UUID))
end)

t.test("the name of the field and the function that makes ids can be chosen", function()
  local r, id = ask({ header = "Trace-Id", generate = function(req) return "id-of-" .. req.method end }, {})
  t.eq({ r.headers["trace-id"], r.headers["x-request-id"], id }, { "id-of-GET", nil, "id-of-GET" })
end)

t.test("an invalid id of the program's function is an error", function()
  for shown, value in pairs { ['"a b"'] = "a b", ["nil"] = false, ['""'] = "", ["12"] = 12 } do
    local log = http.logged(function()
      local r = ask { generate = function() return value or nil end }
      t.eq(r.status, 500)
    end)
    t.ok(log:find("web.request_id: option 'generate' returned " .. shown .. "; an id has 1 to 128 characters", 1, true),
      log)
  end
end)

t.test("the response to an error has the id too", function()
  http.logged(function()
    local r, id = ask({}, {}, function() error "x" end)
    t.eq({ r.status, r.headers["x-request-id"] }, { 500, id })
  end)
end)

t.test("the log has the id", function()
  local lines = {}
  local log = web.log { format = "json", file = function(text) lines[#lines + 1] = text end }
  http.once(function(app)
    app:use(log)
    app:use(web.request_id { generate = function() return "id-1" end })
    app:get("/", function() return "x" end)
  end, "GET", "/", { "X-Request-Id: from-the-client" })
  log:flush()
  t.eq(json.decode(lines[1]).request_id, "id-1")
end)

t.test("invalid options are refused", function()
  for message, options in pairs {
    ["web.request_id: option 'haeder' is unknown (did you mean 'header'?)"] = { haeder = "x" },
    ["web.request_id: option 'header' must be the name of a header field, got \"a b\""] = { header = "a b" },
    ["web.request_id: option 'trust' must be true or false or a function, got 1"] = { trust = 1 },
    ["web.request_id: option 'generate' must be a function, got \"x\""] = { generate = "x" },
  } do
    t.eq(select(2, pcall(web.request_id, options)):gsub("^.-:%d+: ", ""), message)
  end
end)

t.finish()
