-- How waits on connections end, and what they return: close by another task, close by the peer, timeout. The comment
-- above a test describes the behaviour of the original library, whose API `lio.net` follows.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local net = require "lio.net"

local function pack(...) return table.pack(...) end

-- In the original, tasks that waited in recv or accept were never woken.
netkit.pair_test("close ends recv, send and accept of other tasks with code closed", function(a)
  local l = t.ok(net.listen("127.0.0.1", 0))
  local receiving = netkit.promise(function() return pack(a:recv()) end)
  local sending = netkit.promise(function() return select(2, a:send(("x"):rep(32 << 20))) end)
  local accepting = netkit.promise(function() return pack(l:accept()) end)
  netkit.settle()
  a:close()
  l:close()
  t.eq(receiving(), { nil, "closed", nil, "closed", n = 4 })
  t.eq(sending(), "closed")
  t.eq(accepting(), { false, "closed", "closed", n = 3 })
end)

-- In the original, recv raised an assertion error, while send returned a message.
netkit.pair_test("recv and send on a closed connection return nil and a message", function(a)
  a:close()
  t.eq(pack(a:recv()), { nil, "closed", nil, "closed", n = 4 })
  t.eq(pack(a:send "x"), { nil, "closed", 0, "closed", n = 4 })
end)

-- The original never detected the close.
netkit.pair_test("wait_closed returns true when the peer closes an idle connection", function(a, b)
  local noticed = netkit.promise(function() return a:wait_closed() end)
  netkit.settle()
  b:close()
  t.eq(noticed(), true)
end)

-- The original had no timeouts.
netkit.pair_test("recv and send end after their timeouts", function(a)
  a:timeout(0.02, 0.02)
  t.eq(select(2, a:recv()), "timeout")
  t.eq(select(2, a:send(("x"):rep(32 << 20))), "timeout")
end)

-- The original had no rule for what nil, false and "" meant.
netkit.pair_test("nil alone is the end, recv() returns at least a byte, failures have message and code", function(a, b)
  t.eq(pack(b:send "x"), { true, n = 1 })
  t.eq(pack(a:recv(0)), { "", n = 1 })
  t.eq(pack(a:recv()), { "x", n = 1 })
  b:close()
  t.eq(pack(a:recv()), { nil, n = 1 })
  t.eq(pack(a:recv(1)), { nil, "closed", "", "closed", n = 4 })
  t.eq(pack(a:recv "line"), { nil, "closed", "", "closed", n = 4 })
  t.eq(pack(a:recv "all"), { "", n = 1 })
end)

t.finish()
