-- Lua code that runs during a native call, as a finalizer or as a method that returns a descriptor, may close or change
-- the object of the call. The call then fails or continues, and the process does not crash.

local t = require "tests.kit"
local reentry = require "tests.kit.reentry"
local http = require "lio.http"
local lio = require "lio"
local socket = require "lio.socket"

local close, connection = reentry.close, reentry.connection
local with_finalizer = reentry.with_finalizer

t.test("if the method that returns the descriptor closes the selector, each call fails", function()
  for _, call in ipairs { "event_add", "event_mod", "event_del", "arm", "set_udata", "epoll_add", "epoll_mod" } do
    local sel = lio.create()
    local a, b = socket.pair()
    sel:event_add(a, 1)
    local closer = {
      handle = function()
        sel:close()
        return a:handle()
      end,
    }
    local done, result = pcall(sel[call], sel, closer, 1, "udata")
    t.ok(not done or not result, call)
    t.ok(not pcall(sel.count, sel))
    close(a, b)
  end
end, { leaks = true })

t.test("if the method that returns the descriptor closes its socket, event_add fails", function()
  local sel = lio.create()
  local a, b = socket.pair()
  local gone = {
    handle = function()
      a:close()
      return a
    end,
  }
  local done, message = sel:event_add(gone, 1)
  t.is_nil(done)
  t.ok(message:find "closed")
  close(b, sel)
end)

t.test("if a finalizer closes the selector while a waker is created, the waker has no selector", function()
  local sel = lio.create()
  local waker = with_finalizer(function()
    sel:close()
  end, sel.waker, sel)
  t.ok(waker:wake())
  t.ok(not pcall(sel.count, sel))
  local _, message, code = lio.waker(waker:handle())
  t.is_nil(message)
  t.is_nil(code)
  local done, closed = pcall(sel.waker, sel)
  t.ok(not done and closed:find "closed")
end)

t.test("a stream that a finalizer closes while its bytes become a string is closed afterwards", function()
  local s, far, sel = connection()
  far:send(("x"):rep(5000))
  local data = with_finalizer(function()
    s:close_now()
  end, s.try_recv, s)
  t.eq(#data, 5000)
  t.eq(s:buffered(), 0)
  t.eq(select(4, s:try_recv()), "closed")
  close(far, sel)
end)

t.test("a finalizer may take from a stream while bytes of the stream become a string", function()
  local s, far, sel = connection()
  far:send(("x"):rep(3000) .. "\n" .. ("y"):rep(10))
  local taken
  local data = with_finalizer(function()
    taken = taken or s:try_recv(4)
  end, s.try_recv, s, "line")
  t.eq(data, ("x"):rep(3000))
  t.eq(taken, "yyyy")
  t.eq(s:buffered(), 6)
  far:send "more"
  s:arm(1)
  t.ok(sel:wait(5)())
  t.eq(s:try_recv(10), "yyyyyymore")
  t.eq(s:buffered(), 0)
  close(s, far, sel)
end)

t.test("if more bytes are reported as sent than were pending, all pending bytes count as sent", function()
  local s, far, sel = connection()
  t.eq(s:try_send(100, "a", "b"), true)
  t.eq(s:try_send(100, "a"), true)
  t.eq(far:recv(), false)
  close(s, far, sel)
end)

t.test("a connection that a finalizer closes while its request is passed to the handler is closed", function()
  local value = ("x"):rep(50000)
  local server, close_all, far = reentry.server(http.routes(),
    "GET / HTTP/1.1\r\nHost: a\r\nX: " .. value .. "\r\n\r\n")
  local ballast, field
  with_finalizer(function()
    -- Close the server only after it has taken the request.
    if server:work_count() == 0 then server:close() end
    -- Reuse the freed memory.
    ballast = ("z"):rep(200000)
  end, reentry.serve, server, function(req)
    field = req:field "x"
    return "late"
  end)
  t.ok(field == value)
  t.ok(ballast)
  t.eq(server:count(), 0)
  t.is_nil(far:recv())
  close_all()
end)

t.test("a finalizer that serves another request while a handler gets its request does not change it", function()
  local first, close_first = reentry.server(http.routes(), "GET /one HTTP/1.1\r\nHost: a\r\nX-One: 1\r\n\r\n")
  local second, close_second =
    reentry.server(http.routes(), "GET /" .. ("2"):rep(3000) .. " HTTP/1.1\r\nHost: bb\r\nY: 2\r\n\r\n")
  local one, two
  with_finalizer(function()
    if not two then reentry.serve(second, function(req) two = req end) end
  end, reentry.serve, first, function(req) one = req end)
  t.eq(#two:path(), 3001)
  t.eq(one:path(), "/one")
  t.eq(one:field "x-one", "1")
  t.eq(one:fields(), { host = "a", ["x-one"] = "1" })
  close_first()
  close_second()
end)

t.test("a finalizer that reads parameters does not change the parameters of another request", function()
  local routes = http.routes()
  local id = routes:add("GET", "/u/:a/:b/:c")
  local function request(letter, size)
    local value = "%20" .. letter:rep(size)
    return reentry.request(routes, ("GET /u/%s/%s/%s HTTP/1.1\r\nHost: a\r\n\r\n"):format(value, value, value))
  end
  local one, two = request("p", 2000), request("q", 30000)
  local params = with_finalizer(function()
    t.eq(#two:params(routes, id).c, 30001)
  end, one.params, one, routes, id)
  local want = " " .. ("p"):rep(2000)
  t.eq(params, { a = want, b = want, c = want })
end)

t.test("a finalizer that matches routes while other routes are matched does not change the result", function()
  local routes, many = http.routes(), http.routes()
  local id = routes:add("GET", "/a")
  for i = 1, 500 do
    many:add("M" .. i, "/a")
  end
  local head = reentry.request(routes, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
  local found = with_finalizer(function()
    t.eq(#head:matches(many), 501)
  end, head.matches, head, routes)
  t.eq(found, { id, 0 })
end)

t.test("a finalizer that adds routes while constraints are listed does not change them", function()
  local routes = http.routes()
  local id = routes:add("GET", "/:a<%d+>/:b<%a+>/:c<%x+>")
  local added
  local constraints = with_finalizer(function()
    for i = 1, added and 0 or 1000 do
      routes:add("GET", "/more/" .. i)
    end
    added = true
  end, routes.constraints, routes, id)
  t.eq(constraints, { a = "%d+", b = "%a+", c = "%x+" })
  t.raises("no such route", routes.method, routes, math.mininteger)
end)

t.test("a finalizer that ends the request while its trailers are listed does not change them", function()
  local value = ("v"):rep(3000)
  local request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
    .. "A: " .. value .. "\r\nB: " .. value .. "\r\n\r\n"
  local found, after = reentry.handle(http.routes(), request, function(req)
    t.eq(http.body_of(req), "x")
    local trailers <const> = http.request.trailers
    return with_finalizer(function() http.request.detach(req) end, trailers, req), trailers(req)
  end)
  t.eq(found, { a = value, b = value })
  t.eq(after, {})
end)

t.test("a server whose __gc was called is refused", function()
  local server, _, far = reentry.server(http.routes(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
  local dispatcher = server:dispatcher()
  getmetatable(server).__gc(server)
  t.raises("lio.http.server expected", server.work_count, server)
  getmetatable(dispatcher).__gc(dispatcher)
  t.raises("lio.http.dispatcher expected", http.serve, dispatcher)
  -- The server's connections are closed.
  t.is_nil(far:recv())
  far:close()
end)

t.test("a server keeps its routes after the __gc of the routes was called", function()
  local routes = http.routes()
  routes:add("GET", "/:a")
  local request = "GET /b HTTP/1.1\r\nHost: a\r\n\r\n"
  local route = reentry.handle(routes, request, function(req)
    getmetatable(routes).__gc(routes)
    return req:route()
  end)
  t.eq(route, 1)
  t.raises("lio.http.routes expected", routes.add, routes, "GET", "/")
end)

t.test("a field that cannot be sent does not change the response", function()
  local server, close_all, far = reentry.server(http.routes(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
  reentry.serve(server, function(req)
    t.is_nil(http.request.add_field(req, "Good", "1"))
    t.ok(http.request.add_field(req, "Bad\r\n", "2"):find "header")
    t.raises("string expected", http.request.add_field, req, {}, "2")
    http.request.clear_fields(req)
    t.eq(http.request.respond(req, 204), true)
  end)
  local sent = far:recv()
  t.ok(sent:find "^HTTP/1.1 204 No Content\r\n")
  t.is_nil(sent:find "Good")
  close_all()
end)

t.finish()
