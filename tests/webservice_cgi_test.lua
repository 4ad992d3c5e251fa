-- The service `lio.webservice`: CGI modules, in both modes. Tests the arguments and results of their functions, and
-- which functions can be called.

local t = require "tests.kit"
local json = require "lio.json"
local loop = require "lio.loop"
local kit = require "tests.kit.webservice_system"

local echo <const> = [[
  local M = {}
  local function show(path, query, header, body)
    local text = require "lio.json".encode { path = path, query = query, header = header, body = body }
    return 200, text, { ["Content-Type"] = "application/json" }
  end
  M.get, M.post, M.put, M.delete, M.patch = show, show, show, show, show
  function M.helper() error "called" end
  M.trace, M.connect, M.data, M.head = M.helper, M.helper, M.helper, "no function"
  return setmetatable(M, { __index = function() return function() return 200, "through the metatable" end end })
]]

local answers <const> = [[
  local M = {}
  local what = {
    plain = function() return 200, "plain" end,
    status = function() return 404, "not here" end,
    float = function() return 201.0, "made" end,
    nobody = function() return 204 end,
    headers = function() return 200, "x", { ["X-One"] = "1", ["Set-Cookie"] = { "a=1", "b=2" } } end,
    list = function()
      local left = 3
      return 200, function()
        left = left - 1
        if left >= 0 then return ("piece %d,"):format(left) end
      end
    end,
    crlf = function() return 200, "x", { ["X-Evil"] = "a\r\nSet-Cookie: stolen=1" } end,
    name = function() return 200, "x", { ["X-Evil: 1\r\nX"] = "a" } end,
    nul = function() return 200, "x", { ["X-Evil"] = "a\0b" } end,
    code = function() return "2OO", 7 end,
    wild = function() return 99, "x" end,
    raise = function() error "oops" end,
    wait = function() require "ltask".sleep(1) return 200, "waited" end,
    large = function() return 200, ("0123456789"):rep(300000) end,
  }
  function M.get(path) return what[path]() end
  return M
]]

local spec <const> = {
  conf = [[{
    cgi = { echo = "echo", ["/deep/er/"] = "parts|echo", field = "parts|field", answers = "answers" },
    options = { body = 1000000 },
  }]],
  modules = {
    echo = echo,
    ["parts/echo"] = echo,
    parts = [[return { field = { get = function() return 200, "a field" end } }]],
    answers = answers,
  },
}

local quiet <const> = setmetatable({ errors = true }, { __index = spec })

local function shown(response)
  t.eq(response.status, 200)
  t.eq(response.headers["content-type"], "application/json")
  return json.decode(response.body)
end

kit.test("a function gets the rest of the path, the query, headers in lower case, and the body", spec, function(s)
  local r = shown(s:request("POST", "/echo/a/b?x=1&y=2&x=3", { "X-Mixed-CASE: v", "x-many: 1", "X-MANY: 2" }, "data"))
  t.eq({ r.path, r.body }, { "a/b", "data" })
  t.eq(r.query, { x = { "1", "3" }, y = "2" })
  t.eq({ r.header["x-mixed-case"], r.header["x-many"], r.header["content-length"] }, { "v", "1, 2", "4" })
  r = shown(s:request("GET", "/echo"))
  t.eq({ r.path, r.body, next(r.query) }, { "", "" })
  t.eq(shown(s:request("GET", "/echo/")).path, "")
end)

kit.test("the module may be in a folder, or may be a field of another module", spec, function(s)
  t.eq(shown(s:request("PUT", "/deep/er/x", nil, "1")).path, "x")
  t.eq(s:request("GET", "/field").body, "a field")
  t.eq(s:request("GET", "/deep").status, 404)
  t.eq(s:request("GET", "/echoes").status, 404, "a prefix ends at a slash")
end)

-- Regression: a request with any alphabetic method, such as `helper /x HTTP/1.1`, called the function of that name.
kit.test("only functions that are named after HTTP methods are called", spec, function(s)
  for _, method in ipairs { "HELPER", "helper", "get", "Get", "TRACE", "DATA", "__index", "FOO", "OPTION" } do
    local r = s:request(method, "/echo")
    t.eq({ method, r.status }, { method, 405 })
    t.eq(r.headers.allow, "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")
  end
  local r = s:request("OPTIONS", "/echo/x")
  t.eq({ r.status, r.headers.allow }, { 204, "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT" })
  r = s:request("POST", "/field")
  t.eq({ r.status, r.headers.allow }, { 405, "GET, HEAD, OPTIONS" })
end)

kit.test("a function returns code, body and headers", spec, function(s)
  local r = s:request("GET", "/answers/plain")
  t.eq({ r.status, r.body, r.headers["content-length"] }, { 200, "plain", "5" })
  r = s:request("GET", "/answers/status")
  t.eq({ r.status, r.body }, { 404, "not here" })
  t.eq(s:request("GET", "/answers/float").status, 201)
  t.eq(s:request("GET", "/answers/nobody").status, 204)
  r = s:request("GET", "/answers/headers")
  t.eq(r.headers["x-one"], "1")
  local cookies = {}
  for _, field in ipairs(r.fields) do
    if field[1]:lower() == "set-cookie" then cookies[#cookies + 1] = field[2] end
  end
  t.eq(cookies, { "a=1", "b=2" })
  t.eq(s:request("GET", "/answers/list").body, "piece 2,piece 1,piece 0,")
  t.eq(s:request("GET", "/answers/wait").body, "waited")
  t.eq(s:request("GET", "/answers/large").body, ("0123456789"):rep(300000))
end)

-- Regression: the headers of a CGI module could end the head and begin another response.
kit.test("if a module returns headers that would split the response, the status is 500", quiet, function(s)
  for _, what in ipairs { "crlf", "name", "nul", "code", "wild", "raise", "unknown" } do
    local r = s:request("GET", "/answers/" .. what)
    t.eq({ what, r.status, r.body }, { what, 500, "Internal Server Error\n" })
    t.is_nil(r.headers["set-cookie"])
    t.is_nil(r.headers["x-evil"])
  end
  t.ok(s:errors():find "oops")
end)

-- Regression: the response to HEAD had a body, which clients read as the next response.
kit.test("the response to HEAD is that of GET without the body", spec, function(s)
  loop.run(function()
    local c <close> = s:open()
    local r = c:request("HEAD", "/answers/plain")
    t.eq({ r.status, r.headers["content-length"], r.body }, { 200, "5", "" })
    t.eq(c:request("GET", "/answers/plain").body, "plain")
  end)
end)

-- Regression: HTTP/1.0 clients got chunks, which they cannot parse.
kit.test("an HTTP/1.0 client gets the pieces without chunks, and then the connection ends", spec, function(s)
  local r = s:ask("GET /answers/list HTTP/1.0\r\n\r\n")
  t.eq({ r.body, r.headers["transfer-encoding"], r.headers.connection }, { "piece 2,piece 1,piece 0,", nil, "close" })
end)

-- Regression: there was no keep-alive and no `Connection: close`, and after a request without a length the next request
-- was read as its body.
kit.test("connections stay open, and requests that arrive together are answered in order", spec, function(s)
  loop.run(function()
    local c <close> = s:open()
    c:send("POST /echo/1 HTTP/1.1\r\nHost: x\r\n\r\nGET /echo/2 HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET /echo/3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    for i = 1, 3 do
      local r = c:response("GET")
      t.eq({ shown(r).path, shown(r).body, r.headers.connection }, { tostring(i), "", i == 3 and "close" or nil })
    end
    t.ok(c:ended())
  end)
end)

-- Regression: `+` was decoded in paths; the value of a key without `=` included the next key.
kit.test("a plus sign is a plus sign in a path and a space in a query, and keys need no value", spec, function(s)
  local r = shown(s:request("GET", "/echo/a+b%20c?k+1=v+1&alone&next=1&=x&e=%2B"))
  t.eq(r.path, "a+b c")
  t.eq(r.query, { ["k 1"] = "v 1", alone = "", next = "1", [""] = "x", e = "+" })
end)

-- Regression: because of `/%zz` the task failed: no response was sent, and the connection leaked.
kit.test("a path that cannot be decoded is refused with a response", spec, function(s)
  for _, target in ipairs { "/%zz", "/echo/%", "/echo/%4", "/echo/%g0" } do
    t.eq({ target, s:request("GET", target).status }, { target, 400 })
  end
  t.eq(s:request("GET", "/answers/plain").status, 200)
end)

-- Regression: the connection was closed without a response.
kit.test("malformed request lines are answered", spec, function(s)
  for _, line in ipairs { "GET", "GET /", "GET  / HTTP/1.1", "GET / HTTP/x", "\1\2\3", "GET echo HTTP/1.1" } do
    t.eq({ line, s:ask(line .. "\r\nHost: x\r\n\r\n", "GET").status }, { line, 400 })
  end
  t.eq(s:ask("GET / HTTP/3.0\r\nHost: x\r\n\r\n").status, 505)
end)

-- Regression: all of these requests were accepted.
kit.test("malformed lengths, and a length together with chunks, are refused", spec, function(s)
  for _, fields in ipairs {
    "Content-Length: 0x5", "Content-Length: -1", "Content-Length: +5", "Content-Length: five",
    "Content-Length: 5\r\nContent-Length: 6", "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Content-Length: 99999999999999999999999", "Content-Length: ",
  } do
    local r = s:ask("POST /echo HTTP/1.1\r\nHost: x\r\n" .. fields .. "\r\n\r\nhello")
    t.eq({ fields, r.status, r.headers.connection }, { fields, 400, "close" })
  end
end)

-- Regression: a body with a negative chunk size could exceed the limit; chunk extensions were refused.
kit.test("chunks may have extensions, but no negative size, and not more bytes than the limit", spec, function(s)
  local head = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
  t.eq(shown(s:ask(head .. "5;name=value\r\nhello\r\n1;x\r\n!\r\n0\r\nX-T: 1\r\n\r\n")).body, "hello!")
  t.eq(s:ask(head .. "-5\r\nhello\r\n0\r\n\r\n").status, 400)
  t.eq(s:ask(head .. "F4241\r\n").status, 413, "one byte more than the limit, before the data arrives")
  t.eq(s:ask("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000001\r\n\r\n").status, 413)
end)

-- Regression: each piece of an upload was appended to a copy of all earlier pieces. 8 MB took 18 s, during which the
-- loop was blocked.
kit.test("a body in many small pieces arrives whole", spec, function(s)
  local body = {}
  for i = 1, 4000 do body[i] = ("%07d,"):format(i):rep(20) end
  loop.run(function()
    local c <close> = s:open()
    c:head { "POST /echo HTTP/1.1", "Host: x", "Transfer-Encoding: chunked" }
    for _, piece in ipairs(body) do c:send(("%x\r\n%s\r\n"):format(#piece, piece)) end
    c:send "0\r\n\r\n"
    t.ok(shown(c:response("POST")).body == table.concat(body))
  end)
end)

local narrow <const> = setmetatable({ errors = true, descriptors = 200 }, { __index = spec })

-- Regression: with 1,025 incomplete requests the selector raised an error, which ended the server.
kit.test("more incomplete requests than available descriptors do not end the server", narrow, function(s, mode)
  loop.run(function()
    local clients = {}
    for i = 1, 300 do
      clients[i] = s:open()
      pcall(clients[i].send, clients[i], "GET /answers/pl")
    end
    for _, client in ipairs(clients) do client:close() end
    -- A tunnel's session that begins before descriptors are free again is refused. At a listener, the client waits.
    local deadline = loop.now() + 10
    local ok, response
    repeat
      local c <close> = s:open()
      ok, response = pcall(c.request, c, "GET", "/answers/plain")
      if not ok then loop.sleep(0.02) end
    until ok or mode == "direct" or loop.now() > deadline
    t.ok(ok, response)
    t.eq(response.body, "plain")
  end)
end)

t.finish()
