-- The system calls of the selector, counted by strace. For lio's sockets, level-triggered events need only the
-- epoll_ctl that adds the socket; a foreign descriptor is armed again once per event.

local t = require "tests.kit"

if os.execute "strace -o /dev/null true 2>/dev/null" ~= true then
  t.test("strace is installed and may trace", function()
    error "install strace; this suite counts system calls with it"
  end)
  t.finish()
end

-- Runs Lua code in this host under strace. Returns a table that maps the names of the system calls in `calls` to their
-- counts.
local function count(calls, code)
  local dir = t.tmp()
  local script = t.write(dir .. "/script.lua", [[
    local lio = require "lio"
    local socket = require "lio.socket"
    local sel = lio.create()
  ]] .. code)
  local log = dir .. "/log"
  local result = t.run(string.format("strace -f -o %s -e trace=%s %s %s", log, calls, t.traced_lio(), script))
  t.eq(result.code, 0, result.err)
  local counts = {}
  for line in io.lines(log) do
    local call = line:match "^%d+ +([%w_]+)%("
    if call then counts[call] = (counts[call] or 0) + 1 end
  end
  return counts
end

t.test("with 1000 partial reads of lio's sockets, epoll_ctl is called only to add the sockets", function()
  local counts = count("epoll_ctl", [[
    ENDS = {}
    for i = 1, 10 do
      local a, b = socket.pair()
      ENDS[i] = { a, b }
      sel:event_add(b, 1, b)
      a:send(("x"):rep(100))
    end
    local reads = 0
    while reads < 1000 do
      for b in sel:wait(5) do
        assert(b:recv(1) == "x")
        reads = reads + 1
      end
    end
    for _ in sel:wait(0) do error "nothing is left" end
  ]])
  t.eq(counts.epoll_ctl, 10)
end)

t.test("each short read needs one wait and one recv, and no other call", function()
  local counts = count("all", [[
    local a, b = socket.pair()
    sel:event_add(b, 1, b)
    for _ = 1, 500 do
      a:send "request"
      for s in sel:wait(5) do assert(s:recv() == "request") end
    end
  ]])
  local function about(call)
    t.ok((counts[call] or 0) <= 520, call .. ": " .. (counts[call] or 0))
  end
  about "epoll_wait"
  about "recvfrom"
  about "sendto"
  t.ok((counts.poll or 0) < 5, "poll: " .. (counts.poll or 0))
  t.ok((counts.epoll_ctl or 0) < 5)
end)

t.test("if a handler reads nothing from lio's sockets, epoll_ctl is not called", function()
  local counts = count("epoll_ctl", [[
    local a, b = socket.pair()
    sel:event_add(b, 3, b)
    a:send "x"
    for _ = 1, 200 do
      for _, events in sel:wait(5) do assert(events == 3) end
    end
  ]])
  t.eq(counts.epoll_ctl, 1)
end)

t.test("changing the interest of a TCP socket does not call epoll_ctl", function()
  local counts = count("epoll_ctl", [[
    local listener = socket.create "tcp"
    listener:bind("127.0.0.1", 0)
    listener:listen()
    local c = socket.create "tcp"
    c:connect(listener:info "socket")
    sel:event_add(listener, 1)
    for _ in sel:wait(5) do end
    local s = assert(listener:accept())
    sel:event_add(s, 0)
    for i = 1, 200 do assert(sel:event_mod(s, i % 4)) end
  ]])
  t.eq(counts.epoll_ctl, 2)
end)

t.test("a foreign descriptor is armed again once per delivered event", function()
  local counts = count("epoll_ctl", [[
    local a, b = socket.pair()
    local handle = b:detach()
    sel:event_add(handle, 1)
    a:send "x"
    for _ = 1, 100 do
      local events = 0
      for _ in sel:wait(5) do events = events + 1 end
      assert(events == 1)
    end
  ]])
  t.ok(counts.epoll_ctl <= 101, counts.epoll_ctl)
end)

t.test("an idle wait makes one system call, regardless of the number of registrations", function()
  local counts = count("epoll_wait,epoll_ctl", [[
    local list = {}
    for i = 1, 100 do
      list[i] = socket.create "udp"
      list[i]:bind("127.0.0.1", 0)
      sel:event_add(list[i], 1)
    end
    for _ in sel:wait(0.2) do error "nothing happens" end
  ]])
  t.eq(counts, { epoll_ctl = 100, epoll_wait = 1 })
end)

t.finish()
