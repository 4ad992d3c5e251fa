-- `require "http.httpc"`: requests to HTTP servers, each on a separate connection. Used by programs that were written
-- for skynet; `lio.http.client` is the client of lio.

local internal = require "http.internal"
local ltask = require "ltask"
local misuse = require "lio.misuse"
local sockethelper = require "http.sockethelper"

local M = {}

-- `timeout`: how long a request may take, in centiseconds; nil: no limit.
M.timeout = nil

-- Returns the host, the port and the value of the field `host` for an address: "host", "host:port", or the same after
-- "http://". The address is the argument `index` of the function `call`.
local function split(call, index, address)
  if type(address) ~= "string" then misuse.argument(call, index, "string", address) end
  local protocol = address:match "^(%a+)://"
  if protocol and protocol:lower() ~= "http" then
    misuse.bad(call, index, ("the protocol '%s' is not supported, only http"):format(protocol))
  end
  local authority = address:gsub("^%a+://", ""):gsub("/.*$", "")
  local host, digits = authority:match "^(.-):(%d+)$"
  local port = digits and tonumber(digits) or 80
  if port > 65535 then misuse.bad(call, index, "a port from 0 to 65535 expected, got " .. digits) end
  return host or authority, port, authority
end

-- Raises unless a value can be a part of the request line. It is the argument `index` of the function `call`.
local function check_part(call, index, what, value)
  if type(value) ~= "string" then misuse.argument(call, index, "string", value) end
  if value == "" or value:find "[%c ]" then
    misuse.bad(call, index, ("a %s without spaces and control characters expected"):format(what))
  end
end

local function write_request(write, method, authority, target, header, content)
  local fields, has_host = {}, false
  for name, value in pairs(header or {}) do
    has_host = has_host or name:lower() == "host"
    fields[name] = value
  end
  if not has_host then fields.host = authority end
  local head = internal.head(("%s %s HTTP/1.1"):format(method, target), fields)
  write(("%scontent-length: %d\r\n\r\n%s"):format(head, #(content or ""), content or ""))
end

-- Reads a head that is not informational. Returns the status and its fields.
local function read_head(input)
  while true do
    local lines = input:head()
    local code = lines and lines[1]:match "^HTTP/1%.%d (%d%d%d)"
    local header = code and internal.fields(lines, 2)
    if not header then error("the response is invalid", 0) end
    code = math.tointeger(tonumber(code))
    if code >= 200 then return code, header end
  end
end

-- Reads the rest of a connection.
local function read_to_end(id, input)
  return input:rest() .. (sockethelper.readall(id) or "")
end

local function exchange(id, method, authority, target, header, content)
  write_request(sockethelper.writefunc(id), method, authority, target, header, content)
  local input = internal.input(sockethelper.readfunc(id))
  local code, fields = read_head(input)
  if method == "HEAD" or code == 204 or code == 304 then return code, "", fields end
  local body, status = internal.body(input, fields)
  if body == false then error(("the body of the response is invalid (%d)"):format(status), 0) end
  return code, body or read_to_end(id, input), fields
end

-- Closes a connection if its request takes too long. Returns a closable value, which ends the watch.
local function watch(id, timeout)
  local state = { id = id }
  if timeout then
    ltask.timeout(timeout, function()
      if state.id then
        state.is_late = true
        sockethelper.shutdown(state.id)
      end
    end)
  end
  return state
end

-- Runs `exchange` on a new connection. Returns its results; raises on failure. The address is the argument `index` of
-- the function `call`.
local function perform(call, index, method, address, target, header, content)
  local host, port, authority = split(call, index, address)
  check_part(call, index + 1, "target", target)
  local timeout = M.timeout
  local id = sockethelper.connect(host, port, timeout)
  local state = watch(id, timeout)
  local result = table.pack(pcall(exchange, id, method, authority, target, header, content))
  state.id = nil
  sockethelper.close(id)
  if result[1] then return table.unpack(result, 2, result.n) end
  if state.is_late then error(("the request to %s took more than %d centiseconds"):format(authority, timeout), 0) end
  error(result[2], 0)
end

local function copy(fields, into)
  for name, value in pairs(fields) do
    if into then into[name] = value end
  end
end

local function request(call, index, method, address, target, received, header, content)
  local code, body, fields = perform(call, index, method, address, target, header, content)
  copy(fields, received)
  return code, body
end

-- `request(method, address, target[, received[, header[, content]]])`: sends a request to "host", "host:port" or
-- "http://host:port", and returns the status and the body. The table `received` gets the fields of the response, with
-- names in lower case. `header` has further fields of the request, `content` is its body. Raises on failure.
function M.request(method, ...)
  check_part("request", 1, "method", method)
  return request("request", 2, method, ...)
end

-- `get(address, target[, received[, header[, content]]])`: like `request`, with the method GET.
function M.get(...)
  return request("get", 1, "GET", ...)
end

-- `head(address, target[, received[, header[, content]]])`: like `request`, with the method HEAD. Returns the status.
function M.head(...)
  return (request("head", 1, "HEAD", ...))
end

local function escape(text)
  return (tostring(text):gsub("[^%w%-._~]", function(byte) return ("%%%02X"):format(byte:byte()) end))
end

-- `post(address, target, form[, received])`: sends the values of the table `form` as a web form. Returns the status and
-- the body.
function M.post(address, target, form, received)
  misuse.check("post", 3, form, "table")
  local pairs_of_form = {}
  for name, value in pairs(form) do pairs_of_form[#pairs_of_form + 1] = escape(name) .. "=" .. escape(value) end
  table.sort(pairs_of_form)
  local header = { ["content-type"] = "application/x-www-form-urlencoded" }
  return request("post", 1, "POST", address, target, received, header, table.concat(pairs_of_form, "&"))
end

-- `dns([server[, port]])`: does nothing: the system resolves names, without blocking.
function M.dns() end

return M
