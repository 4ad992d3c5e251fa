-- Invalid arguments of skynet.socket, skynet.socketdriver, skynet.socketchannel, skynet.netpack, http.httpc, http.httpd
-- and http.url. The error has the position of the program's line, and names the call and the argument.
-- The programs may use: skynet, socket, driver, netpack, socketchannel, httpc, httpd, url, serve, refused, accept

local t = require "tests.kit"
local kit = require "tests.kit.skynet_system"

-- `refused(text)` evaluates an expression that raises, and prints the error. `accept()` returns a connected socket.
local use <const> = [[
  local socket, driver = require "skynet.socket", require "skynet.socketdriver"
  local netpack, socketchannel = require "skynet.netpack", require "skynet.socketchannel"
  local httpc, httpd, url = require "http.httpc", require "http.httpd", require "http.url"
  local listener, _, port = socket.listen("127.0.0.1", 0)
  local env = setmetatable({ socket = socket, driver = driver, netpack = netpack, channel = socketchannel.channel,
    httpc = httpc, httpd = httpd, url = url, l = listener, f = function() end }, { __index = _G })
  socket.start(listener, env.f)
  env.c = socket.open("127.0.0.1", port)
  env.u = socket.udp(env.f, "127.0.0.1", 0)
  local function refused(text)
    local ok, message = pcall(assert(load("local value = " .. text .. " return value", "=program", "t", env)))
    say(ok and "no error: " .. text or message)
  end
]]

-- Runs the expressions, and compares the error of each with the wanted one.
local function test(name, cases)
  local main, wanted = { use }, {}
  for i, case in ipairs(cases) do
    main[i + 1] = ("refused %q\n"):format(case[1])
    wanted[i] = case[2] and ("program:1: bad argument #%d to '%s' (%s)"):format(table.unpack(case, 2))
      or "program:1: " .. case.text
  end
  kit.test(name, { seconds = 30, main = table.concat(main), out = function(out) t.eq(kit.lines(out), wanted) end })
end

test("reads refuse listeners, datagram sockets, and invalid sizes and separators", {
  { "socket.read(l)", 1, "read", "a connection expected, not LISTEN" },
  { "socket.read(u, 1)", 1, "read", "a connection expected, not UDP" },
  { "socket.readline(u)", 1, "readline", "a connection expected, not UDP" },
  { "socket.readall(u)", 1, "readall", "a connection expected, not UDP" },
  { "socket.block(u)", 1, "block", "a connection expected, not UDP" },
  { "socket.block()", 1, "block", "socket expected, got nil" },
  { "socket.read(c, -1)", 2, "read", "number of bytes expected, got -1" },
  { "socket.read(c, 1.5)", 2, "read", "number of bytes expected, got 1.5" },
  { "socket.read(c, math.maxinteger)", 2, "read", "number of bytes expected, got 9223372036854775807" },
  { "socket.read(c, 'x')", 2, "read", "number of bytes expected, got string" },
  { "socket.readline(c, '')", 2, "readline", "a separator of at least one byte expected" },
  { "socket.readline(c, true)", 2, "readline", "string expected, got boolean" },
  { "socket.limit(c, 0)", 2, "limit", "number of bytes expected, got 0" },
  { "socket.limit(c, 1.5)", 2, "limit", "number of bytes expected, got 1.5" },
})

test("writes and callbacks", {
  { "socket.write('x', 'y')", 1, "write", "socket expected, got string" },
  { "socket.write(1.5, 'y')", 1, "write", "socket expected, got number" },
  { "socket.lwrite()", 1, "lwrite", "socket expected, got nil" },
  { "socket.write(c)", 2, "write", "string expected, got nil" },
  { "socket.write(c, { 'a', {} })", 2, "write", "a list of strings expected, item 2 is a table" },
  { "socket.lwrite(c, { true })", 2, "lwrite", "a list of strings expected, item 1 is true" },
  { "driver.send(nil, 'x')", 1, "send", "socket expected, got nil" },
  { "driver.send(c)", 2, "send", "string expected, got nil" },
  { "driver.lsend(c, f)", 2, "lsend", "string expected, got function" },
  { "driver.pause()", 1, "pause", "socket expected, got nil" },
  { "socket.warning(c, 5)", 2, "warning", "function expected, got number" },
  { "socket.onclose(c)", 2, "onclose", "function expected, got nil" },
})

test("listeners and connects", {
  { "socket.listen('127.0.0.1', 0, -5)", 3, "listen", "a backlog from 0 to 2147483647 expected, got -5" },
  { "socket.listen('127.0.0.1', 0, 'x')", 3, "listen", 'a backlog from 0 to 2147483647 expected, got "x"' },
  { "socket.listen('127.0.0.1', 70000)", 2, "listen", "a port from 0 to 65535 expected, got 70000" },
  { "socket.listen('127.0.0.1', 'http')", 2, "listen", 'a port from 0 to 65535 expected, got "http"' },
  { "socket.open('127.0.0.1', 99999)", 2, "open", "a port from 0 to 65535 expected, got 99999" },
  { "socket.open('127.0.0.1:99999')", 1, "open", 'a port from 0 to 65535 expected, got "99999"' },
  { "driver.connect('127.0.0.1', -1)", 2, "connect", "a port from 0 to 65535 expected, got -1" },
  { "socket.resolve 'no.such.invalid'", text = "resolve: no.such.invalid: failed to lookup address information: "
    .. "Name or service not known" },
  { "require 'lio.net'.resolve('localhost', -1)", 2, "resolve", "seconds of at least 0 expected, got -1" },
})

test("datagram sockets", {
  { "socket.udp()", 1, "udp", "function expected, got nil" },
  { "socket.udp(f, 5)", 2, "udp", "string expected, got number" },
  { "socket.udp(f, '127.0.0.1', -1)", 3, "udp", "port expected, got -1" },
  { "socket.udp_listen('127.0.0.1', 0)", 3, "udp_listen", "function expected, got nil" },
  { "socket.udp_listen('127.0.0.1', 'x', f)", 2, "udp_listen", "port expected, got string" },
  { "socket.udp_connect(c, '127.0.0.1', 1)", 1, "udp_connect", "a datagram socket expected" },
  { "socket.udp_connect(u, nil, 1)", 2, "udp_connect", "string expected, got nil" },
  { "socket.udp_connect(u, '127.0.0.1')", 3, "udp_connect", "port expected, got nil" },
  { "socket.udp_connect(u, '127.0.0.1', 70000)", 3, "udp_connect", "port expected, got 70000" },
  { "socket.udp_connect(u, '127.0.0.1', 9, 5)", 4, "udp_connect", "function expected, got number" },
  { "socket.udp_dial('127.0.0.1', nil, f)", 2, "udp_dial", "port expected, got nil" },
  { "socket.udp_dial('127.0.0.1', 9)", 3, "udp_dial", "function expected, got nil" },
  { "driver.udp('127.0.0.1', -1)", 2, "udp", "port expected, got -1" },
  { "driver.udp_connect(c, '127.0.0.1', 1)", 1, "udp_connect", "a datagram socket expected" },
})

test("netpack, httpc, httpd, url and socketchannel", {
  { "netpack.pack()", 1, "pack", "string expected, got nil" },
  { "netpack.pack(('x'):rep(65536))", 1, "pack", "the message has 65536 bytes; at most 65535 are possible" },
  { "netpack.pop(5)", 1, "pop", "queue expected, got number" },
  { "netpack.clear(5)", 1, "clear", "queue expected, got number" },
  { "netpack.filter(5, 'x')", 1, "filter", "queue expected, got number" },
  { "url.parse()", 1, "parse", "string expected, got nil" },
  { "url.parse_query()", 1, "parse_query", "string expected, got nil" },
  { "httpc.get('h:99999', '/')", 1, "get", "a port from 0 to 65535 expected, got 99999" },
  { "httpc.post('127.0.0.1:1', '/')", 3, "post", "table expected, got nil" },
  { "httpc.request(5, '127.0.0.1:1', '/')", 1, "request", "string expected, got number" },
  { "require 'http.sockethelper'.connect('127.0.0.1', 1, 'x')", 3, "connect", "number expected, got string" },
  { "error(select(2, httpd.read_request()), 0)", 1, "read_request", "function expected, got nil" },
  { "error(select(2, httpd.write_response(f, 200, 'x', { 'b' })))",
    text = "the name of a field must be a string, not a number" },
  { "error(select(2, httpd.write_response(f)), 0)", 2, "write_response", "status expected, got nil" },
  { "channel { host = 'x' }", 1, "channel", "option 'port' is missing" },
  { "channel { host = 'x:1', backup = { 5 } }", 1, "channel",
    "backup 1 must be a host, or a table with host and port, not 5" },
  { "channel { host = 'x:1', backup = { 'y', {} } }", 1, "channel",
    "backup 2 must be a host, or a table with host and port, not a table" },
  { "channel { host = 'x:1' }:changebackup { 5 }", 1, "changebackup",
    "backup 1 must be a host, or a table with host and port, not 5" },
  { "channel { host = 'x:1' }:changehost()", 1, "changehost", "string expected, got nil" },
  { "channel { host = 'x:1' }:request('x', 5)", 2, "request", "function expected, got number" },
})

-- Regression: the listener stayed open, and the error was one of string.format.
kit.test("a listener refuses the path of a Unix socket before it creates the file", {
  main = use .. [[
    local path = os.tmpname()
    os.remove(path)
    env.path = path
    refused "socket.listen('unix:' .. path, 0)"
    say(#socket.netstat(), io.open(path))
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.eq(lines[1], "program:1: bad argument #1 to 'listen' (a host expected, not a path: skynet.socket has no Unix "
      .. "sockets)")
    t.ok(lines[2]:find "^4\tnil\t", lines[2])
  end,
})

kit.test("the command open of a gate without options raises", {
  main = [[
    local gate = skynet.newservice "gate"
    say(pcall(skynet.call, gate, "lua", "open"))
  ]],
  err = false,
  out = function(out) t.ok(out:find("open: a table of options expected, got nil", 1, true), out) end,
})

t.finish()
