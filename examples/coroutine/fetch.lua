-- Gets several pages at once: `lio examples/coroutine/fetch.lua 2 http://127.0.0.1:8080/ http://127.0.0.1:8081/x`.
-- Prints a line per page, in the order of arrival. Pages that have not arrived after the given seconds are cancelled.
-- The exit code is 2 for an invalid command line, and 1 if a request failed.

local loop = require "lio.loop"
local net = require "lio.net"
local thread = require "lio.thread"

-- Returns host, port and path, or nothing if the address is not valid.
local function parse(url)
  local host, port, path = url:match "^http://([%w.-]+):?(%d*)(%S*)$"
  if not host or not path:find "^/" and path ~= "" then return nil end
  port = port == "" and 80 or math.tointeger(tonumber(port))
  if port and port <= 65535 then return host, port, path == "" and "/" or path end
end

local function get(url)
  local host, port, path = parse(url)
  local c <close> = assert(net.connect(host, port))
  assert(c:send("GET ", path, " HTTP/1.0\r\nHost: ", host, "\r\n\r\n"))
  local page = assert(c:recv "all")
  return assert(page:match "^HTTP/1%.%d (%d+)", "not HTTP"), #page
end

-- Gets each page in its own thread. When this function ends, even if its task is killed, the scope kills the remaining
-- threads.
local function get_all(urls, seen)
  local scope <close> = thread.scope()
  for at, url in ipairs(urls) do
    scope:spawn(function()
      local ok, status, size = pcall(get, url)
      seen(at, ok, ok and ("%s, %d bytes"):format(status, size) or status)
    end)
  end
  scope:wait()
end

local seconds, urls = tonumber((...)) or -1, { select(2, ...) }
local usable = seconds >= 0 and #urls > 0
for _, url in ipairs(urls) do usable = usable and parse(url) end
if not usable then
  io.stderr:write "usage: lio examples/coroutine/fetch.lua SECONDS http://host[:port][/path] ...\n"
  os.exit(2)
end

local failed, got = false, {}
local function say(at, ok, text)
  got[at] = true
  failed = failed or not ok
  print(("%s: %s"):format(urls[at], text))
end

loop.run(function()
  thread.timeout(seconds, get_all, urls, say)
end)
for at in ipairs(urls) do
  if not got[at] then say(at, false, "no response in time") end
end
os.exit(not failed)
