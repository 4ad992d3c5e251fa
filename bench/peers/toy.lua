-- A small HTTP/1.1 server side for loops that have none, for Lua 5.1 on: luv_server.lua and cqueues_server.lua share
-- it. It reads well-formed requests with Content-Length, and knows the routes of suite `http`.

local toy = {}

local large, piece = ("x"):rep(100 * 1024), ("x"):rep(127) .. "\n"

-- The date of this second.
local date_at, date
local function today()
  local now = os.time()
  if now ~= date_at then date_at, date = now, os.date("!%a, %d %b %Y %H:%M:%S GMT", now) end
  return date
end

local function head(kind, framing, close)
  return "HTTP/1.1 200 OK\r\nContent-Type: " .. kind .. "\r\nDate: " .. today() .. "\r\n" .. framing .. "\r\n"
    .. (close and "Connection: close\r\n" or "") .. "\r\n"
end

local function answer(request, write)
  local path, kind = request.path, "text/plain; charset=utf-8"
  local body
  if path == "/" then
    body = "Hello, World!\n"
  elseif path == "/echo" then
    kind, body = "application/octet-stream", request.body
  elseif path == "/large" then
    body = large
  elseif path == "/stream" then
    write(head(kind, "Transfer-Encoding: chunked", request.close))
    for _ = 1, 8 do write(("%x\r\n"):format(#piece) .. piece .. "\r\n") end
    return write "0\r\n\r\n"
  else
    local user, post = path:match "^/users/([^/]+)/posts/([^/]+)$"
    kind, body = "application/json", '{"user":"' .. user .. '","post":"' .. post .. '"}'
  end
  write(head(kind, "Content-Length: " .. #body, request.close) .. body)
end

-- The request that begins at `from`, and where the next one begins; nil when it is not all there.
local function parse(input, from)
  local _, last = input:find("\r\n\r\n", from, true)
  if not last then return nil end
  local method, path, fields = input:match("^(%u+) (%S+) HTTP/1%.1\r\n()", from)
  local headers = {}
  for name, value in input:sub(fields, last - 2):gmatch "([^:\r\n]+):%s*([^\r\n]*)\r\n" do
    headers[name:lower()] = value
  end
  local length = tonumber(headers["content-length"]) or 0
  if #input < last + length then return nil end
  return {
    method = method, path = path, headers = headers, close = headers.connection == "close",
    body = input:sub(last + 1, last + length),
  }, last + length + 1
end

-- A connection: a function that takes what was received and answers each request in it by calls of `write(text)`.
-- It returns true when the connection is to be closed.
function toy.connection(write)
  local kept = ""
  return function(data)
    local input, from = kept .. data, 1
    while from <= #input do
      local request, after = parse(input, from)
      if not request then break end
      answer(request, write)
      if request.close then return true end
      from = after
    end
    kept = input:sub(from)
    return false
  end
end

return toy
