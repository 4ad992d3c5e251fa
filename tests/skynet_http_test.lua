-- Skynet's HTTP modules: http.url, http.httpd, http.httpc and http.sockethelper.
-- The programs may use: skynet, socket, httpd, httpc, helper, serve_http, raw

local t = require "tests.kit"
require "lio"
local skynet_kit = require "tests.kit.skynet_system"

-- One line of source: the modules; `serve_http(f, limit)`, which answers each connection with the results of `f(code,
-- target, method, header, body)` for `write_response`, and returns the port; and `raw(port, text)`, which sends bytes,
-- and returns all that comes back.
local use <const> = ([[
  local socket, httpd, httpc = require 'skynet.socket', require 'http.httpd', require 'http.httpc'
  local helper = require 'http.sockethelper'
  local function serve_http(f, limit)
    local id, _, port = socket.listen('127.0.0.1', 0)
    socket.start(id, function(fd)
      socket.start(fd)
      local request = table.pack(httpd.read_request(helper.readfunc(fd), limit))
      httpd.write_response(helper.writefunc(fd), f(table.unpack(request, 1, request.n)))
      socket.close(fd)
    end)
    return port
  end
  local function raw(port, text)
    local id = socket.open('127.0.0.1', port)
    socket.write(id, text)
    return socket.readall(id)
  end ]]):gsub("\n", " ")

local function test(name, spec)
  spec.seconds = spec.seconds or 30
  spec.main = use .. spec.main
  skynet_kit.test(name, spec)
end

t.test("url.parse splits a target, and parse_query decodes names and values", function()
  local url = require "http.url"
  local path, query = url.parse "/a%20b/c?x=%41&y"
  t.eq({ path, query }, { "/a b/c", "x=%41&y" })
  t.eq({ url.parse "/plain" }, { "/plain" })
  t.eq({ url.parse "/?" }, { "/", "" })
  t.eq(url.parse_query "x=1&y=a+b%26&x=2&x=3&z=", { x = { "1", "2", "3" }, y = "a b&", z = "" })
  t.eq(url.parse_query "", {})
end)

-- The pattern took a time that grows with the square of the length.
t.test("parse_query ignores pairs without '=' in linear time", function()
  local url = require "http.url"
  local long = ("a"):rep(1 << 20)
  t.eq(url.parse_query(long), {})
  t.eq(url.parse_query(long .. "&b=c&" .. long), { b = "c" })
  t.eq(url.parse_query "a&b=c", { b = "c" })
  t.eq(url.parse_query "=x&a==b&&c=&d+=+&=", { [""] = { "x", "" }, a = "=b", c = "", ["d "] = " " })
end)

t.test("white space around the value of a field is removed in linear time", function()
  local internal = require "http.internal"
  local blanks = (" "):rep(1 << 20)
  t.eq(internal.fields({ "a: b" .. blanks .. "c", "d:" .. blanks, "e:f" .. blanks, "g:" .. blanks .. "h\t" }, 1),
    { a = "b" .. blanks .. "c", d = "", e = "f", g = "h" })
  t.eq(internal.fields({ "a:\t b \t", " \tc  d ", "\t" }, 1), { a = "b c  d " })
  t.is_nil(internal.fields({ blanks .. "x" }, 1))
  t.is_nil(internal.fields({ "a" .. blanks .. ": x" }, 1))
  t.is_nil(internal.fields({ ": x" }, 1))
end)

-- All unused bytes used to be copied for each chunk.
t.test("a body in very many small chunks is read in linear time", function()
  local internal = require "http.internal"
  local count <const> = 1 << 20
  local pieces = { ("1\r\nx\r\n"):rep(count) .. "0\r\na: b\r\n", "\r\nrest" }
  local at = 0
  local input = internal.input(function(size)
    t.is_nil(size)
    at = at + 1
    return pieces[at]
  end)
  local header = { ["transfer-encoding"] = "chunked" }
  t.ok(internal.body(input, header) == ("x"):rep(count))
  t.eq({ header.a, input:rest() }, { "b", "rest" })
end)

test("a request is read, and its response is written", {
  main = [[
    local port = serve_http(function(code, target, method, header, body)
      say(code, target, method, header.host, header["x-many"][2], body)
      return 201, "done", { ["x-one"] = 1, ["x-two"] = { "a", "b" } }
    end)
    local text = raw(port, "POST /p?q=1 HTTP/1.1\r\nHost: here\r\n"
      .. "X-Many: 1\r\nx-many: 2\r\nContent-Length: 4\r\n\r\nbody")
    say(text:match "^HTTP/1.1 201 Created\r\n" ~= nil, text:match "\r\n\r\n(.*)$")
    say(text:match "x%-one: 1\r\n" ~= nil, text:match "x%-two: a\r\nx%-two: b\r\n" ~= nil,
      text:match "content%-length: 4\r\n" ~= nil)
  ]],
  out = { "200\t/p?q=1\tPOST\there\t2\tbody", "true\tdone", "true\ttrue\ttrue" },
})

test("bodies in chunks are read and written, however the bytes arrive", {
  main = [[
    local port = serve_http(function(code, _, _, header, body)
      local pieces = { code .. " ", "", body, " ", header["x-trailer"] }
      local at = 0
      return 200, function()
        at = at + 1
        return pieces[at]
      end
    end)
    local id = socket.open("127.0.0.1", port)
    local text = "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
      .. "3;x=y\r\nabc\r\n0A\r\n0123456789\r\n0\r\nX-Trailer: t\r\n\r\n"
    for byte in text:gmatch "." do socket.write(id, byte) skynet.yield() end
    say((socket.readall(id):gsub("\r\n", "|")))
  ]],
  out = { "HTTP/1.1 200 OK|transfer-encoding: chunked||4|200 |d|abc0123456789|1| |1|t|0||" },
})

test("invalid requests get the status of the refusal", {
  main = [[
    local port = serve_http(function(...) return (...), (...) .. " " .. select("#", ...) end, 10)
    local function try(text) say(raw(port, text):match "%d+ %d+$") end
    try "nonsense\r\n\r\n"
    try "GET / HTTP/2.0\r\n\r\n"
    try "GET / HTTP/1.1\r\nbad header\r\n\r\n"
    try "POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n"
    try "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"
    try "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
    try "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n"
    try "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"
    try "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n"
    try "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n"
    try "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc"
    try("GET / HTTP/1.1\r\nx: " .. ("y"):rep(9000))
  ]],
  out = {
    "400 1", "505 1", "400 1", "413 1", "400 1", "400 1", "501 1", "400 1", "413 1", "400 1", "400 1", "413 1",
  },
})

-- Only the length of each line was limited, and lines after the 257th were taken for the next message.
test("trailers of more than 8 KiB are refused", {
  main = [[
    local port = serve_http(function(code, _, _, header, body)
      return code, (body or "") .. #(header and header.x or "")
    end)
    local function try(trailers)
      local text = raw(port, "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nb\r\n0\r\n" .. trailers)
      say(text:match "^HTTP/1.1 (%d+)", text:match "\r\n\r\n(.*)$")
    end
    try(("x:y\r\n"):rep(1000) .. "\r\n")
    try(("x:" .. ("y"):rep(98) .. "\r\n"):rep(80) .. "\r\n")
    try(("x:y\r\n"):rep(1700) .. "\r\n")
    try("x:" .. ("y"):rep(8188) .. "\r\n\r\n")
    try("x:" .. ("y"):rep(8189) .. "\r\n\r\n")
  ]],
  out = { "200\tb1000", "200\tb80", "400\t0", "200\tb8188", "400\t0" },
})

test("read_request returns nil and the error if the connection ends", {
  main = [[
    local id, _, port = socket.listen("127.0.0.1", 0)
    socket.start(id, function(fd)
      socket.start(fd)
      local code, problem = httpd.read_request(helper.readfunc(fd))
      say(code, problem == helper.socket_error, tostring(problem))
      skynet.wakeup "read"
    end)
    local fd = socket.open("127.0.0.1", port)
    socket.write(fd, "GET / HT")
    socket.close(fd)
    skynet.wait "read"
    say(httpd.write_response(function() end, 200, 5))
    say(httpd.write_response(function() end, 200, "", { ["x-y"] = "a\r\nb" }))
    say(httpd.write_response(function() end, 200, "", { ["x y"] = "a" }))
    say((httpd.write_response(function() end, 204)))
    say((httpd.write_response(helper.writefunc(fd), 200, "x")))
  ]],
  out = {
    "nil\ttrue\t[Socket Error]",
    "false\twrite_response: a body must be a string or a function, not a number",
    "false\tthe value of the field 'x-y' has a line break",
    'false\tinvalid name of a field: "x y"',
    "true", "false",
  },
})

test("httpc sends requests and returns the status and the body", {
  main = [[
    local port = serve_http(function(_, target, method, header, body)
      local text = ("%s %s %s %s"):format(method, target, header["content-type"] or "-", body)
      return 200, method ~= "HEAD" and text or nil, { ["X-Host"] = header.host, ["x-extra"] = header["x-extra"] }
    end)
    local host = "127.0.0.1:" .. port
    local received = {}
    say(httpc.get(host, "/a?b=c", received, { ["x-extra"] = "yes" }))
    say(received["x-host"] == host, received["x-extra"])
    say(httpc.post("http://" .. host, "/form", { a = "1 2", b = "&" }))
    say(httpc.request("PUT", host, "/put", nil, { ["content-type"] = "text/plain" }, "content"))
    say(httpc.head(host, "/head"))
    say(select(2, pcall(httpc.get, "https://" .. host, "/")):match "bad.*")
  ]],
  out = {
    "200\tGET /a?b=c - ", "true\tyes", "200\tPOST /form application/x-www-form-urlencoded a=1%202&b=%26",
    "200\tPUT /put text/plain content", "200",
    "bad argument #1 to 'get' (the protocol 'https' is not supported, only http)",
  },
})

-- Regression: a line break in the target or the method added lines to the request.
test("httpc refuses spaces and control characters in the request line", {
  main = [[
    local function message(...) return select(2, pcall(...)):match "bad.*" end
    say(message(httpc.get, "127.0.0.1:1", "/a HTTP/1.1\r\nx: 1"))
    say(message(httpc.post, "127.0.0.1:1", "/a\tb", {}))
    say(message(httpc.request, "PUT", "127.0.0.1:1", ""))
    say(message(httpc.head, "127.0.0.1:1"))
    say(message(httpc.request, "GET / HTTP/1.1\n", "127.0.0.1:1", "/"))
    say(message(httpc.request, "GET", 1, "/"))
    say((select(2, pcall(function() httpc.get("127.0.0.1:1", "/a b") end)):match "main%.lua:%d+"))
  ]],
  out = {
    "bad argument #2 to 'get' (a target without spaces and control characters expected)",
    "bad argument #2 to 'post' (a target without spaces and control characters expected)",
    "bad argument #3 to 'request' (a target without spaces and control characters expected)",
    "bad argument #2 to 'head' (string expected, got nil)",
    "bad argument #1 to 'request' (a method without spaces and control characters expected)",
    "bad argument #2 to 'request' (string expected, got number)",
    "main.lua:8",
  },
})

test("httpc reads every form of a body, and skips informational responses", {
  main = [[
    local answers, at = {
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
      "HTTP/1.0 404 Not Found\r\n\r\nuntil the end",
      "HTTP/1.1 204 No Content\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
      "SMTP\r\n\r\n",
    }, 0
    local id, _, port = socket.listen("127.0.0.1", 0)
    socket.start(id, function(fd)
      socket.start(fd)
      socket.readline(fd, "\r\n\r\n")
      at = at + 1
      socket.write(fd, answers[at])
      socket.close(fd)
    end)
    for _ = 1, 3 do say(httpc.get("127.0.0.1:" .. port, "/")) end
    say(select(2, pcall(httpc.get, "127.0.0.1:" .. port, "/")) == helper.socket_error)
    say(select(2, pcall(httpc.get, "127.0.0.1:" .. port, "/")))
  ]],
  out = { "200\tabc", "404\tuntil the end", "204\t", "true", "the response is invalid" },
})

test("httpc.timeout limits a request", {
  main = [[
    local id, _, port = socket.listen("127.0.0.1", 0)
    socket.start(id, function(fd) socket.start(fd) end)
    httpc.timeout = 10
    local ok, problem = pcall(httpc.get, "127.0.0.1:" .. port, "/")
    say(ok, problem == ("the request to 127.0.0.1:%d took more than 10 centiseconds"):format(port))
    socket.close(id)
    say(select(2, pcall(httpc.get, "127.0.0.1:" .. port, "/")) == helper.socket_error)
  ]],
  out = { "false\ttrue", "true" },
})

test("a function of readfunc returns given bytes first", {
  main = [[
    local id, _, port = socket.listen("127.0.0.1", 0)
    socket.start(id, function(fd) socket.start(fd) socket.write(fd, "defghi") socket.close(fd) end)
    local fd = helper.connect("127.0.0.1", port, 1000)
    local read = helper.readfunc(fd, "abc")
    say(read(2), read(3), read(4), pcall(read))
    read = helper.readfunc(fd, "xy")
    say(read(), helper.readall(fd))
    helper.close(fd)
  ]],
  out = { "ab\tcde\tfghi\tfalse\t[Socket Error]", "xy\tfalse\t" },
})

t.finish()
