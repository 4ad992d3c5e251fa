-- `res:sse()`: the bytes of events, and how a stream ends.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local web = require "lio.webserver"

local ASK <const> = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

-- Returns the response of a handler that calls `f` with a stream of events. The client reads it until the end.
local function sent(f, opts)
  return http.once(function(app)
    app:get("/", function(req, res) f(res:sse(opts), req) end)
  end, "GET", "/")
end

-- Reads one chunk. Returns its data.
local function chunk(c)
  local data = c.c:recv(tonumber(c.c:recv("until", "\r\n"), 16))
  c.c:recv(2)
  return data
end

t.test("an event is sent as its fields and a blank line", function()
  local r = sent(function(events)
    t.eq(events:send "hello", true)
    events:send("x", "tick", 7, 2500)
    events:send({ a = 1 }, "json")
    events:send(12)
    events:send(nil, "bare")
    events:send ""
  end)
  t.eq(r.body, "data: hello\n\nevent: tick\nid: 7\nretry: 2500\ndata: x\n\n" ..
    'event: json\ndata: {"a":1}\n\ndata: 12\n\nevent: bare\n\ndata: \n\n')
  t.eq({ r.headers["content-type"], r.headers["cache-control"] }, { "text/event-stream", "no-cache" })
  t.eq(r.headers["x-accel-buffering"], "no")
end)

t.test("each line of the data, with any line ending, is a data field, so data cannot add other fields", function()
  local r = sent(function(events)
    events:send "a\nb\r\nc\rid: 9\n"
    events:comment "x\ny"
    events:comment()
  end)
  t.eq(r.body, "data: a\ndata: b\ndata: c\ndata: id: 9\ndata: \n\n: x\n: y\n\n: \n\n")
end)

t.test("an event name or id with several lines, and data of an invalid type, raise", function()
  sent(function(events)
    t.raises("send: event must be one line", events.send, events, "x", "a\nb")
    t.raises("send: id must be one line", events.send, events, "x", nil, "a\0")
    t.raises("retry must be an integer of at least 0 %(milliseconds%), got 1%.5$",
      events.send, events, "x", nil, nil, 1.5)
    t.raises("retry must be an integer of at least 0 %(milliseconds%), got %-1$",
      events.send, events, "x", nil, nil, -1)
    t.raises("send: nothing to send", events.send, events)
    t.raises("send: data must be a string", events.send, events, true)
  end)
  http.once(function(app)
    app:get("/", function(_, res)
      t.raises("res:sse: option 'pings' is unknown %(did you mean 'ping'%?%)", res.sse, res, { pings = 1 })
      t.raises("res:sse: option 'ping' must be a positive number of seconds or false, got 0",
        res.sse, res, { ping = 0 })
      res:sse()
      t.raises("sse: the response has already begun", res.sse, res)
    end)
  end, "GET", "/")
end)

t.test("the head and each event are sent at once, and Last-Event-ID can be read", function()
  local app, go = web.new(), {}
  app:get("/", function(req, res)
    local events = res:sse { retry = 100 }
    loop.wait(go)
    events:send("from " .. req:header "last-event-id")
    loop.wait(go)
  end)
  http.with(app, function(open)
    local c = open():send "GET / HTTP/1.1\r\nHost: x\r\nLast-Event-ID: 41\r\n\r\n"
    t.eq(c:read_head().status, 200)
    t.eq(chunk(c), "retry: 100\n\n")
    loop.wakeup(go)
    t.eq(chunk(c), "data: from 41\n\n")
    loop.wakeup(go)
    t.eq(c.c:recv "line", "0")
  end)
end)

t.test("a handler that only waits is notified when its client closes", function()
  local app, got, done = web.new(), nil, {}
  app:get("/", function(_, res)
    local events = res:sse()
    events:send "x"
    got = { events:wait(10) }
    got[3] = events:is_closed()
    got[4] = select(2, events:send "y")
    loop.wakeup(done)
  end)
  http.with(app, function(open, server)
    local c = open():send(ASK)
    c:read_head()
    chunk(c)
    c:close()
    loop.wait(done)
    t.eq(got, { nil, "closed", true, "closed" })
    while server.count > 0 do loop.sleep(0) end
  end)
end)

t.test("a loop that sends events ends when the client closes", function()
  local app, done = web.new(), {}
  app:get("/", function(_, res)
    local events = res:sse()
    while events:send(("x"):rep(1000)) do loop.sleep(0.001) end
    loop.wakeup(done)
  end)
  http.with(app, function(open)
    local c = open():send(ASK)
    c:read_head()
    chunk(c)
    c:close()
    loop.wait(done)
  end)
end)

t.test("wait ends after its timeout, and the stream stays open", function()
  local r = sent(function(events)
    local ok, reason = events:wait(0.01)
    t.eq({ ok, reason }, { false, "timeout" })
    events:send "on"
  end)
  t.eq(r.body, "data: on\n\n")
end)

t.test("on a stream without events the server sends comments, unless ping is false", function()
  local app, go = web.new(), {}
  app:get("/", function(_, res)
    res:sse { ping = 0.01 }
    loop.wait(go)
  end)
  http.with(app, function(open)
    local c = open():send(ASK)
    c:read_head()
    t.eq(chunk(c), ": \n\n")
    t.eq(chunk(c), ": \n\n")
    loop.wakeup(go)
  end)
end)

t.test("close ends the stream, and the connection serves further requests", function()
  local app = web.new()
  app:get("/", function(_, res)
    local events = res:sse()
    events:send "last"
    t.eq(events:close(), true)
    local ok, message = events:send "late"
    t.eq({ ok, message }, { nil, "closed" })
  end)
  http.with(app, function(open)
    local c = open()
    for _ = 1, 2 do t.eq(c:request("GET", "/").body, "data: last\n\n") end
  end)
end)

t.test("a server that stops ends its streams, and does not wait for the whole grace period", function()
  local app, reason = web.new(), nil
  app:get("/", function(_, res)
    reason = select(2, res:sse():wait())
  end)
  http.with(app, function(open, server)
    local c = open():send(ASK)
    c:read_head()
    server:stop(60)
    t.eq(reason, "closed")
    t.eq(c.c:recv "line", "0")
  end)
end)

t.test("a stream that is started while the server stops ends at once", function()
  local app, go, closed = web.new(), {}, nil
  app:get("/", function(_, res)
    loop.wait(go)
    local events = res:sse()
    closed = events:is_closed()
    events:wait()
  end)
  app:get("/idle", function() return "x" end)
  http.with(app, function(open, server)
    local c, idle = open():send(ASK), open()
    idle:request("GET", "/idle")
    loop.fork(server.stop, server, 60)
    t.ok(idle:ended())
    loop.wakeup(go)
    t.eq(c:read_head().status, 200)
    t.eq(c.c:recv "line", "0")
    t.eq(closed, true)
    server:wait()
  end)
end)

t.test("when a handler returns, its stream ends and nothing leaks", function()
  local app, kept, streams = web.new(), nil, setmetatable({}, { __mode = "k" })
  app:get("/", function(_, res)
    kept = res:sse { ping = 3600 }
    streams[kept] = true
    kept:send "x"
  end)
  http.with(app, function(open)
    local c = open()
    for _ = 1, 2 do
      t.eq(c:request("GET", "/").body, "data: x\n\n")
      t.eq({ kept:is_closed(), kept:send "late" }, { true, nil, "closed" })
    end
    kept = nil
    c:request("GET", "/none")
    collectgarbage()
    collectgarbage()
    t.is_nil(next(streams))
  end)
end)

t.test("a client that does not read blocks the sender and gets no pings; its close ends the stream", function()
  local app, count, done = web.new(), 0, {}
  app:get("/", function(_, res)
    local events, data = res:sse { ping = 0.001 }, ("x"):rep(60000)
    while events:send(data) do count = count + 1 end
    loop.wakeup(done)
  end)
  http.with(app, function(open)
    local c = open():send(ASK)
    c:read_head()
    http.stalls(function() return count > 0 and count end)
    t.ok(count < 400, "sent " .. count)
    c:close()
    loop.wait(done)
  end)
end)

t.test("HEAD gets the head of a stream, but no events", function()
  local closed
  local r = http.once(function(app)
    app:get("/", function(_, res) closed = res:sse():is_closed() end)
  end, "HEAD", "/")
  t.eq({ r.status, r.headers["content-type"], closed }, { 200, "text/event-stream", true })
end)

t.test("a stream whose handler is killed ends, its hooks run, and its timer is freed", function()
  local app, task, events, ended = web.new(), nil, nil, nil
  app:get("/", function(req, res)
    res:on_end(function(...) ended = { select("#", ...) == 2, (...) == req, select(2, ...) == res, res:sent() } end)
    events = res:sse { ping = 0.01 }
    task = coroutine.running()
    loop.sleep(100)
  end)
  http.with(app, function(open, server)
    -- Tests the first request of a connection, and a later request, which another task serves.
    for _, before in ipairs { 0, 1 } do
      local c = open()
      for _ = 1, before do t.eq(c:request("GET", "/none").status, 404) end
      c:send(ASK)
      while not task do loop.sleep(0) end
      t.ok(loop.kill(task))
      task = nil
      t.ok(events:is_closed())
      t.eq({ ended[1], ended[2], ended[3], ended[4], ended[6] }, { true, true, true, 200, true })
      t.eq({ events:send "x" }, { nil, "closed" })
      t.eq(server.count, 0)
      c:close()
    end
  end)
end)

-- Regression: the error had the position of a line of the library.
t.test("data that is not valid in JSON is an error at the line of the handler, which names the call", function()
  local app, problem = web.new(), nil
  app:get("/", function(_, res)
    local events = res:sse()
    problem = select(2, pcall(function() events:send { x = 0 / 0 } end))
  end)
  http.with(app, function(open)
    t.eq(open():request("GET", "/").status, 200)
    t.ok(problem:find "web_sse_test%.lua:%d+: events:send: data: cannot encode NaN", problem)
  end)
end)

t.test("if a task that waits for the end of a stream is killed, another task may wait", function()
  local app, reasons = web.new(), {}
  app:get("/", function(_, res)
    local events = res:sse()
    local waiter = loop.fork(function() events:wait() end)
    loop.sleep(0)
    t.ok(loop.kill(waiter))
    reasons = { events:wait(0) }
  end)
  http.with(app, function(open)
    local c = open()
    t.eq(c:request("GET", "/").status, 200)
    t.eq(reasons, { false, "timeout" })
  end)
end)

t.finish()
