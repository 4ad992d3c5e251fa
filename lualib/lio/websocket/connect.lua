-- `websocket.connect`: the client's side of the opening handshake (RFC 6455 section 4.1). Part of `lio.websocket`.

local connections = require "lio.websocket.connection"
local core = require "lio.websocket.core"
local defer = require "lio.defer"
local default_net = require "lio.net"
local drivers = require "lio.net.driver"
local endpoints = require "lio.http.client.endpoint"
local http = require "lio.http"
local misuse = require "lio.misuse"
local now <const> = require("lio").now
local options = require "lio.options"
local urls = require "lio.http.client.url"

-- The maximum size of the head of a response, in bytes.
local MAX_HEAD <const> = 64 * 1024

local OPTIONS <const> = {
  protocols = options.table,
  headers = options.table,
  origin = options.string,
  connect_timeout = options.seconds,
  tls = options.any,
  proxy = options.string,
  socket = options.string,
  max_message = options.integer(1),
  max_frame = options.integer(1),
  max_ratio = options.integer(1, (1 << 32) - 1),
  max_rate = options.positive,
  compress = options.either(options.boolean, options.one_of("context")),
  compress_from = options.integer(0),
  ping = options.either(options.seconds, options.is_false),
  timeout = options.seconds,
}

local DEFAULTS <const> = {
  connect_timeout = 10,
  max_message = 1024 * 1024,
  max_ratio = 200,
  compress = true,
  compress_from = 256,
  ping = 30,
  timeout = 30,
}

local SCHEMES <const> = { ws = "http", wss = "https" }

-- The fields that the client sets itself.
local OWN <const> = {
  host = true, upgrade = true, connection = true, origin = true, ["content-length"] = true,
  ["transfer-encoding"] = true,
}

local M = {}

-- Closes a connection whose handshake fails, or whose task is killed. Field: `c`, or nil.
local Guard = {}
Guard.__index = Guard
function Guard.__close(guard)
  if guard.c then guard.c:close() end
end

-- Parses the URL. Returns a URL of the scheme http or https; or nil and a message.
local function parse(text)
  local scheme, rest = text:match "^(%a+)(:.*)$"
  local known = scheme and SCHEMES[scheme:lower()]
  if not known then return nil, "the scheme must be ws or wss; an example is ws://host/path" end
  if text:find "[%c%s]" then return nil, "the URL contains white space or a control character" end
  if text:find("#", 1, true) then return nil, "the URL must have no fragment" end
  return urls.parse(known .. rest)
end

-- Returns the head of the request.
local function head_of(url, request, opts)
  local lines = { ("GET %s HTTP/1.1\r\nHost: %s\r\n"):format(url.target, url.authority), request:fields() }
  if opts.origin then
    if opts.origin:find "[%c]" then
      misuse.raise "websocket.connect: option 'origin' must be a string without control characters"
    end
    lines[#lines + 1] = "Origin: " .. opts.origin .. "\r\n"
  end
  if url.user then
    local credentials = require "lio.http.client.credentials"(url.user, url.password)
    lines[#lines + 1] = "Authorization: " .. credentials .. "\r\n"
  end
  for name, value in pairs(opts.headers or {}) do
    if type(name) ~= "string" then
      misuse.raise("websocket.connect: headers: the name of a field must be a string, got " .. misuse.shown(name))
    end
    local ok, message = pcall(http.check_field, name, value)
    if not ok then misuse.raise("websocket.connect: headers: " .. message) end
    if OWN[name:lower()] or name:lower():find "^sec%-websocket%-" then
      misuse.raise(("websocket.connect: headers: %s is set by the client itself"):format(name))
    end
    lines[#lines + 1] = ("%s: %s\r\n"):format(name, value)
  end
  lines[#lines + 1] = "\r\n"
  return table.concat(lines)
end

-- Returns the request in its native form, and its head.
local function request_of(url, opts)
  local ok, request = pcall(core.request, opts.protocols or {}, opts.compress ~= false, opts.compress == "context")
  if not ok then misuse.raise("websocket.connect: option 'protocols': " .. misuse.without_position(request)) end
  return request, head_of(url, request, opts)
end

-- Sends the head of the request, and checks the response. Returns true, the subprotocol and the parameters of the
-- compression; or nil, message, code.
local function exchange(c, request, head)
  local ok, message, _, code = c:send(head)
  if not ok then return nil, message, code end
  local response
  response, message, _, code = c:recv("until", "\r\n\r\n", MAX_HEAD)
  if not response then return nil, message or "the connection was closed during the handshake", code or "closed" end
  return request:check(response .. "\r\n\r\n")
end

-- Like `exchange`, but fails with "timeout" at the time `deadline`.
local function shake_hands(driver, c, request, head, deadline)
  local is_late = false
  local id <const> = driver.timers:add(math.max(deadline - now(), 0.001), { expired = function()
    is_late = true
    c:close()
  end })
  local _ <close> = defer(function() driver.timers:cancel(id) end)
  local ok, message, code = exchange(c, request, head)
  if is_late then return nil, "websocket: the server has not completed the handshake in time", "timeout" end
  return ok, message, code
end

-- `connect(url [, opts])` connects to `"ws://host/path"` or `"wss://host/path"`. Returns a connection (see
-- websocket/connection.lua); or nil, message, code: those of `net.connect`, "tls", "protocol" and "refused". `opts`:
--   `protocols`        the subprotocols to offer, the best first; `ws.protocol` is the chosen one
--   `headers`, `origin`  further fields of the request
--   `connect_timeout`  seconds for connecting and the handshake (10)
--   `tls`              as in `net.connect`; `proxy`, `socket` as in `lio.http.client`
--   `max_message`, `max_frame`  bytes (1 MiB); `max_ratio`: of decompression (200); `max_rate`: received messages and
--                      pings a second, and at once twice as many (nil: unlimited)
--   `compress`         true (default): offers compression; "context": with context takeover; false
--   `compress_from`    messages with fewer bytes are not compressed (256)
--   `ping`, `timeout`  a peer that is silent for `ping` seconds (30; false: never) gets a ping, and `timeout` seconds
--                      (30) to answer
function M.connect(url, opts)
  misuse.check("connect", 1, url, "string")
  local all = {}
  for name, value in pairs(DEFAULTS) do all[name] = value end
  for name, value in pairs(options.check("websocket.connect", 2, opts, OPTIONS)) do all[name] = value end
  local driver = drivers.of(default_net.instance)
  driver:check_loop "websocket.connect"
  local parsed, message = parse(url)
  if not parsed then misuse.raise("websocket.connect: url: " .. message) end
  local proxy = all.proxy
  if proxy then
    proxy, message = urls.parse(proxy)
    if not proxy then misuse.raise("websocket.connect: option 'proxy': " .. message) end
  end
  local request, head = request_of(parsed, all)
  local endpoint, code
  endpoint, message, code = endpoints.of {
    url = parsed, proxy = proxy, socket = all.socket, tls = all.tls, tunnels = true,
  }
  if not endpoint then return nil, message, code end
  local deadline = now() + all.connect_timeout
  local c
  c, message, code = endpoint:connect(driver, driver.net, all.connect_timeout)
  if not c then return nil, message, code end
  local guard <close> = setmetatable({ c = c }, Guard)
  local ok, protocol, deflate = shake_hands(driver, c, request, head, deadline)
  if not ok then return nil, protocol, deflate end
  guard.c = nil
  return connections.new(driver, c, {
    role = "client", protocol = protocol, deflate = deflate, ping = all.ping, timeout = all.timeout,
    max_message = all.max_message, max_frame = all.max_frame or all.max_message, max_ratio = all.max_ratio,
    max_rate = all.max_rate, compress_from = all.compress_from,
  })
end

return M
