-- Connection:send, shutdown and close: slow readers, whole messages of concurrent senders, half-close, timeouts, one
-- system call for several strings. Over TCP on 127.0.0.1.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local socket = require "lio.socket"

local function pack(...) return table.pack(...) end

-- Sends until the buffers on both sides are full. Returns the number of sent bytes.
local function fill(c)
  local block, total = ("f"):rep(65536), 0
  c:timeout(nil, 0.05)
  repeat
    local ok, _, sent = c:send(block)
    total = total + (ok and #block or sent)
  until not ok
  c:timeout(nil, nil)
  return total
end

local function drain(c, count)
  while count > 0 do count = count - #c:recv(math.min(count, 65536)) end
end

netkit.pair_test("send returns true when the system has taken all bytes", function(a, b)
  t.eq(pack(a:send "hello"), { true, n = 1 })
  t.eq(b:recv(), "hello")
  t.eq(a:send "", true)
  t.eq(a:send(), true)
  t.eq(a:send("one ", "", "two ", 3, 4.5), true)
  t.eq(b:recv(), "one two 34.5")
end)

netkit.pair_test("any number of strings is sent in order", function(a, b)
  local list = {}
  for i = 1, 1000 do list[i] = i .. "," end
  local whole = table.concat(list)
  t.eq(a:send(table.unpack(list)), true)
  t.eq(b:recv(#whole), whole)
end)

netkit.pair_test("ten megabytes to a slow reader arrive whole, and memory does not grow", function(a, b)
  local data = ("0123456789abcdef"):rep(10 * 65536)
  local before = collectgarbage "count"
  local sent = netkit.promise(function() return a:send(data) end)
  local at, most = 1, 0
  while at <= #data do
    local piece = b:recv()
    t.ok(piece == data:sub(at, at + #piece - 1), "differs after byte " .. at)
    at = at + #piece
    if at % 50 == 0 then loop.sleep(0.001) end
    collectgarbage "step"
    most = math.max(most, collectgarbage "count")
  end
  t.eq(sent(), true)
  t.ok(most < before + 4096, "Lua's memory grew by " .. most - before .. " KiB")
end, { seconds = 60 })

netkit.pair_test("several strings to a slow reader arrive whole and in order", function(a, b)
  local pieces = {}
  for i = 1, 200 do pieces[i] = tostring(i % 10):rep(i * 100) end
  local whole = table.concat(pieces)
  local sent = netkit.promise(function() return a:send(table.unpack(pieces)) end)
  netkit.settle()
  t.eq(b:recv(#whole) == whole, true)
  t.eq(sent(), true)
end)

netkit.pair_test("messages of concurrent senders stay whole, in the order of their calls", function(a, b)
  local full = fill(a)
  local waits = {}
  for i = 1, 8 do
    local letter = string.char(96 + i)
    waits[i] = netkit.promise(function() return a:send(letter, letter:rep(300000), "\n") end)
  end
  netkit.settle()
  drain(b, full)
  for i = 1, 8 do
    local letter = string.char(96 + i)
    t.eq(b:recv "line" == letter:rep(300001), true, "message " .. i)
  end
  for i = 1, 8 do t.eq(waits[i](), true) end
end)

netkit.pair_test("a write timeout returns the number of sent bytes; the connection stays usable", function(a, b)
  local full = fill(a)
  a:timeout(nil, 0.03)
  local before = lio.now()
  local ok, message, sent, code = a:send(("x"):rep(5000000))
  t.eq({ ok, message, code }, { nil, "timeout", "timeout" })
  t.ok(lio.now() - before >= 0.03)
  a:timeout(nil, nil)
  drain(b, full + sent)
  t.eq(a:send "again", true)
  t.eq(b:recv(), "again")
end)

-- Regression: the system buffered a megabyte or more for each peer that did not read. With a thousand such peers it had
-- no memory left for the packets of other connections.
netkit.test("for a peer that reads nothing, the system buffers at most 256 KiB plus the peer's window", function()
  local listener <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local small <close> = t.ok(socket.create "tcp")
  small:option("rcvbuf", 4096)
  t.ok(small:connect("127.0.0.1", port) ~= nil)
  local c <close> = t.ok(net.accept(listener))
  net.timeout(c, nil, 0.2)
  local _, message, sent = c:send(("x"):rep(8 * 1024 * 1024))
  t.eq(message, "timeout")
  t.ok(sent < 500 * 1024, sent)
end)

netkit.pair_test("a sender that is queued behind another sender has a timeout too", function(a, b)
  fill(a)
  a:timeout(nil, 0.03)
  local first = netkit.promise(function() return select(2, a:send(("x"):rep(5000000))) end)
  local second = netkit.promise(function() return pack(a:send "second") end)
  t.eq(second(), { nil, "timeout", 0, "timeout", n = 4 })
  t.eq(first(), "timeout")
end)

netkit.pair_test("a reader and a writer of one connection do not block each other", function(a, b)
  local size = 3000000
  local out_a = netkit.promise(function() return a:send(("a"):rep(size)) end)
  local out_b = netkit.promise(function() return b:send(("b"):rep(size)) end)
  local in_a = netkit.promise(function() return #a:recv(size) end)
  t.eq(#b:recv(size), size)
  t.eq(in_a(), size)
  t.eq({ out_a(), out_b() }, { true, true })
end)

netkit.pair_test("after shutdown w the peer gets the end of the stream, and may continue to send", function(a, b)
  a:send "question"
  t.eq(a:shutdown "w", true)
  t.eq(b:recv "all", "question")
  t.eq(b:send "answer", true)
  t.eq(a:recv(), "answer")
  local ok, _, sent, code = a:send "more"
  t.eq({ ok, sent, code }, { nil, 0, "closed" })
end)

netkit.pair_test("shutdown w waits until earlier messages are sent", function(a, b)
  local full = fill(a)
  local sent = netkit.promise(function() return a:send(("x"):rep(1000000)) end)
  local cut = netkit.promise(function() return a:shutdown "w" end)
  netkit.settle()
  t.eq(#b:recv "all", full + 1000000)
  t.eq({ sent(), cut() }, { true, true })
end)

netkit.pair_test("after shutdown r a task in recv gets the end of the stream, and sending works", function(a, b)
  local got = netkit.promise(function() return pack(a:recv()) end)
  netkit.settle()
  t.eq(a:shutdown "r", true)
  t.eq(got(), { nil, n = 1 })
  t.eq(a:send "still", true)
  t.eq(b:recv(), "still")
end)

netkit.pair_test("shutdown without a direction ends both directions", function(a, b)
  t.eq(a:shutdown(), true)
  t.is_nil(b:recv())
  t.is_nil(a:recv())
  t.raises("'r', 'w' or 'rw' expected", net.shutdown, b, "x")
end)

netkit.pair_test("sending to a peer that has closed fails with a message, and raises no signal", function(a, b)
  b:close()
  local ok, message, _, code
  repeat
    ok, message, _, code = a:send(("x"):rep(1000))
  until not ok
  t.ok(code == "reset" or code == "closed", code)
  t.ok(message:find "^send: ", message)
end)

netkit.pair_test("close wakes the tasks in recv and send, and the tasks that queue behind them", function(a)
  -- More than the buffers of the system can hold.
  local much = ("x"):rep(32 << 20)
  local waits = {}
  for i = 1, 3 do
    waits[i] = netkit.promise(function() return pack(a:recv()) end)
    waits[i + 3] = netkit.promise(function() return pack(a:send(much)) end)
  end
  waits[7] = netkit.promise(function() return pack(a:wait_closed()) end)
  waits[8] = netkit.promise(function() return pack(a:wait_closed()) end)
  netkit.settle()
  t.eq(a:close(), true)
  for i = 1, 3 do
    t.eq(waits[i](), { nil, "closed", nil, "closed", n = 4 })
    local r = waits[i + 3]()
    t.eq({ r[1], r[2], r[4] }, { nil, "closed", "closed" })
  end
  t.eq(waits[7](), { nil, "closed", "closed", n = 3 })
  t.eq(waits[8](), { nil, "closed", "closed", n = 3 })
end)

netkit.pair_test("every call on a closed connection fails with closed, and a second close returns true", function(a)
  a:close()
  t.eq(a:close(), true)
  t.eq(pack(a:recv()), { nil, "closed", nil, "closed", n = 4 })
  t.eq(pack(a:recv(4)), { nil, "closed", nil, "closed", n = 4 })
  t.eq(pack(a:send "x"), { nil, "closed", 0, "closed", n = 4 })
  for _, call in ipairs { "shutdown", "peer", "sock", "wait_readable", "wait_closed", "timeout" } do
    t.eq(pack(a[call](a)), { nil, "closed", "closed", n = 3 }, call)
  end
  t.eq(pack(a:option "nodelay"), { nil, "closed", "closed", n = 3 })
  t.eq(tostring(a), "connection (closed)")
end)

netkit.pair_test("a <close> variable closes the connection and wakes the tasks that wait on it", function(a, b)
  local got = netkit.promise(function() return select(2, a:recv()) end)
  netkit.settle()
  do
    local scoped <close> = a
    t.eq(scoped:is_closed(), false)
  end
  t.eq(got(), "closed")
  t.is_nil(b:recv())
end)

netkit.pair_test("if a sender is killed, the next one continues", function(a, b)
  local first = loop.fork(function() a:send(("x"):rep(32 << 20)) end)
  local second = netkit.promise(function() return a:send "second" end)
  netkit.settle()
  t.ok(loop.kill(first))
  local got = {}
  local reader = netkit.promise(function()
    while not (got[#got] or ""):find "second$" do got[#got + 1] = b:recv() end
  end)
  t.eq(second(), true)
  reader()
  local all = table.concat(got)
  t.ok(#all < 32 << 20, "the killed sender was not done")
  t.eq(all:sub(-6), "second")
end)

netkit.pair_test("misuse raises an error with the call's name and the argument's number", function(a)
  t.raises("bad argument #2 to 'send' %(string expected, got table%)", net.send, a, {})
  t.raises("bad argument #4 to 'send'", net.send, a, "x", "y", nil)
  t.raises("connection expected", net.send, 5, "x")
  t.raises("bad argument #2 to 'timeout'", net.timeout, a, "1")
end)

netkit.pair_test("a sender with a fast peer does not starve other tasks", function(a, b)
  local stop, sent = false, 0
  loop.fork(function() while b:recv() do end end)
  loop.fork(function()
    while not stop and a:send(("x"):rep(1000)) do sent = sent + 1 end
  end)
  -- The test counts messages, because the time depends on the machine.
  local most = 0
  while sent < 20000 do
    local before = sent
    loop.sleep(0)
    most = math.max(most, sent - before)
  end
  stop = true
  t.ok(most <= 100, most .. " messages were sent in one turn")
end, { seconds = 60 })

-- Runs Lua code in this host under strace(1). Returns a table that maps the names of the system calls to their counts.
local function count_calls(code)
  local dir = t.tmp()
  local script = t.write(dir .. "/child.lua", code)
  local r = t.run(("strace -f -c -o %s/calls %s %s"):format(dir, t.traced_lio(), script))
  t.eq(r.code, 0, r.err)
  local counts = {}
  for line in io.lines(dir .. "/calls") do
    local calls, name = line:match "^%s*[%d.]+%s+[%d.]+%s+%d+%s+(%d+).-(%a[%w_]*)$"
    if name then counts[name] = tonumber(calls) end
  end
  return counts
end

t.test("several strings need one sendmsg, and after a short read no second recv is called", function()
  local calls = count_calls [[
    local loop, net = require "lio.loop", require "lio.net"
    loop.run(function()
      local listener = assert(net.listen("127.0.0.1", 0))
      local client = assert(net.connect("127.0.0.1", (select(2, listener:address()))))
      local c = assert(listener:accept())
      for _ = 1, 1000 do
        assert(client:send("one", "two", "three"))
        assert(c:recv() == "onetwothree")
      end
      client:close() c:close() listener:close()
    end)
  ]]
  t.eq(calls.sendmsg, 1000)
  t.ok(calls.recvfrom >= 1000 and calls.recvfrom <= 1100, calls.recvfrom .. " recvfrom")
end)

-- Regression: send raised when the buffer was full: of 10 MB that were sent to a slow reader, 3.9 MB arrived.
netkit.pair_test("10 MiB arrive completely at a reader that starts late", function(a, b)
  local data = ("01234567"):rep(1310720)
  local sent = netkit.promise(function() return pack(a:send(data)) end)
  netkit.settle()
  t.eq(b:recv(#data) == data, true)
  t.eq(sent(), { true, n = 1 })
end, { seconds = 60 })

-- Regression: only the reader was woken; the writer never returned.
netkit.pair_test("a reader and a writer of one connection are woken together if both are ready", function(a, b)
  local much = ("w"):rep(8 << 20)
  local writer = netkit.promise(function() return a:send(much) end)
  local reader = netkit.promise(function() return a:recv() end)
  netkit.settle()
  -- The connection becomes readable and writable before the loop's next wait.
  local raw_room = #b:recv(4 << 20)
  b:send "readable"
  t.eq(reader(), "readable")
  t.eq(#b:recv(#much - raw_room), #much - raw_room)
  t.eq(writer(), true)
end, { seconds = 30 })

t.finish()
