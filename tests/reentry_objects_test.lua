-- A finalizer that runs while a method allocates may call any method of the same object. Each byte and each value is
-- still returned once, and no memory is freed twice. The title of each test names the call, and the calls that the
-- finalizer makes during this call.

local t = require "tests.kit"
local reentry = require "tests.kit.reentry"
local ltask = require "tests.kit.ltask_system"
local compress = require "lio.compress"
local file = require "lio.file"
local http = require "lio.http"
local lio = require "lio"
local shared_writer = require "lio.shared_writer"
local resolver = require "lio.resolver"
local socket = require "lio.socket"
local stream = require "lio.stream"

local close, connection = reentry.close, reentry.connection
local with_finalizer = reentry.with_finalizer

-- Returns a function that calls `f` the first time it is called, and does nothing later.
local function once(f)
  local called
  return function()
    if called then return end
    called = true
    f()
  end
end

-- Returns `length` bytes: groups of five digits, numbered from 1, so that lost or repeated bytes are detected.
local function pattern(length)
  local parts = {}
  for i = 1, length // 5 do parts[i] = ("%05d"):format(i) end
  return table.concat(parts)
end

-- Returns `length` bytes that cannot be compressed.
local function noise(length)
  local parts = {}
  for i = 1, length // 8 do parts[i] = ("<i8"):pack(math.random(0)) end
  return table.concat(parts)
end

-- Calls the `__gc` of `object`, as the garbage collector does.
local function drop(object) getmetatable(object).__gc(object) end

-- Calls `f`, which must raise. Returns the error; true if there was none.
local function refusal(f, ...)
  local done, message = pcall(f, ...)
  return done or message
end

t.test("stream:try_recv(100) with try_recv and unread in a finalizer returns each byte once", function()
  local s, far, sel = connection()
  local sent = pattern(5000)
  far:send(sent)
  local inner
  local data = with_finalizer(once(function()
    inner = s:try_recv()
    s:unread(inner)
  end), s.try_recv, s, 100)
  t.eq(data, sent:sub(1, 100))
  t.eq(inner, sent:sub(101))
  t.eq(s:buffered(), 4900)
  t.eq(s:try_recv(4900), sent:sub(101))
  t.eq(s:try_recv(), false)
  close(s, far, sel)
end)

t.test("stream:try_recv(500) with close_now in a finalizer returns the bytes, and the stream is closed", function()
  local s, far, sel = connection()
  local sent = pattern(5000)
  far:send(sent)
  local data = with_finalizer(function() s:close_now() end, s.try_recv, s, 500)
  t.eq(data, sent:sub(1, 500))
  t.eq(s:buffered(), 0)
  t.eq(select(4, s:try_recv()), "closed")
  close(far, sel)
end)

t.test("stream:try_recv(500) whose stream a finalizer drops returns the bytes, and the stream is refused", function()
  local s, far, sel = connection()
  local sent = pattern(5000)
  far:send(sent)
  local data = with_finalizer(once(function() drop(s) end), s.try_recv, s, 500)
  t.eq(data, sent:sub(1, 500))
  t.raises("lio.connection expected", s.try_recv, s)
  close(far, sel)
end)

t.test("stream:try_recv() returns its bytes, and try_recv in a finalizer the bytes that arrived later", function()
  local s, far, sel = connection()
  local sent = pattern(5000)
  far:send(sent)
  local inner
  local data = with_finalizer(once(function()
    far:send "next"
    -- The stream has recorded that the socket is empty; it reads again after the wait has reported readiness.
    s:arm(1)
    for _ in sel:wait(5) do -- luacheck: ignore 542
    end
    inner = s:try_recv(4)
  end), s.try_recv, s)
  t.eq(data, sent)
  t.eq(inner, "next")
  t.eq(s:buffered(), 0)
  close(s, far, sel)
end)

t.test("the bytes that a failed stream:try_recv returns are not returned to a finalizer as well", function()
  local s, far, sel = connection()
  local rest = pattern(5000)
  far:send(rest)
  s:unread(s:try_recv(#rest))
  far:close()
  s:arm(1)
  t.ok(sel:wait(5)())
  local inner = {}
  local data = table.pack(with_finalizer(once(function()
    inner = table.pack(s:try_recv(3))
  end), s.try_recv, s, 10000))
  t.eq(data, { nil, "closed", rest, "closed", n = 4 })
  t.eq(inner, { nil, "closed", "", "closed", n = 4 })
  close(s, sel)
end)

ltask.test("bytes for which a service has no memory stay in the stream", {
  main = [[
    local lio, socket, stream = require "lio", require "lio.socket", require "lio.stream"
    local sel = assert(lio.create())
    local near, far = socket.pair()
    far:option("sndbuf", 1000000)
    local s = assert(stream.new(sel, near))
    local sent = ("0123456789"):rep(20000)
    far:send(sent)
    do
      local data = s:try_recv(#sent)
      while not data do
        for _ in sel:wait(5) do end
        data = s:try_recv(#sent)
      end
      s:unread(data)
    end
    collectgarbage()
    ltask.mem_limit(ltask.mem_count().memory + 50000)
    local done, message = pcall(s.try_recv, s, 150000)
    ltask.mem_limit(0)
    say(done, tostring(message):match "not enough memory")
    say(s:try_recv(200000) == sent, s:buffered())
    s:close_now()
  ]],
  out = function(out)
    t.ok(out:find("false\tnot enough memory\ntrue\t0", 1, true), out)
  end,
})

t.test("a stream whose __gc is called while a number becomes a string is refused", function()
  for name, call in pairs {
    unread = function(s) s:unread(12345) end,
    try_send = function(s) s:try_send(0, 12345) end,
    try_recv = function(s) s:try_recv("until", 51377) end,
    option = function(s) s:set_option(61377) end,
    address = function(s) s:address(71377) end,
    shutdown_now = function(s) s:shutdown_now(81377) end,
  } do
    local s, far, sel = connection()
    far:send "x"
    local message = with_finalizer(once(function() drop(s) end), refusal, call, s)
    t.ok(message:find "lio.connection expected" or name ~= "unread" and message:find "bad argument", message)
    close(far, sel)
  end
end)

t.test("http.body_of with Content-Length and body in a finalizer returns the body once", function()
  local body = pattern(5000)
  local request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" .. body
    .. "GET / HTTP/1.1\r\nHost: b\r\n\r\n"
  local server, close_all = reentry.server(http.routes(), request)
  local hosts = {}
  reentry.serve(server, function(req)
    hosts[#hosts + 1] = req:host()
    if #hosts > 1 then return end
    local inner
    local data = with_finalizer(once(function() inner = http.body_of(req) end), http.body_of, req)
    t.eq(data, body)
    t.eq(inner, "")
    http.request.respond(req, 204)
  end)
  t.eq(hosts, { "a", "b" })
  close_all()
end)

t.test("http.body_of with chunks and body in a finalizer returns the body once", function()
  local body = pattern(5000)
  local request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
  for i = 1, 5000, 1000 do request = request .. "3e8\r\n" .. body:sub(i, i + 999) .. "\r\n" end
  reentry.handle(http.routes(), request .. "0\r\n\r\n", function(req)
    local inner
    local data = with_finalizer(once(function() inner = http.body_of(req) end), http.body_of, req)
    t.eq(data, body)
    t.eq(inner, "")
  end)
end)

t.test("http.body_of with body_of in a finalizer returns the body once, and keeps it", function()
  local body = pattern(5000)
  local request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" .. body
  local req = reentry.handle(http.routes(), request, function(req)
    t.eq(with_finalizer(once(function() http.body_of(req) end), http.body_of, req), body)
    return req
  end)
  t.eq(http.body_of(req), body)
end)

t.test("http.request.piece with piece and close in a finalizer returns each piece once", function()
  local request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    .. "3e8\r\n" .. ("a"):rep(1000) .. "\r\n3e8\r\n" .. ("b"):rep(1000) .. "\r\n"
  reentry.handle(http.routes(), request, function(req, server)
    local inner
    local data = with_finalizer(once(function()
      inner = http.request.piece(req)
      server:close()
    end), http.request.piece, req)
    t.eq(data, ("a"):rep(1000))
    t.eq(inner, ("b"):rep(1000))
  end)
end)

t.test("http.body_of whose server a finalizer drops returns the body, and the server is refused", function()
  local request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    .. "3e8\r\n" .. ("a"):rep(1000) .. "\r\n0\r\n\r\n"
  local server, _, far = reentry.server(http.routes(), request)
  local dispatcher = server:dispatcher()
  reentry.serve(server, function(req)
    t.eq(with_finalizer(once(function() drop(server) end), http.body_of, req), ("a"):rep(1000))
    t.raises("lio.http.server expected", http.request.piece, req)
  end, dispatcher)
  drop(dispatcher)
  far:close()
end)

t.test("http.serve with serve in a finalizer does not mix two heads that are stored at the same place", function()
  local function request(path) return "GET /" .. path .. " HTTP/1.1\r\nHost: a\r\n\r\n" end
  local server, close_all, far = reentry.server(http.routes(), request "one")
  local paths = {}
  local function handle(req)
    paths[#paths + 1] = req:path()
    http.request.respond(req, 204)
  end
  with_finalizer(once(function()
    -- The second head is stored in the memory of the first one.
    far:send(request "two")
    reentry.serve(server, handle)
  end), reentry.serve, server, handle)
  reentry.serve(server, handle)
  t.eq(paths, { "/one", "/two" })
  close_all()
end)

-- Returns the `http.responses` of a stream whose peer has sent `bytes`; also the stream, the peer and the selector.
local function answers(bytes)
  local s, far, sel = connection()
  far:send(bytes)
  local a = http.responses(s, 100000, 100)
  a:expect(false)
  return a, s, far, sel
end

t.test("answers:head while a finalizer reads the head of another connection returns its own head", function()
  local a, s, far, sel = answers "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-One: 1\r\n\r\n"
  local b, s2, far2, sel2 = answers("HTTP/1.1 200 OK\r\nX: " .. ("2"):rep(3000) .. "\r\n\r\n")
  local other
  local status, head = with_finalizer(once(function() other = select(2, b:head()) end), a.head, a)
  t.eq(status, 200)
  t.eq(head:fields(), { ["content-length"] = "0", ["x-one"] = "1" })
  t.eq(#other:field "x", 3000)
  close(s, far, sel, s2, far2, sel2)
end)

t.test("answers:body with body and take in a finalizer returns the body once", function()
  local body = pattern(5000)
  for _, chunked in ipairs { false, true } do
    local framing = chunked and "Transfer-Encoding: chunked\r\n\r\n1388\r\n" or "Content-Length: 5000\r\n\r\n"
    local ending = chunked and "\r\n0\r\n\r\nHT" or "HT"
    local a, s, far, sel = answers("HTTP/1.1 200 OK\r\n" .. framing .. body .. ending)
    t.eq(a:head(), 200)
    local inner, taken
    local data = with_finalizer(once(function()
      inner = a:body()
      taken = s:try_recv(1)
    end), a.body, a)
    t.eq(data, body)
    t.eq(inner, "")
    t.eq(taken, "H")
    t.eq(s:try_recv(1), "T")
    close(s, far, sel)
  end
end)

t.test("answers:piece with piece and __gc of the stream in a finalizer returns each piece once", function()
  local a, s, far, sel = answers("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    .. "3e8\r\n" .. ("a"):rep(1000) .. "\r\n3e8\r\n" .. ("b"):rep(1000) .. "\r\n")
  t.eq(a:head(), 200)
  local inner
  local data = with_finalizer(once(function()
    inner = a:piece()
    drop(s)
  end), a.piece, a)
  t.eq(data, ("a"):rep(1000))
  t.eq(inner, ("b"):rep(1000))
  t.raises("the responses object has no connection", a.piece, a)
  close(far, sel)
end)

t.test("encoder:flush, write and finish also encode the bytes that a finalizer writes", function()
  -- The input cannot be compressed, so each call returns output.
  local text = noise(400000)
  for _, coding in ipairs { "gzip", "deflate", "br" } do
    -- Brotli's `write` returns no output, because the input is too short.
    for _, outer in ipairs { "flush", "finish", coding ~= "br" and "write" or nil } do
      for _, inner in ipairs { "write", "flush", "finish" } do
        local name = coding .. " " .. outer .. " " .. inner
        local encoder, ok, said = compress.encoder(coding)
        local out = with_finalizer(once(function()
          ok, said = pcall(encoder[inner], encoder, "more")
        end), encoder[outer], encoder, text)
        t.eq(ok, outer ~= "finish", name)
        local want = text
        if ok then
          out, want = out .. said, text .. "more"
          if inner ~= "finish" then out, want = out .. encoder:finish ".", want .. "." end
        end
        if not ok or inner == "finish" then
          t.ok(tostring(refusal(encoder.finish, encoder)):find "the encoder is finished$", name)
        end
        local decoder = compress.decoder(coding)
        t.ok(decoder:write(out) .. decoder:finish() == want, name)
      end
    end
  end
end)

t.test("decoder:write and finish return their output once, for each method that a finalizer calls", function()
  local text = pattern(100000)
  for _, coding in ipairs { "gzip", "deflate", "br" } do
    local data = compress.encoder(coding):finish(text)
    for _, outer in ipairs { "write", "finish" } do
      for _, inner in ipairs { "write", "flush", "finish" } do
        local name = coding .. " " .. outer .. " " .. inner
        local decoder, said = compress.decoder(coding)
        local out = with_finalizer(once(function()
          said = table.pack(pcall(decoder[inner], decoder, "more"))
        end), decoder[outer], decoder, data)
        t.ok(out == text, name)
        if outer == "finish" then
          t.ok(not said[1] and said[2]:find "the decoder is finished$", name)
        elseif inner == "flush" then
          t.eq(said, { true, "", n = 2 }, name)
        else
          t.eq({ said[1], said[2], said[4] }, { true, nil, "corrupt" }, name)
        end
      end
    end
  end
end)

t.test("a coder whose __gc is called while its output becomes a string returns the output", function()
  local encoder, text = compress.encoder "gzip", noise(5000)
  local out = with_finalizer(once(function() drop(encoder) end), encoder.finish, encoder, text)
  t.ok(compress.decoder "gzip":write(out) == text)
  t.raises("lio.compress.encoder expected", encoder.write, encoder, "more")
end)

-- Returns a parser that has been fed a whole form: two parts with different fields.
local function form()
  local m = http.multipart("multipart/form-data; boundary=b", 10, 10000)
  local function part(name, value)
    return "--b\r\nContent-Disposition: form-data; name=" .. name .. "; filename=" .. name:rep(100)
      .. "\r\nContent-Type: text/" .. name .. "\r\nX-" .. name .. ": " .. value .. "\r\n\r\n" .. value .. "\r\n"
  end
  m:feed(part("one", ("1"):rep(1000)) .. part("two", ("2"):rep(3000)) .. "--b--\r\n")
  m:end_body()
  return m
end

local function content_type(...) return select("#", ...), (...), select(2, ...), select(4, ...)["content-type"] end

t.test("multipart:next returns a whole part, even if a finalizer reads the next parts", function()
  local ones, twos = ("1"):rep(1000), ("2"):rep(3000)
  for name, case in pairs {
    next = { {}, { 4, "part", "two", "text/two" }, twos },
    piece = { {}, { 1, ones }, "" },
    text = { {}, { 1, ones }, ones },
    peek = { {}, { 1, true }, ones },
    feed = { { "x" }, { 0 }, ones },
    end_body = { {}, { 3, nil, 400 }, ones },
  } do
    local arguments, want, rest = table.unpack(case)
    local m, said = form()
    local function call() said = table.pack(m[name](m, table.unpack(arguments))) end
    local found = table.pack(with_finalizer(once(call), m.next, m))
    t.eq(found, { "part", "one", ("one"):rep(100), {
      ["content-disposition"] = "form-data; name=one; filename=" .. ("one"):rep(100),
      ["content-type"] = "text/one", ["x-one"] = ones,
    }, n = 4 }, name)
    local kind = type(said[4]) == "table" and said[4]["content-type"] or nil
    t.eq({ said.n, said[1], said[2], kind }, want, name)
    t.eq(m:text(), rest, name)
    if name ~= "next" then
      t.eq(table.pack(content_type(m:next())), { 4, "part", "two", "text/two", n = 4 })
      t.eq(m:text(), twos)
    end
    t.is_nil(m:next())
  end
end)

t.test("multipart:next whose parser a finalizer drops returns the part, and later calls are refused", function()
  local m = form()
  t.eq({ content_type(with_finalizer(once(function() drop(m) end), m.next, m)) }, { 4, "part", "one", "text/one" })
  t.ok(tostring(refusal(m.next, m)):find "lio.http.multipart expected")
end)

t.test("calls of bootstrap that convert a number while a finalizer calls deinit find no system", function()
  local boot = require "ltask.bootstrap"
  for name, call in pairs {
    ["new_service of generation 1"] = function() boot.new_service(12345, "return", 1) end,
    ["new_service of generation 2"] = function() boot.new_service(12345, "return", "=x", 1) end,
    ["new_service with a number for its source"] = function() boot.new_service("x", 12345, "=x", 1) end,
    ["preinit"] = function() boot.preinit(12345) end,
  } do
    boot.init { worker = 1 }
    local message = with_finalizer(once(boot.deinit), refusal, call)
    t.ok(tostring(message):find "no system: call bootstrap.init first", name .. ": " .. tostring(message))
    boot.init { worker = 1 }
    boot.deinit()
  end
end)

t.test("no finalizer runs during bootstrap.init; a finalizer that calls init runs later, and is refused", function()
  local boot = require "ltask.bootstrap"
  local config, message = { worker = 1 }, nil
  with_finalizer(once(function() message = refusal(boot.init, { worker = 1 }) end), function()
    boot.init(config)
    return {}
  end)
  t.ok(tostring(message):find "init: a system already exists", tostring(message))
  boot.deinit()
end)

t.test("a second answer to a request, sent by a finalizer, is refused", function()
  local request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" .. pattern(5000)
  for name, inner in pairs {
    respond = function(req) http.request.respond(req, 500, nil, "inner") end,
    begin_body = function(req) http.request.begin_body(req, 500) end,
  } do
    local server, close_all, far = reentry.server(http.routes(), request)
    local said
    reentry.serve(server, function(req)
      http.request.add_field(req, "X-A", 12345.5)
      t.eq(http.request.respond(req, 200, nil, "outer"), true)
      with_finalizer(function() said = said or refusal(inner, req) end, http.body_of, req)
    end)
    t.ok(tostring(said):find "the request has already been answered$", name .. ": " .. tostring(said))
    t.eq(far:recv():gsub("Date: [^\r]*", "Date: now"),
      "HTTP/1.1 200 OK\r\nX-A: 12345.5\r\nContent-Length: 5\r\nDate: now\r\n\r\nouter")
    close_all()
  end
end)

t.test("an answer whose connection was closed or whose server was dropped writes to no freed memory", function()
  for _, what in ipairs { "close", "server" } do
    local server, _, far = reentry.server(http.routes(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    local dispatcher, said = server:dispatcher(), nil
    reentry.serve(server, function(req)
      http.request.add_field(req, "X-A", 12345.5)
      if what == "close" then server:close() else drop(server) end
      said = refusal(http.request.respond, req, 200, nil, "outer")
    end, dispatcher)
    if what == "close" then
      t.eq(said, true)
      t.is_nil(far:recv())
    else
      t.ok(tostring(said):find "lio.http.server expected", tostring(said))
    end
    drop(dispatcher)
    far:close()
  end
end)

t.test("routes whose __gc runs in add are refused; in params and matches they return their results", function()
  local routes = http.routes()
  local message = with_finalizer(once(function() drop(routes) end), refusal, routes.add, routes, 12345.5, "/")
  t.ok(tostring(message):find "lio.http.routes expected", tostring(message))
  for call, want in pairs { params = { a = ("p"):rep(1000), b = "q" }, matches = { 1, 0 } } do
    routes = http.routes()
    local id = routes:add("GET", "/:a/:b")
    local head = reentry.request(routes, "GET /" .. ("p"):rep(1000) .. "/q HTTP/1.1\r\nHost: a\r\n\r\n")
    local dropped = false
    t.eq(with_finalizer(once(function()
      drop(routes)
      dropped = true
    end), head[call], head, routes, id), want, call)
    t.ok(dropped)
    message = refusal(head[call], head, routes, id)
    t.ok(tostring(message):find "lio.http.routes expected", tostring(message))
  end
end)

-- Regression: `reopen` created an epoll descriptor for the dropped object. The descriptor was never closed.
t.test("a closed selector that a call opens again, and whose __gc is called, leaves no descriptor open", function()
  for _, call in ipairs { "_select_add", "_select_mod", "_select_wait" } do
    local sel = lio.create()
    sel:close()
    local _, before = t.descriptors()
    refusal(sel[call], sel, 0, 1)
    drop(sel)
    local message = refusal(sel[call], sel, 0, 1)
    t.ok(tostring(message):find "lio.selector expected", call .. ": " .. tostring(message))
    local _, after = t.descriptors()
    t.eq(after, before, call)
  end
end)

t.test("a call whose socket a finalizer drops is refused", function()
  for name, call in pairs {
    send = function(a) a:send(12345.5) end,
    sendv = function(a) a:sendv("x", 12345.5) end,
    sendto = function(a) a:sendto(12345.5, "/nowhere") end,
    connect = function(a) a:connect(12345.5) end,
    bind = function(a) a:bind(12345.5) end,
    info = function(a) a:info(12345.5) end,
    option = function(a) a:option(12345.5) end,
    shutdown = function(a) a:shutdown(12345.5) end,
  } do
    local a, b = socket.pair()
    b:send "x"
    local message = with_finalizer(once(function() drop(a) end), refusal, call, a)
    t.ok(tostring(message):find "lio.socket expected" or tostring(message):find "bad argument",
      name .. ": " .. tostring(message))
    b:close()
  end
end)

t.test("received bytes are complete if a finalizer drops the socket while they become a string", function()
  local sent = ("x"):rep(50000)
  for _, name in ipairs { "recv", "recvfrom" } do
    for _, size in ipairs { 50000, 1000000 } do
      local a, b = socket.pair()
      t.eq(b:send(sent), #sent)
      local received = with_finalizer(once(function() drop(a) end), a[name], a, size)
      t.eq(received, sent)
      t.raises("lio.socket expected", a[name], a)
      b:close()
    end
  end
end)

t.test("accept and stream.new return their result, even if a finalizer drops their socket", function()
  local listener = socket.create "tcp"
  listener:bind("127.0.0.1", 0)
  listener:listen()
  local client = socket.create "tcp"
  local _, port = listener:info "socket":value()
  client:connect("127.0.0.1", port)
  local accepted = with_finalizer(once(function() drop(listener) end), listener.accept, listener)
  t.eq(client:send "x", 1)
  t.eq(accepted:recv(), "x")
  t.raises("lio.socket expected", listener.accept, listener)
  close(accepted, client)
  local sel = lio.create()
  local a, b = socket.pair()
  local made = with_finalizer(once(function() drop(a) end), stream.new, sel, a)
  t.eq(b:send "y", 1)
  t.eq(made:try_recv(), "y")
  close(made, b, sel)
end)

t.test("a shared writer whose __gc runs in send is refused", function()
  local s, far, sel = connection()
  local o = shared_writer.find(s:shared_writer())
  local message = with_finalizer(once(function() drop(o) end), refusal, o.send, o, 12345.5)
  t.ok(tostring(message):find "lio.shared_writer expected", tostring(message))
  close(s, far, sel)
end)

t.test("resolver:answer with answer in a finalizer returns each answer once and complete", function()
  local sel = lio.create()
  local r = resolver.new(sel:waker())
  local first, second
  -- The waker fires when an answer is available.
  first = r:query "127.0.0.1"
  for _ in sel:wait(10) do end -- luacheck: ignore 542
  second = r:query "127.0.0.2"
  for _ in sel:wait(10) do end -- luacheck: ignore 542
  local inner
  local id, list = with_finalizer(once(function() inner = table.pack(r:answer()) end), r.answer, r)
  t.eq({ id, list }, { first, { "127.0.0.1" } })
  t.eq(inner, { second, { "127.0.0.2" }, n = 2 })
  t.eq(select("#", r:answer()), 0)
  sel:close()
end)

t.test("open or list of a folder whose __gc runs during the call returns the result; later calls raise", function()
  local dir = t.tmp()
  t.write(dir .. "/a", "text")
  for _, call in ipairs { "open", "list" } do
    local folder = assert(file.folder(dir))
    local name = call == "open" and "a" or ""
    local found = with_finalizer(once(function() drop(folder) end), folder[call], folder, name)
    if call == "open" then
      t.eq(found:read(0, 10), "text")
    else
      t.eq({ #found, found[1].name, found[1].size }, { 1, "a", 4 })
    end
    local message = refusal(file.folder(dir)[call], folder, name)
    t.ok(tostring(message):find "lio.folder expected", message)
  end
end)

t.test("read of a temporary file whose __gc runs during the call returns the content; later calls raise", function()
  local spool = http.spool(t.tmp())
  spool:write(("x"):rep(1000))
  t.eq(with_finalizer(once(function() drop(spool) end), spool.read, spool, 0, 1000), ("x"):rep(1000))
  local message = refusal(spool.read, spool, 0, 1000)
  t.ok(tostring(message):find "expected", tostring(message))
end)

t.finish()
