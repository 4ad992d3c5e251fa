-- The operations of the clients of tests/chaos and tests/soak. Each operation gets a context (`http`, a client; `host`,
-- `port`, `base`; `random`; `seconds`, its deadline; `silence`, seconds without a byte of a WebSocket server; `note`,
-- which writes to the journal) and an id. It returns "ack" and a detail; "error" and a code; or "wrong" and a
-- description: the server has violated a rule.

local content = require "content"
local failures = require "failures"
local json = require "lio.json"
local net = require "lio.net"
local websocket = require "lio.websocket"

local M = {}

-- Returns the outcome of a response without acknowledgement, or of a failed request.
local function outcome(res, message, code)
  if not res then
    return failures.is_expected_code(code, message) and "error" or "wrong", ("%s: %s"):format(code, message)
  end
  local text = ("%d %s"):format(res.status, (res.body or ""):sub(1, 120):gsub("%c", " "))
  return failures.is_expected(res.status, text) and "error" or "wrong", text
end

-- Checks a JSON answer that must contain the id.
local function answered(id, res, message, code)
  if not res or res.status ~= 200 and res.status ~= 201 then return outcome(res, message, code) end
  local answer = json.decode(res.body)
  if type(answer) ~= "table" or answer.id ~= id then return "wrong", "another answer: " .. res.body:sub(1, 120) end
  return "ack", answer
end

local operations = {}

function operations.echo(context, id)
  local size = context.random:draw(1, 20000)
  local res, message, code = context.http:get(("/echo/%s?size=%d"):format(id, size))
  if not res or res.status ~= 200 then return outcome(res, message, code) end
  if res.headers["x-id"] ~= id or res.body ~= content.of(id, size) then return "wrong", "another content" end
  return "ack", size
end

function operations.count(context, id)
  local verdict, answer = answered(id, context.http:post("/count/" .. id, { body = id }))
  return verdict, verdict == "ack" and answer.value or answer
end

function operations.service(context, id)
  local verdict, answer = answered(id, context.http:get("/service/" .. id))
  return verdict, verdict == "ack" and "" or answer
end

function operations.memory(context, id)
  local verdict, answer = answered(id, context.http:get("/memory/" .. id))
  return verdict, verdict == "ack" and "" or answer
end

function operations.upstream(context, id)
  local verdict, answer = answered(id, context.http:get("/upstream/" .. id))
  return verdict, verdict == "ack" and "" or answer
end

-- Draws the size of an upload, mostly small, sometimes larger than all buffers, and notes it in the journal.
local function size_of(context, id)
  local random = context.random
  local size = random:draw() < 0.15 and random:draw(200000, 1500000) or random:draw(1, 60000)
  context.note("size", id, size)
  return size
end

function operations.body(context, id)
  local data = content.of(id, context.random:draw(1, 100000))
  local verdict, answer = answered(id, context.http:post("/digest/" .. id, { body = data }))
  if verdict == "ack" and answer.digest ~= content.digest(data) then return "wrong", "another body" end
  return verdict, verdict == "ack" and "" or answer
end

local function uploaded(id, data, ...)
  local verdict, answer = answered(id, ...)
  if verdict ~= "ack" then return verdict, answer end
  if answer.size ~= #data then return "wrong", "acknowledged another size" end
  return "ack", content.digest(data)
end

operations["upload form"] = function(context, id)
  local data = content.of(id, size_of(context, id))
  local boundary = "chaos-" .. id
  local field = '--%s\r\nContent-Disposition: form-data; name="id"\r\n\r\n%s\r\n'
  local file = '--%s\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
  return uploaded(id, data, context.http:post("/upload/" .. id, {
    headers = { ["Content-Type"] = "multipart/form-data; boundary=" .. boundary },
    body = { field:format(boundary, id), file:format(boundary), data, "\r\n--" .. boundary .. "--\r\n" },
  }))
end

operations["upload body"] = function(context, id)
  local data = content.of(id, size_of(context, id))
  return uploaded(id, data, context.http:put("/file/" .. id, {
    body = data, expect_continue = context.random:draw() < 0.2,
  }))
end

function operations.events(context, id)
  local count = context.random:draw(1, 60)
  local res, message, code = context.http:get(("/events/%s?count=%d"):format(id, count), { stream = true })
  if not res or res.status ~= 200 then
    if res then res:text() end
    return outcome(res, message, code)
  end
  local closing <close> = res
  local rest, number = "", 0
  while true do
    local piece, problem, why = closing:piece()
    if not piece then
      if problem then return outcome(nil, problem, why) end
      return "error", "stopped: the stream ended without its last event" -- verify.lua checks that the server stopped
    end
    rest = rest .. piece
    for text in rest:gmatch "(.-)\n\n" do
      local data = text:match "data: ([^\n]*)"
      if data == id .. ":end" then
        if number ~= count then return "wrong", ("%d of %d events"):format(number, count) end
        return "ack", count
      elseif data then
        number = number + 1
        if data ~= id .. ":" .. number then return "wrong", ("event %d is %s"):format(number, data) end
      end
    end
    rest = rest:match "^.*\n\n(.*)$" or rest
  end
end

-- Sends numbered messages, at most four of which are unanswered. Echoes and pushes must be numbered without gap.
function operations.websocket(context, id)
  local ws, message, code = websocket.connect(context.base:gsub("^http", "ws") .. "/ws/" .. id,
    { connect_timeout = context.seconds / 2, ping = 1, timeout = context.silence or 2, compress_from = 8 })
  if not ws then
    local status = code == "refused" and math.tointeger(message:match "status (%d+)")
    if status then return outcome({ status = status, body = message }) end
    return outcome(nil, message, code)
  end
  local closing <close> = setmetatable({}, { __close = function() ws:abort() end })
  local count, sent, echoed, pushed = context.random:draw(1, 40), 0, 0, 0
  while echoed < count do
    if sent < count and sent - echoed < 4 then
      sent = sent + 1
      local ok, problem, why = ws:send(id .. ":" .. sent)
      if not ok then return outcome(nil, problem, why) end
    else
      local text, why = ws:receive(context.seconds / 2)
      if not text then return outcome(nil, tostring(ws.reason), why) end
      if text == ("echo:%s:%d"):format(id, echoed + 1) then
        echoed = echoed + 1
      elseif text == ("push:%s:%d"):format(id, pushed + 1) then
        pushed = pushed + 1
      else
        return "wrong", ("after %d echoes and %d pushes: %s"):format(echoed, pushed, text:sub(1, 80))
      end
    end
  end
  if context.random:draw() < 0.7 then ws:close() end
  return "ack", count, closing
end

-- Sends several requests at once on one connection: the answers come in order, and no byte follows the last one.
function operations.pipeline(context, id)
  local c, message, code = net.connect(context.host, context.port, { timeout = context.seconds / 2 })
  if not c then return outcome(nil, message, code) end
  local closing <close> = c
  c:timeout(context.seconds / 3, context.seconds / 3)
  local count, lines = context.random:draw(1, 6), {}
  for i = 1, count do
    lines[i] = ("GET /echo/%s-%d?size=%d HTTP/1.1\r\nHost: chaos\r\n%s\r\n"):format(id, i, i * 100,
      i == count and "Connection: close\r\n" or "")
  end
  local ok, problem, _, why = c:send(table.concat(lines))
  if not ok then return outcome(nil, problem, why) end
  for i = 1, count do
    local head, failed, _, reason = c:recv("until", "\r\n\r\n", 4096)
    if not head then return outcome(nil, failed or "closed", reason or "closed") end
    local status, length = math.tointeger(head:match "^HTTP/1.1 (%d+)"), head:match "[Cc]ontent%-[Ll]ength: (%d+)"
    if not status or not length then return "wrong", "a malformed head: " .. head:sub(1, 80) end
    local body, lost, _, reason2 = c:recv(math.tointeger(length))
    if not body then return outcome(nil, lost or "closed", reason2 or "closed") end
    if status ~= 200 then return outcome({ status = status, body = body }) end
    local own = ("%s-%d"):format(id, i)
    if not head:find(own, 1, true) or body ~= content.of(own, i * 100) then
      return "wrong", ("answer %d of %d belongs to another request"):format(i, count)
    end
  end
  local more, failed = c:recv()
  if more then return "wrong", "bytes after the last answer: " .. more:sub(1, 80) end
  if failed == "timeout" then return "error", "timeout: at the end" end
  return "ack", count, closing
end

--- How often each operation is chosen.
M.weights = {
  echo = 25, count = 20, service = 8, memory = 2, upstream = 10, ["upload form"] = 10, ["upload body"] = 8,
  events = 7, websocket = 7, pipeline = 8, body = 5,
}

--- Performs an operation.
function M.perform(kind, context, id) return operations[kind](context, id) end

return M
