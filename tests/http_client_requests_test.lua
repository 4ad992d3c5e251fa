-- lio.http.client: the bytes of requests (heads, URLs, bodies), and requests that are refused before anything is sent.

local t = require "tests.kit"
local kit = require "tests.kit.scripted_server"
local loop = require "lio.loop"
local client = require "lio.http.client"
local json = require "lio.json"
local stalls = require "tests.kit.raw_http".stalls

local ok, fails, field = kit.ok, kit.fails, kit.field

-- Responds to each request with JSON that contains the head and the body of the request.
local function mirror(c)
  while true do
    local head, body = kit.read_request(c)
    if not head then return end
    if head:find "\r\nTransfer%-Encoding: chunked" then
      body = {}
      repeat
        local size = tonumber(c:recv "line", 16)
        body[#body + 1] = c:recv(size)
        c:recv(2)
      until size == 0
      body = table.concat(body, "|")
    end
    c:send(ok(json.encode { head = head, body = body }))
  end
end

local function ask(http, options)
  local res = assert(http:request(options))
  local seen = res:json()
  return seen.head, seen.body
end

kit.test("a request without options has Host, User-Agent, Accept and Accept-Encoding", mirror, function(http, url, port)
  t.eq(ask(http, { url = url .. "/path?a=b#fragment" }), "GET /path?a=b HTTP/1.1\r\nHost: 127.0.0.1:" .. port
    .. "\r\nUser-Agent: lio\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate, br")
end)

kit.test("the headers of a request replace the client's headers and the defaults", mirror, function(http, url)
  local head = ask(http, { url = url, headers = { ["user-agent"] = "me", X = { "1", 2 }, A = "own", Host = "other" } })
  t.eq(select(2, head:gsub("\r\nuser%-agent: me", "")), 1)
  t.is_nil(field(head, "User-Agent:lio"))
  t.eq({ field(head, "a"), field(head, "b"), field(head, "host") }, { "own", "theirs", "other" })
  t.ok(head:find "\r\nX: 1\r\nX: 2")
  t.eq(select(2, head:gsub("\r\n[Hh]ost:", "")), 1)
  head = ask(http, { url = url, headers = { { "Z", "1" }, { "A", "2" }, { "Z", "3" } } })
  t.ok(head:find "\r\nZ: 1\r\nA: 2\r\nZ: 3", head)
end, { headers = { A = "theirs", B = "theirs" } })

kit.test("only those bytes of paths and queries that must be escaped are escaped", mirror, function(http, url)
  local function target(path, query)
    return ask(http, { url = url .. path, query = query }):match "^GET (.-) HTTP"
  end
  t.eq(target "/a b/\u{e4}?x=\u{e4} y", "/a%20b/%C3%A4?x=%C3%A4%20y")
  t.eq(target "/a%2fb/%zz%", "/a%2fb/%25zz%25")
  t.eq(target "/a/./b/../c", "/a/c")
  t.eq(target "", "/")
  t.eq(target("/?a=1", "b=2"), "/?a=1&b=2")
  t.eq(target("/", { z = "a&b", a = { 1, true }, ["k k"] = "" }), "/?a=1&a=true&k%20k=&z=a%26b")
  t.eq(target("?x", {}), "/?x")
end)

kit.test("the user and the password of a URL are sent, unless Authorization is set", mirror, function(http, url)
  local with = url:gsub("//", "//us%%40er:pass:w@")
  t.eq(field(ask(http, { url = with }), "authorization"), "Basic dXNAZXI6cGFzczp3")
  t.eq(field(ask(http, { url = with, headers = { Authorization = "x" } }), "authorization"), "x")
  local res = http:get(with)
  t.ok(not res.url:find "pass", res.url)
end)

kit.test("a body may be a string, a list, JSON, a form, a function or a file", mirror, function(http, url)
  local function post(options)
    options.url, options.method = url, "POST"
    local head, body = ask(http, options)
    return { body, field(head, "content-length"), field(head, "content-type"), field(head, "transfer-encoding") }
  end
  t.eq(post { body = "text" }, { "text", "4" })
  t.eq(post { body = { "a", "b" } }, { "ab", "2" })
  t.eq(post { body = "" }, { "", "0" })
  t.eq(post {}, { "", "0" })
  t.eq(post { json = { a = 1 } }, { '{"a":1}', "7", "application/json" })
  t.eq(post { json = 1, headers = { ["content-type"] = "x/y" } }, { "1", "1", "x/y" })
  t.eq(post { form = { a = "b c", d = { "1", "&" } } },
    { "a=b%20c&d=1&d=%26", "17", "application/x-www-form-urlencoded" })
  local pieces = { "one", "", "two" }
  t.eq(post { body = function() return table.remove(pieces, 1) end }, { "one|two|", nil, nil, "chunked" })
  pieces = { "one", "two" }
  t.eq(post { body = function() return table.remove(pieces, 1) end, headers = { ["Content-Length"] = 6 } },
    { "onetwo", "6" })
  local file <close> = assert(io.open(t.write(t.tmp() .. "/file", ("x"):rep(200000) .. "end"), "rb"))
  file:seek("set", 100000)
  local got = post { body = file }
  t.eq({ #got[1], got[1]:sub(-3), got[2] }, { 100003, "end", "100003" })
  t.is_nil(field(ask(http, { url = url }), "content-length"))
end)

kit.test("the pieces of a body are sent as they are produced", mirror, function(http, url)
  local count = 0
  local _, body = ask(http, { url = url, method = "PUT", body = function()
    loop.sleep(0.001)
    count = count + 1
    if count <= 3 then return "piece" .. count end
  end })
  t.eq(body, "piece1|piece2|piece3|")
end)

kit.test("if the body cannot be read, the request fails and its connection is closed", mirror, function(http, url)
  fails("body", "disk full", http:post(url, { body = function() return nil, "disk full" end }))
  fails("body", "shorter", http:post(url, { body = function() end, headers = { ["Content-Length"] = "1" } }))
  t.raises("boom", function() http:post(url, { body = function() error "boom" end }) end)
  t.raises("must return strings", function() http:post(url, { body = function() return 1 end }) end)
  local function long() return "ab" end
  t.raises("more bytes than the Content%-Length", function()
    http:post(url, { body = long, headers = { ["Content-Length"] = "3" } })
  end)
  t.eq(http:counts().open, 0)
end)

kit.test("values with CR, LF or NUL cannot inject fields into a head", mirror, function(http, url)
  for _, bad in ipairs { "a\r\nb: c", "a\nb", "a\rb", "a\0b" } do
    t.raises("CR, LF or NUL", http.get, http, url, { headers = { A = bad } })
    t.raises("header name", http.get, http, url, { headers = { [bad] = "x" } })
    t.raises("control character", http.get, http, url .. "/" .. bad)
    t.raises("control character", http.get, http, url, { query = bad })
    t.raises("method", http.request, http, { url = url, method = bad })
  end
  t.raises("method", http.request, http, { url = url, method = "GET /x HTTP/1.1" })
  t.eq(ask(http, { url = url, query = { a = "\r\n" } }):match "^GET (.-) ", "/?a=%0D%0A")
  t.eq(http:counts().opened, 1)
end)

kit.test("invalid arguments raise errors that name the mistake", mirror, function(http, url)
  t.raises("table expected", http.request, http, url)
  t.raises("url must be a string", http.get, http, nil)
  t.raises("client:get: option 'heders' is unknown %(did you mean 'headers'%?%)", http.get, http, url, { heders = {} })
  t.raises("client:get: option 'timeout' must be a positive number of seconds or false for no limit, got \"1\"",
    http.get, http, url, { timeout = "1" })
  t.raises("'timeout' must be a positive number", http.get, http, url, { timeout = -1 })
  t.raises("only one of body, json and form", http.post, http, url, { body = "", json = 1 })
  t.raises("body must be", http.post, http, url, { body = 5 })
  t.raises("client:post: body must be a string, a list of strings, a function or an open file, "
    .. "not a table with the key 'name' %(option 'json' sends a table as JSON, option 'form' as a form%)$",
    http.post, http, url, { body = { name = "x" } })
  t.raises("not a table with the key 'n' ", http.post, http, url, { body = { "a", n = 1 } })
  t.raises("not a table with a table at %[2%] ", http.post, http, url, { body = { "a", {} } })
  t.raises("client:get: headers: 'A' must be a string or a number, got boolean", http.get, http, url,
    { headers = { A = true } })
  t.raises("client:get: headers: a name must be a string, got", http.get, http, url, { headers = { { 5, "x" } } })
  t.raises("set by the client", http.post, http, url, { headers = { ["Transfer-Encoding"] = "chunked" }, body = "" })
  t.raises("differs", http.post, http, url, { headers = { ["Content-Length"] = "3" }, body = "ab" })
  t.raises("without a body", http.get, http, url, { headers = { ["Content-Length"] = "3" } })
  t.raises("CONNECT", http.request, http, { url = url, method = "CONNECT" })
  t.raises("http.new: option 'nonsense' is unknown %(known: base_url, ", client.new, { nonsense = 1 })
  t.raises("base_url", client.new, { base_url = "nonsense" })
  t.raises("bad argument #1 to 'new' %(table of options expected, got number%)", client.new, 5)
end)

kit.test("a request with a malformed URL fails with the code url", mirror, function(http)
  for _, bad in ipairs { "", "x", "/path", "http://", "http:///x", "ftp://x/", "http://a:b/", "http://a:0/",
    "http://a:70000/",
    "http://[::1/", "http://a b/", "http://[1.2.3.4]/", "http://ä/" } do
    fails("url", "url", http:get(bad))
  end
end)

kit.test("relative URLs are resolved against base_url", mirror, function(_, url)
  local http <close> = client.new { base_url = url .. "/api/v1/" }
  t.eq(http:get "users?x=1".url, url .. "/api/v1/users?x=1")
  t.eq(http:get "/top".url, url .. "/top")
  t.eq(http:get "".url, url .. "/api/v1/")
end)

kit.test("with expect_continue, the body is not sent until the server requests it", function(c)
  local head = c:recv("until", "\r\n\r\n")
  t.eq(field(head, "expect"), "100-continue")
  t.eq(c:buffered(), 0)
  c:send "HTTP/1.1 100 Continue\r\n\r\n"
  c:send(ok(c:recv(4)))
end, function(http, url)
  t.eq(http:post(url, { body = "body", expect_continue = 5 }).body, "body")
end)

kit.test("a body that the server does not request is sent after the time of expect_continue", function(c)
  c:send(ok(select(2, kit.read_request(c))))
end, function(http, url)
  t.eq(http:post(url, { body = "body", expect_continue = 0.02 }).body, "body")
end)

kit.test("a body is not sent if the server refuses the request after its head", function(c)
  c:recv("until", "\r\n\r\n")
  c:send "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n"
  t.is_nil(c:recv())
end, function(http, url)
  t.eq(http:post(url, { body = "body", expect_continue = true }).status, 413)
  t.eq(http:counts().open, 0)
end)

kit.test("a request that is refused with 417 is repeated without its expectation", function(c, number)
  local head = c:recv("until", "\r\n\r\n")
  if number == 1 then
    c:send "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n"
    return
  end
  t.is_nil(field(head, "expect"))
  c:send(ok(c:recv(4)))
end, function(http, url)
  t.eq(http:post(url, { body = "body", expect_continue = true }).body, "body")
end)

kit.test("the client stops sending a long body when the server refuses the request", function(c)
  c:recv("until", "\r\n\r\n")
  c:send "HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nless"
  c:wait_closed(5)
end, function(http, url)
  local endless = function() return ("x"):rep(65536) end
  local res = assert(http:post(url, { body = endless }))
  t.eq({ res.status, res.body }, { 413, "less" })
  res = assert(http:post(url, { body = ("x"):rep(64 * 1024 * 1024) }))
  t.eq({ res.status, res.body }, { 413, "less" })
  t.eq(http:counts().open, 0)
end)

-- Sends the pieces of the body back as they arrive, before the request is complete.
local function echo(c)
  local head = c:recv("until", "\r\n\r\n")
  if not head then return end
  local left = math.tointeger(tonumber(field(head, "content-length")))
  c:send("HTTP/1.1 200 OK\r\nContent-Length: ", left, "\r\n\r\n")
  while left > 0 do
    local data = c:recv()
    if not data then return end
    left = left - #data
    c:send(data)
  end
  return echo(c)
end

kit.test("a response that begins early is read while the body is sent, even if both are long", echo, function(http, url)
  local size <const> = 32 * 1024 * 1024
  local text = ("0123456789abcdef"):rep(size // 16)
  t.ok(http:post(url, { body = text, timeout = 30 }).body == text)
  local sent = 0
  local res = assert(http:post(url, { stream = true, headers = { ["Content-Length"] = size }, body = function()
    if sent == size then return end
    sent = sent + 65536
    return text:sub(1, 65536)
  end }))
  t.ok(sent < size, "the response has arrived before the request is complete")
  local got = 0
  for piece in res:stream() do got = got + #piece end
  t.eq({ got, sent }, { size, size })
end)

kit.test("the function that produces a body is not called while the peer does not read", function(c)
  c:recv("until", "\r\n\r\n")
  loop.wait "gate"
  c:send(ok(tostring(#c:recv(64 * 1024 * 1024))))
end, function(http, url)
  local sent = 0
  local done
  loop.fork(function()
    done = assert(http:post(url, { headers = { ["Content-Length"] = 64 * 1024 * 1024 }, body = function()
      sent = sent + 65536
      if sent <= 64 * 1024 * 1024 then return ("x"):rep(65536) end
    end }))
    loop.wakeup "done"
  end)
  stalls(function() return sent > 0 and sent end)
  t.ok(sent < 32 * 1024 * 1024, sent)
  loop.wakeup "gate"
  loop.wait "done"
  t.eq(done.body, tostring(64 * 1024 * 1024))
end)

local answers = 0
kit.test("a response that arrives after the last byte of the body does not count as early", function(c)
  for _ = 1, 2 do
    c:send(ok((select(2, kit.read_request(c)))))
    answers = answers + 1
  end
end, function(http, url)
  for at = 1, 2 do
    local sent = 0
    local res = http:put(url, { headers = { ["Content-Length"] = 4 }, body = function()
      sent = sent + 1
      -- The response arrives before the function has returned nil.
      while sent == 2 and answers < at do loop.sleep(0.001) end
      if sent == 1 then return "body" end
    end })
    t.eq(res.body, "body")
  end
  t.eq(http:counts().opened, 1)
end)

t.finish()
