-- Gets a page with `lio.net` alone: `lio examples/http_client_raw.lua http://127.0.0.1:8080/`. Prints status, headers
-- and body. The exit code is 2 for an invalid command line, and 1 if the request fails.

local loop = require "lio.loop"
local net = require "lio.net"

local function usage(problem)
  io.stderr:write(problem, "\nusage: lio examples/http_client_raw.lua http://host[:port][/path]\n")
  os.exit(2)
end

local function parse(url)
  local authority, path = url:match "^http://([^/?#]+)([^#]*)$"
  if not authority then usage("not an http:// address: " .. url) end
  local host, port = authority:match "^%[([%x:.]+)%]:?(%d*)$"
  if not host then host, port = authority:match "^([^:]+):?(%d*)$" end
  port = port == "" and 80 or math.tointeger(tonumber(port))
  if not host or not port or port > 65535 then usage("cannot read the host in: " .. url) end
  if path:sub(1, 1) ~= "/" then path = "/" .. path end
  return host, port, authority, path
end

local function read_chunks(c)
  local pieces = {}
  while true do
    local size = tonumber((assert(c:recv("line", 100)):match "^%x+"), 16)
    if size == 0 then break end
    pieces[#pieces + 1] = assert(c:recv(size))
    assert(c:recv(2))
  end
  repeat until assert(c:recv("line", 8192)) == "" -- trailers
  return table.concat(pieces)
end

local function read_body(c, headers)
  if headers["transfer-encoding"] == "chunked" then return read_chunks(c) end
  local length = math.tointeger(tonumber(headers["content-length"]))
  if length then return length == 0 and "" or assert(c:recv(length)) end
  return assert(c:recv "all")
end

local function get(host, port, authority, path)
  local c <close> = assert(net.connect(host, port, { timeout = 10 }))
  c:timeout(30, 30)
  assert(c:send("GET ", path, " HTTP/1.1\r\nHost: ", authority, "\r\nConnection: close\r\n\r\n"))
  local headers = {}
  print((assert(c:recv("line", 8192))))
  for line in function() return assert(c:recv("line", 8192)) end do
    print(line)
    if line == "" then break end
    local name, value = line:match "^([^:]+):%s*(.*)$"
    headers[assert(name, "a malformed header"):lower()] = value
  end
  io.write(read_body(c, headers))
end

local url = ...
if not url or select("#", ...) > 1 then usage "exactly one address is needed" end
local host, port, authority, path = parse(url)
local ok, message = pcall(loop.run, function()
  local done, problem = pcall(get, host, port, authority, path)
  if not done then return problem end
end)
if message then
  io.stderr:write("http_client_raw: ", tostring(message), "\n")
end
os.exit(ok and not message)
