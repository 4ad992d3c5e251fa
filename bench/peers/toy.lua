-- A small HTTP/1.1 codec for event loops that have no codec, in Lua 5.1 or newer. Used by luv_server.lua and
-- cqueues_server.lua. It parses valid requests with Content-Length, and has the routes of the suite `http`.

local toy = {}

local large, piece = ("x"):rep(100 * 1024), ("x"):rep(127) .. "\n"

-- Returns the current date, which is formatted once per second.
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

local function respond(request, write)
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

-- Returns the request that begins at `from`, and the position after it; nil if the request is not complete.
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

-- Returns a function for one connection. The function takes received bytes, and responds to each complete request with
-- calls of `write(text)`. It returns true if the connection must be closed.
function toy.connection(write)
  local incomplete = ""
  return function(data)
    local input, from = incomplete .. data, 1
    while from <= #input do
      local request, after = parse(input, from)
      if not request then break end
      respond(request, write)
      if request.close then return true end
      from = after
    end
    incomplete = input:sub(from)
    return false
  end
end

return toy
