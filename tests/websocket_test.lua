-- Messages, control frames and the end of WebSocket connections: a server of lio with clients of lio, and with clients
-- that send raw frames.

local t = require "tests.kit"
local kit = require "tests.kit.websocket"
local loop = require "lio.loop"
local task = require "lio.task"
local web = require "lio.webserver"
local encoder = require("lio.compress").encoder

local frame <const>, close_frame <const> = kit.frame, kit.close_frame
local CONTINUATION <const>, TEXT <const>, BINARY <const>, CLOSE <const>, PING <const>, PONG <const> =
  kit.CONTINUATION, kit.TEXT, kit.BINARY, kit.CLOSE, kit.PING, kit.PONG

-- Waits until `f()` is true.
local function await(f)
  local deadline = loop.now() + 10
  repeat
    if f() then return end
    loop.sleep(0.002)
  until loop.now() > deadline
  error("the condition was not met within 10 s", 2)
end

t.test("messages of each kind and size arrive unchanged on both sides, with and without compression", function()
  for _, compress in ipairs { true, false, "context" } do
    kit.serve({ compress = compress }, kit.echo, function(_, connect)
      local ws = connect { compress = compress }
      t.eq(ws.is_compressed, compress ~= false)
      for _, size in ipairs { 0, 1, 125, 126, 127, 255, 256, 1024, 1025, 65535, 65536, 300000 } do
        local text = ("lio "):rep(size // 4 + 1):sub(1, size)
        t.eq(ws:send(text), true)
        t.eq({ ws:receive(10) }, { text, "text" })
        local bytes = ("\xff\x00"):rep(size // 2 + 1):sub(1, size)
        t.eq(ws:send(bytes, "binary"), true)
        t.eq({ ws:receive(10) }, { bytes, "binary" })
      end
      t.eq(ws:close(), true)
      t.eq({ ws.code, ws.reason, ws:is_closed() }, { 1000, "", true })
    end)
  end
end, { leaks = true })

t.test("compression is used only if both sides want it", function()
  for _, pair in ipairs { { true, false }, { false, true }, { false, false } } do
    kit.serve({ compress = pair[1] }, kit.echo, function(_, connect)
      local ws = connect { compress = pair[2] }
      t.eq(ws.is_compressed, false)
      ws:send(("x"):rep(1000))
      t.eq(#ws:receive(10), 1000)
      ws:close()
    end)
  end
end)

t.test("a compressed message is smaller on the wire, a short one is sent as it is", function()
  kit.serve({}, kit.echo, function(open)
    local raw = open { "Sec-WebSocket-Extensions: permessage-deflate" }
    raw:send(frame(TEXT, ("x"):rep(2000)))
    local opcode, payload, first = raw:read()
    t.eq({ opcode, first }, { TEXT, 0xC1 })
    t.ok(#payload < 50, #payload)
    raw:send(frame(TEXT, ("x"):rep(255)))
    opcode, payload, first = raw:read()
    t.eq({ opcode, #payload, first }, { TEXT, 255, 0x81 })
  end)
end)

t.test("fragments are joined, and control frames between them are answered at once", function()
  kit.serve({}, kit.echo, function(open)
    local raw = open()
    raw:send(frame(TEXT, "one ", { fin = false }), frame(PING, "a"))
    t.eq({ raw:read() }, { PONG, "a", 0x8A })
    raw:send(frame(CONTINUATION, "", { fin = false }), frame(PONG, "unasked"), frame(CONTINUATION, "two"))
    t.eq({ raw:read() }, { TEXT, "one two", 0x81 })
  end)
end)

t.test("bytes that arrive one by one give the same messages", function()
  kit.serve({}, kit.echo, function(open)
    local raw = open()
    local bytes = frame(TEXT, "häl", { fin = false }) .. frame(PING, "p") .. frame(CONTINUATION, "lo€")
      .. frame(BINARY, ("b"):rep(200)) .. frame(TEXT, "")
    for index = 1, #bytes do
      raw:send(bytes:sub(index, index))
      loop.sleep(0)
    end
    t.eq({ raw:read() }, { PONG, "p", 0x8A })
    t.eq({ raw:read() }, { TEXT, "hällo€", 0x81 })
    t.eq({ raw:read() }, { BINARY, ("b"):rep(200), 0x82 })
    t.eq({ raw:read() }, { TEXT, "", 0x81 })
    raw:send(close_frame(1000))
    t.eq({ raw:read_close() }, { 1000, "", true })
  end)
end)

-- Regression: only reads counted, so decompression of much data held up other tasks.
t.test("other tasks run between parts of a message whose decompression is long", function()
  local app = web.new { grace = 1 }
  local rounds, received = 0, {}
  app:ws("/", function(ws)
    for message in ws:messages() do
      received[#received + 1] = #message
      ws:send(tostring(rounds))
    end
  end)
  local runs = {}
  for i = 1, 90000 do runs[i] = string.char(math.random(0, 255)):rep(8) end
  local text = table.concat(runs)
  -- A final block, to which an empty one is added (RFC 7692, section 7.2.3.4).
  local payload = encoder("deflate"):finish(text):sub(3, -5) .. "\0"
  -- The server reads three times, up to 64.5 KiB each. One call sends all bytes before.
  t.ok(#payload > 135000 and #payload < 180000, #payload)
  kit.with(app, function(open)
    local counter = loop.fork(function()
      while true do
        rounds = rounds + 1
        loop.sleep(0)
      end
    end)
    local raw = open { "Sec-WebSocket-Extensions: permessage-deflate" }
    local function count(opts)
      local before = rounds
      raw:send(frame(BINARY, payload, opts))
      local _, answer = raw:read()
      return tonumber(answer) - before
    end
    local fewest = count()
    t.eq(count { rsv = 4 }, fewest + 2)
    t.eq(received, { #payload, #text })
    loop.kill(counter)
  end, nil, "unix:" .. t.tmp() .. "/socket")
end)

t.test("ws:ping sends the payload, and rejects a payload that is too long", function()
  kit.serve({}, function(ws)
    t.eq(ws:ping "hello", true)
    t.eq(ws:ping(), true)
    t.raises("payload must be a string of at most 125 bytes", ws.ping, ws, ("x"):rep(126))
    ws:send "done"
    ws:receive()
  end, function(open)
    local raw = open()
    t.eq({ raw:read() }, { PING, "hello", 0x89 })
    t.eq({ raw:read() }, { PING, "", 0x89 })
    t.eq({ raw:read() }, { TEXT, "done", 0x81 })
  end)
end)

t.test("a silent peer gets a ping, and the connection ends if it does not answer", function()
  local ended
  kit.serve({ ping = 0.05, timeout = 0.1 }, function(ws)
    ws:receive()
    ended = { ws.code, ws.reason }
  end, function(open)
    local raw = open()
    for _ = 1, 3 do
      t.eq({ raw:read() }, { PING, "", 0x89 })
      raw:send(frame(PONG, ""))
    end
    t.is_nil(ended)
    t.eq({ raw:read() }, { PING, "", 0x89 })
    local began = loop.now()
    t.is_nil(raw:read())
    t.ok(loop.now() - began > 0.09)
    t.eq(ended, { 1006, "the peer does not answer" })
  end)
end)

t.test("a task that only sends is not ended by the time limit for pongs, which it does not read", function()
  local sent, ended = 0, nil
  kit.serve({ ping = 0.02, timeout = 0.02 }, function(ws)
    repeat
      sent = sent + 1
      loop.sleep(0.01)
    until not ws:send "tick" or sent == 30
    ended = ws:is_closed()
  end, function(_, connect)
    local ws = connect { ping = false }
    for _ = 1, 29 do t.eq(ws:receive(10), "tick") end
    ws:receive(10)
    t.eq(ended, false)
    ws:close()
  end)
end)

t.test("a peer that accepts no bytes is ended by the time limit, even if the task only sends", function()
  local result
  kit.serve({ ping = 0.05, timeout = 0.1, compress = false }, function(ws)
    result = table.pack(ws:send(("x"):rep(16 << 20), "binary"))
    t.eq(ws.reason, "the peer does not answer")
  end, function(open)
    open()
    await(function() return result end)
    t.is_nil(result[1])
  end)
end)

t.test("the peer's close frame ends the messages, and is answered with its code", function()
  local ended
  kit.serve({}, function(ws)
    for _ in ws:messages() do end
    ended = { ws.code, ws.reason, ws:is_closed() }
    t.eq({ ws:receive() }, { nil, "closed", "closed" })
    t.eq({ ws:send "x" }, { nil, "ws:send: the connection is closed", "closed" })
    t.eq({ ws:try_send "x" }, { nil, "ws:send: the connection is closed", "closed" })
    t.eq(ws:close(), true)
  end, function(open)
    for _, case in ipairs {
      { 1000, "bye", 1000 }, { 1001, "", 1001 }, { 3000, "a", 3000 }, { 4999, "ü", 4999 }, { nil, "", 1005 },
    } do
      local raw = open()
      raw:send(close_frame(case[1], case[2]))
      t.eq({ raw:read_close() }, { case[1], "", true }, case[3])
      t.eq(ended, { case[3], case[2], true })
    end
  end)
end)

t.test("ws:close sends the code and the reason, and waits for the peer's close frame", function()
  local order = {}
  kit.serve({}, function(ws)
    t.eq(ws:close(4001, "enough"), true)
    order[#order + 1] = "closed"
    t.eq({ ws.code, ws.reason }, { 4001, "" })
  end, function(open)
    local raw = open()
    t.eq({ raw:read() }, { CLOSE, string.pack(">I2", 4001) .. "enough", 0x88 })
    loop.sleep(0.05)
    order[#order + 1] = "answer"
    raw:send(frame(TEXT, "ignored"), close_frame(4001))
    t.is_nil(raw:read())
    await(function() return #order == 2 end)
    t.eq(order, { "answer", "closed" })
  end)
end)

t.test("the code after ws:close is that of the peer's close frame", function()
  local codes = {}
  kit.serve({}, function(ws)
    ws:close(4001, "mine")
    codes[#codes + 1] = ("%d %s"):format(ws.code, ws.reason)
  end, function(open)
    local raw = open()
    t.eq({ raw:read() }, { CLOSE, string.pack(">I2", 4001) .. "mine", 0x88 })
    raw:send(close_frame(4002, "yours"))
    t.is_nil(raw:read())
    raw = open()
    t.eq({ raw:read() }, { CLOSE, string.pack(">I2", 4001) .. "mine", 0x88 })
    raw:close()
    await(function() return #codes == 2 end)
    t.eq(codes, { "4002 yours", "1006 the peer has closed the connection without a close frame" })
  end)
end)

t.test("ws:close where a call cannot wait returns at once, and a new task waits for the peer", function()
  local code
  kit.serve({}, function(ws)
    ("x"):gsub("x", function() t.eq(ws:close(4001), true) end)
    t.is_nil(ws.code)
    await(function() return ws.code end)
    code = ws.code
  end, function(open)
    local raw = open()
    t.eq(raw:read(), CLOSE)
    raw:send(close_frame(4002))
    t.is_nil(raw:read())
    await(function() return code end)
    t.eq(code, 4002)
  end)
end)

t.test("invalid codes and reasons of ws:close raise, and the connection stays open", function()
  kit.serve({}, function(ws)
    for _, code in ipairs { 999, 1004, 1005, 1006, 1015, 2999, 5000, 70000, -1 } do
      t.raises("ws:close: code must be", ws.close, ws, code)
    end
    t.raises("code must be an integer", ws.close, ws, "x")
    t.raises("at most 123 bytes", ws.close, ws, 1000, ("x"):rep(124))
    t.raises("UTF%-8", ws.close, ws, 1000, "\xff")
    kit.echo(ws)
  end, function(_, connect)
    local ws = connect()
    ws:send "still"
    t.eq(ws:receive(10), "still")
    ws:close()
  end)
end)

t.test("both sides close at the same time: each gets the code that it has sent or received, and no error", function()
  local ended
  kit.serve({}, function(ws)
    ws:receive()
    ws:close(1001, "server")
    ended = ws.code
  end, function(_, connect)
    local ws = connect()
    ws:send "go"
    ws:close(4000, "client")
    t.ok(ws:is_closed())
    await(function() return ended end)
    t.ok(ended == 1001 or ended == 4000, ended)
  end)
end)

t.test("a close while another task receives ends its receive, and one while another sends ends its send", function()
  kit.serve({}, function(ws)
    local got
    loop.fork(function() got = table.pack(ws:receive()) end)
    loop.sleep(0)
    ws:close(1000)
    await(function() return got end)
    t.eq(got, { nil, "closed", "closed", n = 3 })
  end, function(_, connect)
    local ws = connect()
    t.is_nil((ws:receive(10)))
    t.eq(ws.code, 1000)
  end)
  local sent
  kit.serve({ max_message = 1 << 30, compress = false }, function(ws)
    loop.fork(function() sent = table.pack(ws:send(("x"):rep(16 << 20), "binary")) end)
    await(function() return ws:queued() > 0 end)
    ws:abort()
    await(function() return sent end)
  end, function(open)
    open()
    await(function() return sent end)
    t.is_nil(sent[1])
    t.eq(sent[3], "closed")
  end)
end)

t.test("ws:abort ends the connection without a close frame", function()
  kit.serve({}, function(ws)
    t.eq(ws:abort(), true)
    t.eq({ ws.code, ws.reason, ws:abort() }, { 1006, "aborted", true })
  end, function(open, connect)
    t.is_nil(open():read())
    local ws = connect()
    t.is_nil((ws:receive(10)))
    t.eq(ws.code, 1006)
  end)
end)

t.test("a connection that ends without a close frame has the code 1006", function()
  local ended
  kit.serve({}, function(ws)
    ws:receive()
    ended = { ws.code, ws.reason }
  end, function(open)
    open():close()
    await(function() return ended end)
    t.eq(ended, { 1006, "the peer has closed the connection without a close frame" })
  end)
end)

t.test("receive with a timeout returns nil, and the connection stays usable", function()
  kit.serve({}, kit.echo, function(_, connect)
    local ws = connect()
    t.eq({ ws:receive(0.01) }, { nil, "timeout", "timeout" })
    t.eq({ ws:receive(0) }, { nil, "timeout", "timeout" })
    ws:send "a"
    t.eq({ ws:receive(10) }, { "a", "text" })
    ws:close()
  end)
end)

t.test("a second receiver raises, and the first one still gets the message", function()
  kit.serve({}, kit.echo, function(_, connect)
    local ws = connect()
    local got
    loop.fork(function() got = ws:receive() end)
    loop.sleep(0)
    t.raises("another task is already receiving on this connection", ws.receive, ws)
    t.raises("another task is already", ws.receive, ws, 1)
    ws:send "x"
    await(function() return got end)
    t.eq(got, "x")
    loop.fork(function() got = ws:receive(10) end)
    loop.sleep(0)
    t.raises("another task is already receiving on this connection", ws.receive, ws)
    t.raises("another task is already receiving on this connection", ws.receive, ws, 1)
    ws:send "y"
    await(function() return got == "y" end)
    ws:close()
  end)
end)

t.test("frames of many senders are never mixed", function()
  kit.serve({ max_message = 1 << 20 }, function(ws)
    local left = 20
    for number = 1, 20 do
      loop.fork(function()
        for _ = 1, 5 do ws:send(string.char(64 + number):rep(20000 + number)) end
        left = left - 1
        if left == 0 then ws:close() end
      end)
    end
    await(function() return ws:is_closed() end)
  end, function(_, connect)
    local ws = connect { compress = false }
    local counts = {}
    for message in ws:messages() do
      local number = message:byte() - 64
      t.eq(message, string.char(64 + number):rep(20000 + number))
      counts[number] = (counts[number] or 0) + 1
    end
    for number = 1, 20 do t.eq(counts[number], 5) end
  end)
end)

t.test("send waits for a slow reader, so that the queue stays bounded; try_send returns false, \"full\"", function()
  local sent, most, state = 0, 0, nil
  kit.serve({}, function(ws)
    for _ = 1, 2000 do
      if not ws:send(("x"):rep(16384), "binary") then break end
      sent, most = sent + 1, math.max(most, ws:queued())
    end
    state = "sent"
    await(function() return ws:queued() == 0 end)
    local answer, why
    repeat answer, why = ws:try_send(("y"):rep(65536), "binary", 100000) until not answer
    t.eq({ answer, why }, { false, "full" })
    t.ok(ws:queued() > 100000 and ws:queued() <= 100000 + 65536 + 16, ws:queued())
    state = "full"
    ws:receive()
  end, function(open)
    local raw = open()
    local last, same = -1, 0
    while same < 50 do
      loop.sleep(0.002)
      same, last = sent == last and same + 1 or 0, sent
    end
    t.ok(sent > 0 and sent < 2000, sent)
    for _ = 1, 2000 do
      local opcode, payload = raw:read()
      t.eq({ opcode, #payload }, { BINARY, 16384 })
    end
    t.ok(most <= 64 * 1024 + 16384 + 16, most)
    await(function() return state == "full" end)
  end)
end)

t.test("a task that is killed while it receives leaves the connection usable", function()
  kit.serve({}, kit.echo, function(_, connect)
    local ws = connect()
    local co = loop.fork(function() ws:receive() end)
    loop.sleep(0.01)
    task.kill(co)
    ws:send "after"
    t.eq(ws:receive(10), "after")
    co = loop.fork(function() ws:receive(10) end)
    loop.sleep(0.01)
    task.kill(co)
    ws:send "again"
    t.eq(ws:receive(10), "again")
    ws:close()
  end)
end)

t.test("a task that is killed while it sends leaves whole frames", function()
  local killed
  kit.serve({ compress = false }, function(ws)
    local co = loop.fork(function() ws:send(("x"):rep(8 << 20), "binary") end)
    await(function() return ws:queued() > 0 end)
    loop.sleep(0.01)
    task.kill(co)
    killed = true
    ws:send "after"
    ws:receive()
  end, function(open)
    local raw = open()
    await(function() return killed end)
    local opcode, payload = raw:read()
    t.eq({ opcode, #payload }, { BINARY, 8 << 20 })
    t.eq({ raw:read() }, { TEXT, "after", 0x81 })
  end)
end)

t.test("arguments of send are checked", function()
  kit.serve({}, kit.echo, function(_, connect)
    local ws = connect()
    t.raises("ws:send: message must be a string", ws.send, ws, {})
    t.raises("ws:send: message must be a string", ws.send, ws)
    t.raises("kind must be 'text' or 'binary'", ws.send, ws, "x", "blob")
    t.raises("a text must be UTF%-8; send other bytes with kind 'binary'", ws.send, ws, "\xff")
    t.raises("limit must be an integer of at least 0", ws.try_send, ws, "x", "text", -1)
    ws:send "x"
    t.eq(ws:receive(10), "x")
    ws:close()
  end)
end)

t.test("each limit and each rule ends the connection with its code and its reason", function()
  local ended
  kit.serve({ max_message = 1000, max_frame = 500 }, function(ws)
    for _ in ws:messages() do end
    ended = { ws.code, ws.reason }
  end, function(open)
    local part = { fin = false }
    for _, case in ipairs {
      { 1009, "frame exceeds the limit", string.char(0x82, 0xFE, 1, 245, 0, 0, 0, 0) },
      { 1009, "message exceeds the limit", frame(BINARY, ("x"):rep(500), part)
        .. frame(CONTINUATION, ("x"):rep(500), part) .. frame(CONTINUATION, "x"):sub(1, 6) },
      {
        1008, "message with too many empty fragments", frame(TEXT, "", part) .. frame(CONTINUATION, "", part):rep(128),
      },
      { 1007, "text that is not UTF-8", frame(TEXT, "abc\xff", part) },
      { 1007, "text that is not UTF-8", frame(TEXT, "abc\xe2\x82") },
      { 1007, "text that is not UTF-8", frame(TEXT, ("\xf4\x90"):rep(50)):sub(1, 8) },
      { 1002, "frame of a client without a mask", frame(TEXT, "x", { mask = false }) },
      { 1002, "frame with an unexpected RSV1", frame(TEXT, "x", { rsv = 4 }) },
      { 1002, "continuation without a message", frame(CONTINUATION, "x") },
      { 1002, "new message before the end of the last one", frame(TEXT, "x", part) .. frame(TEXT, "y") },
      { 1002, "close frame with half a code", frame(CLOSE, "x") },
      { 1002, "close frame with an invalid code", close_frame(1005) },
      { 1007, "close frame whose reason is not UTF-8", close_frame(1000, "\xff") },
    } do
      ended = nil
      local raw = open()
      raw:send(case[3])
      t.eq({ raw:read_close() }, { case[1], case[2], true })
      t.eq(ended, { case[1], case[2] })
    end
    for _, bytes in ipairs {
      frame(TEXT, "x", { rsv = 2 }), frame(TEXT, "x", { rsv = 1 }), frame(3, "x"), frame(11, ""), frame(15, ""),
      frame(PING, "x", { fin = false }), frame(PING, ("x"):rep(126)), frame(CLOSE, ("\x03\xe8"):rep(63)),
      "\x82\xff\x80\0\0\0\0\0\0\0", "\x82\xfe\0\x7d", "\x82\xff\0\0\0\0\0\0\xff\xff",
    } do
      local raw = open()
      raw:send(bytes)
      local code, _, at_end = raw:read_close()
      t.eq({ code, at_end }, { 1002, true }, ("%q"):format(bytes:sub(1, 12)))
    end
  end)
end)

t.test("a peer that has closed is found by pings and sends, even if no task receives", function()
  local ended = {}
  local function note(ws) await(function() return ws:is_closed() end) ended[#ended + 1] = ws.code end
  kit.serve({ ping = 0.02, timeout = 0.02 }, note, function(open)
    local raw = open()
    raw:close()
    await(function() return ended[1] end)
  end)
  kit.serve({ ping = false }, function(ws)
    await(function() return not ws:send "x" end)
    t.eq(ws:is_closed(), true)
    ended[#ended + 1] = ws.code
  end, function(open)
    local raw = open()
    raw:close()
    await(function() return ended[2] end)
  end)
  t.eq(ended, { 1006, 1006 })
end)

t.test("a task that is killed in ws:close ends the connection", function()
  local closer, ws
  kit.serve({ ping = false }, function(one)
    ws = one
    closer = loop.fork(function() ws:close(4000) end)
    await(function() return ws:is_closed() end)
  end, function(open)
    local raw = open()
    t.eq(raw:read(), CLOSE)
    loop.kill(closer)
    await(function() return ws:is_closed() end)
    t.eq(ws.code, 1006)
    t.is_nil(raw:read())
  end)
end)

t.test("each of several tasks in ws:close returns when the connection has ended", function()
  local states = {}
  kit.serve({}, function(ws)
    for _ = 1, 3 do
      loop.fork(function()
        ws:close(4000)
        states[#states + 1] = ws:is_closed()
      end)
    end
    await(function() return #states == 3 end)
  end, function(open)
    local raw = open()
    t.eq(raw:read(), CLOSE)
    t.eq(states, {})
    raw:send(close_frame(4000))
    await(function() return #states == 3 end)
    t.eq(states, { true, true, true })
  end)
end)

t.test("max_rate limits messages and pings: the connection ends with 1008", function()
  for _, opcode in ipairs { TEXT, kit.PING } do
    local got = 0
    kit.serve({ max_rate = 0.001 }, function(ws)
      for _ in ws:messages() do got = got + 1 end
      t.eq({ ws.code, ws.reason }, { 1008, "too many messages per second" })
    end, function(open)
      local raw = open()
      raw:send(frame(opcode, "first"), frame(opcode, "second"))
      t.eq({ raw:read_close() }, { 1008, "too many messages per second", true })
    end)
    t.eq(got, opcode == TEXT and 1 or 0)
  end
end)

t.test("a client rejects a frame with a mask", function()
  kit.serve({}, function(ws)
    ws.c:send(frame(TEXT, "x"))
    ws:receive()
    t.eq({ ws.code, ws.reason }, { 1002, "frame of a server with a mask" })
  end, function(_, connect)
    local ws = connect()
    t.is_nil((ws:receive(10)))
    t.eq({ ws.code, ws.reason }, { 1002, "frame of a server with a mask" })
  end)
end)

t.test("a client masks each frame with another key", function()
  local keys = {}
  loop.run(function()
    local url, listener = kit.listener(function(c)
      local key = c:recv("until", "\r\n\r\n", 65536):match "Key: (%S+)"
      c:send("HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        .. kit.accept(key) .. "\r\n\r\n")
      for index = 1, 3 do
        local head = c:recv(6)
        t.eq({ head:byte(1, 2) }, { index == 3 and 0x88 or 0x81, index == 3 and 0x82 or 0x81 })
        keys[index] = head:sub(3, 6)
        c:recv(head:byte(2) & 127)
      end
      c:send(close_frame(1000, "", { mask = false }))
    end)
    local _ <close> = listener
    local ws = assert(require "lio.websocket".connect(url))
    ws:send "a"
    ws:send "b"
    ws:close()
    t.eq(ws.code, 1000)
    t.ok(#keys == 3 and keys[1] ~= keys[2] and keys[2] ~= keys[3] and keys[1] ~= "\0\0\0\0")
  end)
end)

t.test("a closed connection is collected on both sides", function()
  local ends = setmetatable({}, { __mode = "k" })
  kit.serve({}, function(ws)
    ends[ws] = true
    ws:close()
  end, function(_, connect)
    for _ = 1, 10 do
      local ws = connect()
      ends[ws] = true
      ws:receive(10)
    end
    await(function()
      collectgarbage()
      return next(ends) == nil
    end)
  end)
end)

t.test("a flood of pings, empty messages and 1-byte frames is served, and so are other connections", function()
  kit.serve({}, function(ws)
    local count = 0
    for message in ws:messages() do
      count = count + 1
      if message == "count" then ws:send(tostring(count)) end
    end
  end, function(open, connect)
    local raw = open()
    local flood = (frame(PING, "") .. frame(TEXT, "") .. frame(TEXT, "x")):rep(1000)
    local pongs, answer = 0, nil
    loop.fork(function()
      for _ = 1, 20 do raw:send(flood) end
      raw:send(frame(TEXT, "count"))
    end)
    loop.fork(function()
      repeat
        local opcode, payload = raw:read()
        if opcode == PONG then pongs = pongs + 1 end
        if opcode == TEXT then answer = payload end
      until answer or not opcode
    end)
    local ws = connect()
    local began = loop.now()
    ws:send "count"
    t.eq(ws:receive(10), "1")
    t.ok(loop.now() - began < 5)
    await(function() return answer end)
    t.eq(answer, "40001")
    t.eq(pongs, 20000)
    ws:close()
  end)
end)

t.finish()
