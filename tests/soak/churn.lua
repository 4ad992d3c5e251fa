-- The operations that tests/soak adds to those of tests/chaos: connections that stay idle, uploads that are read back,
-- and requests that the client gives up. They have the contexts and results of operations.lua.

local content = require "content"
local json = require "lio.json"
local loop = require "lio.loop"
local net = require "lio.net"
local operations = require "operations"
local websocket = require "lio.websocket"

local M = {}

local function connect(context)
  local c = assert(net.connect(context.host, context.port, { timeout = context.seconds }))
  c:timeout(context.seconds, context.seconds)
  return c
end

local function head(method, path, more)
  return ("%s %s HTTP/1.1\r\nHost: soak\r\n%s\r\n"):format(method, path, more or "")
end

-- The ways in which a client gives up, before it closes its connection. Each function gets a connection, an id and a
-- random generator.
local GIVEN_UP <const> = {
  ["part of a head"] = function(c) c:send "GET /echo/gone HTTP/1.1\r\nHo" end,
  ["part of an answer"] = function(c, id, random)
    c:send(head("GET", ("/echo/%s?size=%d"):format(id, random:draw(100000, 1000000))))
    c:recv(random:draw(1, 60000))
  end,
  ["part of a body"] = function(c, id, random)
    c:send(head("PUT", "/file/" .. id, "Content-Length: 200000\r\n"), content.of(id, random:draw(1, 199999)))
  end,
  ["part of a form"] = function(c, id, random)
    local fields = "Content-Type: multipart/form-data; boundary=B\r\nContent-Length: 200000\r\n"
    c:send(head("POST", "/upload/" .. id, fields),
      '--B\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n',
      content.of(id, random:draw(1, 199000)))
  end,
  ["part of events"] = function(c, id, random)
    c:send(head("GET", ("/events/%s?count=60"):format(id)))
    c:recv(random:draw(1, 400))
  end,
  ["a service"] = function(c, id, random)
    c:send(head("GET", "/service/" .. id))
    loop.sleep(random:draw() * 0.03)
  end,
  ["an upstream request"] = function(c, id, random)
    c:send(head("GET", "/upstream/" .. id))
    loop.sleep(random:draw() * 0.01)
  end,
}
local WAYS <const> = { WebSocket = 1 }
for way in pairs(GIVEN_UP) do WAYS[way] = 1 end

local kinds = {}

kinds["given up"] = function(context, id)
  local random = context.random
  local way = random:choose(WAYS)
  if way == "WebSocket" then
    local ws = assert(websocket.connect(context.base:gsub("^http", "ws") .. "/ws/" .. id))
    for _ = 1, random:draw(0, 3) do assert(ws:send(id)) end
    if random:draw() < 0.5 then ws:receive(1) end
    ws:abort()
  else
    local c <close> = connect(context)
    if random:draw() < 0.3 then c:option("linger", 0) end -- closes with a reset
    GIVEN_UP[way](c, id, random)
  end
  return "ack"
end

-- Asks once, then waits up to 4 s, longer than the server keeps an idle connection.
kinds["idle connection"] = function(context, id)
  local c <close> = connect(context)
  assert(c:send(head("GET", "/echo/" .. id .. "?size=100")))
  local answer = assert(c:recv("until", "\r\n\r\n", 4096)) and c:recv(100)
  if answer ~= content.of(id, 100) then return "wrong", "another content" end
  local wait = context.random:draw() * 4
  c:timeout(wait, context.seconds)
  local more, message = c:recv()
  if more then return "wrong", "bytes after the last answer: " .. more:sub(1, 80) end
  if message and message ~= "timeout" then return "error", message end
  return "ack"
end

-- An upload, whose digest the server then reads from the file.
kinds["stored upload"] = function(context, id)
  local verdict, digest = operations.perform("upload form", context, id)
  if verdict ~= "ack" then return verdict, digest end
  local res, message, code = context.http:get("/stored/" .. id)
  if not res or res.status ~= 200 then return "error", ("%s: %s"):format(code or res.status, message or res.body) end
  if json.decode(res.body).digest ~= digest then return "wrong", "another file" end
  return "ack"
end

--- How often each operation is chosen: those of tests/chaos, without the exhausted memory, and those of this file.
M.weights = { ["given up"] = 8, ["idle connection"] = 8, ["stored upload"] = 4 }
for kind, weight in pairs(operations.weights) do
  if kind ~= "memory" then M.weights[kind] = weight end
end

--- Performs an operation.
function M.perform(kind, context, id)
  if kinds[kind] then return kinds[kind](context, id) end
  return operations.perform(kind, context, id)
end

return M
