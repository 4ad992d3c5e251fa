-- Connection:recv in every form: limits, the end of the stream, timeouts, several receivers. Over TCP on 127.0.0.1.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local socket = require "lio.socket"
local task = require "lio.task"

-- Sends the bytes one at a time, each in a separate packet. A byte is sent after the previous byte has arrived.
local function drip(c, bytes)
  for i = 1, #bytes do
    t.ok(c:send(bytes:sub(i, i)))
    netkit.settle()
  end
end

local function pack(...) return table.pack(...) end

netkit.pair_test("recv returns the available bytes, and waits for at least one byte", function(a, b)
  a:send "hello"
  t.eq(pack(b:recv()), { "hello", n = 1 })
  local got = netkit.promise(function() return b:recv() end)
  netkit.settle()
  a:send "x"
  t.eq(got(), "x")
end)

netkit.pair_test("recv returns nil alone at the end of the stream, every time", function(a, b)
  a:send "last"
  a:close()
  t.eq(b:recv(), "last")
  t.eq(pack(b:recv()), { nil, n = 1 })
  t.eq(pack(b:recv()), { nil, n = 1 })
end)

netkit.pair_test("recv(n) returns exactly n bytes, regardless of the packets", function(a, b)
  local got = netkit.promise(function() return { b:recv(3), b:recv(4), b:recv(0), b:recv(1) } end)
  drip(a, "abcdefgh")
  t.eq(got(), { "abc", "defg", "", "h" })
end)

netkit.pair_test("recv(n) at the end returns nil, closed, and the received part", function(a, b)
  a:send "abc"
  a:close()
  t.eq(pack(b:recv(5)), { nil, "closed", "abc", "closed", n = 4 })
  t.eq(pack(b:recv(5)), { nil, "closed", "", "closed", n = 4 })
  t.is_nil(b:recv())
end)

netkit.pair_test("recv(n) allocates no memory for bytes that have not arrived", function(a, b)
  a:send "few"
  b:timeout(0.05)
  t.eq(pack(b:recv(1 << 40)), { nil, "timeout", nil, "timeout", n = 4 })
  t.eq(b:recv(), "few")
end)

netkit.pair_test("a line ends in LF or CRLF, which are not part of it", function(a, b)
  a:send "one\ntwo\r\n\n\r\nthr\ree\n"
  for _, line in ipairs { "one", "two", "", "", "thr\ree" } do
    t.eq(b:recv "line", line)
  end
end)

netkit.pair_test("lines are the same if they arrive byte by byte", function(a, b)
  local got = netkit.promise(function() return { b:recv "line", b:recv "line", b:recv "line" } end)
  drip(a, "one\r\n\r\nx\r\n")
  t.eq(got(), { "one", "", "x" })
end)

netkit.pair_test("for a line without its end, recv returns nil, closed, and the received part", function(a, b)
  a:send "whole\npart"
  a:close()
  t.eq(b:recv "line", "whole")
  t.eq(pack(b:recv "line"), { nil, "closed", "part", "closed", n = 4 })
end)

netkit.pair_test("the limit of a line is exact: CR and LF do not count", function(a, b)
  a:send "12345\n12345\r\n123456\n"
  t.eq(b:recv("line", 5), "12345")
  t.eq(b:recv("line", 5), "12345")
  t.eq(pack(b:recv("line", 5)), { nil, "too long", nil, "too long", n = 4 })
  t.eq(pack(b:recv("line", 5)), { nil, "too long", nil, "too long", n = 4 }, "the line stays buffered")
  t.eq(b:recv("line", 6), "123456")
end)

netkit.pair_test("a line is too long as soon as its end can no longer be within the limit", function(a, b)
  local got = netkit.promise(function() return b:recv("line", 3) end)
  drip(a, "abc")
  drip(a, "\r")
  drip(a, "\n")
  t.eq(got(), "abc")
  got = netkit.promise(function() return select(2, b:recv("line", 3)) end)
  drip(a, "abcd")
  t.eq(got(), "too long")
  t.eq(b:recv(), "abcd")
  got = netkit.promise(function() return select(2, b:recv("line", 3)) end)
  drip(a, "abc\rd")
  t.eq(got(), "too long")
end)

netkit.pair_test("until takes any delimiter, even if the delimiter arrives in pieces", function(a, b)
  local got = netkit.promise(function()
    return { b:recv("until", "--end--"), b:recv("until", ";"), b:recv("until", "\0\0") }
  end)
  drip(a, "--en--end--b;c\0d\0\0")
  t.eq(got(), { "--en", "b", "c\0d" })
end)

netkit.pair_test("a delimiter that is split between packets at any position is found", function(a, b)
  local delimiter = "\r\n\r\n"
  for at = 0, #delimiter do
    local message = "head" .. delimiter .. "body"
    local got = netkit.promise(function() return { b:recv("until", delimiter), b:recv(4) } end)
    a:send(message:sub(1, 4 + at))
    netkit.settle()
    a:send(message:sub(5 + at))
    t.eq(got(), { "head", "body" }, "split at " .. at)
  end
end)

netkit.pair_test("the limit of until is exact, for delimiters of any length", function(a, b)
  a:send "123==1234=="
  t.eq(b:recv("until", "==", 3), "123")
  t.eq(select(2, b:recv("until", "==", 3)), "too long")
  t.eq(b:recv("until", "==", 4), "1234")
  -- "xx" is within the limit; whether the delimiter follows is known only when its last byte has arrived.
  local got = netkit.promise(function() return b:recv("until", "abc", 3) end)
  drip(a, "xxabc")
  t.eq(got(), "xx")
  got = netkit.promise(function() return select(2, b:recv("until", "abc", 3)) end)
  drip(a, "xxabx")
  t.eq(got(), "too long")
end)

netkit.pair_test("after a timeout the buffered bytes are searched from the start for another delimiter", function(a, b)
  a:send "key=value"
  b:timeout(0.02)
  t.eq(select(2, b:recv("until", "\n\n\n")), "timeout")
  t.eq(select(2, b:recv "line"), "timeout")
  t.eq(b:recv("until", "="), "key")
  t.eq(b:recv(), "value")
end)

netkit.pair_test("all returns all bytes up to the end, or an empty string", function(a, b)
  local got = netkit.promise(function() return b:recv "all" end)
  drip(a, "abc")
  a:send(("x"):rep(100000))
  a:close()
  t.eq(got(), "abc" .. ("x"):rep(100000))
  t.eq(b:recv "all", "")
end)

netkit.pair_test("the limit of all is exact", function(a, b)
  a:send "12345"
  a:shutdown "w"
  t.eq(select(2, b:recv("all", 4)), "too long")
  t.eq(b:recv("all", 5), "12345")
end)

netkit.pair_test("forms of recv may be mixed; each form gets the buffered bytes first", function(a, b)
  a:send "GET /\r\nHost: x\r\n\r\nbody and more"
  t.eq(b:recv "line", "GET /")
  t.eq(b:recv("until", "\r\n\r\n"), "Host: x")
  t.eq(b:recv(4), "body")
  t.eq(b:recv(), " and more")
end)

netkit.pair_test("long lines and big blocks arrive whole", function(a, b)
  local line, block = ("l"):rep(300000), ("b\0\n"):rep(1000000)
  loop.fork(function() a:send(line, "\n", block) end)
  t.eq(b:recv "line" == line, true)
  t.eq(b:recv(#block) == block, true)
end)

netkit.pair_test("after a timeout the received bytes stay buffered, and the connection works", function(a, b)
  b:timeout(0.03)
  local before = lio.now()
  t.eq(pack(b:recv()), { nil, "timeout", nil, "timeout", n = 4 })
  t.ok(lio.now() - before >= 0.03)
  a:send "part"
  t.eq(pack(b:recv(8)), { nil, "timeout", nil, "timeout", n = 4 })
  b:timeout(nil)
  a:send "rest"
  t.eq(b:recv(8), "partrest")
  local got = netkit.promise(function() return b:recv() end)
  loop.sleep(0.05)
  a:send "no limit now"
  t.eq(got(), "no limit now")
end)

netkit.pair_test("a reset is an error with a message, not the end of the stream", function(a, b)
  a:option("linger", 0)
  b:send "unread"
  netkit.settle()
  a:close()
  netkit.settle()
  local got, message, _, code = b:recv()
  t.is_nil(got)
  t.eq(code, "reset")
  t.ok(message:find "^recv: ", message)
end)

netkit.pair_test("receivers of one connection are served in the order of their calls", function(a, b)
  local seen = {}
  local waits = {}
  for i = 1, 4 do
    waits[i] = netkit.promise(function()
      local data = b:recv(2)
      seen[#seen + 1] = i .. data
    end)
  end
  drip(a, "aabbccdd")
  for i = 1, 4 do waits[i]() end
  t.eq(seen, { "1aa", "2bb", "3cc", "4dd" })
end)

netkit.pair_test("a receiver that starts after another receiver was woken does not overtake it", function(a, b)
  local first = netkit.promise(function() return b:recv(2) end)
  netkit.settle()
  a:send "1122"
  -- The second receiver runs in the round in which the first receiver's wakeup is queued, and so before the first
  -- receiver runs.
  local second = netkit.promise(function() return b:recv(2) end)
  t.eq(first(), "11")
  t.eq(second(), "22")
end)

netkit.pair_test("if the first of several receivers is killed, the next one continues", function(a, b)
  local first = loop.fork(function() b:recv() end)
  local second = netkit.promise(function() return b:recv(3) end)
  local third = netkit.promise(function() return b:recv(3) end)
  netkit.settle()
  t.ok(loop.kill(first))
  a:send "abcdef"
  t.eq(second(), "abc")
  t.eq(third(), "def")
end)

netkit.pair_test("a receiver killed between its wakeup and its run loses no bytes", function(a, b)
  local first = loop.fork(function() b:recv() end)
  local second = netkit.promise(function() return b:recv() end)
  netkit.settle()
  a:send "kept"
  -- The yield queues this task before the loop polls for I/O and wakes the receiver. This task therefore runs after the
  -- wakeup but before the receiver.
  coroutine.yield()
  t.eq(task.is_waiting(b), false, "the receiver was woken")
  t.ok(loop.kill(first))
  t.eq(second(), "kept")
end)

netkit.pair_test("wait_readable and receivers share one queue, in the order of the calls", function(a, b)
  local seen = {}
  local function note(name, f)
    return netkit.promise(function()
      local result = f()
      seen[#seen + 1] = name .. tostring(result)
    end)
  end
  local waits = {
    note("first ", function() return b:recv(2) end),
    note("readable ", function() return b:wait_readable() end),
    note("second ", function() return b:recv(2) end),
    note("readable ", function() return b:wait_readable(5) end),
    note("third ", function() return b:recv(2) end),
  }
  netkit.settle()
  drip(a, "aabbcc")
  for _, wait in ipairs(waits) do wait() end
  t.eq(seen, { "first aa", "readable true", "second bb", "readable true", "third cc" })
end)

netkit.pair_test("a time limit that is set while a receiver waits applies from the next wait", function(a, b)
  local waiting = netkit.promise(function() return b:recv(2) end)
  netkit.settle()
  b:timeout(0.01)
  local queued = netkit.promise(function() return select(2, b:recv(2)) end)
  t.eq(queued(), "timeout")
  a:send "x"
  t.eq(select(2, waiting()), "timeout")
  t.eq(b:recv(1), "x")
  b:timeout(nil)
  local patient = netkit.promise(function() return b:recv() end)
  loop.sleep(0.03)
  a:send "late"
  t.eq(patient(), "late")
end)

netkit.pair_test("recv raises if it would have to queue in a place where it cannot wait", function(a, b)
  local first = netkit.promise(function() return b:recv() end)
  netkit.settle()
  for _ = 1, 2 do
    local ok, message = pcall(string.gsub, "x", "x", function() return b:recv() end)
    t.eq(ok, false)
    t.ok(message:find("cannot wait here: inside 'string.gsub'", 1, true), message)
  end
  a:send "to the first"
  t.eq(first(), "to the first")
  a:send "next"
  t.eq(b:recv(), "next")
end)

netkit.pair_test("after an interrupted receiver the next one continues", function(a, b)
  local ok, problem
  loop.fork(function() ok, problem = pcall(b.recv, b) end)
  local second = netkit.promise(function() return b:recv() end)
  netkit.settle()
  t.eq(loop.interrupt(b, "enough"), true)
  a:send "to the second"
  t.eq(second(), "to the second")
  t.eq({ ok, problem }, { false, "enough" })
end)

netkit.pair_test("a receiver that is queued behind another receiver has a timeout too", function(a, b)
  b:timeout(0.05)
  local first = netkit.promise(function() return b:recv(100) end)
  local second = netkit.promise(function() return b:recv(1) end)
  t.eq(select(2, second()), "timeout")
  t.eq(select(2, first()), "timeout")
  b:timeout(nil)
  a:send "z"
  t.eq(b:recv(), "z")
end)

netkit.pair_test("misuse raises an error with the call's name and the argument's number", function(a, b)
  t.raises("bad argument #2 to 'recv'", net.recv, b, "lines")
  -- Regression: `pcall(c.recv, …)` gave an error without the line of the program.
  t.raises("^[^\n]*net_recv_test.lua:%d+: bad argument #2 to 'recv' ", function()
    local _, message = pcall(b.recv, b, "lines")
    error(message, 0)
  end)
  for index, seconds in ipairs { { -1 }, { nil, -0.5 } } do
    local message = "bad argument #%d to 'timeout' (a number of seconds of at least 0, or nil, expected, got %s)"
    t.raises("^[^\n]*net_recv_test.lua:%d+: " .. message:format(index + 1, seconds[index]):gsub("%p", "%%%0") .. "$",
      function() b:timeout(seconds[1], seconds[2]) end)
  end
  t.raises("bad argument #2 to 'recv'", net.recv, b, -1)
  t.raises("bad argument #3 to 'recv'", net.recv, b, "until", "")
  local waiting = netkit.promise(function() return b:recv() end)
  netkit.settle()
  loop.fork(function() a:send "x" end)
  t.raises("to 'recv'", net.recv, b, "lines")
  t.eq(waiting(), "x")
  a:send "y"
  t.eq(b:recv(), "y", "the failed calls do not hold the connection")
end)

netkit.pair_test("a peer that sends without pause does not starve other tasks", function(a, b)
  local stop, received, most = false, 0, 0
  loop.fork(function() while not stop and a:send(("x"):rep(65536)) do end end)
  local reader = netkit.promise(function()
    while not stop do
      local data = b:recv()
      if not data then return end
      received = received + #data
    end
  end)
  -- The test counts bytes, because the time depends on the machine.
  while received < 20000000 do
    local before = received
    loop.sleep(0)
    most = math.max(most, received - before)
  end
  stop = true
  a:close()
  reader()
  t.ok(most <= 4 << 20, most .. " bytes were received in one turn")
end, { seconds = 60 })

-- Regression: the second receiver failed with "assertion failed!".
netkit.pair_test("concurrent receivers and concurrent senders take turns", function(a, b)
  local one = netkit.promise(function() return a:recv(3) end)
  local two = netkit.promise(function() return a:recv(3) end)
  netkit.settle()
  b:send "onetwo"
  t.eq({ one(), two() }, { "one", "two" })
  local much = ("m"):rep(4 << 20)
  local first = netkit.promise(function() return a:send(much) end)
  local second = netkit.promise(function() return a:send "second" end)
  t.eq(b:recv(#much) == much, true)
  t.eq(b:recv(6), "second")
  t.eq({ first(), second() }, { true, true })
end, { seconds = 30 })

-- Regression: waking the coroutine of a task that waited for a socket or a name made it continue with the wrong values.
netkit.test("waking the coroutine of a task does not end its recv", function()
  local left, right = socket.pair()
  local a, b = t.ok(net.wrap(left)), t.ok(net.wrap(right))
  local _ <close> = netkit.closing(a, b)
  local co
  local got = netkit.promise(function()
    co = loop.running()
    return b:recv()
  end)
  netkit.settle()
  t.is_nil(loop.wakeup(co, "timeout"))
  a:send "right"
  t.eq(got(), "right")
end)

t.finish()
