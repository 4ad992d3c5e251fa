-- `websocket.connect`: invalid arguments, responses that do not accept the request, time limits, and proxies.

local t = require "tests.kit"
local kit = require "tests.kit.websocket"
local loop = require "lio.loop"
local websocket = require "lio.websocket"

local function test(name, f, opts) t.test(name, function() loop.run(f) end, opts) end

-- Returns the results of `connect` to a server that sends `response`. "ACCEPT" in it becomes the right value.
local function connect_to(response, opts)
  local request
  local url, listener = kit.listener(function(c)
    request = c:recv("until", "\r\n\r\n", 65536)
    c:send((response:gsub("ACCEPT", kit.accept(request:match "Key: (%S+)"))))
    c:recv()
  end)
  local ws, message, code = websocket.connect(url .. "path?q=1", opts)
  listener:close()
  if ws then ws:abort() end
  return ws, message, code, request
end

local HEAD <const> = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
local GOOD <const> = HEAD .. "Sec-WebSocket-Accept: ACCEPT\r\n"

test("invalid URLs and options raise", function()
  for _, url in ipairs { "http://a/", "a/", "", "ftp://a/" } do
    t.raises("websocket.connect: url: the scheme must be ws or wss", websocket.connect, url)
  end
  t.raises("must have no fragment", websocket.connect, "ws://a/#x")
  t.raises("white space", websocket.connect, "ws://a/ b")
  t.raises("string expected", websocket.connect, 1)
  t.raises("option 'protocol' is unknown", websocket.connect, "ws://a/", { protocol = {} })
  t.raises("option 'connect_timeout' must be", websocket.connect, "ws://a/", { connect_timeout = 0 })
  t.raises("option 'ping' must be", websocket.connect, "ws://a/", { ping = "x" })
end, { leaks = true })

test("the request has the fields of RFC 6455, and those of the options", function()
  local ws, _, _, request = connect_to(GOOD .. "\r\n", {
    compress = false, origin = "http://o.example", headers = { ["X-A"] = "b" }, protocols = { "p", "q" },
  })
  t.ok(ws)
  t.ok(request:find "^GET /path%?q=1 HTTP/1.1\r\nHost: 127%.0%.0%.1:%d+\r\n", request)
  for _, line in ipairs {
    "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Origin: http://o.example", "X-A: b",
    "Sec-WebSocket-Protocol: p, q",
  } do t.ok((request .. "\r\n"):find("\r\n" .. line .. "\r\n", 1, true), line) end
  t.eq(#request:match "Key: (%S+)", 24)
  t.is_nil(request:find "Extensions")
end)

test("a response that does not accept the request is refused, and says why", function()
  for response, want in pairs {
    ["HTTP/1.1 200 OK\r\n\r\n"] = "status 200 instead of 101",
    ["HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n"] = "status 302 instead of 101",
    ["HTTP/1.1 101 x\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ACCEPT\r\n\r\n"] = "Upgrade field",
    [HEAD .. "\r\n"] = "Accept is missing",
    [HEAD .. "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"] = "does not belong to the client's key",
    [GOOD .. "Sec-WebSocket-Protocol: zz\r\n\r\n"] = "'zz', which was not offered",
    [GOOD .. "Sec-WebSocket-Extensions: x\r\n\r\n"] = "extension that was not offered",
  } do
    local ws, message, code = connect_to(response)
    t.eq({ ws, code }, { nil, "refused" }, response)
    t.ok(message:find(want, 1, true), message)
  end
  local ws, _, code = connect_to "SSH-2.0\r\n\r\n"
  t.eq({ ws, code }, { nil, "protocol" })
end)

test("bytes behind the response are the first frames", function()
  local url, listener = kit.listener(function(c)
    local key = c:recv("until", "\r\n\r\n", 65536):match "Key: (%S+)"
    c:send((GOOD:gsub("ACCEPT", kit.accept(key))) .. "\r\n" .. kit.frame(kit.TEXT, "first", { mask = false }))
    c:recv()
  end)
  local ws = assert(websocket.connect(url))
  t.eq({ ws:receive(10) }, { "first", "text" })
  ws:abort()
  listener:close()
end)

test("the client's own fields cannot be set, and invalid fields and subprotocols raise", function()
  for _, case in ipairs {
    { { headers = { Host = "x" } }, "Host is set by the client itself" },
    { { headers = { ["sec-websocket-key"] = "x" } }, "sec%-websocket%-key is set by the client itself" },
    { { headers = { a = "b\r\nc: d" } }, "headers: " },
    { { protocols = { "a b" } }, "option 'protocols': 'a b' is not a token" },
    { { protocols = { "a", "a" } }, "option 'protocols': 'a' is not a token, or occurs twice" },
  } do
    local url, listener = kit.listener(function(c) c:recv() end)
    t.raises(case[2], websocket.connect, url, case[1])
    listener:close()
    collectgarbage()
  end
end, { leaks = true })

test("values with control characters, names that are not strings, and the fields of a body raise", function()
  for message, opts in pairs {
    ["option 'origin' must be a string without control characters"] = { origin = "http://a\r\nX: y" },
    ["headers: the name of a field must be a string, got "] = { headers = { "x" } },
    ["headers: Content%-Length is set by the client itself"] = { headers = { ["Content-Length"] = "5" } },
    ["headers: transfer%-encoding is set by the client itself"] = { headers = { ["transfer-encoding"] = "chunked" } },
  } do t.raises(message, websocket.connect, "ws://127.0.0.1:1/", opts) end
end)

test("connect_timeout limits the whole handshake, even if bytes arrive", function()
  local url, listener = kit.listener(function(c)
    c:recv("until", "\r\n\r\n", 65536)
    while c:send "H" do loop.sleep(0.01) end
  end)
  local ws, message, code = websocket.connect(url, { connect_timeout = 0.1 })
  t.eq({ ws, message, code }, { nil, "websocket: the server has not completed the handshake in time", "timeout" })
  listener:close()
end)

test("a task that is killed in the handshake closes its connection", function()
  local ended
  local url, listener = kit.listener(function(c)
    c:recv("until", "\r\n\r\n", 65536)
    ended = false
    c:recv "all"
    ended = true
  end)
  local task = loop.fork(websocket.connect, url)
  local deadline = loop.now() + 10
  while ended ~= false and loop.now() < deadline do loop.sleep(0.002) end
  loop.kill(task)
  while not ended and loop.now() < deadline do loop.sleep(0.002) end
  t.eq(ended, true)
  listener:close()
end)

test("a server that does not answer, and one that closes, end the handshake", function()
  local url, listener = kit.listener(function(c) c:recv "all" end)
  local began = loop.now()
  local ws, _, code = websocket.connect(url, { connect_timeout = 0.1 })
  t.eq({ ws, code }, { nil, "timeout" })
  t.ok(loop.now() - began < 5)
  listener:close()
  url, listener = kit.listener(function(c) c:recv("until", "\r\n\r\n", 65536) end)
  ws, _, code = websocket.connect(url)
  t.eq({ ws, code }, { nil, "closed" })
  listener:close()
end)

t.finish()
