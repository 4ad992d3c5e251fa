-- `app:ws`: which handshakes are accepted and refused, the handler with callbacks, and how a server stops.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local kit = require "tests.kit.websocket"
local loop = require "lio.loop"
local tls = require "lio.tls"
local web = require "lio.webserver"
local websocket = require "lio.websocket"

local function await(f)
  local deadline = loop.now() + 10
  repeat
    if f() then return end
    loop.sleep(0.002)
  until loop.now() > deadline
  error("the condition was not met within 10 s", 2)
end

-- Returns the status and the body of the response to a handshake with the lines `fields`; the status 101 has no body.
local function answer(open, fields, path)
  local client <close> = open()
  client:head(kit.request(path or "/", fields))
  local head = client:read_head()
  if head.status == 101 then return 101, head end
  local body = client.c:recv(math.tointeger(tonumber(head.headers["content-length"])))
  return head.status, body, head
end

local function app_with(opts, handler)
  local app = web.new { grace = 1 }
  app:ws("/", opts, handler or kit.echo)
  return app
end

t.test("the response to a handshake has the fields of RFC 6455 and no others", function()
  http.with(app_with {}, function(open)
    local _, head = answer(open, { "Upgrade: WebSocket", "Connection: keep-alive, UPGRADE" })
    t.eq({ head.status, head.reason }, { 101, "Switching Protocols" })
    t.eq(head.fields, {
      { "Upgrade", "websocket" }, { "Connection", "Upgrade" },
      { "Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" },
    })
    _, head = answer(open, { "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits" })
    t.ok(head.headers["sec-websocket-extensions"]:find "^permessage%-deflate")
  end)
end, { leaks = true })

t.test("requests other than handshakes get 426, with the fields that say what is accepted", function()
  http.with(app_with {}, function(open)
    local text = "this address accepts WebSocket connections only\n"
    for _, fields in ipairs {
      { "Upgrade:" }, { "Upgrade: h2c" }, { "Connection:" }, { "Connection: keep-alive" },
      { "Upgrade:", "Connection:" },
    } do
      local status, body, head = answer(open, fields)
      t.eq({ status, body }, { 426, text })
      t.eq({ head.headers.upgrade, head.headers.connection }, { "websocket", "upgrade" })
    end
    for _, version in ipairs { "", " 12", " 8", " 130", " 13, 8" } do
      local status, body, head = answer(open, { "Sec-WebSocket-Version:" .. version })
      t.eq({ status, body }, { 426, "the version of WebSocket must be 13\n" })
      t.eq(head.headers["sec-websocket-version"], "13")
    end
  end)
end)

t.test("a handshake with another method or with a body is refused", function()
  http.with(app_with {}, function(open)
    for line, want in pairs { ["Content-Length: 5"] = 400, ["Transfer-Encoding: chunked"] = 400 } do
      local status, body = answer(open, { line })
      t.eq({ status, body }, { want, "a WebSocket handshake must have no body\n" })
    end
    local client <close> = open()
    local request = kit.request "/"
    request[1] = "HEAD / HTTP/1.1"
    client:head(request)
    t.eq(client:read_head().status, 426)
  end)
end)

t.test("malformed keys, subprotocols and extensions get 400", function()
  http.with(app_with { protocols = { "a" } }, function(open)
    for _, key in ipairs { "", " x", " dGhlIHNhbXBsZSBub25jZQ", " dGhlIHNhbXBsZSBub25jZQ===", " AAAA" } do
      t.eq({ (select(2, answer(open, { "Sec-WebSocket-Key:" .. key }))) },
        { "Sec-WebSocket-Key must be 16 bytes in base64\n" })
    end
    local status, body = answer(open, { "Sec-WebSocket-Protocol: a b" })
    t.eq({ status, body }, { 400, "Sec-WebSocket-Protocol must be a list of tokens\n" })
    status, body = answer(open, { "Sec-WebSocket-Extensions: permessage-deflate; =" })
    t.eq({ status, body }, { 400, "Sec-WebSocket-Extensions is malformed\n" })
  end)
end)

t.test("HTTP/1.0 and other methods are refused", function()
  http.with(app_with {}, function(open)
    local lines = kit.request("/", {})
    lines[1] = "GET / HTTP/1.0"
    t.eq(open():head(lines):read_head().status, 426)
    for _, method in ipairs { "POST", "PUT", "DELETE" } do
      lines[1] = method .. " / HTTP/1.1"
      t.eq(open():head(lines):read_head().status, 405, method)
    end
    t.eq(answer(open, {}, "/other"), 404)
  end)
end)

t.test("only pages of the same origin may connect, unless the option says otherwise", function()
  local refused = "connections from this origin are not allowed\n"
  local function try(origins, cases)
    http.with(app_with { origins = origins }, function(open)
      for origin, want in pairs(cases) do
        local fields = { "Host: a.example:8080", origin ~= "" and "Origin: " .. origin or nil }
        local status, body = answer(open, fields)
        t.eq(status, want, origin)
        if want == 403 then t.eq(body, refused) end
      end
    end)
  end
  try(nil, {
    [""] = 101, ["http://a.example:8080"] = 101, ["https://A.Example:8080"] = 101, ["http://a.example"] = 403,
    ["http://a.example:80800"] = 403, ["http://b.example:8080"] = 403, ["null"] = 403, ["http://a.example:8080/"] = 403,
    ["http://x@a.example:8080"] = 403, ["file://a.example:8080"] = 403, ["http://evil/a.example:8080"] = 403,
  })
  try("any", { [""] = 101, ["http://b.example"] = 101, ["null"] = 101 })
  try({ "https://b.example", "http://C.example:81" }, {
    [""] = 101, ["https://b.example"] = 101, ["http://c.example:81"] = 101, ["http://b.example"] = 403,
    ["https://b.example:444"] = 403, ["http://a.example:8080"] = 403,
  })
  local seen
  try(function(origin, req)
    seen = { origin, req.path }
    return origin == "x:y"
  end, { ["x:y"] = 101, ["http://a.example:8080"] = 403 })
  t.eq(seen[2], "/")
end)

t.test("the default port of an origin may be in Host or not", function()
  http.with(app_with {}, function(open)
    t.eq(answer(open, { "Host: a.example:80", "Origin: http://a.example" }), 101)
    t.eq(answer(open, { "Host: a.example", "Origin: http://a.example:80" }), 101)
    t.eq(answer(open, { "Host: a.example:443", "Origin: http://a.example" }), 403)
    t.eq(answer(open, { "Host: a.example:443", "Origin: https://a.example" }), 101)
  end)
end)

t.test("the first subprotocol of the client that the server supports is chosen", function()
  local chosen
  http.with(app_with({ protocols = { "b", "a" } }, function(ws) chosen = ws.protocol end), function(open)
    local _, head = answer(open, { "Sec-WebSocket-Protocol: x, a,b" })
    t.eq(head.headers["sec-websocket-protocol"], "a")
    await(function() return chosen end)
    t.eq(chosen, "a")
    _, head = answer(open, { "Sec-WebSocket-Protocol: x, A" })
    t.is_nil(head.headers["sec-websocket-protocol"])
  end)
end)

t.test("middleware, mounts, route parameters and cookies work as in other routes", function()
  local app, api = web.new { grace = 1 }, web.new()
  local log = {}
  app:use(function(req, _, next_handler)
    log[#log + 1] = req.path
    if req.query.token ~= "t" then return 401, "no token\n" end
    return next_handler()
  end)
  api:ws("/rooms/:room", {}, function(ws, req)
    ws:send(req.params.room .. " " .. tostring(req.cookies.who))
  end)
  app:mount("/api", api)
  http.with(app, function(open)
    local status, body = answer(open, {}, "/api/rooms/lua")
    t.eq({ status, body }, { 401, "no token\n" })
    local raw = kit.shake(open(), "/api/rooms/lua?token=t", { "Cookie: who=me" })
    t.eq({ raw:read() }, { kit.TEXT, "lua me", 0x81 })
    t.eq(raw:read(), kit.CLOSE)
  end)
  t.eq(log, { "/api/rooms/lua", "/api/rooms/lua" })
end)

t.test("a handler that returns closes with 1000; one that raises closes with 1011 and is logged", function()
  local text = http.logged(function()
    kit.with(app_with({}, function(ws)
      if ws:receive() == "raise" then error "boom" end
    end), function(open)
      local raw = open()
      raw:send(kit.frame(kit.TEXT, "return"))
      t.eq({ raw:read() }, { kit.CLOSE, "\x03\xe8", 0x88 })
      raw:close()
      raw = open()
      raw:send(kit.frame(kit.TEXT, "raise"))
      t.eq({ raw:read() }, { kit.CLOSE, "\x03\xf3internal error", 0x88 })
    end)
  end)
  t.ok(text:find "error in GET /: .*boom", text)
  t.eq(select(2, text:gsub("boom", "")), 1)
end)

t.test("callbacks: open, then one message at a time in their order, then close once with the code", function()
  local log, busy = {}, 0
  local app = web.new { grace = 1 }
  app:ws("/", {}, {
    open = function(ws, req)
      loop.sleep(0.02)
      log[#log + 1] = "open " .. req.path .. " " .. tostring(ws:is_closed())
    end,
    message = function(ws, message, kind)
      busy = busy + 1
      t.eq(busy, 1)
      loop.sleep(0.005)
      log[#log + 1] = message .. " " .. kind
      ws:send(message)
      busy = busy - 1
    end,
    close = function(ws, code, reason)
      log[#log + 1] = ("close %d %s"):format(code, reason)
      t.eq({ ws:send "late" }, { nil, "ws:send: the connection is closed", "closed" })
    end,
  })
  kit.with(app, function(open)
    local raw = open()
    raw:send(kit.frame(kit.TEXT, "1"), kit.frame(kit.BINARY, "2"), kit.frame(kit.TEXT, "3"))
    for number = 1, 3 do t.eq({ raw:read() }, { kit.TEXT, tostring(number), 0x81 }) end
    loop.sleep(0.01)
    raw:send(kit.frame(kit.TEXT, "4"))
    t.eq({ raw:read() }, { kit.TEXT, "4", 0x81 })
    raw:send(kit.close_frame(4000, "bye"))
    t.eq(raw:read_close(), 4000)
    await(function() return #log == 6 end)
    t.eq(log, { "open / false", "1 text", "2 binary", "3 text", "4 text", "close 4000 bye" })
  end)
end)

t.test("callbacks: a close in a message, in open and in close, and errors in each", function()
  local closes = 0
  local app = web.new { grace = 1 }
  app:ws("/message", {}, {
    message = function(ws, message)
      if message == "raise" then error "boom1" end
      ws:close(4001)
      ws:close(4002)
    end,
    close = function(ws)
      closes = closes + 1
      ws:close()
      error "boom2"
    end,
  })
  app:ws("/open", {}, { open = function(ws) ws:close(4003) end, close = function() closes = closes + 1 end })
  app:ws("/raise", {}, { open = function() error "boom3" end, close = function() closes = closes + 1 end })
  local text = http.logged(function()
    kit.with(app, function(open)
      for index, case in ipairs {
        { "/message", "x", 4001 }, { "/message", "raise", 1011 }, { "/open", nil, 4003 }, { "/raise", nil, 1011 },
      } do
        local raw = open({}, case[1])
        if case[2] then raw:send(kit.frame(kit.TEXT, case[2]), kit.frame(kit.TEXT, "skipped")) end
        local opcode, payload = raw:read()
        t.eq({ opcode, (string.unpack(">I2", payload)) }, { kit.CLOSE, case[3] })
        raw:send(kit.close_frame(case[3]))
        t.is_nil(raw:read())
        await(function() return closes == index end)
      end
    end)
  end)
  for number = 1, 3 do t.ok(text:find("boom" .. number, 1, true), text) end
  t.eq(closes, 4)
end)

t.test("a stop sends 1001 to each connection and ends within the grace", function()
  local codes = {}
  local app = web.new { grace = 2 }
  app:ws("/f", {}, function(ws)
    for _ in ws:messages() do end
    codes[#codes + 1] = ws.code
  end)
  app:ws("/c", {}, { close = function(_, code) codes[#codes + 1] = code end })
  kit.with(app, function(open, _, server)
    local raws = { (open({}, "/f")), (open({}, "/c")) }
    local silent = open({}, "/f")
    local began, stopped = loop.now(), nil
    loop.fork(function()
      server:stop(0.5)
      stopped = loop.now() - began
    end)
    for _, raw in ipairs(raws) do
      t.eq({ raw:read() }, { kit.CLOSE, "\x03\xe9the server stops", 0x88 })
      raw:send(kit.close_frame(1001))
      t.is_nil(raw:read())
    end
    t.eq(silent:read(), kit.CLOSE)
    t.is_nil(silent:read())
    await(function() return stopped end)
    t.ok(stopped < 5, stopped)
    await(function() return #codes == 3 end)
  end)
end)

t.test("callbacks: ws:close in a message ends with the peer's code; later messages are skipped", function()
  local ends, seen = {}, {}
  local app = web.new { grace = 1 }
  app:ws("/", {}, {
    message = function(ws, message)
      seen[#seen + 1] = message
      for _, call in ipairs { "receive", "messages" } do
        t.raises(call .. ": the callbacks of this connection receive its messages", ws[call], ws)
      end
      ws:close(4001, "enough")
      ends[#ends + 1] = ("after close: %d %s"):format(ws.code, ws.reason)
    end,
    close = function(_, code, reason) ends[#ends + 1] = ("close: %d %s"):format(code, reason) end,
  })
  kit.with(app, function(open)
    local raw = open()
    raw:send(kit.frame(kit.TEXT, "1"), kit.frame(kit.TEXT, "2"))
    t.eq({ raw:read() }, { kit.CLOSE, string.pack(">I2", 4001) .. "enough", 0x88 })
    raw:send(kit.frame(kit.TEXT, "3"), kit.close_frame(4002, "yours"))
    t.is_nil(raw:read())
    await(function() return #ends == 2 end)
    t.eq(seen, { "1" })
    table.sort(ends)
    t.eq(ends, { "after close: 4002 yours", "close: 4002 yours" })
  end)
end)

t.test("callbacks: a callback that waits does not hold up other connections, or messages in other callbacks", function()
  local log, token = {}, {}
  local app = web.new { grace = 1 }
  app:ws("/", {}, {
    open = function(ws) if #log == 0 then log[1] = "open" end ws:send "ready" end,
    message = function(ws, message)
      if message == "wait" then loop.wait(token) end
      log[#log + 1] = message
      ws:send(message)
    end,
  })
  kit.with(app, function(open)
    local first, second = open(), open()
    for _, raw in ipairs { first, second } do t.eq({ raw:read() }, { kit.TEXT, "ready", 0x81 }) end
    first:send(kit.frame(kit.TEXT, "wait"), kit.frame(kit.TEXT, "behind"))
    for number = 1, 3 do
      second:send(kit.frame(kit.TEXT, tostring(number)))
      t.eq({ second:read() }, { kit.TEXT, tostring(number), 0x81 })
    end
    loop.wakeup(token)
    t.eq({ first:read() }, { kit.TEXT, "wait", 0x81 })
    t.eq({ first:read() }, { kit.TEXT, "behind", 0x81 })
    t.eq(log, { "open", "1", "2", "3", "wait", "behind" })
  end)
end)

t.test("callbacks: close is called after a callback that waits", function()
  local log, tokens, phase = {}, { {}, {} }, nil
  local app = web.new { grace = 1 }
  local function callbacks(waiting)
    return {
      open = function()
        if waiting == "open" then loop.wait(tokens[1]) end
        log[#log + 1] = "open"
      end,
      message = function(ws)
        phase = ws
        loop.wait(tokens[2])
        log[#log + 1] = "message"
      end,
      close = function(_, code) log[#log + 1] = "close " .. code end,
    }
  end
  app:ws("/open", {}, callbacks "open")
  app:ws("/message", {}, callbacks "message")
  kit.with(app, function(open, _, server)
    local first, second = open({}, "/open"), open({}, "/message")
    second:send(kit.frame(kit.TEXT, "x"))
    await(function() return phase end)
    t.eq(log, { "open" })
    loop.fork(function() server:stop(5) end)
    for _, raw in ipairs { first, second } do
      t.eq(raw:read(), kit.CLOSE)
      raw:send(kit.close_frame(1001))
      t.is_nil(raw:read())
    end
    t.eq(log, { "open" })
    while #log < 5 do
      for _, token in ipairs(tokens) do loop.wakeup(token) end
      loop.sleep(0.002)
    end
    table.sort(log)
    t.eq(log, { "close 1001", "close 1001", "message", "open", "open" })
  end)
end)

t.test("callbacks: no other task gets messages, even if it has begun to receive in open", function()
  local saved, waiting, failure, got
  local app = web.new { grace = 1 }
  app:ws("/", {}, {
    open = function(ws)
      saved = ws:messages()
      loop.fork(function() waiting = table.pack(saved(ws.c)) end)
    end,
    message = function(ws, message)
      got = message
      failure = select(2, pcall(saved, ws.c))
    end,
  })
  kit.with(app, function(open)
    local raw = open()
    raw:send(kit.frame(kit.TEXT, "x"))
    await(function() return failure end)
    t.eq({ got, waiting }, { "x", nil })
    t.ok(tostring(failure):find("the callbacks of this connection receive its messages", 1, true), failure)
    raw:send(kit.close_frame(1000))
    await(function() return waiting end)
    t.eq({ waiting.n, waiting[1] }, { 1, nil })
  end)
end)

t.test("callbacks: a task that is killed in a callback ends its connection alone", function()
  local task, codes = nil, {}
  local app = web.new { grace = 1 }
  app:ws("/", {}, {
    message = function(ws, message)
      if message == "wait" then
        task = coroutine.running()
        loop.sleep(60)
      end
      ws:send(message)
    end,
    close = function(_, code) codes[#codes + 1] = code end,
  })
  kit.with(app, function(open)
    local first, second = open(), open()
    first:send(kit.frame(kit.TEXT, "wait"))
    await(function() return task end)
    loop.kill(task)
    t.is_nil(first:read())
    await(function() return codes[1] end)
    second:send(kit.frame(kit.TEXT, "x"))
    t.eq({ second:read() }, { kit.TEXT, "x", 0x81 })
    t.eq(codes, { 1006 })
  end)
end)

t.test("WebSocket connections count for the limit of connections", function()
  local app = app_with {}
  app.settings.connections = 2
  app:get("/hello", function() return "hello" end)
  http.with(app, function(open, server)
    local first = kit.shake(open())
    local second = kit.shake(open())
    local third = open()
    third:send "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"
    local got
    loop.fork(function() got = third:response("GET").body end)
    -- A message takes some rounds of the server's loop, in which it would accept.
    for _ = 1, 5 do
      second:send(kit.frame(kit.TEXT, "x"))
      t.eq({ second:read() }, { kit.TEXT, "x", 0x81 })
    end
    t.is_nil(got)
    t.eq(server.count, 2)
    first:send(kit.close_frame(1000))
    t.eq(first:read_close(), 1000)
    await(function() return got end)
    t.eq(got, "hello")
    second:close()
    third:close()
    await(function() return server.count == 0 end)
  end)
end)

t.test("a stop without a grace period sends 1001, and ends each connection at once", function()
  local codes = {}
  local app = web.new()
  app:ws("/f", {}, function(ws)
    for _ in ws:messages() do end
    codes[#codes + 1] = ws.code
  end)
  app:ws("/c", {}, { close = function(_, code) codes[#codes + 1] = code end })
  kit.with(app, function(open, _, server)
    local raws = { (open({}, "/f")), (open({}, "/c")) }
    server:stop()
    for _, raw in ipairs(raws) do
      t.eq({ raw:read() }, { kit.CLOSE, "\x03\xe9the server stops", 0x88 })
      t.is_nil(raw:read())
    end
    await(function() return #codes == 2 end)
    t.eq(codes, { 1006, 1006 })
  end)
end)

t.test("web.log reports the status 101", function()
  local lines = {}
  local app = web.new { grace = 1 }
  app:use(web.log { file = function(text) lines[#lines + 1] = text end })
  app:ws("/f", {}, kit.echo)
  app:ws("/c", {}, {})
  kit.with(app, function(open)
    for _, path in ipairs { "/f", "/c" } do
      local raw = open({}, path)
      raw:send(kit.close_frame(1000))
      t.eq(raw:read_close(), 1000)
    end
    await(function() return select(2, table.concat(lines):gsub("\n", "")) == 2 end)
    local text = table.concat(lines)
    for _, path in ipairs { "/f", "/c" } do
      t.ok(text:find('"GET ' .. path .. ' HTTP/1.1" 101 ', 1, true), text)
    end
  end)
end)

t.test("options and callbacks are checked when the route is added", function()
  local app = web.new()
  for pattern, opts in pairs {
    ["option 'protocols' must be a list of names"] = { protocols = { "a b" } },
    ["option 'origins' must be"] = { origins = "all" },
    ["option 'origins' must be \"same\""] = { origins = { 1 } },
    ["option 'max_rate' must be a number above 0"] = { max_rate = 0 },
    ["option 'max_message' must be"] = { max_message = 0 },
    ["option 'ping' must be"] = { ping = -1 },
    ["option 'compress' must be"] = { compress = "yes" },
    ["option 'orgins' is unknown"] = { orgins = "any" },
  } do t.raises(pattern, app.ws, app, "/", opts, kit.echo) end
  t.raises("callback 'mesage' is unknown", app.ws, app, "/", {}, { mesage = print })
  t.raises("callback 'open' must be a function", app.ws, app, "/", {}, { open = 1 })
  t.raises("function expected", app.ws, app, "/", {}, 1)
end)

t.test("wss: the same over TLS, with an own certificate", function()
  local cert, key = tls.self_signed()
  http.with(app_with {}, function(_, server)
    local url = server.url:gsub("^http", "ws")
    local ws = assert(websocket.connect(url, { tls = { ca = cert } }))
    ws:send(("x"):rep(100000))
    t.eq(#ws:receive(10), 100000)
    ws:close()
    t.eq(ws.code, 1000)
  end, { tls = { cert = cert, key = key } })
end)

t.finish()
