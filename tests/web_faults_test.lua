-- Faults of the web server of the game engine that this API comes from, which must not occur here.
-- Each test is named after the fault. Those of static files, listings and the redirect mode are in their suites.

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
local http = require "tests.http_client"
local loop = require "lio.loop"
local net = require "lio.net"
local web = require "lio.webserver"

local function echo(options)
  local app = web.new(options)
  app:get("/*rest", function(req) return req.path end)
  app:post("/*rest", function(req) return req:body() end)
  return app
end

t.test("/%zz killed the task without a response and leaked the connection", function()
  http.with(echo(), function(open, server)
    for _, path in ipairs { "/%zz", "/%", "/%4", "/a%g0" } do
      local c = open()
      local r = c:request("GET", path)
      t.eq({ r.status, r.headers.connection }, { 400, "close" }, path)
      t.ok(c:ended())
      c:close()
    end
    while server.count > 0 do loop.sleep(0.001) end
  end)
end)

t.test("a NUL in a path cut it short, so that the type was that of another name than the file's", function()
  http.with(echo(), function(open)
    t.eq(open():ask("GET /a\0.txt HTTP/1.1\r\nHost: x\r\n\r\n").status, 400)
    t.eq(open():request("GET", "/a%00.txt").body, "/a\0.txt", "decoded, it is a byte like any other")
  end)
end)

t.test("any alphabetic method called any function of that name", function()
  local app = web.new()
  app:get("/", function() return "x" end)
  http.with(app, function(open)
    local c = open()
    for _, method in ipairs { "ROUTE", "USE", "LISTEN", "RUN", "ONERROR", "get", "Get", "DELETE" } do
      t.eq(c:request(method, "/").status, 405, method)
    end
  end)
end)

t.test("CR and LF from a handler's headers split the response", function()
  local app = web.new()
  app:get("/", function(req) return 200, "x", { ["X-Name"] = req.query.name } end)
  http.with(app, function(open)
    http.logged(function()
      local c = open()
      local r = c:request("GET", "/?name=a%0d%0aSet-Cookie:%20evil=1%0d%0a%0d%0aHTTP/1.1%20200%20OK")
      t.eq({ r.status, r.headers["set-cookie"] }, { 500 })
      t.ok(c:silent(0.05), "nothing follows")
    end)
  end)
end)

t.test("+ was decoded in paths", function()
  http.with(echo(), function(open)
    t.eq(open():request("GET", "/c++/a+b").body, "/c++/a+b")
  end)
end)

t.test("a key without = swallowed the next", function()
  local app = web.new()
  app:get("/keys", function(req) return req.query.a .. "|" .. req.query.b .. "|" .. tostring(req.query["a&b"]) end)
  http.with(app, function(open)
    t.eq(open():request("GET", "/keys?a&b=2").body, "|2|nil")
  end)
end)

t.test("keep-alive and Connection: close were both missing", function()
  http.with(echo(), function(open)
    local c = open()
    t.is_nil(c:request("GET", "/").headers.connection)
    t.eq(c:request("GET", "/", { "Connection: close" }).headers.connection, "close")
    t.ok(c:ended())
  end)
end)

t.test("without a length, a pipelined request was taken for the body", function()
  http.with(echo(), function(open)
    local c = open()
    c:send "POST / HTTP/1.1\r\nHost: x\r\n\r\nGET /second HTTP/1.1\r\nHost: x\r\n\r\n"
    t.eq(c:response().body, "")
    t.eq(c:response().body, "/second")
  end)
end)

t.test("HEAD sent a body, which the client took for the next response", function()
  http.with(echo(), function(open)
    local c = open()
    c:send "HEAD /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n"
    t.eq(c:response("HEAD").headers["content-length"], "2")
    t.eq(c:response().body, "/b")
  end)
end)

t.test("HTTP/1.0 got chunks", function()
  local app = web.new()
  app:get("/", function(_, res) res:write "a" res:write "b" end)
  http.with(app, function(open)
    local c = open()
    c:send "GET / HTTP/1.0\r\n\r\n"
    local head, body = c.c:recv "all":match "^(.-\r\n\r\n)(.*)$"
    t.eq(body, "ab")
    t.ok(not head:lower():find "transfer%-encoding")
  end)
end)

t.test("a file that does not exist was 403", function()
  local app = web.new()
  app:get("/a", function() return "x" end)
  http.with(app, function(open)
    t.eq(open():request("GET", "/b").status, 404)
  end)
end)

t.test("after malformed request lines the connection was closed without a response", function()
  http.with(echo(), function(open)
    for _, line in ipairs { "nonsense", "GET", "GET /", "GET / HTTP/x", "GET nothing HTTP/1.1" } do
      local c = open()
      c:send(line, "\r\n\r\n")
      t.eq(c:response().status, 400, line)
    end
  end)
end)

t.test("a Content-Length of 0x5, of -1, twice or of garbage was accepted, with chunked too", function()
  http.with(echo(), function(open)
    for _, fields in ipairs {
      "Content-Length: 0x5", "Content-Length: -1", "Content-Length: 5\r\nContent-Length: 6",
      "Content-Length: five", "Content-Length: 5\r\nTransfer-Encoding: chunked",
    } do
      local c = open()
      c:send("POST / HTTP/1.1\r\nHost: x\r\n", fields, "\r\n\r\nhello")
      t.eq(c:response().status, 400, fields)
      t.ok(c:ended())
    end
  end)
end)

t.test("a negative chunk size passed the body limit", function()
  http.with(echo { body = 10 }, function(open)
    for _, size in ipairs { "-5", "-FFFFFFFF", "FFFFFFFFFFFFFFFB", "8000000000000000" } do
      local c = open()
      c:send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", size, "\r\nhello")
      local status = c:response().status
      t.ok(status == 400 or status == 413, size .. " gave " .. status)
      t.ok(c:ended())
    end
  end)
end)

t.test("chunk extensions were refused", function()
  http.with(echo(), function(open)
    t.eq(open():ask("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      .. '5;name=value;flag;q="a b"\r\nhello\r\n0;end\r\n\r\n').body, "hello")
  end)
end)

t.test("an upload of 8 MB took 18 s, and no other client was served meanwhile", function()
  http.with(echo { body = 2 ^ 30 }, function(open)
    local function upload(megabytes, chunked)
      local c, other = open(), open()
      local size, piece = megabytes * 2 ^ 20, ("x"):rep(1000)
      local began, answers, running, stopped = os.clock(), 0, true, nil
      loop.fork(function()
        while running do
          other:request("GET", "/")
          answers = answers + 1
        end
        stopped = true
      end)
      local frame = chunked and "Transfer-Encoding: chunked" or ("Content-Length: %d"):format(size)
      c:send("POST / HTTP/1.1\r\nHost: x\r\n", frame, "\r\n\r\n")
      local sent = 0
      while sent < size do
        local part = piece:sub(1, math.tointeger(math.min(#piece, size - sent)))
        c:send(chunked and ("%x\r\n%s\r\n"):format(#part, part) or part)
        sent = sent + #part
      end
      if chunked then c:send "0\r\n\r\n" end
      t.eq(#c:response().body, math.tointeger(size))
      running = false
      while not stopped do loop.sleep(0.001) end
      t.ok(answers >= megabytes, "another client had only " .. answers .. " answers meanwhile")
      return os.clock() - began
    end
    for _, chunked in ipairs { false, true } do
      -- Each body is four times as long as the one before: at O(n²) the last takes sixteen times as long.
      -- CPU time, which does not include other programs of the machine.
      upload(1, chunked)
      local small, large = upload(2, chunked), upload(8, chunked)
      t.ok(large < small * 10 + 0.5, ("2 MB took %.2f s of CPU, 8 MB %.2f s"):format(small, large))
    end
  end)
end)

t.test("an aborted download kept its files open until the collector ran", function()
  local app, closed = web.new(), 0
  app:get("/", function(_, res)
    local source <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
    while res:write(("x"):rep(65536)) do end
    return source and nil
  end)
  http.with(app, function(open, server)
    collectgarbage "stop"
    local _, before = t.descriptors()
    for _ = 1, 10 do
      local c = open()
      c:send "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
      c:read_head()
      c:close()
    end
    while server.count > 0 do loop.sleep(0.005) end
    local _, after = t.descriptors()
    collectgarbage "restart"
    t.eq({ closed, after }, { 10, before })
  end)
end)

t.test("half-open requests used up the server permanently", function()
  local child <close> = t.spawn("sh -c " .. t.quote("ulimit -n 64; exec " .. t.lio() .. " " .. t.quote(
    t.write(t.tmp() .. "/server.lua", [[
      local app = require("lio.webserver").new { header_time = 0.1 }
      app:get("/", function() return "alive" end)
      app:run("127.0.0.1:0")]]))))
  local port = math.tointeger(tonumber(child:expect ":(%d+)/$"))
  loop.run(function()
    local held = {}
    for i = 1, 200 do
      local c = assert(net.connect("127.0.0.1", port))
      held[i] = c
      c:send "GET / HTTP/1.1\r\nHost"
    end
    local fresh <close> = http.open(port)
    t.eq(fresh:request("GET", "/").body, "alive", "while the others still hold on")
    for _, c in ipairs(held) do c:close() end
    for _ = 1, 100 do
      local c <close> = http.open(port)
      t.eq(c:request("GET", "/").body, "alive")
    end
  end)
end)

t.finish()
