-- Lua code that runs in the middle of a native call, as a method that tells the descriptor or as a finalizer,
-- may close or change what that call works on: the call fails or goes on, the process stays whole.

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
local k = require "tests.reentrykit"
local http = require "lio.http"
local lio = require "lio"
local socket = require "lio.socket"

local close, connection, exchange, next_request = k.close, k.connection, k.exchange, k.next_request
local with_finalizer = k.with_finalizer

t.test("a descriptor's method that closes the selector makes each call fail", function()
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

t.test("a descriptor's method that closes its socket makes event_add fail", function()
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

t.test("a finalizer that closes the selector while a waker is made leaves a waker of nothing", function()
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

t.test("a finalizer that closes a stream while its bytes are handed over leaves it closed", function()
  local s, far, sel = connection()
  far:send(("x"):rep(5000))
  local data = with_finalizer(function()
    s:release()
  end, s.take, s)
  t.eq(#data, 5000)
  t.eq(s:buffered(), 0)
  t.eq(select(4, s:take()), "closed")
  close(far, sel)
end)

t.test("a finalizer that takes from a stream while its bytes are handed over does not break it", function()
  local s, far, sel = connection()
  far:send(("x"):rep(3000) .. "\n" .. ("y"):rep(10))
  local taken
  local data = with_finalizer(function()
    taken = taken or s:take(4)
  end, s.take, s, "line")
  t.eq(data, ("x"):rep(3000))
  t.eq(taken, "yyyy")
  t.eq(s:buffered(), 6)
  far:send "more"
  s:arm(1)
  t.ok(sel:wait(5)())
  t.eq(s:take(10), "yyyyyymore")
  t.eq(s:buffered(), 0)
  close(s, far, sel)
end)

t.test("more sent than there is counts as all sent", function()
  local s, far, sel = connection()
  t.eq(s:put(100, "a", "b"), true)
  t.eq(s:put(100, "a"), true)
  t.eq(far:recv(), false)
  close(s, far, sel)
end)

t.test("a finalizer that closes a connection while its request is handed over ends it", function()
  local request = "GET / HTTP/1.1\r\nHost: a\r\nX: " .. ("x"):rep(150000)
  local x, s, far, sel = exchange(http.routes(), request)
  while s:buffered() < #request do
    t.eq(x:next(), false)
    for _ in sel:wait(0.1) do -- luacheck: ignore 542
    end
  end
  far:send "\r\n\r\n"
  t.ok(sel:wait(5)())
  local ballast
  local head = with_finalizer(function()
    s:release()
    -- What is freed is used again.
    ballast = ("z"):rep(200000)
  end, x.next, x)
  t.is_nil(head)
  t.ok(ballast)
  close(far, sel)
end)

t.test("a finalizer that reads another request while one is handed over changes nothing of it", function()
  local routes = http.routes()
  local x, s, far, sel = exchange(routes, "GET /one HTTP/1.1\r\nHost: a\r\nX-One: 1\r\n\r\n")
  local y, s2, far2, sel2 = exchange(routes, "GET /" .. ("2"):rep(3000) .. " HTTP/1.1\r\nHost: bb\r\nY: 2\r\n\r\n")
  local other
  local head = with_finalizer(function()
    other = other or y:next()
  end, x.next, x)
  t.eq(#other:path(), 3001)
  t.eq(head:path(), "/one")
  t.eq(head:field "x-one", "1")
  t.eq(head:fields(), { host = "a", ["x-one"] = "1" })
  close(s, far, sel, s2, far2, sel2)
end)

t.test("a finalizer that reads parameters while those of another request are read changes none", function()
  local routes = http.routes()
  local id = routes:add("GET", "/u/:a/:b/:c")
  local function request(letter, size)
    local value = "%20" .. letter:rep(size)
    return ("GET /u/%s/%s/%s HTTP/1.1\r\nHost: a\r\n\r\n"):format(value, value, value)
  end
  local x, s, far, sel = exchange(routes, request("p", 2000))
  local y, s2, far2, sel2 = exchange(routes, request("q", 30000))
  local one, two = next_request(x, sel), next_request(y, sel2)
  local params = with_finalizer(function()
    t.eq(#two:params(routes, id).c, 30001)
  end, one.params, one, routes, id)
  local want = " " .. ("p"):rep(2000)
  t.eq(params, { a = want, b = want, c = want })
  close(s, far, sel, s2, far2, sel2)
end)

t.test("a finalizer that looks routes up while others are looked up changes nothing", function()
  local routes, many = http.routes(), http.routes()
  local id = routes:add("GET", "/a")
  for i = 1, 500 do
    many:add("M" .. i, "/a")
  end
  local x, s, far, sel = exchange(routes, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
  local head = x:next()
  local found = with_finalizer(function()
    t.eq(#head:matches(many), 501)
  end, head.matches, head, routes)
  t.eq(found, { id, 0 })
  close(s, far, sel)
end)

t.test("a finalizer that adds routes while constraints are listed moves none of them", function()
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

t.test("a finalizer that goes on to the next request while trailers are listed changes none", function()
  local routes = http.routes()
  local chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
  local value = ("v"):rep(3000)
  local trailers = "A: " .. value .. "\r\nB: " .. value .. "\r\n\r\n"
  local x, s, far, sel = exchange(routes, chunked .. trailers .. chunked .. "C: " .. ("w"):rep(3000) .. "\r\n\r\n")
  x:next()
  t.eq(x:body(), "x")
  x:answer(200)
  local gone_on
  local found = with_finalizer(function()
    if gone_on then return end
    gone_on = true
    t.ok(x:next())
    t.eq(x:body(), "x")
  end, x.trailers, x)
  t.eq(found, { a = value, b = value })
  close(s, far, sel)
end)

t.test("a stream that its own finalizer was called on is refused by its exchange", function()
  local x, s, far, sel = exchange(http.routes(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
  getmetatable(s).__gc(s)
  t.raises("gone", x.next, x)
  t.raises("gone", x.answer, x, 200)
  close(far, sel)
end)

t.test("routes that their own finalizer was called on are refused by an exchange", function()
  local routes = http.routes()
  local x, s, far, sel = exchange(routes, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
  getmetatable(routes).__gc(routes)
  t.raises("gone", x.next, x)
  close(s, far, sel)
end)

t.test("an answer with a nameless field leaves nothing behind", function()
  local x, s, far, sel = exchange(http.routes(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
  x:next()
  t.raises("header", x.answer, x, 200, nil, "body", { "Good", "1", {}, "2" })
  x:answer(204, nil, nil, nil, nil)
  s:put(0)
  t.ok(far:recv():find "^HTTP/1.1 204 No Content\r\n")
  close(s, far, sel)
end)

t.finish()
