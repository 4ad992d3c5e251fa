-- Unix stream sockets: paths, abstract names, pairs.

local t = require "tests.kit"
local socket = require "lio.socket"
local loopback = require "tests.kit.loopback"

-- Exchanges data through a listener at `path`. The client connects to the path as a string, and then to an endpoint.
local function converses(path)
  local listener <close> = socket.create "unix"
  t.eq({ listener:bind(path) }, { true })
  t.eq({ listener:listen() }, { true })
  for _, where in ipairs { path, socket.endpoint("unix", path) } do
    local client <close> = socket.create "unix"
    t.eq({ client:connect(where) }, { true }, "a unix connect completes at once")
    t.eq({ client:status() }, { true })
    loopback.await(listener)
    local server <close> = listener:accept()
    t.eq(client:send "hello", 5)
    loopback.await(server)
    t.eq(server:recv(), "hello")
    t.eq((client:info "peer":value()), path)
    t.eq((server:info "socket":value()), path)
    t.eq({ server:info "peer":value() }, { "", "unnamed", "unix" })
    t.ok(tostring(server):find("unix, connected", 1, true))
  end
  t.eq({ listener:accept() }, { false })
end

t.test("a socket can listen at a path", function() converses(t.tmp() .. "/s") end)

t.test("a socket can listen at an abstract name that contains NULs", function()
  converses("\0lio-test-" .. loopback.pid() .. "\0\1")
end)

t.test("a path of 107 bytes works; for a path of 108 bytes the result is nil and a message", function()
  local folder = t.tmp() .. "/"
  local path = folder .. ("p"):rep(107 - #folder)
  converses(path)
  local s <close> = socket.create "unix"
  local refused = { nil, "endpoint: the unix path is longer than 107 bytes", "too long" }
  t.eq({ s:bind(path .. "p") }, refused)
  t.eq({ s:connect(path .. "p") }, refused)
end)

t.test("connect to a path without a listener fails at once, with a message", function()
  local s <close> = socket.create "unix"
  local path = t.tmp() .. "/none"
  t.eq({ s:connect(path) }, { nil, "connect: No such file or directory (os error 2)", "not found" })
  local once = socket.create "unix"
  once:bind(path)
  once:close()
  t.eq({ s:connect(path) }, { nil, "connect: Connection refused (os error 111)", "refused" })
  local second <close> = socket.create "unix"
  t.eq(select(3, second:bind(path)), "in use", "the path stays when its socket closes")
end)

t.test("connect to a full backlog returns nil and a message, and works again after accept", function()
  local path = "\0lio-backlog-" .. loopback.pid()
  local listener <close> = socket.create "unix"
  listener:bind(path)
  listener:listen(0)
  local clients = {}
  local done, message, code
  repeat
    local c = socket.create "unix"
    clients[#clients + 1] = c
    done, message, code = c:connect(path)
  until not done or #clients > 10
  t.eq({ done, message, code },
    { nil, "connect: Resource temporarily unavailable (os error 11)", code })
  t.ok(listener:accept()):close()
  t.eq({ clients[#clients]:connect(path) }, { true })
  for _, c in ipairs(clients) do c:close() end
end)

t.test("socket.pair returns two connected sockets", function()
  local a, b = socket.pair()
  t.eq(a:send "to b", 4)
  t.eq(b:send "to a", 4)
  t.eq(a:recv(), "to a")
  t.eq(b:recv(), "to b")
  t.eq({ a:recv() }, { false })
  b:close()
  t.eq({ a:recv() }, { nil })
  t.eq(select(3, a:send "x"), "closed")
  a:close()
end)

t.test("closing a socket with unread data resets its peer", function()
  local a, b = socket.pair()
  a:send "unread"
  b:close()
  t.eq({ a:recv() }, { nil, "recv: Connection reset by peer (os error 104)", "reset" })
  t.is_nil(a:recv())
  a:close()
end)

t.test("calls that only inet sockets support return nil and a message", function()
  local a, b = socket.pair()
  t.eq(select("#", a:option("nodelay", true)), 3)
  t.is_nil(a:option("nodelay", true))
  t.raises("string expected", a.connect, a, {})
  a:close() b:close()
end)

t.finish()
