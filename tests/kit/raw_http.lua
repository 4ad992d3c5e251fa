--- Raw HTTP for the web suites: sends the given bytes, and reads responses with a parser that accepts only what RFC
-- 9112 allows. The server and the clients share one loop. Used by tests/web_*_test.lua and tests/examples_test.lua.
-- The timeouts of the clients are 10 s.

local loop = require "lio.loop"
local net = require "lio.net"
local web = require "lio.webserver"

local http = {}

local SECONDS <const> = 10

local Client = {}
Client.__index = Client

--- Connects to a port of 127.0.0.1, or to "unix:/path", and returns a client. `opts` are the options of `net.connect`.
function http.open(place, opts)
  local c, message
  if type(place) == "string" then
    c, message = net.connect(place, nil, opts)
  else
    c, message = net.connect("127.0.0.1", place, opts)
  end
  if not c then error("connect: " .. message, 2) end
  net.timeout(c, SECONDS, SECONDS)
  return setmetatable({ c = c }, Client)
end

--- Sends bytes unchanged.
function Client:send(...)
  local ok, message = self.c:send(...)
  if not ok then error("send: " .. message, 2) end
  return self
end

--- Sends the lines of a head, each with CRLF, an empty line, and `body`.
function Client:head(lines, body)
  return self:send(table.concat(lines, "\r\n"), "\r\n\r\n", body or "")
end

function Client:close() self.c:close() end
Client.__close = Client.close

local function receive(self, ...)
  local data, message = self.c:recv(...)
  if data then return data end
  error("the connection ended where a response was expected: " .. tostring(message or "end"), 0)
end

local function line(self)
  local text = receive(self, "until", "\r\n", 65536)
  assert(not text:find "[\r\n%z]", "a bare CR, LF or NUL in a response's head")
  return text
end

--- Reads a head. Returns a table of `status`, `reason`, `fields` (a list of { name, value }) and `headers` (values by
-- lower-case name). Raises an error if the head is malformed, or if a field that may occur only once occurs twice.
function Client:read_head()
  local status, reason = line(self):match "^HTTP/1%.1 (%d%d%d) ([%w '%-]+)$"
  local head = { status = math.tointeger(tonumber(status)), reason = reason, fields = {}, headers = {} }
  assert(head.status, "malformed status line")
  for text in function() return line(self) end do
    if text == "" then break end
    local name, value = text:match "^([%w!#$%%&'*+%-.^_`|~]+): (.*)$"
    assert(name, "malformed field line: " .. text)
    assert(not value:find "^%s" and not value:find "%s$", "white space around a value: " .. text)
    local lower = name:lower()
    table.insert(head.fields, { name, value })
    assert(not (head.headers[lower] and lower ~= "set-cookie" and lower ~= "x-many"), "twice: " .. text)
    head.headers[lower] = value
  end
  return head
end

local function read_chunks(self)
  local pieces = {}
  while true do
    local size = assert(line(self):match "^(%x+)$", "malformed chunk size")
    local length = tonumber(size, 16)
    if length == 0 then
      assert(line(self) == "", "unexpected trailers")
      return table.concat(pieces), pieces
    end
    pieces[#pieces + 1] = receive(self, length)
    assert(receive(self, 2) == "\r\n", "a chunk without its CRLF")
  end
end

local function read_body(self, head, method)
  local length, coding = head.headers["content-length"], head.headers["transfer-encoding"]
  assert(not (length and coding), "Content-Length and Transfer-Encoding")
  assert(not length or length:find "^%d+$", "malformed Content-Length")
  if head.status == 204 or head.status == 304 then
    assert(not coding and not (length and head.status == 204), "framing on a response without a body")
    return ""
  end
  if method == "HEAD" then return "" end
  if coding then
    assert(coding == "chunked")
    return read_chunks(self)
  end
  if length then
    local count = math.tointeger(tonumber(length))
    return count == 0 and "" or receive(self, count)
  end
  assert(head.headers.connection == "close", "a body without a length on a connection that stays open")
  return receive(self, "all")
end

--- Reads one final response. Returns the table of read_head with a field `body`, and with a list `chunks` if the body
--- is chunked. `method` is the method of the request; a response to "HEAD" has no body.
function Client:response(method)
  local head = self:read_head()
  assert(head.status >= 200, "an interim response: " .. head.status)
  assert(head.headers.date and head.headers.date:find "^%a%a%a, %d%d %a%a%a %d%d%d%d %d%d:%d%d:%d%d GMT$",
    "no Date, or a malformed one")
  head.body, head.chunks = read_body(self, head, method)
  return head
end

--- Sends bytes and returns one response.
function Client:ask(bytes, method)
  self:send(bytes)
  return self:response(method or bytes:match "^%u+")
end

--- Sends a request and returns the response. `fields` is a list of more header lines.
function Client:request(method, target, fields, body)
  local lines = { method .. " " .. target .. " HTTP/1.1", "Host: test" }
  for _, text in ipairs(fields or {}) do lines[#lines + 1] = text end
  if body then lines[#lines + 1] = "Content-Length: " .. #body end
  self:head(lines, body)
  return self:response(method)
end

--- Waits until bytes arrive or the connection ends. Returns true if the server has closed it normally, without further
-- bytes.
function Client:ended()
  local data, message = self.c:recv()
  return data == nil and message == nil
end

--- Waits for up to `seconds` seconds for bytes. Returns true if no bytes have arrived.
function Client:silent(seconds)
  net.timeout(self.c, seconds, SECONDS)
  local data, message = self.c:recv()
  net.timeout(self.c, SECONDS, SECONDS)
  return data == nil and message == "timeout"
end

--- Serves `app` on a port that the system chooses, or at `path`, a unix socket, and calls `f(open, server)` in the same
-- loop. `open(opts)` returns a new client. The clients and the server are closed afterwards. `listen`: options of
-- `app:listen`.
function http.with(app, f, listen, path)
  local clients = {}
  loop.run(function()
    local server = assert(app:listen(path or "127.0.0.1:0", listen))
    local place = path or math.tointeger(tonumber(server.url:match ":(%d+)/$"))
    local function open(opts)
      local client = http.open(place, opts)
      clients[#clients + 1] = client
      return client
    end
    local done = table.pack(xpcall(f, debug.traceback, open, server))
    for _, client in ipairs(clients) do client:close() end
    server:stop(0)
    if not done[1] then error(done[2], 0) end
  end)
end

--- Waits until `f()` has returned the same number in 50 consecutive rounds of the loop; raises an error after 60 s.
-- Before the transfer starts, `f()` returns nil or false. In each round both sides make progress if they can, so the
-- result does not depend on the machine's speed.
function http.stalls(f)
  local last, same = nil, 0
  local deadline = loop.now() + 60
  while same < 50 do
    if loop.now() > deadline then error("the value still changes after 60 s", 2) end
    loop.sleep(0.002)
    local value = f()
    same = value and value == last and same + 1 or 0
    last = value
  end
end

--- Serves an app with the routes that `build(app)` adds, sends one request, and returns the response.
function http.once(build, method, target, fields, body)
  local app, response = web.new(), nil
  build(app)
  http.with(app, function(open)
    response = open():request(method, target, fields, body)
  end)
  return response
end

--- Returns an app that responds to GET with the path, and to POST with the body of the request. `options` are those of
-- `web.new`.
function http.echo_app(options)
  local app = web.new(options)
  app:get("/*rest", function(req) return req.path end)
  app:post("/*rest", function(req) return req:body() end)
  return app
end

--- Calls `f` and returns the text that it writes to `io.stderr`.
function http.logged(f)
  local kept, real = {}, io.stderr
  rawset(io, "stderr", { write = function(_, ...) kept[#kept + 1] = table.concat { ... } end })
  local ok, message = xpcall(f, debug.traceback)
  rawset(io, "stderr", real)
  if not ok then error(message, 0) end
  return table.concat(kept)
end

-- The first loop of a process opens descriptors that stay open. It runs here, so that they do not count as leaks of a
-- test.
loop.run(function() end)

return http
