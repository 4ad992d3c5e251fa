-- A finalizer that runs while a method allocates may call any other method of the same object: what is handed over is
-- handed over once, and nothing is freed twice. Each test names the call and what its finalizer calls.

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
local k = require "tests.reentrykit"
local ltask = require "tests.ltaskkit"
local compress = require "lio.compress"
local file = require "lio.file"
local http = require "lio.http"
local lio = require "lio"
local outlet = require "lio.outlet"
local resolver = require "lio.resolver"
local socket = require "lio.socket"
local stream = require "lio.stream"

local close, connection = k.close, k.connection
local with_finalizer = k.with_finalizer

-- `f`, which does something at its first call only.
local function once(f)
  local called
  return function()
    if called then return end
    called = true
    f()
  end
end

-- Bytes that tell where they stand.
local function pattern(length)
  local parts = {}
  for i = 1, length // 5 do parts[i] = ("%05d"):format(i) end
  return table.concat(parts)
end

-- Bytes that no coding makes shorter.
local function noise(length)
  local parts = {}
  for i = 1, length // 8 do parts[i] = ("<i8"):pack(math.random(0)) end
  return table.concat(parts)
end

-- Drops the value of an object, as the collector would.
local function drop(object) getmetatable(object).__gc(object) end

-- What a busy object says to a finalizer that calls `f`.
local function refusal(f, ...)
  local done, message = pcall(f, ...)
  return done or message
end

t.test("stream:take(100) with take and unread inside hands out each byte once", function()
  local s, far, sel = connection()
  local sent = pattern(5000)
  far:send(sent)
  local inner
  local data = with_finalizer(once(function()
    inner = s:take()
    s:unread(inner)
  end), s.take, s, 100)
  t.eq(data, sent:sub(1, 100))
  t.eq(inner, sent:sub(101))
  t.eq(s:buffered(), 4900)
  t.eq(s:take(4900), sent:sub(101))
  t.eq(s:take(), false)
  close(s, far, sel)
end)

t.test("stream:take(500) with release inside gives the bytes, and the stream is closed", function()
  local s, far, sel = connection()
  local sent = pattern(5000)
  far:send(sent)
  local data = with_finalizer(function() s:release() end, s.take, s, 500)
  t.eq(data, sent:sub(1, 500))
  t.eq(s:buffered(), 0)
  t.eq(select(4, s:take()), "closed")
  close(far, sel)
end)

t.test("stream:take(500) with its own __gc inside gives the bytes, and the stream is refused", function()
  local s, far, sel = connection()
  local sent = pattern(5000)
  far:send(sent)
  local data = with_finalizer(once(function() drop(s) end), s.take, s, 500)
  t.eq(data, sent:sub(1, 500))
  t.raises("lio.connection expected", s.take, s)
  close(far, sel)
end)

t.test("stream:take() of all there is with a take of what comes next inside", function()
  local s, far, sel = connection()
  local sent = pattern(5000)
  far:send(sent)
  local inner
  local data = with_finalizer(once(function()
    far:send "next"
    -- What was known of the socket is that it is dry.
    s:arm(1)
    for _ in sel:wait(5) do -- luacheck: ignore 542
    end
    inner = s:take(4)
  end), s.take, s)
  t.eq(data, sent)
  t.eq(inner, "next")
  t.eq(s:buffered(), 0)
  close(s, far, sel)
end)

t.test("what a failed stream:take hands over with the failure is not handed to a finalizer, too", function()
  local s, far, sel = connection()
  local rest = pattern(5000)
  far:send(rest)
  s:unread(s:take(#rest))
  far:close()
  s:arm(1)
  t.ok(sel:wait(5)())
  local inner = {}
  local data = table.pack(with_finalizer(once(function()
    inner = table.pack(s:take(3))
  end), s.take, s, 10000))
  t.eq(data, { nil, "closed", rest, "closed", n = 4 })
  t.eq(inner, { nil, "closed", "", "closed", n = 4 })
  close(s, sel)
end)

ltask.both("bytes that a service has no memory for stay in the stream", {
  main = [[
    local lio, socket, stream = require "lio", require "lio.socket", require "lio.stream"
    local sel = assert(lio.create())
    local near, far = socket.pair()
    far:option("sndbuf", 1000000)
    local s = assert(stream.new(sel, near))
    local sent = ("0123456789"):rep(20000)
    far:send(sent)
    local data = s:take(#sent)
    while not data do
      for _ in sel:wait(5) do end
      data = s:take(#sent)
    end
    s:unread(data)
    data = nil
    collectgarbage()
    ltask.mem_limit(ltask.mem_count().memory + 50000)
    local done, message = pcall(s.take, s, 150000)
    ltask.mem_limit(0)
    say(done, tostring(message):match "not enough memory")
    say(s:take(200000) == sent, s:buffered())
    s:release()
  ]],
  out = function(out)
    t.ok(out:find("false\tnot enough memory\ntrue\t0", 1, true), out)
  end,
})

t.test("a number that becomes a string, with __gc of the stream inside, leaves no stream to work on", function()
  for name, call in pairs {
    unread = function(s) s:unread(12345) end,
    put = function(s) s:put(0, 12345) end,
    take = function(s) s:take("until", 51377) end,
    option = function(s) s:set_option(61377) end,
    address = function(s) s:address(71377) end,
    cut = function(s) s:cut(81377) end,
  } do
    local s, far, sel = connection()
    far:send "x"
    local message = with_finalizer(once(function() drop(s) end), refusal, call, s)
    t.ok(message:find "lio.connection expected" or name ~= "unread" and message:find "bad argument", message)
    close(far, sel)
  end
end)

t.test("server:body of a length with body inside gives the body once", function()
  local body = pattern(5000)
  local request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" .. body
    .. "GET / HTTP/1.1\r\nHost: b\r\n\r\n"
  local server, close_all = k.server(http.routes(), request)
  local hosts = {}
  k.serve(server, function(req)
    local _, id = http.head.owner(req)
    hosts[#hosts + 1] = req:host()
    if #hosts > 1 then return end
    local inner
    local data = with_finalizer(once(function() inner = server:body(id) end), server.body, server, id)
    t.eq(data, body)
    t.eq(inner, "")
    server:answer(id, 204)
  end)
  t.eq(hosts, { "a", "b" })
  close_all()
end)

t.test("server:body of chunks with body inside gives the body once", function()
  local body = pattern(5000)
  local request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
  for i = 1, 5000, 1000 do request = request .. "3e8\r\n" .. body:sub(i, i + 999) .. "\r\n" end
  k.handle(http.routes(), request .. "0\r\n\r\n", function(server, id)
    local inner
    local data = with_finalizer(once(function() inner = server:body(id) end), server.body, server, id)
    t.eq(data, body)
    t.eq(inner, "")
  end)
end)

t.test("http.body_of with body_of inside gives the body once, and keeps it", function()
  local body = pattern(5000)
  local request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" .. body
  local req = k.handle(http.routes(), request, function(_, _, req)
    t.eq(with_finalizer(once(function() http.body_of(req) end), http.body_of, req), body)
    return req
  end)
  t.eq(http.body_of(req), body)
end)

t.test("server:piece with piece and close inside gives each piece once", function()
  local request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    .. "3e8\r\n" .. ("a"):rep(1000) .. "\r\n3e8\r\n" .. ("b"):rep(1000) .. "\r\n"
  k.handle(http.routes(), request, function(server, id)
    local inner
    local data = with_finalizer(once(function()
      inner = server:piece(id)
      server:close()
    end), server.piece, server, id)
    t.eq(data, ("a"):rep(1000))
    t.eq(inner, ("b"):rep(1000))
  end)
end)

t.test("server:body with __gc of the server inside gives the body, and the server is refused", function()
  local request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    .. "3e8\r\n" .. ("a"):rep(1000) .. "\r\n0\r\n\r\n"
  local server, _, far = k.server(http.routes(), request)
  local run = server:run()
  k.serve(server, function(req)
    local _, id = http.head.owner(req)
    t.eq(with_finalizer(once(function() drop(server) end), server.body, server, id), ("a"):rep(1000))
    t.raises("lio.http.server expected", server.body, server, id)
  end, run)
  drop(run)
  far:close()
end)

t.test("http.serve with serve inside, and another head at the same place, does not mix the two", function()
  local function request(path) return "GET /" .. path .. " HTTP/1.1\r\nHost: a\r\n\r\n" end
  local server, close_all, far = k.server(http.routes(), request "one")
  local paths = {}
  local function handle(req)
    paths[#paths + 1] = req:path()
    local _, id = http.head.owner(req)
    server:answer(id, 204)
  end
  with_finalizer(once(function()
    -- What comes now comes to lie where the first head has lain.
    far:send(request "two")
    k.serve(server, handle)
  end), k.serve, server, handle)
  k.serve(server, handle)
  t.eq(paths, { "/one", "/two" })
  close_all()
end)

-- The answers of a connection whose peer has sent `bytes`.
local function answers(bytes)
  local s, far, sel = connection()
  far:send(bytes)
  local a = http.answers(s, 100000, 100)
  a:expect(false)
  return a, s, far, sel
end

t.test("answers:head with head of other answers inside changes nothing of it", function()
  local a, s, far, sel = answers "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-One: 1\r\n\r\n"
  local b, s2, far2, sel2 = answers("HTTP/1.1 200 OK\r\nX: " .. ("2"):rep(3000) .. "\r\n\r\n")
  local other
  local status, head = with_finalizer(once(function() other = select(2, b:head()) end), a.head, a)
  t.eq(status, 200)
  t.eq(head:fields(), { ["content-length"] = "0", ["x-one"] = "1" })
  t.eq(#other:field "x", 3000)
  close(s, far, sel, s2, far2, sel2)
end)

t.test("answers:body with body and take inside gives the body once", function()
  local body = pattern(5000)
  for _, chunked in ipairs { false, true } do
    local framing = chunked and "Transfer-Encoding: chunked\r\n\r\n1388\r\n" or "Content-Length: 5000\r\n\r\n"
    local ending = chunked and "\r\n0\r\n\r\nHT" or "HT"
    local a, s, far, sel = answers("HTTP/1.1 200 OK\r\n" .. framing .. body .. ending)
    t.eq(a:head(), 200)
    local inner, taken
    local data = with_finalizer(once(function()
      inner = a:body()
      taken = s:take(1)
    end), a.body, a)
    t.eq(data, body)
    t.eq(inner, "")
    t.eq(taken, "H")
    t.eq(s:take(1), "T")
    close(s, far, sel)
  end
end)

t.test("answers:piece with piece and __gc of the stream inside gives each piece once", function()
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
  t.raises("the connection of the responses is missing", a.piece, a)
  close(far, sel)
end)

t.test("encoder:flush, write and finish go on with what a finalizer writes meanwhile", function()
  -- Nothing to be made shorter, so that each call lets something out.
  local text = noise(400000)
  for _, coding in ipairs { "gzip", "deflate", "br" } do
    -- Brotli's `write` lets nothing out of as little as this.
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

t.test("decoder:write and finish give their output once, whatever a finalizer calls meanwhile", function()
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

t.test("a coder whose __gc is called while its output is handed over has given it", function()
  local encoder, text = compress.encoder "gzip", noise(5000)
  local out = with_finalizer(once(function() drop(encoder) end), encoder.finish, encoder, text)
  t.ok(compress.decoder "gzip":write(out) == text)
  t.raises("lio.compress.encoder expected", encoder.write, encoder, "more")
end)

-- A parser that was fed two parts with fields of their own.
local function form()
  local m = http.multipart("multipart/form-data; boundary=b", 10, 10000)
  local function part(name, value)
    return "--b\r\nContent-Disposition: form-data; name=" .. name .. "; filename=" .. name:rep(100)
      .. "\r\nContent-Type: text/" .. name .. "\r\nX-" .. name .. ": " .. value .. "\r\n\r\n" .. value .. "\r\n"
  end
  m:feed(part("one", ("1"):rep(1000)) .. part("two", ("2"):rep(3000)) .. "--b--\r\n")
  m:finish()
  return m
end

local function content_type(...) return select("#", ...), (...), select(2, ...), select(4, ...)["content-type"] end

t.test("multipart:next gives a part whole, whatever a finalizer calls meanwhile, which finds what follows", function()
  local ones, twos = ("1"):rep(1000), ("2"):rep(3000)
  for name, case in pairs {
    next = { {}, { 4, "part", "two", "text/two" }, twos },
    piece = { {}, { 1, ones }, "" },
    text = { {}, { 1, ones }, ones },
    peek = { {}, { 1, true }, ones },
    feed = { { "x" }, { 0 }, ones },
    finish = { {}, { 3, nil, 400 }, ones },
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

t.test("multipart:next with __gc of the parser inside gives the part, and is refused from then on", function()
  local m = form()
  t.eq({ content_type(with_finalizer(once(function() drop(m) end), m.next, m)) }, { 4, "part", "one", "text/one" })
  t.ok(tostring(refusal(m.next, m)):find "lio.http.multipart expected")
end)

t.test("bootstrap's calls with a number for a label, with deinit inside, find no system", function()
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

t.test("bootstrap.init runs no finalizer; one that calls init runs behind it, and is refused", function()
  local boot = require "ltask.bootstrap"
  local config, message = { worker = 1 }, nil
  with_finalizer(once(function() message = refusal(boot.init, { worker = 1 }) end), function()
    boot.init(config)
    return {}
  end)
  t.ok(tostring(message):find "init: there is a system already", tostring(message))
  boot.deinit()
end)

t.test("an answer that a finalizer gives while another is given is refused", function()
  local request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" .. pattern(5000)
  for name, inner in pairs {
    answer = function(server, id) server:answer(id, 500, nil, "inner") end,
    start = function(server, id) server:start(id, 500) end,
  } do
    local server, close_all, far = k.server(http.routes(), request)
    local said
    k.serve(server, function(req)
      local _, id = http.head.owner(req)
      server:add_field(id, "X-A", 12345.5)
      t.eq(server:answer(id, 200, nil, "outer"), true)
      with_finalizer(function() said = said or refusal(inner, server, id) end, server.body, server, id)
    end)
    t.ok(tostring(said):find "the request is answered already$", name .. ": " .. tostring(said))
    t.eq(far:recv():gsub("Date: [^\r]*", "Date: now"),
      "HTTP/1.1 200 OK\r\nX-A: 12345.5\r\nContent-Length: 5\r\nDate: now\r\n\r\nouter")
    close_all()
  end
end)

t.test("an answer to a connection that was closed, or whose server is gone, does not write to what is gone", function()
  for _, what in ipairs { "close", "server" } do
    local server, _, far = k.server(http.routes(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    local run, said = server:run(), nil
    k.serve(server, function(req)
      local _, id = http.head.owner(req)
      server:add_field(id, "X-A", 12345.5)
      if what == "close" then server:close() else drop(server) end
      said = refusal(server.answer, server, id, 200, nil, "outer")
    end, run)
    if what == "close" then
      t.eq(said, true)
      t.is_nil(far:recv())
    else
      t.ok(tostring(said):find "lio.http.server expected", tostring(said))
    end
    drop(run)
    far:close()
  end
end)

t.test("routes with their __gc called inside add are refused; params and matches give what was found", function()
  local routes = http.routes()
  local message = with_finalizer(once(function() drop(routes) end), refusal, routes.add, routes, 12345.5, "/")
  t.ok(tostring(message):find "lio.http.routes expected", tostring(message))
  for call, want in pairs { params = { a = ("p"):rep(1000), b = "q" }, matches = { 1, 0 } } do
    routes = http.routes()
    local id = routes:add("GET", "/:a/:b")
    local head = k.request(routes, "GET /" .. ("p"):rep(1000) .. "/q HTTP/1.1\r\nHost: a\r\n\r\n")
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

-- `reopen` used to make an epoll descriptor for the dropped object, which was never closed.
t.test("a closed selector that a call opens again, and its __gc called, leaves no descriptor behind", function()
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

t.test("a socket with its __gc called inside a call is refused by it", function()
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

t.test("what is received is whole when a finalizer drops the socket as Lua gets it", function()
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

t.test("what takes from a listener or a socket that is dropped meanwhile works or gives an error", function()
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
  t.eq(made:take(), "y")
  close(made, b, sel)
end)

t.test("an outlet with its __gc called inside send is refused", function()
  local s, far, sel = connection()
  local o = outlet.find(s:outlet())
  local message = with_finalizer(once(function() drop(o) end), refusal, o.send, o, 12345.5)
  t.ok(tostring(message):find "lio.outlet expected", tostring(message))
  close(s, far, sel)
end)

t.test("resolver:answer with answer inside gives each answer once and whole", function()
  local sel = lio.create()
  local r = resolver.new(sel:waker())
  local first, second
  -- Each answer rings, and is there then.
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

t.test("a folder with its __gc called inside open or list gives what it found, and an error from then on", function()
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

t.test("a temporary file with its __gc called inside read gives what it has, and is refused from then on", function()
  local spool = http.spool(t.tmp())
  spool:write(("x"):rep(1000))
  t.eq(with_finalizer(once(function() drop(spool) end), spool.read, spool, 0, 1000), ("x"):rep(1000))
  local message = refusal(spool.read, spool, 0, 1000)
  t.ok(tostring(message):find "expected", tostring(message))
end)

t.finish()
