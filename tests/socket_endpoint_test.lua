-- Endpoints: creating, reading and comparing them; IPv6 scopes and host names.

local t = require "tests.kit"
local socket = require "lio.socket"

t.test("inet and inet6 endpoints return the values that they were created with", function()
  local four = socket.endpoint("inet", "1.2.3.4", 80)
  t.eq({ four:value() }, { "1.2.3.4", 80, "inet" })
  t.eq(tostring(four), "1.2.3.4:80")
  local six = socket.endpoint("inet6", "::1", 80)
  t.eq({ six:value() }, { "::1", 80, "inet6" })
  t.eq(tostring(six), "[::1]:80")
  t.eq({ socket.endpoint("inet6", "2001:DB8:0:0:0:0:0:1", 65535):value() },
    { "2001:db8::1", 65535, "inet6" })
  t.eq(tostring(socket.endpoint("inet", "0.0.0.0", 0)), "0.0.0.0:0")
end)

t.test("== compares addresses", function()
  local function inet(ip, port) return socket.endpoint("inet", ip, port) end
  t.ok(inet("1.2.3.4", 5) == inet("1.2.3.4", 5))
  t.ok(inet("1.2.3.4", 5) ~= inet("1.2.3.4", 6))
  t.ok(inet("1.2.3.4", 5) ~= inet("1.2.3.5", 5))
  t.ok(socket.endpoint("inet6", "::1", 5) == socket.endpoint("inet6", "0:0::1", 5))
  t.ok(socket.endpoint("inet6", "::ffff:1.2.3.4", 5) ~= inet("1.2.3.4", 5))
  t.ok(socket.endpoint("unix", "/a") == socket.endpoint("unix", "/a"))
  t.ok(socket.endpoint("unix", "/a") ~= socket.endpoint("unix", "\0/a"))
  t.ok(inet("1.2.3.4", 5) ~= "1.2.3.4:5")
end)

t.test("for a value that is not an address of the family, the result is nil and a message", function()
  local refused = { nil, "endpoint: not an address of that family", "EINVAL" }
  for _, wrong in ipairs { "::1", "1.2.3", "1.2.3.4.5", "256.1.1.1", "localhost", "", "1.2.3.4 " } do
    t.eq({ socket.endpoint("inet", wrong, 1) }, refused, wrong)
  end
  for _, wrong in ipairs { "1.2.3.4", ":::", "::1%nosuchinterface", "g::1", "::1\0" } do
    t.eq({ socket.endpoint("inet6", wrong, 1) }, refused, wrong)
  end
end)

t.test("misuse raises", function()
  t.raises("'inet', 'inet6', 'hostname' or 'unix' expected", socket.endpoint, "ip", "1.2.3.4", 1)
  t.raises("port must be 0 to 65535, not 65536", socket.endpoint, "inet", "1.2.3.4", 65536)
  t.raises("port must be 0 to 65535, not %-1", socket.endpoint, "hostname", "localhost", -1)
  t.raises("number expected", socket.endpoint, "inet", "1.2.3.4")
  t.raises("not valid UTF%-8", socket.endpoint, "inet", "\255", 1)
  t.raises("'inet' or 'inet6' expected", socket.endpoint, "hostname", "localhost", 1, "unix")
end)

t.test("an IPv6 scope may be a number or an interface name, and is kept", function()
  local numbered = socket.endpoint("inet6", "fe80::1%1", 80)
  t.eq({ numbered:value() }, { "fe80::1%1", 80, "inet6" })
  t.eq(tostring(numbered), "[fe80::1%1]:80")
  t.ok(socket.endpoint("inet6", "fe80::1%lo", 80) == numbered, "lo is interface 1")
  t.ok(socket.endpoint("inet6", "fe80::1%2", 80) ~= numbered)
  t.ok(socket.endpoint("inet6", "fe80::1", 80) ~= numbered)
  t.ok(socket.endpoint("inet6", (numbered:value()), 80) == numbered, "value returns the scope")
end)

t.test("a host name is resolved to an address of the requested family", function()
  local ip, port, family = socket.endpoint("hostname", "localhost", 7, "inet"):value()
  t.eq({ ip, port, family }, { "127.0.0.1", 7, "inet" })
  t.eq({ socket.endpoint("hostname", "127.0.0.1", 7):value() }, { "127.0.0.1", 7, "inet" })
  t.eq({ socket.endpoint("hostname", "::1", 7):value() }, { "::1", 7, "inet6" })
  t.eq(select(3, socket.endpoint("hostname", "::1", 7, "inet")), "unresolved")
  local none, message, code = socket.endpoint("hostname", "no.such.name.invalid", 7)
  t.is_nil(none)
  t.eq(message, "resolve: no address is known for that name")
  t.eq(code, "unresolved")
  t.eq(select(3, socket.endpoint("hostname", "a\0b", 7)), "unresolved")
end)

t.test("a unix path of 107 bytes is allowed; for a longer path the result is nil and a message", function()
  for _, first in ipairs { "/", "\0" } do
    t.ok(socket.endpoint("unix", first .. ("p"):rep(106)))
    for _, length in ipairs { 107, 500, 100000 } do
      t.eq({ socket.endpoint("unix", first .. ("p"):rep(length)) },
        { nil, "endpoint: the unix path is longer than 107 bytes", "too long" })
    end
  end
end)

t.test("unix endpoints have path and kind", function()
  local path = socket.endpoint("unix", "/run/x.sock")
  t.eq({ path:value() }, { "/run/x.sock", "path", "unix" })
  t.eq(tostring(path), "/run/x.sock")
  local name = "\0abstract\0name"
  local abstract = socket.endpoint("unix", name)
  t.eq({ abstract:value() }, { name, "abstract", "unix" })
  t.eq(tostring(abstract), "@abstract\0name")
  t.eq({ socket.endpoint("unix", "") }, { nil, "endpoint: the unix path is empty", "EINVAL" })
  t.eq({ socket.endpoint("unix", "a\0b") },
    { nil, "endpoint: the unix path contains a NUL", "EINVAL" })
  local a, b = socket.pair()
  t.eq({ a:info "peer":value() }, { "", "unnamed", "unix" })
  t.eq(tostring(a:info "socket"), "")
  a:close() b:close()
end)

t.test("a path that is not UTF-8 is shown unchanged", function()
  local path = "/tmp/\255\254"
  t.eq((socket.endpoint("unix", path):value()), path)
  t.eq(tostring(socket.endpoint("unix", path)), path)
end)

t.finish()
