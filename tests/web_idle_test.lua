-- The idle time of keep-alive connections. The first test is a regression test: the server's clock stopped when the
-- process had started, so after one idle time every new connection was closed at once.

local t = require("tests.kit")
local web = require "lio.webserver"
local loop = require "lio.loop"
local net = require "lio.net"

local function serve(options, body)
  local app = web.new(options)
  app:get("/", function() return "x" end)
  loop.run(function()
    local server = assert(app:listen("127.0.0.1:0"))
    local _, port = server.listener:address()
    body(port)
    server:stop()
  end)
end

local function request(c)
  assert(c:send("GET / HTTP/1.1\r\nHost: t\r\n\r\n"))
  local line = c:recv("line")
  c:recv("until", "\r\n\r\n")
  c:recv(1)
  return line
end

t.test("a connection that is opened long after the server's start may be idle for the whole idle time", function()
  serve({ keep_alive_time = 1.5 }, function(port)
    loop.sleep(1.6)
    local c = assert(net.connect("127.0.0.1", port))
    loop.sleep(0.3)
    t.eq(request(c), "HTTP/1.1 200 OK")
    c:close()
  end)
end)

t.test("each request restarts the idle time", function()
  serve({ keep_alive_time = 1.5 }, function(port)
    local c = assert(net.connect("127.0.0.1", port))
    for _ = 1, 5 do
      loop.sleep(0.4) -- the sleeps together exceed the limit
      t.eq(request(c), "HTTP/1.1 200 OK")
    end
    c:close()
  end)
end)

t.test("a connection without a request is closed after the idle time, without a response", function()
  serve({ keep_alive_time = 0.2 }, function(port)
    local c = assert(net.connect("127.0.0.1", port))
    local begun = loop.now()
    t.eq(c:recv("all"), "")
    t.ok(loop.now() - begun >= 0.19, "closed too early")
    c:close()
  end)
end)

-- Regression: the idle time began before the wait for the request, so a loop without other work
-- closed a connection too early. The client is another process, so that it does not wake this loop.
t.test("the idle time is measured from the request, even if the loop slept before it", function()
  serve({ keep_alive_time = 2 }, function(port)
    local client = t.write(t.tmp() .. "/client.lua", ([[
      local lio, socket = require "lio", require "lio.socket"
      local s, sel = socket.create "tcp", lio.create()
      s:connect("127.0.0.1", %d)
      sel:event_add(s, lio.SELECT_WRITE)
      for _ in sel:wait(5) do end
      sel:event_mod(s, lio.SELECT_READ)
      for _ in sel:wait(0.9) do end
      local data, begun = "", lio.now()
      s:send "GET / HTTP/1.1\r\nHost: t\r\n\r\n"
      while data do
        for _ in sel:wait(5) do end
        data = s:recv()
      end
      print(lio.now() - begun)
    ]]):format(port))
    local child <close> = t.spawn(t.lio() .. " " .. t.quote(client))
    loop.sleep(3.5) -- the loop has no other events and timers
    local seconds = tonumber(child:line())
    t.ok(seconds and seconds >= 1.9, "closed after " .. tostring(seconds) .. " s")
  end)
end)

t.finish()
