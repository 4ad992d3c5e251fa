-- lio.http.client: responses that a server sends as scripted bytes. Well-formed responses are accepted; malformed and
-- ambiguous responses are errors.

local t = require "tests.kit"
local kit = require "tests.kit.scripted_server"
local loop = require "lio.loop"

local ok, once, always, fails = kit.ok, kit.once, kit.always, kit.fails

kit.test("a response has status, reason, version, headers, body and URL",
  once(ok("hello", "X-A: one\r\nx-a: two\r\n")),
  function(http, url)
    local res = assert(http:get(url .. "/a?b=c"))
    t.eq({ res.status, res.reason, res.version, res.body, res.url }, { 200, "OK", "1.1", "hello", url .. "/a?b=c" })
    t.eq({ res.headers["X-a"], res.headers["content-LENGTH"], res.headers.none }, { "one, two", "5", nil })
    t.eq(res:header_all "x-A", { "one", "two" })
    local names = {}
    for name, value in pairs(res.headers) do names[name] = value end
    t.eq(names, { ["x-a"] = "one, two", ["content-length"] = "5" })
    t.eq(res:header_list(), { "X-A", "one", "x-a", "two", "Content-Length", "5" })
    t.eq(res:text(), "hello")
    t.eq(res.history, {})
    t.eq(res.trailers, {})
  end)

kit.test("json decodes the body, or returns nil, a message and a code", function(c)
  kit.read_request(c)
  c:send(ok '{"a":[1,2]}')
  kit.read_request(c)
  c:send(ok '{"a":')
end, function(http, url)
  t.eq(http:get(url):json(), { a = { 1, 2 } })
  local value, message, code = http:get(url):json()
  t.eq({ value, code }, { nil, "truncated" }, message)
end)

kit.test("the chunks of a body are joined, and the trailers are read", once(
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nX-Sum: 6\r\n\r\n"),
  function(http, url)
    local res = assert(http:get(url))
    t.eq({ res.body, res.trailers }, { "hello!", { ["x-sum"] = "6" } })
  end)

for _, extension in ipairs { ";", ";a;", ";a=", ';a="b', ';a="b\\"', ';a=b"', ";a b" } do
  kit.test("a response with the chunk extension " .. extension .. " is refused", once(
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5" .. extension .. "\r\nhello\r\n0\r\n\r\n"),
    function(http, url)
      local res, message, code = http:get(url)
      t.eq({ res, code }, { nil, "protocol" }, message)
      t.ok(message:find "malformed chunk", message)
    end)
end

kit.test("a body without a length ends with the connection, which is not reused",
  once "HTTP/1.1 200 OK\r\n\r\nall of it",
  function(http, url)
    t.eq(http:get(url).body, "all of it")
    t.eq(http:counts().open, 0)
  end)

kit.test("responses to HEAD and responses 204 and 304 have no body, even if they have Content-Length", function(c)
  for _, bytes in ipairs {
    "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n",
    ok "after",
  } do
    kit.read_request(c)
    c:send(bytes)
  end
end, function(http, url)
  local res = http:head(url)
  t.eq({ res.status, res.body, res.headers["content-length"] }, { 200, "", "500" })
  t.eq(http:get(url).body, "")
  t.eq(http:get(url).body, "")
  t.eq(http:get(url).body, "after")
  t.eq(http:counts(), { open = 1, idle = 1, opened = 1, reused = 3 })
end)

kit.test("interim responses are skipped", once(
  "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" .. ok "x"), function(http, url)
  local res = assert(http:get(url))
  t.eq({ res.status, res.headers.link, res.body }, { 200, nil, "x" })
end)

kit.test("a request fails if the interim responses do not end", function(c)
  kit.read_request(c)
  repeat until not c:send "HTTP/1.1 102 Processing\r\n\r\n"
end, function(http, url)
  fails("protocol", "interim", http:get(url))
end)

kit.test("a request fails on an unrequested 101", once "HTTP/1.1 101 Switching Protocols\r\n\r\n", function(http, url)
  fails("protocol", "the server switched protocols, which was not requested", http:get(url))
end)

kit.test("after an upgrade, the program can take over the connection and its buffered bytes", function(c)
  t.eq(kit.field(kit.read_request(c), "upgrade"), "echo")
  c:send "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\nfirst"
  c:send(c:recv(4))
end, function(http, url)
  local res = assert(http:get(url, { headers = { Upgrade = "echo", Connection = "upgrade" } }))
  t.eq({ res.status, res.headers.upgrade }, { 101, "echo" })
  local c <close> = res:take_over()
  t.eq(http:counts().open, 0)
  t.eq(c:recv(5), "first")
  c:send "ping"
  t.eq(c:recv(4), "ping")
  t.raises("take_over", res.take_over, res)
end)

kit.test("a response that arrives byte by byte is read", function(c)
  kit.read_request(c)
  for byte in ("HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"):gmatch "." do
    c:send(byte)
    loop.sleep(0)
  end
end, function(http, url)
  local res = assert(http:get(url))
  t.eq({ res.body, res.headers.a }, { "abc", "b" })
end)

local CHUNKED <const> = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

for _, case in ipairs {
  { "a status line of another protocol", "SSH-2.0-x\r\n\r\n", "protocol" },
  { "an unknown version", "HTTP/2.0 200 OK\r\n\r\n", "protocol" },
  { "a status of two digits", "HTTP/1.1 20 OK\r\n\r\n", "protocol" },
  { "two framings", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "protocol" },
  { "differing lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "protocol" },
  { "a length in hexadecimal", "HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\na", "protocol" },
  { "an unknown transfer coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "protocol" },
  { "a folded line", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "protocol" },
  { "a bare line feed", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", "protocol" },
  { "a space before the colon", "HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "protocol" },
  { "a NUL in a value", "HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", "protocol" },
  { "a malformed chunk size", CHUNKED .. "-1\r\n", "protocol" },
  { "a chunk longer than its size", CHUNKED .. "1\r\nab\r\n0\r\n\r\n", "protocol" },
  { "no bytes", "", "truncated" },
  { "half a head", "HTTP/1.1 200 OK\r\nA: ", "truncated" },
  { "half a body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "truncated" },
  { "half a chunk", CHUNKED .. "5\r\nab", "truncated" },
  { "a chunked body without its end", CHUNKED .. "1\r\na\r\n", "truncated" },
} do
  kit.test("a request fails if it gets " .. case[1], once(case[2]), function(http, url)
    fails(case[3], ".", http:post(url, { body = "x" }))
    t.eq(http:counts().open, 0)
  end)
end

kit.test("the request fails if the connection is reset within a body without a length", function(c)
  -- A close with unread bytes resets the connection.
  c:wait_readable()
  c:send "HTTP/1.1 200 OK\r\n\r\nabc"
end, function(http, url)
  fails("reset", "reset", http:get(url))
end)

kit.test("the request fails if the head is larger than max_header", function(c)
  kit.read_request(c)
  c:send("HTTP/1.1 200 OK\r\n", ("A: " .. ("x"):rep(100) .. "\r\n"):rep(30), "\r\n")
  c:recv()
end, function(http, url)
  fails("too long", "header section", http:get(url))
end, { max_header = 2000 })

-- The pattern of a host took a time that grows with the square of the length: 13 s for 60,000 digits.
kit.test("a redirect to a host of very many digits fails at once", function(c)
  local digits = ("1"):rep(1000 * 1000)
  local places = { "//" .. digits .. "!/", "//" .. digits .. ":" .. digits .. "x/", "//h:" .. digits .. "/" }
  while true do
    local head = kit.read_request(c)
    if not head then return end
    local place = places[tonumber(head:match "/(%d)")]
    c:send("HTTP/1.1 302 Found\r\nLocation: " .. place .. "\r\nContent-Length: 0\r\n\r\n")
  end
end, function(http, url)
  for at = 1, 2 do fails("redirect", "redirect: malformed host", http:get(url .. "/" .. at)) end
  fails("redirect", "redirect: port out of range", http:get(url .. "/3"))
end, { max_header = 4 << 20 })

kit.test("the request fails if the head has more than max_fields fields", function(c)
  kit.read_request(c)
  c:send("HTTP/1.1 200 OK\r\n", ("A: b\r\n"):rep(11), "\r\n")
  c:recv()
end, function(http, url)
  fails("too long", "fields", http:get(url))
end, { max_fields = 10 })

for name, bytes in pairs {
  ["with a length"] = ok(("x"):rep(101)),
  ["in chunks"] = CHUNKED .. ("33\r\n" .. ("x"):rep(51) .. "\r\n"):rep(2) .. "0\r\n\r\n",
  ["without a length"] = "HTTP/1.1 200 OK\r\n\r\n" .. ("x"):rep(101),
} do
  kit.test("the request fails if the body is larger than the limit, " .. name, once(bytes), function(http, url)
    fails("too long", "larger", http:get(url))
    t.eq(http:counts().open, 0)
  end, { limit = 100 })
end

kit.test("a body with exactly as many bytes as the limit is accepted", always(ok(("x"):rep(100))), function(http, url)
  t.eq(#http:get(url, { limit = 100 }).body, 100)
  fails("too long", "larger", http:get(url, { limit = 99 }))
end)

kit.test("bytes after a response are not used as the next response", function(c, number)
  kit.read_request(c)
  c:send(ok "one" .. (number == 1 and ok "smuggled" or ""))
  kit.read_request(c)
end, function(http, url)
  t.eq(http:get(url).body, "one")
  t.eq(http:get(url).body, "one")
  t.eq(http:counts().opened, 2)
end)

kit.test("a streamed body arrives in pieces, and the connection is idle when it has ended", function(c)
  kit.read_request(c)
  c:send "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"
  c:recv(1)
  c:send "3\r\ntwo\r\n0\r\nX-T: y\r\n\r\n"
  kit.read_request(c)
end, function(http, url)
  local res = assert(http:get(url, { stream = true, headers = { A = "b" } }))
  t.eq({ res.body, res:piece() }, { nil, "one" })
  t.eq(http:counts().idle, 0)
  -- The server waits for this byte before it sends the second chunk.
  res.conn.c:send "x"
  t.eq(res:piece(), "two")
  t.eq({ res:piece() }, {})
  t.eq({ res:piece() }, {})
  t.eq(res.trailers, { ["x-t"] = "y" })
  t.eq(http:counts().idle, 1)
end)

kit.test("stream returns every piece, and raises an error if the body ends early", function(c, number)
  kit.read_request(c)
  c:send(number == 1 and ok "abc" or "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nabc")
end, function(http, url)
  local pieces = {}
  for piece in http:get(url, { stream = true }):stream() do pieces[#pieces + 1] = piece end
  t.eq(table.concat(pieces), "abc")
  -- Waits until the client has removed the connection, which the server has closed.
  repeat loop.sleep(0.001) until http:counts().open == 0
  t.raises("response body: the connection ended", function()
    for _ in http:get(url, { stream = true }):stream() do end
  end)
end)

kit.test("leaving the loop over a stream, closing the response or collecting it closes the connection", function(c)
  kit.read_request(c)
  c:send "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"
  t.is_nil(c:recv())
end, function(http, url)
  for _ in http:get(url, { stream = true }):stream() do break end
  t.eq(http:counts().open, 0)
  local res = http:get(url, { stream = true })
  res:close()
  t.eq(http:counts().open, 0)
  fails("closed", "closed", res:text())
  do local _ <close> = http:get(url, { stream = true }) end
  t.eq(http:counts().open, 0)
  t.eq(http:get(url, { stream = true }).status, 200)
  collectgarbage()
  collectgarbage()
  t.eq(http:counts().open, 0)
end)

kit.test("text returns the unread part of a stream", once(ok "abcdef"), function(http, url)
  local res = http:get(url, { stream = true })
  t.eq({ res:text(), res.body, http:counts().idle }, { "abcdef", "abcdef", 1 })
end)

kit.test("a limit may be 0, an integer of any size, or infinite", function(c)
  local coded = require("lio.compress").encoder("gzip"):finish(("x"):rep(100))
  local head = kit.read_request(c)
  while head do
    c:send(head:find "/coded" and ok(coded, "Content-Encoding: gzip\r\n") or ok(("x"):rep(100)))
    head = kit.read_request(c)
  end
end, function(http, url)
  for _, path in ipairs { "/plain", "/coded" } do
    for _, limit in ipairs { math.huge, math.maxinteger, 100 } do
      t.eq(#assert(http:get(url .. path, { limit = limit })).body, 100)
    end
    for _, limit in ipairs { 99, 1, 0 } do
      fails("too long", ".", http:get(url .. path, { limit = limit }))
    end
  end
end)

kit.test("a streamed body is limited only if the request sets a limit", once(ok "abcdef"), function(http, url)
  local res = http:get(url, { stream = true, limit = 5 })
  fails("too long", "larger", res:piece())
  fails("too long", "larger", res:piece())
end, { limit = 3 })

t.finish()
