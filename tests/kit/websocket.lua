--- Raw frames of WebSocket, and a server with one route, for the suites of lio.websocket. The server and the clients
-- share one loop. Used by tests/websocket_*_test.lua and tests/web_websocket_test.lua.

local core = require "lio.websocket.core"
local http = require "tests.kit.raw_http"
local loop = require "lio.loop"
local net = require "lio.net"
local web = require "lio.webserver"
local websocket = require "lio.websocket"

local kit = {}

local KEY <const> = "dGhlIHNhbXBsZSBub25jZQ=="
local MASK <const> = "\x37\xfa\x21\x3d"

kit.CONTINUATION, kit.TEXT, kit.BINARY, kit.CLOSE, kit.PING, kit.PONG = 0, 1, 2, 8, 9, 10

local function masked(payload)
  local bytes = { payload:byte(1, -1) }
  for index, byte in ipairs(bytes) do bytes[index] = string.char(byte ~ MASK:byte((index - 1) % 4 + 1)) end
  return table.concat(bytes)
end

--- Returns a frame. `opts`: `fin` (true), `rsv` (0 to 7), `mask` (true: the frame is one of a client).
function kit.frame(opcode, payload, opts)
  opts = opts or {}
  local bit = opts.mask == false and 0 or 128
  local first = (opts.fin == false and 0 or 128) | (opts.rsv or 0) << 4 | opcode
  local length = #payload
  local head
  if length < 126 then
    head = string.pack(">BB", first, bit | length)
  elseif length < 65536 then
    head = string.pack(">BBI2", first, bit | 126, length)
  else
    head = string.pack(">BBI8", first, bit | 127, length)
  end
  if bit == 0 then return head .. payload end
  return head .. MASK .. masked(payload)
end

--- Returns a close frame.
function kit.close_frame(code, reason, opts)
  return kit.frame(kit.CLOSE, code and string.pack(">I2", code) .. (reason or "") or "", opts)
end

local Raw = {}
Raw.__index = Raw

function Raw:send(...)
  local ok, message = self.c:send(...)
  if not ok then error("send: " .. message, 2) end
  return self
end

--- Reads a frame. Returns its opcode, its payload and its first byte; nil at the end of the connection.
function Raw:read()
  local head = self.c:recv(2)
  if not head then return nil end
  local first, second = head:byte(1, 2)
  local length = second & 127
  if length == 126 then length = string.unpack(">I2", self.c:recv(2)) end
  if length == 127 then length = string.unpack(">I8", self.c:recv(8)) end
  local key = second >= 128 and self.c:recv(4)
  local payload = length == 0 and "" or self.c:recv(length)
  if key then
    local bytes = { payload:byte(1, -1) }
    for index, byte in ipairs(bytes) do bytes[index] = string.char(byte ~ key:byte((index - 1) % 4 + 1)) end
    payload = table.concat(bytes)
  end
  return first & 15, payload, first
end

--- Reads frames up to a close frame. Returns its code and its reason, and whether the connection has ended after it.
function Raw:read_close()
  local opcode, payload
  repeat
    opcode, payload = self:read()
  until opcode == nil or opcode == kit.CLOSE
  if not opcode then return nil end
  local code = payload ~= "" and string.unpack(">I2", payload) or nil
  return code, payload:sub(3), self.c:recv() == nil
end

function Raw:close() self.c:close() end
Raw.__close = Raw.close

kit.Raw = Raw

--- Returns the lines of a handshake's request. `fields`: more lines; a line replaces the one with the same name.
function kit.request(path, fields)
  local order = {}
  local lines = {}
  local function set(line)
    local name = line:match "^[^:]+":lower()
    if not lines[name] then order[#order + 1] = name end
    lines[name] = line
  end
  for _, line in ipairs {
    "Host: test", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: " .. KEY,
  } do set(line) end
  for _, line in ipairs(fields or {}) do set(line) end
  local list = { "GET " .. path .. " HTTP/1.1" }
  for _, name in ipairs(order) do
    if not lines[name]:find ":%s*$" then list[#list + 1] = lines[name] end
  end
  return list
end

--- Sends a handshake through a client of raw_http, and returns the raw connection and the head of the response.
function kit.shake(client, path, fields)
  client:head(kit.request(path or "/", fields))
  local head = client:read_head()
  return setmetatable({ c = client.c }, Raw), head
end

--- Serves `app`, and calls `f(open, connect, server, url)`: `open(fields)` returns a raw connection after a handshake,
-- `connect(opts)` a connection of `websocket.connect`, to "/". With `path` the server listens on this unix socket, and
-- `connect` cannot be used.
function kit.with(app, f, listen, path)
  http.with(app, function(open_client, server)
    local url = server.url:gsub("^http", "ws")
    local function open(fields, target)
      local raw, head = kit.shake(open_client(), target, fields)
      if head.status ~= 101 then error("the handshake was refused: " .. head.status, 2) end
      return raw, head
    end
    local function connect(opts)
      local ws, message = websocket.connect(url, opts)
      if not ws then error("connect: " .. message, 2) end
      return ws
    end
    local deadline = loop.timeout(40, function() error "the test's deadline has passed" end)
    local done = table.pack(xpcall(f, debug.traceback, open, connect, server, url))
    loop.cancel(deadline)
    if not done[1] then error(done[2], 0) end
  end, listen, path)
end

--- Serves one route, "/". An error in `handler` fails the test.
function kit.serve(opts, handler, f)
  local app = web.new { grace = 1 }
  local failure
  app:ws("/", opts, function(...)
    local ok, message = xpcall(handler, debug.traceback, ...)
    if not ok then failure = failure or message end
  end)
  kit.with(app, f)
  if failure then error(failure, 0) end
end

--- The handler of a server that returns each message.
function kit.echo(ws)
  for message, kind in ws:messages() do ws:send(message, kind) end
end

--- Returns the value of Sec-WebSocket-Accept for a key.
function kit.accept(key)
  return (core.respond(key, {}, {}, {}, false, false))
end

--- Listens, and calls `f(c)` in a task for one connection. Returns the address "ws://127.0.0.1:port/" and the listener.
-- Called in the loop. The peer must close `listener`.
function kit.listener(f)
  local listener = assert(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  loop.fork(function()
    local c = listener:accept()
    if not c then return end
    f(c)
    c:close()
  end)
  return "ws://127.0.0.1:" .. tostring(port) .. "/", listener
end

return kit
