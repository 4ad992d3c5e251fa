-- Limits of times and numbers: when a limit is exceeded, only the request or connection that exceeds it ends.
-- Clients that must not exceed a time limit stay a second below it, because the machine may be busy.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local web = require "lio.webserver"

local GET <const> = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

local function app_with(options)
  local app = web.new(options)
  app:get("/", function() return "x" end)
  app:post("/", function(req) return req:body() end)
  return app
end

-- Returns the time that `f` takes, in seconds.
local function lasts(f)
  local began = lio.now()
  f()
  return lio.now() - began
end

-- Returns true if `spent` is at least 95 % of `want` seconds and less than `want` + 2 s, because the machine may be
-- busy; otherwise raises.
local function in_time(spent, want)
  return spent > want * 0.95 and spent < want + 2 or error(("took %.3f s, not %.3f"):format(spent, want), 2)
end

t.test("if a head is not complete within the header time, the response is 408", function()
  http.with(app_with { header_time = 0.15 }, function(open)
    local c = open()
    c:send "GET / HTTP/1.1\r\n"
    t.ok(in_time(lasts(function() t.eq(c:response().status, 408) end), 0.15))
    t.ok(c:ended())
  end)
end)

t.test("a head that arrives byte by byte does not extend the header time", function()
  http.with(app_with { header_time = 0.2 }, function(open)
    local c = open()
    local spent = lasts(function()
      for byte in (GET .. GET):gmatch "." do
        if not c.c:send(byte) then break end
        loop.sleep(0.02)
        if c.c:is_over() then break end
      end
    end)
    t.ok(in_time(spent, 0.2))
    t.eq(c:response().status, 408)
  end)
end)

t.test("the header time of the second request is measured from its first byte", function()
  http.with(app_with { header_time = 1.5 }, function(open)
    local c = open()
    for _ = 1, 4 do
      c:send(GET:sub(1, 9))
      loop.sleep(0.4) -- the sleeps together exceed the limit
      t.eq(c:ask(GET:sub(10), "GET").status, 200)
    end
  end)
end)

t.test("an idle connection is closed after the keep-alive time, without a response", function()
  http.with(app_with { keep_alive_time = 0.15 }, function(open)
    local c = open()
    t.ok(in_time(lasts(function() t.ok(c:ended()) end), 0.15))
  end)
end)

t.test("the keep-alive time restarts after each request", function()
  http.with(app_with { keep_alive_time = 1.5 }, function(open)
    local c = open()
    for _ = 1, 4 do
      loop.sleep(0.4) -- the sleeps together exceed the limit
      t.eq(c:ask(GET).status, 200)
    end
    t.ok(in_time(lasts(function() t.ok(c:ended()) end), 1.5))
  end)
end)

t.test("a handler may take longer than every time limit", function()
  local app = web.new { keep_alive_time = 0.05, header_time = 0.05, body_time = 0.05, write_time = 0.05 }
  app:get("/", function()
    loop.sleep(0.3)
    return "late"
  end)
  http.with(app, function(open)
    local c = open()
    t.eq(c:ask(GET).body, "late")
    t.ok(c:ended())
  end)
end)

t.test("if a body arrives more slowly than the minimum rate, the response is 408", function()
  http.with(app_with { body_time = 0.1, body_rate = 1000 }, function(open)
    local c = open()
    local spent = lasts(function()
      c:send "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
      loop.fork(function()
        for _ = 1, 200 do
          loop.sleep(0.01)
          if c.c:is_closed() or not c.c:send "x" then return end
        end
      end)
      t.eq(c:response().status, 408)
    end)
    t.ok(in_time(spent, 0.1))
    c:close()
  end)
end)

t.test("a body that arrives at the minimum rate may take any time", function()
  http.with(app_with { body_time = 1, body_rate = 100 }, function(open)
    local c = open()
    c:send "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 250\r\n\r\n"
    for _ = 1, 10 do
      c:send(("x"):rep(25))
      loop.sleep(0.12) -- the sleeps together exceed body_time; each piece adds 0.25 s to it
    end
    t.eq(#c:response().body, 250)
  end)
end)

t.test("the time that a handler takes between two pieces does not count against the client's limit", function()
  local app = web.new { body_time = 1, body_rate = 1000000 }
  local asks = {}
  app:post("/", function(req)
    local total = 0
    for piece in req:stream() do
      total = total + #piece
      loop.sleep(0.6)
      loop.wakeup(asks)
    end
    return tostring(total)
  end)
  http.with(app, function(open)
    local c = open()
    c:send "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nx"
    for _ = 1, 2 do
      loop.wait(asks)
      c:send "x"
    end
    t.eq(c:response().body, "3")
  end)
end)

t.test("if the rest of an unread body does not arrive in time, the connection is closed", function()
  local app = web.new { body_time = 0.1 }
  app:post("/", function() return "done" end)
  http.with(app, function(open)
    local c = open()
    c:send "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"
    t.eq(c:response().body, "done")
    t.ok(in_time(lasts(function() t.ok(c:ended()) end), 0.1))
  end)
end)

t.test("a connection serves the allowed number of requests; the last response has Connection: close", function()
  http.with(app_with { requests = 3 }, function(open)
    local c = open()
    c:send(GET:rep(5))
    t.is_nil(c:response().headers.connection)
    t.is_nil(c:response().headers.connection)
    t.eq(c:response().headers.connection, "close")
    t.ok(c:ended())
  end)
end)

t.test("connections beyond the allowed number wait until another connection ends", function()
  http.with(app_with { connections = 2 }, function(open, server)
    local a, b = open(), open()
    t.eq(a:ask(GET).status, 200)
    t.eq(b:ask(GET).status, 200)
    local c = open()
    c:send(GET)
    t.ok(c:silent(0.1))
    t.eq(server.count, 2)
    a:close()
    t.eq(c:response().status, 200)
    t.eq(b:ask(GET).status, 200)
  end)
end)

t.test("limits are checked when the app is created", function()
  t.raises("web.new: option 'boddy' is unknown %(did you mean 'body'%?%)", web.new, { boddy = 1 })
  t.raises("web.new: option 'body' must be an integer of at least 0, or math.huge for no limit, got \"1\"",
    web.new, { body = "1" })
  t.raises("'debug' must be true or false, got 1", web.new, { debug = 1 })
  t.raises("'header_time' must be a non%-negative number of seconds, got %-1", web.new, { header_time = -1 })
  t.raises("'body_rate' must be a number of at least 0, got nan", web.new, { body_rate = 0 / 0 })
  t.raises("'fields' must be an integer from 1 to 256, got 257", web.new, { fields = 257 })
  t.raises("'headers' must be an integer from 1 to 1073741824, got 0", web.new, { headers = 0 })
  -- Regression: a server with 0 connections accepted none, and did not say why.
  t.raises("'connections' must be a number of at least 1, got 0", web.new, { connections = 0 })
  t.raises("'requests' must be a number of at least 1, got 0", web.new, { requests = 0 })
end)

t.test("limits may be infinite", function()
  local app = app_with {
    body = math.huge, keep_alive_time = math.huge, connections = math.huge, requests = math.huge,
  }
  http.with(app, function(open)
    local c = open()
    t.eq(c:request("POST", "/", nil, "abc").body, "abc")
    t.eq(c:ask(GET).status, 200)
  end)
end)

-- Regression: incomplete requests kept their descriptors open forever.
t.test("incomplete requests do not use up the descriptors of the server", function()
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
    t.eq(fresh:request("GET", "/").body, "alive", "while the incomplete requests are open")
    for _, c in ipairs(held) do c:close() end
    for _ = 1, 100 do
      local c <close> = http.open(port)
      t.eq(c:request("GET", "/").body, "alive")
    end
  end)
end)

t.finish()
