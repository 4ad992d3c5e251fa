-- Servers on 127.0.0.1 that send the bytes that a test specifies, for the suites of lio.http.client. Used by
-- tests/http_client_*_test.lua. Invariant: clients and servers are closed when a test ends.

local client = require "lio.http.client"
local loop = require "lio.loop"
local net = require "lio.net"
local netkit = require "tests.kit.net"
local t = require "tests.kit"

local kit = {}

--- Reads a request from `c`, whose body must have a Content-Length. Returns the head and the body as strings, or nil if
-- the connection has ended.
function kit.read_request(c)
  local head = c:recv("until", "\r\n\r\n", 65536)
  if not head then return nil end
  local length = math.tointeger(tonumber(head:lower():match "\r\ncontent%-length: (%d+)"))
  local body = length and length > 0 and assert(c:recv(length)) or ""
  return head, body
end

--- Returns the value of a field in a request's head, or nil.
function kit.field(head, name)
  for line in head:gmatch "[^\r\n]+" do
    local found, value = line:match "^([^:]+): (.*)$"
    if found and found:lower() == name:lower() then return value end
  end
end

--- Calls `handle(c, number)` for each connection while `f(url, port)` runs. `number` counts the connections from 1.
function kit.serving(handle, f)
  local listener <close> = assert(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local open, number = {}, 0
  local closing <close> = setmetatable({}, { __close = function()
    for c in pairs(open) do c:close() end
  end })
  loop.fork(function()
    while true do
      local c = net.accept(listener)
      if not c then return end
      number = number + 1
      open[c] = true
      local mine = number
      loop.fork(function()
        local ok, message = xpcall(handle, debug.traceback, c, mine)
        c:close()
        open[c] = nil
        if not ok then io.stderr:write("scripted server: ", message, "\n") end
      end)
    end
  end)
  return f("http://127.0.0.1:" .. port, port, closing)
end

--- Runs a test with a client and a scripted server. `f(http, url, port)` is its body; `handle` is as in `serving`.
-- `options` are the options of the client.
function kit.test(name, handle, f, options)
  netkit.test(name, function()
    local http <close> = client.new(options)
    kit.serving(handle, function(url, port) f(http, url, port) end)
  end)
end

--- Returns a handler that responds to every request with the same bytes.
function kit.always(bytes)
  return function(c)
    while kit.read_request(c) do c:send(bytes) end
  end
end

--- Returns a handler that reads one request and sends the bytes; then the connection is closed.
function kit.once(bytes)
  return function(c)
    kit.read_request(c)
    c:send(bytes)
  end
end

--- Returns the bytes of a response with a body. `lines` are further field lines, each with CRLF.
function kit.ok(body, lines)
  return ("HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s"):format(lines or "", #body, body)
end

--- Asserts that a request has returned nil, a message that matches `pattern`, and `code`.
function kit.fails(code, pattern, response, message, why)
  t.is_nil(response)
  t.eq(why, code, message)
  t.ok(tostring(message):find(pattern), message)
end

return kit
