-- Bodies that are sent in pieces, long bodies, and peers that read slowly or not at all.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local thread = require "lio.thread"
local web = require "lio.webserver"

local MIB <const> = 1024 * 1024

local function resident()
  local f <close> = assert(io.open "/proc/self/statm")
  return f:read "n" and f:read "n" * 4096
end

t.test("written pieces are sent in chunks to HTTP/1.1, and the connection stays open", function()
  local app = web.new()
  app:get("/", function(_, res)
    t.eq(res:write "one", true)
    res:write ""
    res:flush()
    res:write "two"
  end)
  http.with(app, function(open)
    local c = open()
    local r = c:request("GET", "/")
    t.eq({ r.status, r.headers["transfer-encoding"], r.chunks }, { 200, "chunked", { "one", "two" } })
    t.eq(c:request("GET", "/").body, "onetwo")
  end)
end)

for _, coding in ipairs { "identity", "gzip" } do
  t.test("a handler that writes small pieces is notified when its client has closed: " .. coding, function()
    local app, go, done, got = web.new(), {}, {}, nil
    app:use(web.compress { min = 1 })
    app:get("/", function(_, res)
      res:write "one"
      loop.wait(go)
      local turns = 0
      repeat
        turns = turns + 1
        got = table.pack(res:write "x")
        loop.sleep(0.001)
      until not got[1] or turns == 1000
      loop.wakeup(done)
    end)
    http.with(app, function(open)
      local c = open():send("GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: " .. coding .. "\r\n\r\n")
      c:read_head()
      c:close()
      loop.wakeup(go)
      loop.wait(done)
      t.eq(got, { nil, "closed", n = 2 })
    end)
  end)
end

t.test("if the handler does not set a type, a body in pieces or as a whole is sent without a type", function()
  local app = web.new()
  app:use(web.compress { min = 1 })
  app:get("/pieces", function(_, res)
    res:header("Content-Type", false)
    res:write "one"
  end)
  app:get("/whole", function(_, res)
    res:header("Content-Type", false)
    return "one"
  end)
  app:get("/sent", function(_, res) res:header("Content-Type", false):send "one" end)
  app:get("/again", function(_, res)
    res:header("Content-Type", false):header("Content-Type", nil)
    return "one"
  end)
  app:get("/named", function(_, res)
    res:header("Content-Type", false):header("Content-Type", "a/b")
    return "one"
  end)
  http.with(app, function(open)
    local c = open()
    local types = {
      pieces = false, whole = false, sent = false, again = "text/plain; charset=utf-8", named = "a/b",
    }
    for path, kind in pairs(types) do
      local r = c:request("GET", "/" .. path, kind and {} or { "Accept-Encoding: gzip" })
      t.eq({ r.status, r.body, r.headers["content-type"] or false }, { 200, "one", kind }, path)
    end
  end)
end)

t.test("a function that the handler returns or sends is called for pieces until it returns nil", function()
  local function counter()
    local i = 0
    return function()
      i = i + 1
      if i <= 3 then return tostring(i) end
    end
  end
  local app = web.new()
  app:get("/", function() return counter() end)
  app:get("/status", function() return 201, counter(), { ["X-A"] = "b" } end)
  app:get("/send", function(_, res) res:send(counter()) end)
  app:get("/empty", function() return function() end end)
  http.with(app, function(open)
    local c = open()
    t.eq(c:request("GET", "/").chunks, { "1", "2", "3" })
    local r = c:request("GET", "/status")
    t.eq({ r.status, r.headers["x-a"], r.body }, { 201, "b", "123" })
    t.eq(c:request("GET", "/send").body, "123")
    t.eq(c:request("GET", "/empty").chunks, {})
  end)
end)

t.test("an HTTP/1.0 client gets no chunks: the end of the connection ends the body", function()
  local app = web.new()
  app:get("/", function() return coroutine.wrap(function() coroutine.yield "a" coroutine.yield "b" end) end)
  app:get("/length", function(_, res)
    res:header("Content-Length", "2")
    res:write "ab"
  end)
  http.with(app, function(open)
    local c = open()
    local r = c:ask "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    t.eq({ r.body, r.headers["transfer-encoding"], r.headers.connection }, { "ab", nil, "close" })
    c = open()
    r = c:ask "GET /length HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    t.eq({ r.body, r.headers.connection }, { "ab", "keep-alive" })
    t.eq(c:ask("GET /length HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").body, "ab")
  end)
end)

t.test("a piece is sent before the handler waits for something else", function()
  local app, gate = web.new(), {}
  app:get("/", function(_, res)
    res:write "early"
    loop.wait(gate)
    res:write "late"
  end)
  http.with(app, function(open)
    local c = open()
    c:send "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    c:read_head()
    t.eq(c.c:recv(10), "5\r\nearly\r\n")
    loop.wakeup(gate)
    t.eq(c.c:recv(14), "4\r\nlate\r\n0\r\n\r\n")
  end)
end)

t.test("with a Content-Length the pieces are sent without chunks", function()
  local app = web.new()
  app:get("/", function(_, res)
    res:header("Content-Length", 6)
    res:write "abc"
    res:write "def"
  end)
  http.with(app, function(open)
    local c = open()
    local r = c:request("GET", "/")
    t.eq({ r.headers["content-length"], r.headers["transfer-encoding"], r.body }, { "6", nil, "abcdef" })
    t.eq(c:request("GET", "/").body, "abcdef")
  end)
end)

t.test("writing more than the Content-Length raises, and the excess is not sent", function()
  local app = web.new()
  app:get("/", function(_, res)
    res:header("Content-Length", 4)
    res:write "abc"
    res:write "def"
  end)
  http.with(app, function(open)
    local log = http.logged(function()
      local c = open()
      c:send "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
      local body = c.c:recv "all":match "\r\n\r\n(.*)$"
      t.ok(#body < 4, body)
    end)
    t.ok(log:find "longer than the Content%-Length", log)
  end)
end)

t.test("writing less than the Content-Length ends the connection, so that the client detects it", function()
  local app = web.new()
  app:get("/", function(_, res)
    res:header("Content-Length", 4)
    res:write "abc"
  end)
  http.with(app, function(open)
    local log = http.logged(function()
      local c = open()
      c:send "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"
      local body = c.c:recv "all":match "\r\n\r\n(.*)$"
      t.ok(#body < 4, body)
    end)
    t.ok(log:find "less than the Content%-Length", log)
  end)
end)

t.test("after pieces were written, status and headers cannot be changed", function()
  local app, problems = web.new(), {}
  app:get("/", function(_, res)
    res:write "x"
    for _, call in ipairs { "status", "header", "send", "redirect", "json", "cookie" } do
      local ok, message = pcall(res[call], res, call == "status" and 200 or "x", "y")
      problems[call] = not ok and message:find "already begun" and true
    end
    return "ignored"
  end)
  http.with(app, function(open)
    t.eq(open():request("GET", "/").body, "x")
  end)
  t.eq(problems, { status = true, header = true, send = true, redirect = true, json = true, cookie = true })
end)

-- Regression: the returned value was dropped without a word.
t.test("a response that a handler returns after it has written pieces is reported in the log", function()
  for value, kind in pairs {
    ['"text"'] = "string", ["404"] = "number", ["{ a = 1 }"] = "table", ["res"] = "", ["true"] = "",
    ["nil, 'closed'"] = "", ["res:write 'y'"] = "",
  } do
    for _, middleware in ipairs { false, true } do
      local app = web.new()
      if middleware then app:use(function(_, _, next) next() end) end
      app:get("/", load("local req, res = ... res:write 'x' return " .. value, "=handler"))
      local log = http.logged(function()
        http.with(app, function(open)
          local r = open():request("GET", "/")
          t.eq({ r.status, r.body:sub(1, 1) }, { 200, "x" })
        end)
      end)
      local wanted = "lio: error in GET /: the handler of GET / (handler:0) returned a " .. kind
        .. " after it had begun to send a response with res:write; the value is not sent\n"
      t.eq(log, kind ~= "" and wanted or "", value)
    end
  end
end)

t.test("a body of 32 MiB arrives whole, as one string and in pieces", function()
  local app = web.new()
  local piece = {}
  for i = 1, 4096 do piece[i] = ("%015d\n"):format(i) end
  piece = table.concat(piece)
  local whole = piece:rep(512)
  app:get("/string", function() return whole end)
  app:get("/pieces", function(_, res)
    for _ = 1, 512 do res:write(piece) end
  end)
  http.with(app, function(open)
    local c = open()
    t.ok(c:request("GET", "/string").body == whole)
    t.ok(c:request("GET", "/pieces").body == whole)
  end)
end)

t.test("a slow reader blocks the writer, and the memory does not grow", function()
  local app, written = web.new(), 0
  local piece = ("x"):rep(65536)
  app:get("/", function(_, res)
    while written < 64 * MIB do
      assert(res:write(piece))
      written = written + #piece
    end
  end)
  http.with(app, function(open)
    local c = open()
    collectgarbage()
    local before = resident()
    c:send "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    http.stalls(function() return written > 0 and written end)
    t.ok(written < 32 * MIB, written .. " bytes were written for a peer that reads nothing")
    local most, got, look_at = 0, 0, 0
    while true do
      local data = assert(c.c:recv())
      got = got + #data
      if got > look_at then
        collectgarbage() -- the client's strings must not be measured
        most, look_at = math.max(most, resident()), got + 4 * MIB
      end
      if data:sub(-5) == "0\r\n\r\n" then break end
    end
    t.eq(written, 64 * MIB)
    t.ok(got > written)
    t.ok(most - before < 16 * MIB, "grew by " .. most - before)
  end)
end, { resident = true })

t.test("long bodies that a client reads late arrive whole and in order", function()
  local app = web.new()
  app:get("/:letter/:count", function(req) return req.params.letter:rep(tonumber(req.params.count)) end)
  local letters = "abcdefghijklmnopqrstuvwxyz"
  for _, size in ipairs { 16000, 100000, 300000 } do http.with(app, function(open)
    local c, gone = open(), open()
    local requests = letters:gsub(".", function(letter)
      return ("GET /%s/%d HTTP/1.1\r\nHost: x\r\n\r\n"):format(letter, size)
    end)
    gone:send(requests)
    c:send(requests)
    t.ok(gone.c:wait_readable(10))
    gone:close()
    t.eq(open():request("GET", "/z/5").body, "zzzzz", "another client is answered meanwhile")
    for letter in letters:gmatch "." do
      local body = c:response("GET").body
      t.ok(body == letter:rep(size), letter)
    end
    t.eq(c:request("GET", "/z/5").body, "zzzzz")
  end) end
end)

t.test("slow readers do not delay other clients", function()
  local app = web.new()
  app:get("/large", function() return ("x"):rep(8 * MIB) end)
  app:get("/small", function() return "quick" end)
  http.with(app, function(open)
    local slow = {}
    for i = 1, 5 do
      slow[i] = open()
      slow[i]:send "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
    end
    local c = open()
    for _ = 1, 20 do t.eq(c:request("GET", "/small").body, "quick") end
    for i = 1, 5 do t.eq(#slow[i]:response().body, 8 * MIB) end
  end)
end)

-- Regression: the queued bytes stayed in the server until the handler wrote again.
t.test("the bytes of a writer that was killed are sent", function()
  local app, go, begun, is_killed = web.new(), {}, 0, false
  app:get("/", function(_, res)
    thread.timeout(0.05, function()
      while true do
        begun = begun + 1
        res:write(("x"):rep(MIB))
      end
    end)
    is_killed = true
    loop.wait(go)
  end)
  http.with(app, function(open)
    local c = open()
    c:send "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    while not is_killed do loop.sleep(0.001) end
    local got = 0
    while got < begun * MIB do got = got + #assert(c.c:recv(nil, 10)) end
    loop.wakeup(go)
  end)
end)

-- Regression: the client read the bytes after the file as the next response.
t.test("another task cannot write after a file", function()
  local path = t.tmp() .. "/large"
  local content = ("0123456789abcdef"):rep(2 * MIB)
  t.write(path, content)
  local app, results = web.new(), nil
  app:get("/", function(_, res)
    thread.spawn(function()
      loop.sleep(0.01)
      results = table.pack(pcall(res.write, res, "EXTRA"))
    end)
    return res:file(path)
  end)
  local log = http.logged(function()
    http.with(app, function(open)
      local c = open()
      c:send "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
      while not results do loop.sleep(0.001) end
      t.ok(c:response().body == content)
      t.ok(c:ended())
    end)
  end)
  t.eq({ results[1], log }, { false, "" })
  t.ok(results[2]:find "the body is longer than the Content%-Length that was set", results[2])
end)

t.test("a writer is notified when its peer closes, and the server no longer counts the connection", function()
  local app, result = web.new(), nil
  app:get("/", function(_, res)
    repeat
      result = table.pack(res:write(("x"):rep(65536)))
    until not result[1]
    t.eq(table.pack(res:write "more"), result, "and again")
  end)
  http.with(app, function(open, server)
    local c = open()
    c:send "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    c:read_head()
    c:close()
    while server.count > 0 do loop.sleep(0.001) end
    t.eq(result, { nil, "closed", n = 2 })
  end)
end)

t.test("the connection of a peer that reads nothing during the write time is closed", function()
  local app, result = web.new { write_time = 0.1 }, nil
  app:get("/", function(_, res)
    repeat result = table.pack(res:write(("x"):rep(65536))) until not result[1]
  end)
  app:get("/string", function() return ("x"):rep(16 * MIB) end)
  http.with(app, function(open, server)
    for _, path in ipairs { "/", "/string" } do
      local c = open()
      c:send("GET ", path, " HTTP/1.1\r\nHost: x\r\n\r\n")
      c:read_head()
      while server.count > 0 do loop.sleep(0.005) end
    end
    t.eq(result, { nil, "closed", n = 2 })
  end)
end)

t.test("trailers follow a chunked body, even if the body is a string, and the connection stays open", function()
  local app = web.new()
  app:get("/pieces", function(_, res)
    res:header("Trailer", "X-Sum, X-Count")
    res:write "one"
    res:write "two"
    res:trailer("X-Sum", "abc"):trailer("X-Count", 2)
  end)
  app:get("/whole", function(_, res)
    res:trailer("X-Sum", "def")
    return "text"
  end)
  http.with(app, function(open)
    local c = open()
    c:send "GET /pieces HTTP/1.1\r\nHost: x\r\n\r\nGET /whole HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    local all = c.c:recv "all"
    t.ok(all:find("3\r\ntwo\r\n0\r\nX-Sum: abc\r\nX-Count: 2\r\n\r\nHTTP/1.1 200 OK\r\n", 1, true), all)
    t.ok(all:find("4\r\ntext\r\n0\r\nX%-Sum: def\r\n\r\n$"), all)
  end)
end)

t.test("HTTP/1.0 and HEAD get no trailers", function()
  local app = web.new()
  app:get("/", function(_, res)
    res:trailer("X-Sum", "abc")
    return "text"
  end)
  http.with(app, function(open)
    for _, ask in ipairs { "GET / HTTP/1.0\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" } do
      local c = open()
      c:send(ask)
      local all = c.c:recv "all"
      t.ok(all:find "^HTTP/1.1 200 OK\r\n", all)
      t.is_nil(all:find("X-Sum", 1, true), all)
    end
  end)
end)

t.test("a trailer that could split the response, or change how it is read, raises", function()
  local app = web.new()
  local heard = {}
  app:get("/", function(_, res)
    for _, field in ipairs { { "X", "a\r\nb" }, { "X y", "a" }, { "Content-Length", "5" }, { "set-cookie", "a=b" } } do
      heard[#heard + 1] = select(2, pcall(res.trailer, res, field[1], field[2]))
    end
    return "ok"
  end)
  http.with(app, function(open)
    t.eq(open():request("GET", "/").body, "ok")
  end)
  t.eq(#heard, 4)
  t.ok(heard[1]:find "CR, LF or NUL", heard[1])
  t.ok(heard[2]:find "web_write_test%.lua:%d+: res:trailer: ", heard[2])
  t.ok(heard[3]:find "'Content%-Length' is not allowed after a body", heard[3])
  t.ok(heard[4]:find "'set%-cookie' is not allowed", heard[4])
end)

-- Regression: the body was chunked.
t.test("the body of a response to HTTP/1.0 is not chunked", function()
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

-- Regression: the variables stayed open until the garbage collector ran.
t.test("an aborted download closes the <close> variables of its handler at once", function()
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

t.finish()
