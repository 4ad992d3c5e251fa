-- One message for many WebSocket connections: `websocket.broadcast` and topics.

local t = require "tests.kit"
local kit = require "tests.kit.websocket"
local loop = require "lio.loop"
local websocket = require "lio.websocket"

local function await(f)
  local deadline = loop.now() + 20
  repeat
    if f() then return end
    loop.sleep(0.002)
  until loop.now() > deadline
  error("the condition was not met within 20 s", 2)
end

-- Returns the resident memory of this process, in bytes.
local function resident()
  local f <close> = assert(io.open "/proc/self/status")
  return tonumber(f:read "a":match "VmRSS:%s+(%d+)") * 1024
end

-- Serves a route that keeps its connections. Calls `f(list, open, connect)`.
local function serve(opts, f)
  local list = {}
  kit.serve(opts, function(ws)
    list[#list + 1] = ws
    for _ in ws:messages() do end
  end, function(open, connect) f(list, open, connect) end)
end

t.test("a broadcast reaches each connection with the kind, compressed and not", function()
  serve({ compress = "context" }, function(list, _, connect)
    local clients = { connect { compress = "context" }, connect { compress = false }, connect() }
    await(function() return #list == 3 end)
    local text = ("grüße "):rep(200)
    for _ = 1, 3 do
      t.eq({ websocket.broadcast(list, text) }, { 3 })
      list[1]:send "between"
      t.eq({ websocket.broadcast(list, "\xff\0", { kind = "binary" }) }, { 3 })
      for index, ws in ipairs(clients) do
        t.eq({ ws:receive(10) }, { text, "text" })
        if index == 1 then t.eq(ws:receive(10), "between") end
        t.eq({ ws:receive(10) }, { "\xff\0", "binary" })
      end
    end
    for _, ws in ipairs(clients) do ws:close() end
  end)
end, { leaks = true })

t.test("a broadcast of clients is masked", function()
  serve({}, function(list, _, connect)
    local clients = { connect(), connect() }
    await(function() return #list == 2 end)
    t.eq(websocket.broadcast(clients, "x"), 2)
    for _, ws in ipairs(clients) do ws:close() end
    await(function() return list[1].ended and list[2].ended end)
    t.eq({ list[1].code, list[2].code }, { 1000, 1000 })
  end)
end)

t.test("arguments of broadcast, topic, add and send are checked", function()
  serve({}, function(list, open)
    open()
    await(function() return list[1] end)
    local ws = list[1]
    t.raises("a list of WebSocket connections expected, got .* at place 2", websocket.broadcast, { ws, 1 }, "x")
    t.raises("a list of WebSocket connections expected, got .* at place 1", websocket.broadcast, { { c = 1 } }, "x")
    t.raises("string expected, got nil", websocket.broadcast, list)
    t.raises("a text must be UTF%-8", websocket.broadcast, list, "\xff")
    t.raises("option 'slow' must be", websocket.broadcast, list, "x", { slow = "wait" })
    t.raises("option 'limits' is unknown", websocket.topic, { limits = 1 })
    local topic = websocket.topic()
    t.raises("WebSocket connection", topic.add, topic, {})
    t.raises("WebSocket connection", topic.add, topic, { c = 1 })
    topic:add(ws)
    t.raises("option 'kind' must be", topic.send, topic, "x", "blob")
    t.raises("a text must be UTF%-8", topic.send, topic, "\xff")
    t.eq(topic:send("\xff", "binary"), 1)
  end)
end)

t.test("a topic has each connection once, and removes it at its end", function()
  serve({}, function(list, _, connect)
    local clients = { connect(), connect(), connect() }
    await(function() return #list == 3 end)
    local topic, other = websocket.topic(), websocket.topic { kind = "binary" }
    for _, ws in ipairs(list) do
      t.eq({ topic:add(ws), topic:add(ws), other:add(ws) }, { true, false, true })
    end
    t.eq(topic:count(), 3)
    t.eq({ topic:remove(list[2]), topic:remove(list[2]) }, { true, false })
    t.eq(topic:members(), { list[1], list[3] })
    t.eq({ topic:send "a" }, { 2 })
    t.eq({ other:send "b" }, { 3 })
    t.eq({ clients[1]:receive(10) }, { "a", "text" })
    t.eq({ clients[2]:receive(10) }, { "b", "binary" })
    clients[1]:close()
    await(function() return topic:count() == 1 end)
    t.eq({ topic:members(), other:count(), topic:add(list[1]) }, { { list[3] }, 2, false })
    clients[3]:abort()
    await(function() return topic:count() == 0 end)
    t.eq({ topic:send "c" }, { 0 })
    clients[2]:close()
  end)
end)

t.test("a slow connection misses messages above the limit, the others get all; with \"close\" it ends", function()
  for _, slow in ipairs { "drop", "close" } do
    serve({ compress = false }, function(list, open, connect)
      local raw = open()
      await(function() return list[1] end)
      local ws = connect { compress = false }
      await(function() return list[2] end)
      local topic = websocket.topic { limit = 100000, slow = slow, kind = "binary" }
      topic:add(list[1])
      topic:add(list[2])
      local sent, missed, count, late = 0
      repeat
        sent = sent + 1
        count, late = topic:send(string.pack(">I4", sent) .. ("x"):rep(16384))
        if late then missed = sent end
        t.eq(string.unpack(">I4", (ws:receive(10))), sent)
      until missed
      t.eq({ count, late }, { 1, { list[1] } })
      t.ok(list[1]:queued() <= 100000 or slow == "close", list[1]:queued())
      t.eq({ list[1]:is_closed(), topic:count() }, { slow == "close", slow == "close" and 1 or 2 })
      if slow == "drop" then
        for number = 1, sent - 1 do
          local _, payload = raw:read()
          t.eq({ (string.unpack(">I4", payload)), #payload }, { number, 16388 })
        end
        t.eq(topic:send "again", 2)
        t.eq({ raw:read() }, { kit.BINARY, "again", 0x82 })
      else
        t.eq(topic:send "again", 1)
      end
      ws:close()
    end)
  end
end)

t.test("a topic leaves closing connections alone, and removes those that have failed", function()
  local list = {}
  kit.serve({ ping = false }, function(ws)
    list[#list + 1] = ws
    await(function() return ws:is_closed() end)
  end, function(open)
    local topic, plain = websocket.topic { slow = "close" }, websocket.topic()
    local closing, gone = open(), open()
    await(function() return #list == 2 end)
    topic:add(list[1])
    plain:add(list[2])
    loop.fork(function() list[1]:close(4000) end)
    t.eq(closing:read(), kit.CLOSE)
    gone:close()
    await(function()
      t.eq({ topic:send "x" }, { 0, { list[1] } })
      plain:send "x"
      return plain:count() == 0
    end)
    t.eq({ list[1]:is_closed(), list[2]:is_closed(), list[2].code }, { false, true, 1006 })
    closing:send(kit.close_frame(4001))
    await(function() return list[1]:is_closed() end)
    t.eq(list[1].code, 4001)
  end)
end)

t.test("the queues of 200 slow connections share one frame", function()
  serve({ compress = false }, function(list, open)
    for _ = 1, 200 do open() end
    await(function() return #list == 200 end)
    local big = ("x"):rep(8 << 20)
    -- The buffers of the system are full before the measured message.
    t.eq(websocket.broadcast(list, big, { kind = "binary", limit = 1 << 30 }), 200)
    for _, ws in ipairs(list) do t.ok(ws:queued() > 0) end
    local before = resident()
    t.eq(websocket.broadcast(list, big, { kind = "binary", limit = 1 << 30 }), 200)
    t.ok(resident() - before < 64 << 20, resident() - before)
    for _, ws in ipairs(list) do ws:abort() end
  end)
end, { resident = true })

t.test("a topic may be changed while the end of its connections is handled", function()
  local topic = websocket.topic { slow = "close", limit = 0 }
  serve({ compress = false }, function(list, open)
    for _ = 1, 3 do open() end
    await(function() return #list == 3 end)
    for _, ws in ipairs(list) do
      topic:add(ws)
      local leave = ws.on_closed
      function ws.on_closed()
        leave(ws)
        for _, other in ipairs(topic:members()) do other:abort() end
      end
    end
    repeat until select(2, topic:send(("x"):rep(1 << 20)))
    t.eq(topic:count(), 0)
  end)
end)

t.finish()
