-- `net.broadcast`: which connections get a message, in which order; slow and closed connections.

local t = require "tests.kit"
local loop = require "lio.loop"
local net = require "lio.net"
local socket = require "lio.socket"

-- Returns a list of `count` connections, and a list of their peers.
local function pairs_of(count)
  local near, far = {}, {}
  for i = 1, count do
    local one, other = assert(socket.pair())
    near[i], far[i] = assert(net.wrap(one)), assert(net.wrap(other))
  end
  return near, far
end

local function close(...)
  for _, list in ipairs { ... } do
    for _, c in ipairs(list) do c:close() end
  end
end

local BIG <const> = ("0123456789abcdef"):rep(512 * 1024) -- 8 MiB: more than the buffers of a socket pair can hold

local function test(name, f)
  t.test(name, function() loop.run(f) end)
end

test("every connection gets the message, even if its peer does not read", function()
  local near, far = pairs_of(20)
  t.eq({ net.broadcast(near, "one\n") }, { 20 })
  t.eq({ net.broadcast(near, "two\n") }, { 20 })
  for _, c in ipairs(far) do t.eq({ c:recv "line", c:recv "line" }, { "one", "two" }) end
  t.eq({ net.broadcast({}, "x") }, { 0 })
  t.eq({ net.broadcast(near, "") }, { 20 })
  close(near, far)
end)

test("queued returns the bytes that the system has not accepted, without those of a waiting sender", function()
  local near, far = pairs_of(1)
  local c = near[1]
  t.eq(c:queued(), 0)
  net.broadcast(near, BIG)
  local queued = c:queued()
  t.ok(queued > 0 and queued < #BIG, tostring(queued))
  net.broadcast(near, "0123456789", 2 * #BIG)
  t.eq(c:queued(), queued + 10)
  local waiting = loop.fork(function() c:send "of a sender" end)
  loop.sleep(0)
  t.eq(c:queued(), queued + 10)
  loop.kill(waiting)
  t.eq(#far[1]:recv(#BIG + 10), #BIG + 10)
  t.eq(c:queued(), 0)
  c:close()
  t.eq(c:queued(), 0)
  close(near, far)
end)

test("shutdown sends the queued bytes first", function()
  local near, far = pairs_of(1)
  net.broadcast(near, BIG)
  local ended
  loop.fork(function() ended = near[1]:shutdown "w" end)
  loop.sleep(0)
  t.eq(ended, nil)
  t.ok(far[1]:recv "all" == BIG)
  loop.sleep(0)
  t.eq(ended, true)
  close(near, far)
end)

test("shutdown waits at most the write limit; then the connection is not shut down", function()
  local near, far = pairs_of(1)
  net.broadcast(near, BIG)
  near[1]:timeout(nil, 0.01)
  t.eq({ near[1]:shutdown "w" }, { nil, "timeout", "timeout" })
  near[1]:timeout()
  loop.fork(function() near[1]:shutdown "w" end)
  t.ok(far[1]:recv "all" == BIG)
  close(near, far)
end)

test("a table that is not a list raises", function()
  local near, far = pairs_of(1)
  t.raises("^[^\n]*net_broadcast_test.lua:%d+: bad argument #1 to 'broadcast' %(a list of connections expected, got a "
    .. "table without the element 1%)$", function() net.broadcast({ ann = near[1] }, "x") end)
  close(near, far)
end)

test("bytes that the socket buffer cannot hold are sent by the loop, before a task's later messages", function()
  local near, far = pairs_of(3)
  t.eq({ net.broadcast(near, BIG, 100 * #BIG) }, { 3 })
  t.eq({ net.broadcast(near, "second\n", 100 * #BIG) }, { 3 })
  t.eq({ net.broadcast(near, BIG, 100 * #BIG) }, { 3 })
  local sent
  loop.fork(function() sent = near[2]:send("third\n", "last") end)
  local done = 0
  for i, c in ipairs(far) do
    loop.fork(function()
      t.ok(c:recv(#BIG) == BIG)
      t.eq(c:recv "line", "second")
      t.ok(c:recv(#BIG) == BIG)
      if i == 2 then t.eq({ c:recv "line", c:recv(4) }, { "third", "last" }) end
      done = done + 1
      loop.wakeup(far)
    end)
  end
  while done < 3 do loop.wait(far) end
  t.eq(sent, true)
  close(near, far)
end)

test("closed connections and connections with a closed peer are reported; the others get the message", function()
  local near, far = pairs_of(4)
  near[1]:close()
  far[2]:close()
  t.is_nil((near[2]:send "x"))
  local count, missed = net.broadcast(near, "text\n")
  t.eq(count, 2)
  t.eq(missed, { [near[1]] = "closed", [near[2]] = "closed" })
  t.eq({ far[3]:recv "line", far[4]:recv "line" }, { "text", "text" })
  close(near, far)
end)

test("a peer that does not read uses at most the limit, and gets whole messages", function()
  local near, far = pairs_of(2)
  local line = ("x"):rep(1000) .. "\n"
  local LIMIT <const> = 100 * 1000
  local read, taken, full = 0, 0, 0
  loop.fork(function()
    for _ = 1, 2000 do
      t.eq(#far[1]:recv "line", 1000)
      read = read + 1
    end
    loop.wakeup(near)
  end)
  for _ = 1, 2000 do
    local count, missed = net.broadcast(near, line, LIMIT)
    if missed then
      t.eq({ count, missed[near[2]], missed[near[1]] }, { 1, "full" })
      full = full + 1
    else
      taken = taken + 1
    end
    loop.sleep(0)
  end
  while read < 2000 do loop.wait(near) end
  t.ok(full > 0 and taken > 0, full .. " " .. taken)
  -- The second peer receives exactly the messages for which its connection was not reported as full, and each message
  -- is whole.
  loop.fork(function() near[2]:send "end\n" end)
  local got = 0
  while true do
    local text = far[2]:recv "line"
    if text == "end" then break end
    t.eq(#text, 1000)
    got = got + 1
  end
  t.eq(got, taken)
  close(near, far)
end)

test("for short messages the limit counts the memory that they occupy, not only their bytes", function()
  local near, far = pairs_of(1)
  t.eq({ net.broadcast(near, BIG) }, { 1 })
  local before = 0
  t.eq({ net.broadcast(near, "x", #BIG) }, { 1 })
  while not select(2, net.broadcast(near, "x", #BIG)) do before = before + 1 end
  local _, missed = net.broadcast(near, "x", #BIG)
  t.eq(missed, { [near[1]] = "full" })
  t.ok(before < #BIG // 64, before)
  close(near, far)
end)

test("a message never interrupts the message of a task", function()
  local near, far = pairs_of(1)
  local sent
  loop.fork(function()
    sent = near[1]:send(BIG, "\n")
    loop.wakeup(near)
  end)
  loop.sleep(0)
  t.is_nil(sent)
  t.eq(select(2, net.broadcast(near, "between\n", 100 * #BIG)), { [near[1]] = "full" })
  t.ok(far[1]:recv "line" == BIG)
  while not sent do loop.wait(near) end
  t.eq(net.broadcast(near, "behind\n"), 1)
  t.eq(far[1]:recv "line", "behind")
  close(near, far)
end)

test("a connection that fails while a message is queued is reported as closed by the next broadcast", function()
  local near, far = pairs_of(2)
  t.eq({ net.broadcast(near, BIG) }, { 2 })
  far[1]:close()
  loop.fork(function() t.ok(far[2]:recv(#BIG) == BIG) loop.wakeup(far) end)
  loop.wait(far)
  t.eq({ net.broadcast(near, "x") }, { 1, { [near[1]] = "closed" } })
  close(near, far)
end)

test("all connections share one copy of a message", function()
  local function resident()
    local f = io.open "/proc/self/statm"
    if not f then return nil end
    local _, pages = f:read("n", "n")
    f:close()
    return pages * 4096
  end
  if not resident() then return end
  local near, far = pairs_of(100)
  local before = resident()
  t.eq({ net.broadcast(near, BIG) }, { 100 })
  -- One copy for each connection would be 800 MiB.
  t.ok(resident() - before < 100 * 1024 * 1024, resident() - before)
  close(near, far)
end)

test("an invalid connection, message or limit raises, and nothing is sent", function()
  local near, far = pairs_of(1)
  local function refused(...)
    local ok, message = pcall(net.broadcast, ...)
    t.eq(ok, false)
    return message:match "%(.*%)$"
  end
  t.eq(refused(nil, "x"), "(table expected, got nil)")
  t.eq(refused(near, 5), "(string expected, got number)")
  t.eq(refused({ near[1], "x" }, "x"), "(connection expected at place 2, got string)")
  t.eq(refused(near, "x", -1), "(limit must be an integer of at least 0, not -1)")
  t.eq(refused(near, "x", 1.5), "(limit must be an integer of at least 0, not 1.5)")
  near[1]:send "only\n"
  t.eq(far[1]:recv "line", "only")
  close(near, far)
end)

t.finish()
