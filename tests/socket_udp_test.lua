-- UDP sockets: datagrams are not merged or split, and keep their sender and their length, even the length 0.

local t = require "tests.kit"
local lio = require "lio"
local socket = require "lio.socket"
local loopback = require "tests.kit.loopback"

local READ <const> = lio.SELECT_READ

local function bound(protocol, address)
  local s = assert(socket.create(protocol or "udp"))
  assert(s:bind(address or "127.0.0.1", 0))
  return s, s:info "socket"
end

t.test("recvfrom returns the data and the sender; sendto takes an endpoint, or a host and a port", function()
  local a <close>, from = bound()
  local b <close>, to = bound()
  local ip, port = to:value()
  t.eq({ a:sendto("one", to) }, { 3 })
  t.eq({ a:sendto("two", ip, port) }, { 3 })
  loopback.await(b)
  local data, sender = b:recvfrom()
  t.eq(data, "one")
  t.ok(sender == from)
  t.eq((b:recvfrom(100)), "two")
  t.eq({ b:recvfrom() }, { false })
end)

t.test("a datagram of length 0 is data, not the end of a stream", function()
  local a <close> = bound()
  local b <close>, to = bound()
  t.eq({ a:sendto("", to) }, { 0 })
  t.eq({ a:sendto("x", to) }, { 1 })
  loopback.await(b)
  local data, sender = b:recvfrom()
  t.eq(data, "")
  t.ok(sender == a:info "socket")
  t.eq((b:recvfrom()), "x")
  a:connect(to)
  t.eq({ a:send "" }, { 0 })
  loopback.await(b)
  t.eq(b:recv(), "", "recv of an empty datagram")
  t.eq(b:recv(), false, "the empty datagram was removed")
end)

t.test("a datagram that is longer than requested is truncated, and the next datagram is whole", function()
  local a <close> = bound()
  local b <close>, to = bound()
  a:sendto("0123456789", to)
  a:sendto("abc", to)
  loopback.await(b)
  t.eq((b:recvfrom(4)), "0123")
  t.eq((b:recvfrom(4)), "abc")
end)

t.test("a datagram of the maximum size is sent; for a larger datagram the result is nil and a message", function()
  local a <close> = bound()
  local b <close>, to = bound()
  local big = ("\0\1\2\3"):rep(16376) .. "end"
  t.eq(#big, 65507)
  t.eq({ a:sendto(big, to) }, { 65507 })
  loopback.await(b)
  t.ok(b:recvfrom() == big)
  t.eq({ a:sendto(big .. "x", to) },
    { nil, "sendto: Message too long (os error 90)", "too long" })
end)

t.test("a connected UDP socket sends, receives and gets the error of a closed port", function()
  local a <close> = bound()
  local b, to = bound()
  t.eq({ a:connect(to) }, { true })
  t.eq({ a:send "hi" }, { 2 })
  t.eq({ a:sendv("h", "i") }, { 2 })
  loopback.await(b)
  t.eq(b:recv(), "hi")
  t.eq(b:recv(), "hi", "sendv makes one datagram")
  b:close()
  a:send "nobody"
  loopback.await(a)
  t.eq({ a:recv() }, { nil, "recv: Connection refused (os error 111)", "refused" })
  t.eq({ a:recv() }, { false }, "the socket still works")
end)

t.test("a send without a destination returns nil and a message", function()
  local s <close> = socket.create "udp"
  t.eq({ s:send "x" },
    { nil, "send: Destination address required (os error 89)", "EDESTADDRREQ" })
end)

t.test("each datagram is reported once, and there is no event when all are read", function()
  local a <close> = bound()
  local b <close>, to = bound()
  local sel <close> = lio.create()
  sel:event_add(b, READ, "b")
  for i = 1, 3 do a:sendto(tostring(i), to) end
  for i = 1, 3 do
    t.eq(loopback.events(sel, 5), { b = READ })
    t.eq((b:recvfrom()), tostring(i))
  end
  t.eq(loopback.events(sel, 0), {})
end)

t.test("datagrams over IPv6", function()
  local a <close>, from = bound("udp6", "::1")
  local b <close>, to = bound("udp6", "::1")
  t.eq({ a:sendto("six", to) }, { 3 })
  loopback.await(b)
  local data, sender = b:recvfrom()
  t.eq(data, "six")
  t.ok(sender == from)
  t.eq(select(3, sender:value()), "inet6")
end)

t.test("sending to a broadcast address is denied until the option broadcast is set", function()
  local s <close> = socket.create "udp"
  t.eq(select(3, s:sendto("x", "255.255.255.255", 9)), "denied")
  t.eq(s:option "broadcast", false)
  t.eq(s:option("broadcast", true), true)
  t.eq(s:option "broadcast", true)
end)

t.test("recvfrom on a stream returns data without an endpoint, and nil at the end", function()
  for _, make in ipairs { socket.pair, loopback.tcp } do
    local a, b = make()
    a:send "data"
    a:shutdown "w"
    loopback.await(b)
    t.eq({ b:recvfrom() }, { "data" })
    loopback.await(b)
    t.eq({ b:recvfrom() }, {})
    a:close() b:close()
  end
end)

t.finish()
