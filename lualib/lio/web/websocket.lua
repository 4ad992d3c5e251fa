-- `app:ws`: accepts WebSocket connections (RFC 6455 section 4.2). Called by webserver.lua. The connection belongs to
-- the program after the handshake; an app server knows its WebSocket connections, so that a stop closes them.

local callbacks = require "lio.web.websocket_callbacks"
local connections = require "lio.websocket.connection"
local core = require "lio.websocket.core"
local defer = require "lio.defer"
local handler_error = require "lio.web.handler_error"
local misuse = require "lio.misuse"
local options = require "lio.options"
local exchange_of <const> = require("lio.web.exchange").of_request

local GOING_AWAY <const>, INTERNAL_ERROR <const> = 1001, 1011
-- The reason for the end that the peers of a stopping server get.
local STOPPING <const> = "the server stops"

local is_false <const> = options.is_false

local OPTIONS <const> = {
  protocols = options.rule("a list of names", function(value)
    if type(value) ~= "table" or #value == 0 then return false end
    for _, name in ipairs(value) do
      if type(name) ~= "string" or not name:find "^[%w!#$%%&'*+.^_`|~-]+$" then return false end
    end
    return true
  end),
  origins = options.rule("\"same\", \"any\", a list of origins such as \"https://a.example\", or a function",
    function(value)
      if type(value) ~= "table" or misuse.is_callable(value) then
        return value == "same" or value == "any" or misuse.is_callable(value)
      end
      for _, origin in ipairs(value) do
        if type(origin) ~= "string" then return false end
      end
      return true
    end),
  max_message = options.integer(1),
  max_frame = options.integer(1),
  max_ratio = options.integer(1, (1 << 32) - 1),
  max_rate = options.positive,
  compress = options.either(options.boolean, options.one_of("context")),
  compress_from = options.integer(0),
  ping = options.either(options.seconds, options.rule("false", is_false.test)),
  timeout = options.seconds,
}

-- The default options.
local DEFAULTS <const> = {
  origins = "same",
  max_message = 1024 * 1024,
  max_ratio = 200,
  compress = true,
  compress_from = 256,
  ping = 30,
  timeout = 30,
}

local M = {}

-- The handshake ----------------------------------------------------------------------------------------

-- Refuses a request. Returns the values that the handler returns.
local function refuse(status, text, headers)
  return status, text .. "\n", headers
end

local function has_token(value, wanted)
  for token in (value or ""):gmatch "[^,%s]+" do
    if token:lower() == wanted then return true end
  end
  return false
end

local DEFAULT_PORTS <const> = { http = ":80", https = ":443" }

-- Returns whether an origin is that of the server itself: the host and the port are those of the request.
local function is_same_origin(req, origin)
  local scheme, authority = origin:lower():match "^(https?)://([^/]+)$"
  if not scheme or not req.host then return false end
  local port <const> = DEFAULT_PORTS[scheme]
  local function with_port(text) return text:find ":%d+$" and text or text .. port end
  return with_port(authority) == with_port(req.host:lower())
end

-- Returns whether the page that connects may do so. A client without an origin is no browser.
local function is_allowed(req, allowed)
  local origin = req:header "origin"
  if not origin or allowed == "any" then return true end
  if allowed == "same" then return is_same_origin(req, origin) end
  if type(allowed) == "table" then
    for _, one in ipairs(allowed) do
      if one:lower() == origin:lower() then return true end
    end
    return false
  end
  return allowed(origin, req) and true or false
end

-- Checks a request. Returns nil if it is a WebSocket handshake; otherwise the response that refuses it.
local function refusal(req, opts)
  if req.method ~= "GET" or req.version ~= "1.1" or not has_token(req:header "upgrade", "websocket")
    or not has_token(req:header "connection", "upgrade")
  then
    return refuse(426, "this address accepts WebSocket connections only", { Upgrade = "websocket" })
  end
  if req:header "sec-websocket-version" ~= "13" then
    local fields <const> = { Upgrade = "websocket", ["Sec-WebSocket-Version"] = "13" }
    return refuse(426, "the version of WebSocket must be 13", fields)
  end
  if req:header "transfer-encoding" or (tonumber(req:header "content-length") or 0) > 0 then
    return refuse(400, "a WebSocket handshake must have no body")
  end
  if not is_allowed(req, opts.origins) then return refuse(403, "connections from this origin are not allowed") end
end

-- Returns the response's head, the subprotocol and the parameters of the compression; or nil and a message.
local function respond(req, opts)
  local accept, protocol, extensions, deflate = core.respond(req:header "sec-websocket-key" or "",
    req:header_all "sec-websocket-protocol", opts.protocols or {}, req:header_all "sec-websocket-extensions",
    opts.compress ~= false, opts.compress == "context")
  if not accept then return nil, protocol end
  local lines = {
    "HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Accept: " .. accept,
  }
  if protocol then lines[#lines + 1] = "Sec-WebSocket-Protocol: " .. protocol end
  if extensions then lines[#lines + 1] = "Sec-WebSocket-Extensions: " .. extensions end
  lines[#lines + 1] = "\r\n"
  return table.concat(lines, "\r\n"), protocol, deflate
end

-- Serving ----------------------------------------------------------------------------------------------

-- Called once at the end of a connection.
local function leave(ws) ws.app_server:remove_websocket(ws) end

local function serve_function(req, ws, handler)
  local _ <close> = ws
  local ok, err = xpcall(handler, handler_error.catch, ws, req)
  if ok then return end
  handler_error.log(req, err)
  ws:close(INTERNAL_ERROR, "internal error")
end

-- Takes over the connection of a request, and sends the head of the response. Returns the connection, which counts as a
-- guest of the server; or nil if it has ended.
local function switch(app_server, req, head)
  local c <const> = req:take_over()
  local is_open = false
  app_server:change_guests(1)
  -- The task may be killed while the response is sent.
  local _ <close> = defer(function()
    if is_open then return end
    app_server:change_guests(-1)
    c:close()
  end)
  is_open = c:send(head)
  return is_open and c
end

-- Accepts the connection of a request. Returns nothing, or the response that refuses it.
local function accept(req, res, opts, handler)
  local status, body, headers = refusal(req, opts)
  if status then return status, body, headers end
  local head, protocol, deflate = respond(req, opts)
  if not head then return refuse(400, protocol) end
  local exchange = exchange_of(req)
  local app_server <const>, driver <const> = exchange.app_server, exchange.driver
  if app_server.stopping then return refuse(503, "the server is stopping") end
  res.sent_code = 101
  local c = switch(app_server, req, head)
  if not c then return end
  local ws = connections.new(driver, c, {
    role = "server", protocol = protocol, deflate = deflate, ping = opts.ping, timeout = opts.timeout,
    max_message = opts.max_message, max_frame = opts.max_frame or opts.max_message, max_ratio = opts.max_ratio,
    max_rate = opts.max_rate, compress_from = opts.compress_from,
  })
  ws.app_server, ws.on_closed = app_server, leave
  app_server:add_websocket(ws)
  -- The stop has begun while the response was sent, and has not closed this connection.
  if app_server.stopping then ws:close(GOING_AWAY, STOPPING) return end
  if type(handler) == "table" then callbacks.serve(req, ws, handler) else serve_function(req, ws, handler) end
end

-- `handler(opts, handler)` returns the handler of a route that accepts WebSocket connections. Raises for invalid
-- arguments.
function M.handler(opts, handler)
  opts = options.check("app:ws", 2, opts, OPTIONS)
  local all = {}
  for name, value in pairs(DEFAULTS) do all[name] = value end
  for name, value in pairs(opts) do all[name] = value end
  if type(handler) == "table" and not misuse.is_callable(handler) then
    callbacks.check(handler)
  else
    misuse.check_function("ws", 3, handler)
  end
  return function(req, res) return accept(req, res, all, handler) end
end

-- Stopping ---------------------------------------------------------------------------------------------

-- Returns the list of the connections in a set, which may then change.
local function list_of(websockets)
  local list = {}
  for ws in pairs(websockets) do list[#list + 1] = ws end
  return list
end

-- `close_all(websockets, start)`: starts the closing handshake of each connection in a set, in a task. Used by
-- web/app_server.lua, as is `end_all`.
function M.close_all(websockets, start)
  for _, ws in ipairs(list_of(websockets)) do start(ws.close, ws, GOING_AWAY, STOPPING) end
end

-- `end_all(websockets)`: ends each connection in a set at once.
function M.end_all(websockets)
  for _, ws in ipairs(list_of(websockets)) do ws:abort() end
end

return M
