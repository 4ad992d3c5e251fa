-- An HTTP server on lua-http: INTERPRETER lua_http_server.lua PORT

local headers = require "http.headers"
local http = require "http.server"

local large, piece = ("x"):rep(100 * 1024), ("x"):rep(127) .. "\n"

local date_at, date
local function today()
  local now = os.time()
  if now ~= date_at then date_at, date = now, os.date("!%a, %d %b %Y %H:%M:%S GMT", now) end
  return date
end

local function respond(stream, kind, body)
  local head = headers.new()
  head:append(":status", "200")
  head:append("content-type", kind)
  head:append("date", today())
  if body then head:append("content-length", tostring(#body)) end
  stream:write_headers(head, false)
  if body then return stream:write_chunk(body, true) end
  for _ = 1, 8 do stream:write_chunk(piece, false) end
  stream:write_chunk("", true)
end

local server = assert(http.listen {
  host = "127.0.0.1", port = tonumber(arg[1]), tls = false, version = 1.1,
  onerror = function() end,
  onstream = function(_, stream)
    local request = stream:get_headers()
    if not request then return end
    local path = request:get ":path"
    if path == "/" then return respond(stream, "text/plain; charset=utf-8", "Hello, World!\n") end
    if path == "/echo" then return respond(stream, "application/octet-stream", stream:get_body_as_string()) end
    if path == "/large" then return respond(stream, "text/plain; charset=utf-8", large) end
    if path == "/stream" then return respond(stream, "text/plain; charset=utf-8") end
    local user, post = path:match "^/users/([^/]+)/posts/([^/]+)$"
    respond(stream, "application/json", '{"user":"' .. user .. '","post":"' .. post .. '"}')
  end,
})
assert(server:listen())
assert(server:loop())
