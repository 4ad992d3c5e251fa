-- Endpoints: where a request is sent, through which proxy, and with which TLS. Part of `lio.http.client`. Invariant:
-- two requests share a connection only if their endpoints have the same key, so a connection whose certificate was
-- verified with other settings is never used.

local basic_credentials <const> = require "lio.http.client.credentials"
local now <const> = require("lio").now

-- The maximum size of a proxy's response to CONNECT, in bytes.
local MAX_HEAD <const> = 16 * 1024
-- The time limit for connecting if the request has none, in seconds.
local CONNECT_TIMEOUT <const> = 60

local M = {}

local Endpoint = {}
Endpoint.__index = Endpoint

-- TLS --------------------------------------------------------------------------------------------------

-- The result of `tls.client` for requests without the option `tls`; and results for tables of options, which are made
-- once.
local usual
local of_options = setmetatable({}, { __mode = "k" })

-- Returns the result of `tls.client` for a table of options; offers HTTP/1.1 if the options have no `alpn`.
local function client_of_options(tls, opts)
  local known = of_options[opts]
  if known then return known end
  local all = { alpn = { "http/1.1" } }
  for name, value in pairs(opts) do all[name] = value end
  local client, message, code = tls.client_of("http.client", all)
  if client then of_options[opts] = client end
  return client, message, code
end

-- Returns the result of `tls.client` for the option `tls` of a request; or nil, message, "tls".
local function tls_of(option)
  local tls = require "lio.tls"
  if type(option) == "table" then return client_of_options(tls, option) end
  if option and option ~= true then return tls.client_of("http.client", option) end
  usual = usual or assert(tls.client { alpn = { "http/1.1" } })
  return usual
end

-- The numbers of the results of `tls.client`, for keys.
local numbers, last_number = setmetatable({}, { __mode = "k" }), 0

local function number_of(client)
  if not numbers[client] then
    last_number = last_number + 1
    numbers[client] = last_number
  end
  return numbers[client]
end

-- Endpoints --------------------------------------------------------------------------------------------

-- `of(request)` returns the endpoint of a request; or nil, message, code. Its field `key` identifies it. If
-- `request.tunnels` is true, a proxy opens a tunnel even if the connection is not encrypted.
function M.of(request)
  local url, socket, proxy = request.url, request.socket, request.proxy
  local via = not socket and proxy or nil
  local endpoint = setmetatable({ url = url }, Endpoint)
  if url.scheme == "https" or via and via.scheme == "https" then
    local client, message, code = tls_of(request.tls)
    if not client then return nil, message, code end
    if url.scheme == "https" then endpoint.tls = client end
    if via and via.scheme == "https" then endpoint.proxy_tls = client end
  end
  if socket then
    endpoint.addr = "unix:" .. socket
  else
    endpoint.addr, endpoint.port = (via or url).host, (via or url).port
  end
  local key = { endpoint.addr, endpoint.port or "" }
  if endpoint.proxy_tls then key[#key + 1] = "tls " .. number_of(endpoint.proxy_tls) end
  if endpoint.tls then
    -- A connection to a server is used for its name only.
    key[#key + 1] = ("https %s %d %d"):format(url.host, url.port, number_of(endpoint.tls))
  end
  if via and (endpoint.tls or request.tunnels) then
    endpoint.tunnel = via
    key[#key + 1] = ("%s:%s"):format(via.user or "", via.password or "")
  end
  endpoint.key = table.concat(key, " ")
  return endpoint
end

-- Connecting -------------------------------------------------------------------------------------------

local function timed_out()
  return nil, "connect: timeout", "timeout"
end

-- Asks the proxy for a tunnel to the server (RFC 9110 section 9.3.6). Returns true; or nil, message, code.
local function open_tunnel(c, endpoint, seconds)
  local url, proxy = endpoint.url, endpoint.tunnel
  local target = (url.host:find(":", 1, true) and "[%s]:%d" or "%s:%d"):format(url.host, url.port)
  local lines = { ("CONNECT %s HTTP/1.1"):format(target), "Host: " .. target }
  if proxy.user then
    lines[#lines + 1] = "Proxy-Authorization: " .. basic_credentials(proxy.user, proxy.password)
  end
  c:timeout(seconds, seconds)
  local ok, message, _, code = c:send(table.concat(lines, "\r\n"), "\r\n\r\n")
  if not ok then return nil, "proxy: " .. message, code end
  local head
  head, message, _, code = c:recv("until", "\r\n\r\n", MAX_HEAD)
  if not head then return nil, "proxy: " .. tostring(message), code or "closed" end
  c:timeout(nil, nil)
  local status = head:match "^HTTP/1%.%d (%d%d%d)"
  if not status then return nil, "proxy: the response to CONNECT is not HTTP", "protocol" end
  if not status:find "^2" then
    return nil, ("proxy: no tunnel to %s: status %s"):format(target, status), "proxy"
  end
  return true
end

-- `endpoint:connect(driver, net, seconds)` returns a connection on which requests can be sent; or nil, message, code.
-- `seconds` may be nil.
function Endpoint:connect(driver, net, seconds)
  local deadline = seconds and now() + seconds
  local function left()
    return deadline and deadline - now()
  end
  if deadline and left() <= 0 then return timed_out() end
  local c, message, code = net.connect(self.addr, self.port, { timeout = seconds })
  if not c then return nil, message, code end
  local function secure(tls, host)
    if deadline and left() <= 0 then
      c:close()
      return timed_out()
    end
    return require("lio.net.tls").shake_hands(driver, c, tls, host, left() or CONNECT_TIMEOUT)
  end
  local ok = true
  if self.proxy_tls then ok, message, code = secure(self.proxy_tls, self.addr) end
  if ok and self.tunnel then
    ok, message, code = open_tunnel(c, self, left() or CONNECT_TIMEOUT)
    if not ok then c:close() end
  end
  if ok and self.tls then ok, message, code = secure(self.tls, self.url.host) end
  if not ok then return nil, message, code end
  return c
end

return M
