-- Coroutines of lio.coroutine that wait for sockets and timers: generators that read a connection, and what happens to
-- sockets, timers and name lookups when coroutines are closed or killed, or exceed a time limit.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local kit = require "tests.kit.coroutine_places"
local loop = require "lio.loop"
local net = require "lio.net"
local task = require "lio.task"
local c = require "lio.coroutine"

local pack <const> = table.pack

-- Sends `data` in pieces of 1 to `most` bytes, with a round of the loop between pieces.
local function send_split(connection, data, most)
  local seed, from = #data, 1
  while from <= #data do
    seed = seed * 1103515245 + 12345 & 0x7fffffff
    local n = (seed >> 8) % most + 1
    assert(connection:send(data:sub(from, from + n - 1)))
    from = from + n
    loop.sleep(0)
  end
end

-- Returns a generator of the lines of a connection. It reads from a generator of bytes, which reads from a generator of
-- pieces.
local function lines_of(connection)
  local pieces = c.wrap(function()
    while true do
      local piece = connection:recv()
      if not piece then return end
      c.yield(piece)
    end
  end)
  local bytes = c.wrap(function()
    for piece in pieces do
      for byte in piece:gmatch "." do c.yield(byte) end
    end
  end)
  return c.wrap(function()
    local line = {}
    for byte in bytes do
      if byte == "\n" then
        c.yield(table.concat(line))
        line = {}
      else
        line[#line + 1] = byte
      end
    end
    if #line > 0 then c.yield(table.concat(line)) end
  end)
end

-- Returns a generator of the words that a connection receives.
local function words_of(connection)
  return c.wrap(function()
    local rest = ""
    while true do
      local piece = connection:recv()
      if not piece then break end
      rest = rest .. piece
      for word in rest:gmatch "(%S+)%s" do c.yield(word) end
      rest = rest:match "%S*$"
    end
    if rest ~= "" then c.yield(rest) end
  end)
end

netkit.pair_test("a for loop may iterate over a generator that reads a socket", function(a, b)
  local list = {}
  for i = 1, 300 do list[i] = "word" .. i end
  loop.fork(function()
    send_split(a, table.concat(list, " "), 7)
    a:shutdown "w"
  end)
  local got = {}
  for word in words_of(b) do got[#got + 1] = word end
  t.eq(got, list)
end)

netkit.pair_test("the innermost of three nested generators may read a socket", function(a, b)
  local list = {}
  for i = 1, 99 do list[i] = ("line %d "):format(i):rep(i % 4) end
  loop.fork(function()
    send_split(a, table.concat(list, "\n"), 11)
    a:shutdown "w"
  end)
  local got = {}
  for line in lines_of(b) do got[#got + 1] = line end
  t.eq(got, list)
end)

netkit.test("fifty connections may use generators on both sides at the same time", function()
  local listener <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local server = net.serve(listener, function(connection)
    for word in words_of(connection) do
      if not connection:send(word:upper(), "\n") then return end
    end
  end)
  local clients = {}
  for i = 1, 50 do
    clients[i] = netkit.promise(function()
      local connection <close> = t.ok(net.connect("127.0.0.1", port))
      local got = {}
      local replies = c.wrap(function()
        while true do c.yield(connection:recv "line") end
      end)
      for j = 1, 20 do
        send_split(connection, ("c%d-%d "):format(i, j), 3)
        got[j] = replies()
      end
      return table.concat(got, " ")
    end)
  end
  for i = 1, 50 do
    local want = {}
    for j = 1, 20 do want[j] = ("C%d-%d"):format(i, j) end
    t.eq(clients[i](), table.concat(want, " "))
  end
  server:stop(0)
end)

netkit.test("accept, connect, send and recv all wait inside coroutines", function()
  local listener <close> = t.ok(net.listen("127.0.0.1", 0))
  local _, port = listener:address()
  local data = ("0123456789"):rep(1 << 19)
  local accepted = c.wrap(function()
    while true do c.yield(listener:accept()) end
  end)
  local sent = netkit.promise(c.wrap(function()
    local client = t.ok(net.connect("127.0.0.1", port))
    local n = pack(client:send(data))
    client:close()
    return n[1]
  end))
  local connection <close> = t.ok(accepted())
  local read = c.wrap(function()
    local total = {}
    for piece in c.wrap(function()
      while true do c.yield((connection:recv(1 << 16)) or (connection:recv())) end
    end) do total[#total + 1] = piece end
    return table.concat(total)
  end)
  local got = read()
  t.eq(#got, #data)
  t.ok(got == data)
  t.eq(sent(), true)
end)

netkit.pair_test("a read in a generator fails after its timeout, and the connection stays usable", function(a, b)
  b:timeout(0.01)
  local read = c.wrap(function()
    while true do c.yield(b:recv "line") end
  end)
  local data, message = read()
  t.is_nil(data)
  t.eq(message, "timeout")
  a:send "late\n"
  t.eq(read(), "late")
end)

netkit.pair_test("close of a coroutine that reads a connection allows another task to read it", function(a, b)
  local co = c.create(function() b:recv(10) end)
  local told = netkit.promise(c.resume, co)
  netkit.settle()
  t.eq(c.status(co), "waiting")
  t.eq(c.close(co), true)
  t.eq(pack(told()), { false, "coroutine was closed", n = 2 })
  local next_reader = netkit.promise(c.wrap(function() return b:recv(5) end))
  netkit.settle()
  a:send "fresh"
  t.eq(next_reader(), "fresh")
end)

netkit.pair_test("close of a connection wakes a generator that reads it", function(_, b)
  local got = netkit.promise(c.wrap(function()
    for piece in c.wrap(function()
      local piece, message = b:recv()
      c.yield(piece or message)
    end) do return piece end
  end))
  netkit.settle()
  b:close()
  t.eq(got(), "closed")
end)

netkit.test("a sleep leaves no timer if its coroutine is closed or its task is killed", function()
  local timers = require("lio.net.driver").of(loop.net).timers
  local before = timers:next()
  local second = false
  local co = c.create(function()
    loop.sleep(0.001)
    second = true
    loop.sleep(5000)
  end)
  local told = netkit.promise(c.resume, co)
  local own = loop.fork(function() c.wrap(c.wrap(function() loop.sleep(6000) end))() end)
  while not second do loop.sleep(0.001) end
  t.eq(c.close(co), true)
  t.eq(loop.kill(own), true)
  t.eq(select(2, told()), "coroutine was closed")
  t.near(timers:next(), before, 1000, "seconds to the next timer")
end)

t.test("a loop ends by itself after the waiting coroutines have been closed", function()
  local clock = os.time()
  loop.run(function()
    local members = {}
    for i = 1, 20 do
      members[i] = c.create(function()
        c.wrap(function()
          if i % 2 == 0 then return loop.sleep(1000) end
          local listener <close> = t.ok(net.listen("127.0.0.1", 0))
          listener:accept()
        end)()
      end)
      loop.fork(c.resume, members[i])
    end
    netkit.settle()
    for i = 1, 20 do t.eq(c.close(members[i]), true) end
  end)
  t.ok(os.time() - clock < 100)
  t.eq(task.count(), 0)
end)

netkit.pair_test("killing a task that reads in nested coroutines closes the innermost variables first", function(a, b)
  local log = {}
  local function level(n)
    local _ <close> = kit.guard(function() log[#log + 1] = n end)
    if n == 0 then return b:recv(1) end
    local piece = c.wrap(level)(n - 1)
    return piece
  end
  local own = loop.fork(level, 5)
  netkit.settle()
  t.eq(loop.kill(own), true)
  t.eq(log, { 0, 1, 2, 3, 4, 5 })
  a:send "x"
  t.eq(b:recv(1), "x", "the next reader gets the byte")
end)

netkit.test("coroutines may wait for datagrams and for names", function()
  local mine <close> = t.ok(net.udp("127.0.0.1", 0))
  local theirs <close> = t.ok(net.udp("127.0.0.1", 0))
  local _, port = mine:address()
  local received = netkit.promise(c.wrap(function()
    local list = {}
    for data in c.wrap(function()
      while true do c.yield((mine:recvfrom())) end
    end) do
      list[#list + 1] = data
      if data == "end" then return list end
    end
  end))
  c.wrap(function()
    t.ok(net.resolve "localhost")
    for _, data in ipairs { "one", "two", "end" } do theirs:sendto(data, "127.0.0.1", port) end
  end)()
  t.eq(received(), { "one", "two", "end" })
end)

t.finish()
