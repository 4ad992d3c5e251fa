-- Request bodies: whole, as JSON, as a form, in pieces; and clients that wait for 100 Continue.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local net = require "lio.net"
local thread = require "lio.thread"
local web = require "lio.webserver"

local function post(target, ...)
  return table.concat({ "POST " .. target .. " HTTP/1.1", "Host: test", ... }, "\r\n") .. "\r\n\r\n"
end

-- Returns the strings as chunks, without the last chunk.
local function chunks(...)
  local out = {}
  for _, data in ipairs { ... } do out[#out + 1] = ("%x\r\n%s\r\n"):format(#data, data) end
  return table.concat(out)
end

local function echo()
  local app = web.new { body = 1000 }
  app:post("/", function(req) return req:body() end)
  app:post("/limit", function(req)
    local body, reason, status = req:body(10)
    return body or ("%d %s"):format(status, reason)
  end)
  return app
end

t.test("a body with a Content-Length arrives whole, wherever the client splits it", function()
  http.with(echo(), function(open)
    local c = open()
    t.eq(c:request("POST", "/", nil, "hello").body, "hello")
    t.eq(c:request("POST", "/", nil, "").body, "")
    t.eq(c:ask(post "/").body, "", "a request without a length has no body")
    c:send(post("/", "Content-Length: 6"))
    for byte in ("sliced"):gmatch "." do
      loop.sleep(0.002)
      c:send(byte)
    end
    t.eq(c:response().body, "sliced")
  end)
end)

t.test("a chunked body arrives whole, without its extensions and trailers", function()
  http.with(echo(), function(open)
    local c = open()
    local head = post("/", "Transfer-Encoding: chunked")
    t.eq(c:ask(head .. chunks("one ", "two") .. "0\r\n\r\n").body, "one two")
    t.eq(c:ask(head .. '3;a=b;c="d"\r\nabc\r\nA \t;x\r\n0123456789\r\n0;last\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n').body,
      "abc0123456789")
    c:send(head)
    for byte in (chunks("cut", "up") .. "0\r\nX-Sum: 1\r\n\r\n"):gmatch "." do
      loop.sleep(0.001)
      c:send(byte)
    end
    t.eq(c:response().body, "cutup")
    t.eq(c:request("POST", "/", nil, "next").body, "next", "the following bytes are the next request")
  end)
end)

t.test("an empty or unbalanced extension of a chunk is refused", function()
  for _, extension in ipairs { ";", ";a;", ";a=", ';a="b', ';a="b\\"', ';a=b"', ";a b" } do
    for _, form in ipairs { "5%s\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0%s\r\n\r\n" } do
      local body = form:format(extension)
      http.with(echo(), function(open)
        local c = open()
        local r = c:ask(post("/", "Transfer-Encoding: chunked") .. body)
        t.eq({ r.status, r.headers.connection }, { 400, "close" }, body)
        t.ok(c:ended())
      end)
    end
  end
end)

t.test("a second call of body returns the same body", function()
  local app = web.new()
  app:post("/", function(req) return req:body() .. req:body() end)
  t.eq(http.once(function(a) a:post("/", app.handlers[1]) end, "POST", "/", nil, "ab").body, "abab")
end)

local DATE <const> = "Sun, 06 Nov 1994 08:49:37 GMT"

-- Sends `first` to an app with the route `handler`, and `rest` when the handler calls its second argument. Returns the
-- body of the response.
local function post_in_two(handler, first, rest, options)
  local app, is_next, body = web.new(options), false, nil
  app:post("/", function(req) return handler(req, function() is_next = true end) end)
  http.with(app, function(open)
    local c = open()
    c:send(first)
    local deadline = loop.now() + 10
    while not is_next and loop.now() < deadline do loop.sleep(0.001) end
    c:send(rest)
    body = c:response().body
  end)
  return body
end

t.test("a handler may read a body with a larger limit after a smaller one has refused it", function()
  local app = web.new()
  app:post("/", function(req)
    local _, _, status = req:body(5)
    local pieces = {}
    for piece in req:stream(8) do pieces[#pieces + 1] = piece end
    return status .. " " .. table.concat(pieces)
  end)
  http.with(app, function(open)
    local head <const> = post("/", "Transfer-Encoding: chunked")
    t.eq(open():ask(post("/", "Content-Length: 8") .. "one two.").body, "413 one two.")
    t.eq(open():ask(head .. chunks "one two." .. "0\r\n\r\n").body, "413 one two.")
    t.eq(open():ask(head .. chunks("one ", "two.") .. "0\r\n\r\n").body, "413 one two.")
  end)
end)

t.test("a refusal is not the response if the body was read later", function()
  local app, got = web.new(), {}
  app:post("/body", function(req) got.body = req:body(5) or req:body(100) end)
  app:post("/stream", function(req)
    req:body(5)
    for piece in req:stream() do got.piece = piece end
  end)
  app:post("/refused", function(req) req:body(5) end)
  http.with(app, function(open)
    local codes = {}
    for i, path in ipairs { "/body", "/stream", "/refused" } do
      codes[i] = open():request("POST", path, nil, "one two").status
    end
    t.eq(codes, { 204, 204, 413 })
    t.eq(got, { body = "one two", piece = "one two" })
  end)
end)

t.test("stream returns a body that body has read", function()
  local app = web.new()
  app:post("/", function(req)
    local body, pieces = req:body(), {}
    for piece in req:stream() do pieces[#pieces + 1] = piece end
    local short = #body - 1
    local is_refused = body ~= "" and not pcall(function() for _ in req:stream(short) do end end)
    return { body, pieces, is_refused }
  end)
  app:post("/refused", function(req)
    req:body()
    for _ in req:stream(3) do end
  end)
  http.with(app, function(open)
    t.eq(open():request("POST", "/refused", nil, "text").status, 413)
    t.eq(open():request("POST", "/", nil, "text").body, '["text",["text"],true]')
    t.eq(open():request("POST", "/", nil, "").body, '["",{},false]')
  end)
end)

-- Regression: the second task got an empty body, which then was the request's body.
t.test("several tasks may wait for a body", function()
  local body = post_in_two(function(req, send_rest)
    local _, results = thread.all { { req.body, req }, { req.body, req }, send_rest }
    return table.concat({ results[1][1], results[2][1], req:body() }, " ")
  end, post("/", "Content-Length: 4") .. "te", "xt")
  t.eq(body, "text text text")
end)

-- Regression: these tasks waited forever.
t.test("tasks that wait for a body are woken when the request ends, or its connection is taken over", function()
  local app, ended, handler = web.new(), {}, nil
  local function read_aside(req)
    thread.spawn(function()
      ended.body = table.pack(req:body())
    end)
  end
  app:post("/respond", function(req)
    read_aside(req)
    return "response"
  end)
  app:post("/take", function(req)
    read_aside(req)
    req:take_over():close()
  end)
  app:post("/kill", function(req)
    read_aside(req)
    handler = coroutine.running()
    loop.sleep(60)
  end)
  http.with(app, function(open)
    for _, path in ipairs { "/respond", "/take", "/kill" } do
      ended = {}
      local c = open()
      c:send(post(path, "Content-Length: 4"), "te")
      if path == "/kill" then
        while not handler do loop.sleep(0.001) end
        t.ok(loop.kill(handler))
      end
      if path == "/respond" then t.eq(c:response().body, "response") else t.ok(c:ended()) end
      local deadline = loop.now() + 10
      while not ended.body and loop.now() < deadline do loop.sleep(0.001) end
      t.eq(ended.body, { nil, "closed", 400, n = 3 }, path)
    end
  end)
end)

t.test("a connection cannot be taken over while a part of the body would be lost", function()
  local body = post_in_two(function(req, send_rest)
    thread.timeout(0.02, req.body, req)
    t.raises("req:take_over: a part of the body was read: read the rest before", req.take_over, req)
    local piece = req:stream()()
    local c <close> = req:take_over()
    send_rest()
    -- The size of the next chunk belongs to what was read.
    c:send(("HTTP/1.1 200 OK\r\nDate: %s\r\nContent-Length: 7\r\n\r\n%s%s"):format(DATE, piece, c:recv(3)))
  end, post("/", "Transfer-Encoding: chunked") .. chunks "one " .. "3\r\n", "raw")
  t.eq(body, "one raw")
end)

t.test("the time after a wait for the body was killed is the handler's own", function()
  local body = post_in_two(function(req, send_rest)
    local ended, why = thread.timeout(0.02, req.body, req)
    loop.sleep(0.5)
    -- Another wait begins before the rest is sent.
    thread.spawn(function()
      loop.sleep(0.05)
      send_rest()
    end)
    local whole, reason = req:body()
    return ("%s %s %s"):format(ended, why, whole or reason)
  end, post("/", "Content-Length: 4") .. "te", "xt", { body_time = 0.3, body_rate = 1e6 })
  t.eq(body, "nil timeout text")
end)

t.test("a body over the app's limit is refused with 413 before it arrives", function()
  http.with(echo(), function(open)
    local c = open()
    c:send(post("/", "Content-Length: 1001")) -- no byte of the body is sent
    local r = c:response()
    t.eq({ r.status, r.headers.connection }, { 413, "close" })
    t.ok(c:ended())
  end)
end)

t.test("a chunked body is refused at the chunk that exceeds the limit", function()
  http.with(echo(), function(open)
    local c = open()
    c:send(post("/", "Transfer-Encoding: chunked"), chunks(("x"):rep(600)), "400\r\n")
    t.eq(c:response().status, 413)
    t.ok(c:ended())
    c = open()
    c:send(post("/", "Transfer-Encoding: chunked"), "FFFFFFFFFFFFFFF\r\n")
    t.eq(c:response().status, 413)
  end)
end)

t.test("if a body exceeds the limit in the call of body, the handler gets an error and may respond", function()
  http.with(echo(), function(open)
    t.eq(open():request("POST", "/limit", nil, "0123456789").body, "0123456789")
    local r = open():request("POST", "/limit", nil, "0123456789A")
    t.eq(r.status, 200)
    t.ok(r.body:find "^413 ", r.body)
    t.eq(r.headers.connection, "close")
  end)
end)

t.test("a client that is refused in the middle of a large upload can read the response", function()
  local app = web.new { body = 1000 }
  app:post("/", function(req) return req:body() end)
  http.with(app, function(open)
    local c = open()
    c:send(post("/", "Content-Length: 5000000"))
    local sent
    loop.fork(function() sent = table.pack(c.c:send(("x"):rep(5000000))) end)
    t.eq(c:response().status, 413)
    t.ok(c:ended(), "the connection ends after the answer, and is not reset")
    while not sent do loop.sleep(0.001) end
    t.eq(sent, { true, n = 1 })
  end)
end)

t.test("a body that the handler does not read is not parsed as the next request", function()
  local app = web.new()
  app:post("/", function() return "ignored" end)
  app:get("/", function() return "next" end)
  http.with(app, function(open)
    local c = open()
    t.eq(c:request("POST", "/", nil, "GET /evil HTTP/1.1\r\n\r\n").body, "ignored")
    t.eq(c:request("GET", "/").body, "next")
    t.eq(c:ask(post("/", "Transfer-Encoding: chunked") .. chunks "GET /evil HTTP/1.1\r\n\r\n" .. "0\r\n\r\n").body,
      "ignored")
    t.eq(c:request("GET", "/").body, "next")
    -- This unread body is too long to be read and discarded, so the connection is closed.
    c:send(post("/", "Content-Length: 1000000"))
    t.eq(c:response().headers.connection, "close")
  end)
end)

t.test("json decodes the body; for a body that is not JSON the status is 400, and the connection stays open", function()
  local app = web.new()
  app:post("/", function(req)
    local value = req:json()
    return value and { got = value.a }
  end)
  http.with(app, function(open)
    local c = open()
    local r = c:request("POST", "/", { "Content-Type: application/json" }, '{"a":[1,2.5,"x"]}')
    t.eq({ r.body, r.headers["content-type"] }, { '{"got":[1,2.5,"x"]}', "application/json" })
    r = c:request("POST", "/", nil, '{"a":')
    t.eq(r.status, 400)
    t.eq(c:request("POST", "/", nil, '{"a":1}').body, '{"got":1}')
  end)
end)

t.test("json accepts objects and arrays; for null and other values the status is 400, with a message", function()
  local app = web.new()
  app:post("/", function(req) return { got = req:json().a } end)
  app:post("/passed", function(req) return req:json() end)
  app:post("/own", function(req)
    local value, reason, status = req:json()
    return 200, { value == nil, reason, status }
  end)
  local log = http.logged(function()
    http.with(app, function(open)
      local c = open()
      for body, name in pairs { ["null"] = "null", ["5"] = "number", ['"x"'] = "string", ["true"] = "boolean" } do
        local reason = "the body must be a JSON object or array, got " .. name
        local r = c:request("POST", "/passed", nil, body)
        t.eq({ r.status, r.body }, { 400, reason .. "\n" })
        t.eq(c:request("POST", "/own", nil, body).body, '[true,"' .. reason .. '",400]')
      end
      t.eq(c:request("POST", "/passed", nil, "[]").body, "[]")
      t.eq(c:request("POST", "/passed", nil, '{"a":null}').body, '{"a":null}')
    end)
  end)
  t.eq(log, "")
end)

t.test("for a JSON body over its limit the status is 413, unless the handler responds", function()
  local app = web.new()
  app:post("/", function(req) return { got = req:json(5) } end)
  app:post("/passed", function(req) return req:json(5) end)
  app:post("/own", function(req)
    local value, reason, status = req:json(5)
    if value == nil then return 422, status .. (reason and " with a reason") end
  end)
  http.with(app, function(open)
    t.eq(open():request("POST", "/", nil, "[1,2]").body, '{"got":[1,2]}')
    t.eq(open():request("POST", "/passed", nil, "[1,2]").body, "[1,2]")
    local refused = open():request("POST", "/passed", nil, "[1,2,3]")
    t.eq({ refused.status, refused.headers.connection }, { 413, "close" })
    t.eq(open():request("POST", "/own", nil, "[1,2,3]").body, "413 with a reason")
    local c = open()
    for _, body in ipairs { "", "{", "nul", '"\255"', "1 2" } do
      local r = c:request("POST", "/own", nil, body)
      t.eq({ r.status, r.body }, { 422, "400 with a reason" }, body)
    end
  end)
end)

t.test("trailers are available when the body was read, even in pieces, and are never among the headers", function()
  local app = web.new()
  app:post("/:how", function(req)
    local before = next(req:trailers())
    if req.params.how == "body" then req:body() else for _ in req:stream() do end end
    local trailers = req:trailers()
    return { before = before == nil, sum = trailers["x-sum"], header = req.headers["x-sum"] == nil }
  end)
  http.with(app, function(open)
    local c = open()
    for _, how in ipairs { "body", "stream" } do
      local r = c:ask(post("/" .. how, "Transfer-Encoding: chunked") .. chunks "ab" .. "0\r\nX-Sum: 7\r\n\r\n")
      t.eq(require "lio.json".decode(r.body), { before = true, header = true, sum = "7" })
    end
  end)
end)

t.test("form decodes a urlencoded body, and refuses other types with 415", function()
  local app = web.new()
  app:post("/", function(req)
    local form = req:form()
    return form and form.name .. "," .. table.concat(form.tag, "+")
  end)
  http.with(app, function(open)
    local c = open()
    local kind = { "Content-Type: application/x-www-form-urlencoded; charset=utf-8" }
    t.eq(c:request("POST", "/", kind, "name=A+B%21&tag=x&tag=y").body, "A B!,x+y")
    t.eq(c:request("POST", "/", { "Content-Type: text/plain" }, "name=x").status, 415)
    t.eq(c:request("POST", "/", nil, "name=x").status, 415)
  end)
end)

t.test("stream returns the pieces as they arrive", function()
  local app, pieces = web.new(), {}
  app:post("/", function(req)
    for piece in req:stream() do pieces[#pieces + 1] = piece end
    return "done"
  end)
  http.with(app, function(open)
    local c = open()
    c:send(post("/", "Content-Length: 6"), "one")
    while #pieces < 1 do loop.sleep(0.001) end
    c:send "two"
    t.eq(c:response().body, "done")
    t.eq(pieces, { "one", "two" })
    pieces = {}
    t.eq(c:ask(post("/", "Transfer-Encoding: chunked") .. chunks("a", "bc") .. "0\r\n\r\n").body, "done")
    t.eq(table.concat(pieces), "abc")
  end)
end)

t.test("if the handler reads slowly, the sender has to wait", function()
  local app, gate, first = web.new { body = 2 ^ 40 }, {}, nil
  app:post("/", function(req)
    local total = 0
    for piece in req:stream() do
      total = total + #piece
      if not first then
        first = true
        loop.wait(gate)
      end
    end
    return tostring(total)
  end)
  http.with(app, function(open)
    local c, size, sent = open(), 64 * 1024 * 1024, 0
    c:send(post("/", "Content-Length: " .. size))
    loop.fork(function()
      local piece = ("x"):rep(65536)
      while sent < size do
        c:send(piece)
        sent = sent + #piece
      end
    end)
    -- The sender is blocked when the system's buffers are full.
    http.stalls(function() return first and sent end)
    t.ok(sent < 32 * 1024 * 1024, sent .. " bytes were accepted from a sender whose body is not read")
    collectgarbage()
    t.ok(collectgarbage "count" < 20 * 1024)
    loop.wakeup(gate)
    t.eq(c:response().body, tostring(size))
  end)
end)

t.test("a streamed body that ends early or is malformed raises in the handler", function()
  local app, problem = web.new(), nil
  app:post("/", function(req)
    local ok, message = pcall(function() for _ in req:stream() do end end)
    problem = not ok and message
    return "x"
  end)
  http.with(app, function(open)
    local c = open()
    c:send(post("/", "Content-Length: 10"), "half")
    c.c:shutdown "w"
    while not problem do loop.sleep(0.001) end
    t.ok(problem:find "request body: closed", problem)
    problem = nil
    open():ask(post("/", "Transfer-Encoding: chunked") .. "zz\r\n")
    t.ok(problem:find "malformed chunk size", problem)
  end)
end)

-- Regression: the reason for an unreadable body was always "failed".
t.test("if the client resets the connection, the reason for the unread body is reset", function()
  local app, reasons = web.new(), {}
  app:post("/body", function(req)
    reasons[1] = select(2, req:body())
    return "x"
  end)
  app:post("/form", function(req)
    reasons[2] = select(2, req:form())
    return "x"
  end)
  http.with(app, function(open)
    for index, lines in ipairs {
      { "POST /body HTTP/1.1", "Host: a", "Content-Length: 10" },
      { "POST /form HTTP/1.1", "Host: a", "Content-Length: 100", "Content-Type: multipart/form-data; boundary=b" },
    } do
      local c = open()
      c:head(lines, "half")
      net.option(c.c, "linger", 0)
      c:close()
      local deadline = loop.now() + 10
      while not reasons[index] and loop.now() < deadline do loop.sleep(0.001) end
    end
  end)
  t.eq(reasons, { "reset", "reset" })
end)

t.test("100 Continue is sent when the body is first read, and not before", function()
  local app, gate = web.new(), {}
  app:post("/", function(req)
    loop.wait(gate)
    return req:body()
  end)
  http.with(app, function(open)
    local c = open()
    c:send(post("/", "Content-Length: 4", "Expect: 100-continue"))
    t.ok(c:silent(0.1))
    loop.wakeup(gate)
    t.eq(c.c:recv "line", "HTTP/1.1 100 Continue")
    t.eq(c.c:recv "line", "")
    c:send "body"
    t.eq(c:response().body, "body")
    loop.fork(function() while not loop.wakeup(gate) do loop.sleep(0.001) end end)
    t.eq(c:request("POST", "/", nil, "again").body, "again", "the connection stays open")
  end)
end)

t.test("100 Continue is not sent if the client does not wait for it", function()
  http.with(echo(), function(open)
    local c = open()
    -- The body has already arrived.
    t.eq(c:ask(post("/", "Content-Length: 4", "Expect: 100-continue") .. "body").body, "body")
    -- The body is too long, so it is refused.
    t.eq(c:ask(post("/", "Content-Length: 4000", "Expect: 100-continue")).status, 413)
    t.ok(c:ended())
    -- The handler does not read the body. Whether the client sends it is unknown, so the connection is closed.
    c = open()
    local r = c:ask(post("/none", "Content-Length: 4", "Expect: 100-continue"))
    t.eq({ r.status, r.headers.connection }, { 404, "close" })
    -- HTTP/1.0 has no 100 Continue.
    c = open()
    c:send "POST / HTTP/1.0\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
    t.ok(c:silent(0.05))
    c:send "body"
    t.eq(c:response().body, "body")
    t.eq(open():ask(post("/", "Content-Length: 1", "Expect: else")).status, 417)
  end)
end)

t.test("a stream over the limit is refused before the client is asked to send", function()
  local app = web.new { body = 100 }
  app:post("/", function(req)
    for _ in req:stream() do end
    return "x"
  end)
  http.with(app, function(open)
    local c = open()
    t.eq(c:ask(post("/", "Content-Length: 101", "Expect: 100-continue")).status, 413)
  end)
end)

-- Regression: an upload of 8 MB took 18 s, and no other client was served.
t.test("the time of an upload is linear in its size, and other clients are served meanwhile", function()
  http.with(http.echo_app { body = 2 ^ 30 }, function(open)
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
      t.ok(answers >= megabytes, "another client got only " .. answers .. " answers meanwhile")
      return os.clock() - began
    end
    for _, chunked in ipairs { false, true } do
      -- The large body is four times as long as the small one, so at O(n²) it would take sixteen times as long.
      -- The test measures CPU time, which does not include the time of other processes.
      upload(1, chunked)
      local small, large = upload(2, chunked), upload(8, chunked)
      t.ok(large < small * 10 + 0.5, ("2 MB took %.2f s of CPU, 8 MB %.2f s"):format(small, large))
    end
  end)
end)

t.finish()
