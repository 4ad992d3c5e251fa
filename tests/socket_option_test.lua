-- Socket options by name, IPv6 sockets, and the flags that every descriptor of lio has.

local t = require "tests.kit"
local socket = require "lio.socket"
local loopback = require "tests.kit.loopback"

-- Sets an option to `value`, reads it, and checks that the result is `got` (default: `value`).
local function keeps(s, name, value, got)
  if got == nil then got = value end
  t.eq({ s:option(name, value) }, { true }, name)
  t.eq({ s:option(name) }, { got }, name)
end

t.test("flags are set with booleans or numbers and read as booleans", function()
  local s <close> = socket.create "tcp"
  for _, name in ipairs { "reuseaddr", "reuseport", "nodelay", "keepalive" } do
    t.eq(s:option(name), false, name)
    keeps(s, name, true)
    keeps(s, name, false)
    keeps(s, name, 1, true)
    keeps(s, name, 0, false)
  end
end)

t.test("keepalive times are numbers of seconds, and the keepalive count is a number", function()
  local s <close> = socket.create "tcp"
  keeps(s, "keepidle", 77)
  keeps(s, "keepintvl", 11)
  keeps(s, "keepcnt", 4)
  t.eq(select(3, s:option("keepidle", -1)), "EINVAL")
end)

t.test("buffers have at least the requested size", function()
  local s <close> = socket.create "tcp"
  for _, name in ipairs { "sndbuf", "rcvbuf" } do
    t.eq(s:option(name, 65536), true)
    t.ok(s:option(name) >= 65536, name)
  end
end)

t.test("the limit of unsent bytes is a number of bytes", function()
  local s <close> = socket.create "tcp"
  keeps(s, "notsent_lowat", 131072)
  t.eq(select(3, s:option("notsent_lowat", -1)), "EINVAL")
end)

t.test("linger is a number of seconds, or false", function()
  local s <close> = socket.create "tcp"
  t.eq(s:option "linger", false)
  keeps(s, "linger", 3)
  keeps(s, "linger", 0)
  keeps(s, "linger", false)
end)

t.test("ttl and tos can be set for both families", function()
  for _, protocol in ipairs { "tcp", "udp", "tcp6", "udp6" } do
    local s <close> = socket.create(protocol)
    keeps(s, "ttl", 33)
    keeps(s, "tos", 16)
    t.is_nil(s:option("ttl", 1000))
  end
end)

t.test("misuse raises; if the system refuses a value, the result is nil and a message", function()
  local s <close> = socket.create "tcp"
  local all = "broadcast, keepalive, keepcnt, keepidle, keepintvl, linger, nodelay, notsent_lowat, rcvbuf, reuseaddr, "
    .. "reuseport, sndbuf, tos, ttl, v6only"
  for name, hint in pairs { speed = "", nodlay = " (did you mean 'nodelay'?)" } do
    local problem = ("bad argument #1 to 'option' (unknown option '%s'%s; the options are %s)"):format(name, hint, all)
    t.raises(problem:gsub("%p", "%%%0") .. "$", function() s:option(name, true) end)
  end
  t.raises("unknown option", function() s:option("speed", 1) end)
  t.raises("number expected, got string", function() s:option("ttl", "high") end)
  t.raises("number expected, got nil", function() s:option("ttl", nil) end)
  t.raises("string expected", function() s:option() end)
  local a, b = socket.pair()
  t.eq({ a:option("nodelay", true) },
    { nil, "option: Operation not supported (os error 95)", "EOPNOTSUPP" })
  a:close() b:close()
end)

t.test("an IPv6 listener serves IPv6 clients", function()
  local listener <close>, port = loopback.listener("tcp6", "::1")
  local client <close> = socket.create "tcp6"
  t.ok(client:connect("::1", port) ~= nil)
  loopback.await(listener)
  local server <close> = listener:accept()
  loopback.send(client, "six")
  t.eq(loopback.receive(server, 3), "six")
  t.eq({ server:info "socket":value() }, { "::1", port, "inet6" })
  t.ok(tostring(server):find("tcp6, connected", 1, true))
end)

t.test("an IPv6 listener takes IPv4 clients too, unless v6only is set", function()
  local both <close> = socket.create "tcp6"
  keeps(both, "v6only", false)
  both:bind("::", 0)
  both:listen()
  local _, port = both:info "socket":value()
  local client <close> = socket.create "tcp"
  t.ok(client:connect("127.0.0.1", port) ~= nil)
  loopback.await(both)
  local server <close> = both:accept()
  t.eq((server:info "peer":value()), "::ffff:127.0.0.1")
  local only <close> = socket.create "tcp6"
  keeps(only, "v6only", true)
  only:bind("::", 0)
  only:listen()
  local refused <close> = socket.create "tcp"
  local done, _, code = refused:connect("127.0.0.1", (select(2, only:info "socket":value())))
  if done == false then
    loopback.await(refused, 2)
    done, _, code = refused:status()
  end
  t.eq({ done, code }, { nil, code })
  t.eq(code, "refused")
end)

t.test("for an address of the wrong family the result is nil and a message", function()
  local four <close> = socket.create "tcp"
  local six <close> = socket.create "tcp6"
  t.is_nil(four:connect("::1", 9))
  t.is_nil(six:bind("127.0.0.1", 0))
  local unix <close> = socket.create "unix"
  t.is_nil(unix:connect(socket.endpoint("inet", "127.0.0.1", 9)))
end)

t.test("connect and bind resolve a name in the socket's family", function()
  local listener <close> = socket.create "tcp"
  t.eq(listener:bind("localhost", 0), true)
  t.eq((listener:info "socket":value()), "127.0.0.1")
  local s <close> = socket.create "tcp"
  t.eq({ s:connect("no.such.name.invalid", 1) },
    { nil, "resolve: no address is known for that name", "unresolved" })
end)

-- Reports whether a socket's descriptor is non-blocking and close-on-exec. The numbers are those of open(2), in octal.
local function is_tame(s)
  local path = "/proc/self/fdinfo/" .. loopback.number(s:handle())
  local f <close> = assert(io.open(path))
  local flags = tonumber(f:read "a":match "flags:%s*(%d+)", 8)
  return flags & tonumber("4000", 8) ~= 0 and flags & tonumber("2000000", 8) ~= 0
end

t.test("every socket is non-blocking and close-on-exec, regardless of how it was created", function()
  for _, protocol in ipairs { "tcp", "udp", "tcp6", "udp6", "unix" } do
    local s <close> = socket.create(protocol)
    t.ok(is_tame(s), protocol)
  end
  local a, b = socket.pair()
  t.ok(is_tame(a) and is_tame(b), "pair")
  local c, d = loopback.tcp()
  t.ok(is_tame(c) and is_tame(d), "accepted")
  a:close() b:close() c:close() d:close()
end)

t.test("a child process inherits no socket, selector or waker", function()
  local a, b = socket.pair()
  local listener <close> = loopback.listener()
  local sel <close> = require "lio".create()
  local waker = sel:waker()
  sel:event_add(listener, 1)
  local p = io.popen "ls -l /proc/self/fd"
  local list = p:read "a"
  p:close()
  t.ok(not list:find "socket:" and not list:find "eventpoll" and not list:find "eventfd", list)
  waker:wake()
  a:close() b:close()
end)

t.finish()
