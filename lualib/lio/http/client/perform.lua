-- Performs requests: sends them on connections of the pool, repeats them if that is safe, and follows redirects. Part
-- of `lio.http.client`. Invariant: a connection is released or closed on every path, even when the task is killed.

local decoding = require "lio.http.client.decoding"
local defer = require "lio.defer"
local endpoints = require "lio.http.client.endpoint"
local misuse = require "lio.misuse"
local now <const> = require("lio").now
local options = require "lio.options"
local requests = require "lio.http.client.request"
local responses = require "lio.http.client.response"
local urls = require "lio.http.client.url"

-- At most this many bytes of an unneeded response body are read, so that its connection can be reused.
local MAX_DISCARD <const> = 64 * 1024

-- The codes with which a request can fail if the server has closed an idle connection.
local CONNECTION_LOST <const> = { closed = true, reset = true, truncated = true, tls = true }

-- Preparing --------------------------------------------------------------------------------------------

-- Returns the request's option, or the client's if the request does not have it; nil if the value is false.
local function option(client, opts, name)
  local value = opts[name]
  if value == nil then value = client.options[name] end
  return value or nil
end

local function timeouts_of(client, opts)
  local total = option(client, opts, "timeout")
  return {
    connect = option(client, opts, "connect_timeout"),
    read = option(client, opts, "read_timeout"),
    write = option(client, opts, "write_timeout"),
    deadline = total and now() + total,
  }
end

-- Returns a request; or nil, message, code. Raises for misuse.
local function prepare(client, opts)
  local request, message = requests.new(opts, { base = client.base, headers = client.options.headers })
  if not request then return nil, "url: " .. message, "url" end
  request.timeouts = timeouts_of(client, opts)
  request.decode = option(client, opts, "decode")
  request.socket = option(client, opts, "socket")
  -- The client's limit does not apply to streams.
  request.limit = options.to_integer(opts.limit or (opts.stream and math.maxinteger or client.options.limit))
  request.tls = option(client, opts, "tls")
  request.history = {}
  local proxy = option(client, opts, "proxy")
  if proxy then
    request.proxy, message = urls.parse(proxy)
    if not request.proxy then return nil, "proxy: " .. message, "url" end
  end
  return request
end

-- Sending ----------------------------------------------------------------------------------------------


-- Returns whether a failed request may be sent again: the server may have closed the idle connection before the request
-- arrived, the request is idempotent (any other request could be executed twice, RFC 9112 section 9.5), and its body
-- can be sent again.
local function may_repeat(request, conn, code)
  return conn.request_count > 1 and CONNECTION_LOST[code] and not conn.responses:has_begun() and request.is_idempotent
    and (not request.body or request.body:rewind())
end

-- Sends a request once: on a new connection if `is_new` is true, otherwise on an idle connection if there is one.
-- Returns the response; or nil, message, code, and whether the request may be sent again.
local function send_once(client, request, endpoint, is_new)
  local pool, timeouts = client.pool, request.timeouts
  local conn, message, code = pool:acquire(endpoint, timeouts, is_new)
  if not conn then return nil, message, code end
  local owned = conn
  local _ <close> = defer(function()
    if owned then owned:close() end
  end)
  local status, head, why = conn:request(timeouts, request)
  if status then
    owned = nil
    return responses.new(conn, status, head, request)
  end
  return nil, head, why, may_repeat(request, conn, why)
end

-- Sends a request. If the request fails and may be repeated, sends it again on a new connection. Returns the response;
-- or nil, message, code.
local function send(client, request)
  local endpoint, message, code = endpoints.of(request)
  if not endpoint then return nil, message, code end
  -- A proxy reads the requests that are not encrypted.
  local proxy = request.url.scheme == "http" and not request.socket and request.proxy or nil
  request:render(request.decode and decoding.ACCEPTED or nil, proxy)
  local response, again
  response, message, code, again = send_once(client, request, endpoint, false)
  if again then response, message, code = send_once(client, request, endpoint, true) end
  if not response then return nil, message, code end
  -- RFC 9110 section 15.5.18: the server does not support `Expect`.
  if response.status == 417 and request.expects and request.body:rewind() then
    responses.discard(response, MAX_DISCARD)
    request.expects = nil
    return send(client, request)
  end
  return response
end

local function refuse_redirect(response, message)
  response:close()
  return nil, message, "redirect"
end

-- Sends a request, and follows at most `max` redirects. Returns the last response; or nil, message, code.
local function follow(client, request, max)
  while true do
    local response, message, code = send(client, request)
    if not response then return nil, message, code end
    local url = request.url
    local is_redirect, problem = false, nil
    if max > 0 then is_redirect, problem = request:redirect(response.status, response.headers.location) end
    if is_redirect == nil then return refuse_redirect(response, "redirect: " .. problem) end
    if not is_redirect then return response end
    if #request.history >= max then return refuse_redirect(response, ("more than %d redirects"):format(max)) end
    -- The option `socket` is for one server only.
    if request.socket and not request.url:is_same_origin(url) then
      return refuse_redirect(response, "redirect: to another server; option 'socket' is for one server")
    end
    request.history[#request.history + 1] = responses.summary(response)
    responses.discard(response, MAX_DISCARD)
  end
end

-- `perform(client, call, opts)`: performs the request of a call such as "http.get". The options have been checked.
-- Returns the response; or nil, message, code.
return function(client, call, opts)
  client.pool:driver():check_loop("http.client: %s request", opts.method or "GET")
  local ok, request, message, code = pcall(prepare, client, opts)
  if not ok then misuse.raise(call .. ": " .. tostring(request)) end
  if not request then return nil, message, code end
  local response
  response, message, code = follow(client, request, option(client, opts, "redirects") or 0)
  if not response then return nil, message, code end
  if responses.release_if_complete(response) then
    if not opts.stream then response.body = "" end
  elseif not opts.stream and response.status ~= 101 then
    local _ <close> = response
    local text
    text, message, code = response:text()
    if not text then return nil, message, code end
  end
  return response
end
