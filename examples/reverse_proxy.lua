-- A reverse proxy: `lio examples/reverse_proxy.lua 8000 http://127.0.0.1:8080` passes requests on port 8000 to the
-- server at that address. Bodies are streamed in both directions, connections to the server are reused, and a switch of
-- protocols (WebSocket) becomes a tunnel. With port 0 the system chooses a port. An optional third argument is the read
-- timeout for the server in seconds; the default is 60, as in `lio.http.client`.

local http = require "lio.http.client"
local web = require "lio.webserver"
local loop = require "lio.loop"

local port, origin, read_timeout = ...
port, origin = math.tointeger(tonumber(port or 8000)), origin or "http://127.0.0.1:8080"

local upstream = http.new {
  redirects = 0, -- redirects are passed on to the proxy's client
  decode = false, -- bodies are passed on without decoding
  connect_timeout = 5,
  read_timeout = tonumber(read_timeout),
  max_per_host = 256,
}

-- Fields that apply to a single connection (RFC 9110 section 7.6.1), and fields that this proxy sets itself.
local HOP_BY_HOP <const> = {}
for name in ([[ connection proxy-connection keep-alive proxy-authenticate proxy-authorization te trailer
  transfer-encoding upgrade ]]):gmatch "%S+" do
  HOP_BY_HOP[name] = true
end

-- Returns the names of the fields that must not be passed on: the fields above, and the fields that Connection lists.
local function dropped(connection)
  local names = setmetatable({}, { __index = HOP_BY_HOP })
  for name in (connection or ""):gmatch "[^,%s]+" do names[name:lower()] = true end
  return names
end

local function append(list, item)
  return list and list .. ", " .. item or item
end

local function request_headers(req)
  local skipped, headers = dropped(req.headers.connection), {}
  for name, value in pairs(req.headers) do
    if not skipped[name] and name ~= "host" and name ~= "expect" then headers[name] = value end
  end
  headers["x-forwarded-for"] = append(headers["x-forwarded-for"], req.remote_addr or "unknown")
  headers["x-forwarded-host"] = req.host
  headers["x-forwarded-proto"] = "http"
  headers.via = append(headers.via, req.version .. " lio")
  if req.upgrade then headers.connection, headers.upgrade = "upgrade", req.upgrade end
  return headers
end

-- Returns a function that returns the pieces of the request's body, or nil if it has no body. `state.unread` is true
-- until the body has been read.
local function request_body(req, state)
  local length = req.headers["content-length"]
  if not req.headers["transfer-encoding"] and (not length or length == "0") then return nil end
  state.unread = true
  local pieces = req:stream(math.maxinteger)
  return function()
    local piece = pieces()
    if not piece then state.unread = false end
    return piece
  end
end

-- Sends the bytes of one side to the other, until the first side ends.
local function pump(from, to)
  for data in function() return from:recv() end do
    if not to:send(data) then break end
  end
  to:shutdown "w"
end

-- Passes bytes on unchanged, because both sides have agreed on another protocol.
local function tunnel(req, response)
  local server <close> = response:take_over()
  local client <close> = req:take_over()
  local head = { "HTTP/1.1 101 Switching Protocols" }
  local list = response:header_list()
  for at = 1, #list, 2 do head[#head + 1] = list[at] .. ": " .. list[at + 1] end
  if not client:send(table.concat(head, "\r\n"), "\r\n\r\n") then return end
  local done = {}
  loop.fork(function()
    pump(server, client)
    done.ended = true
    loop.wakeup(done)
  end)
  pump(client, server)
  if not done.ended then loop.wait(done) end
end

local function failure(res, message, code)
  io.stderr:write("reverse_proxy: ", message, "\n")
  if code == "timeout" then return res:status(504):send "Gateway Timeout\n" end
  return res:status(502):send "Bad Gateway\n"
end

-- Passes the response on. If the response is not read to its end, its connection is closed.
local function pass_on(res, response, state)
  local _ <close> = response
  if response.status > 599 then return failure(res, "status " .. response.status, "protocol") end
  local piece, message, code = response:piece()
  if message then return failure(res, message, code) end
  res:status(response.status)
  local skipped, list = dropped(response.headers.connection), response:header_list()
  for at = 1, #list, 2 do
    if not skipped[list[at]:lower()] then res:add_header(list[at], list[at + 1]) end
  end
  if not response.headers["content-type"] then res:header("Content-Type", false) end
  res:add_header("Via", response.version .. " lio")
  -- The server has responded before the request's body was complete.
  if state.unread then res:header("Connection", "close") end
  while piece do
    if not res:write(piece) then return end
    piece, message = response:piece()
  end
  -- The head has been sent, so only the truncated response shows the failure to the client.
  if message then error("the server's response ended early: " .. message, 0) end
end

local function proxy(req, res)
  if req.method == "CONNECT" then return 405, "Method Not Allowed\n" end
  local state = {}
  local response, message, code = upstream:request {
    url = origin .. req.raw_path .. (req.raw_query and "?" .. req.raw_query or ""),
    method = req.method,
    headers = request_headers(req),
    body = request_body(req, state),
    stream = true,
  }
  if not response then return failure(res, message, code) end
  if response.status == 101 then return tunnel(req, response) end
  return pass_on(res, response, state)
end

local app = web.new()
app:any("/", proxy)
app:any("/*path", proxy)
app:run("127.0.0.1:" .. port)
