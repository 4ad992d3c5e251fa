-- The server for tests with independent clients: a route for every kind of response.
-- Started by tests/peers_*_test.lua and by the commands in tests/README.md, `lio tests/peers/server.lua [ADDR:PORT]`;
-- prints its address.

local loop = require "lio.loop"
local web = require "lio.webserver"

local app = web.new { body = 64 * 1024 * 1024, grace = 5 }

app:get("/", function() return "Hello, World!\n" end)
app:get("/empty", function() return "" end)
app:get("/nothing", function() end)
app:get("/json", function() return { list = { 1, 2, 3 }, text = "gr\u{fc}n" } end)
app:get("/list", function(_, res) res:send { "one ", "two ", "three" } end)
app:get("/status/:code<%d+>", function(req)
  local code = math.tointeger(tonumber(req.params.code))
  return code, code ~= 204 and code ~= 304 and "status " .. code or nil, { ETag = '"peer"' }
end)

-- Sends `count` pieces of `size` bytes. If the query contains `wait`, waits for that number of seconds after each
-- piece.
app:get("/pieces", function(req, res)
  local count = math.tointeger(tonumber(req.query.count or 3))
  local piece = ("x"):rep(math.tointeger(tonumber(req.query.size or 10)))
  for _ = 1, count do
    if not res:write(piece) then return end
    if req.query.wait then
      res:flush()
      loop.sleep(tonumber(req.query.wait))
    end
  end
end)

app:get("/known-length", function(_, res)
  res:header("Content-Length", 20)
  res:write(("a"):rep(10))
  res:write(("b"):rep(10))
end)

app:get("/large", function(req)
  return ("0123456789abcdef"):rep(math.tointeger(tonumber(req.query.kib or 1024)) * 64)
end)
app:get("/slow", function(req)
  loop.sleep(tonumber(req.query.seconds or 0.1))
  return "late\n"
end)

app:any("/echo", function(req)
  local body = req:body()
  return body and { method = req.method, path = req.path, query = req.query, version = req.version,
    body = body, type = req:header "content-type", agent = req:header "user-agent" }
end)
app:post("/body", function(req) return req:body() end)
app:put("/body", function(req) return req:body() end)

-- Sends the body back, piece by piece, while it arrives.
local function mirror(req, res)
  res:header("Content-Type", "application/octet-stream")
  for piece in req:stream() do
    if not res:write(piece) then return end
    res:flush()
  end
end
app:post("/mirror", mirror)
app:put("/mirror", mirror)

app:post("/count", function(req)
  local total = 0
  for piece in req:stream() do total = total + #piece end
  return { bytes = total }
end)
app:post("/trailers", function(req)
  req:body()
  return req:trailers()
end)
app:post("/form", function(req) return req:form() end)
app:post("/refuse", function() return 403, "no\n" end) -- does not read the body

app:get("/cookies", function(req, res)
  res:cookie("a", "1")
  res:cookie("b", "2", { path = "/", http_only = true })
  return req.cookies
end)
app:get("/redirect", function(_, res) res:redirect "/" end)
app:post("/redirect", function(_, res) res:redirect("/echo", 307) end)
app:get("/raise", function() error "on purpose" end)
app:get("/cut", function(_, res)
  res:write "begun"
  error "on purpose"
end)
app:get("/bye", function(_, res)
  res:header("Connection", "close")
  return "bye\n"
end)
app:any("/path/*rest", function(req) return req.path end)

app:run(... or "127.0.0.1:0")
