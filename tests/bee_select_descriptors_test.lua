-- bee.select: descriptor numbers, closed descriptors, and calls inside the loop. The comment before each test describes
-- what bee.lua does.

local t = require "tests.kit"
require "lio"
local select_ = require "bee.select"
local socket = require "bee.socket"
local loopback = require "tests.kit.loopback"

local READ <const> = select_.SELECT_READ
local events = loopback.events

-- Opens descriptors until the number of a descriptor is at least `least`. Returns a list of these descriptors; they are
-- closed when the list goes out of scope.
local function up_to(least)
  local list = {}
  repeat
    local s = assert(socket.create "udp")
    list[#list + 1] = s
  until loopback.number(s:handle()) >= least
  return setmetatable(list, { __close = function()
    for _, s in ipairs(list) do s:close() end
  end })
end

-- bee.lua: these descriptors do not fit into an fd_set, so either their events are lost and the wait uses 100 % CPU, or
-- the process crashes.
t.test("events of descriptors from 1024 on are reported, and an idle wait uses no CPU", function()
  local fill <close> = up_to(1020)
  local ends = {}
  local s <close> = select_.create()
  for i = 1, 20 do
    local a, b = socket.pair()
    ends[i] = { a, b }
    s:event_add(b, READ, i)
  end
  t.ok(loopback.number(ends[20][2]:handle()) > 1024)
  t.eq(events(s, 10), {})
  for i = 1, 20 do
    ends[i][1]:send "x"
    t.eq(events(s, 5000), { [i] = READ })
    ends[i][2]:recv()
  end
  local cpu = os.clock()
  t.eq(events(s, 500), {})
  t.ok(os.clock() - cpu < 0.05, "an idle wait uses CPU")
  for _, pair in ipairs(ends) do pair[1]:close() pair[2]:close() end
  t.ok(#fill > 0)
end)

-- bee.lua: descriptor 0 is treated as "none", so its events are never reported, and the wait does not block.
t.test("events of descriptor 0 are reported", function()
  local path = t.write(t.tmp() .. "/zero.lua", [[
    require "lio"
    local select_ = require "bee.select"
    local s = select_.create()
    assert(s:event_add(0, select_.SELECT_READ, "zero"))
    for udata, events in s:wait(10000) do print(udata, events) end
    assert(s:event_del(0))
    assert(s:event_add(io.stdin, select_.SELECT_READ, "stdin"))
    for udata, events in s:wait(10000) do print(udata, events) end
    print(io.read "a")
  ]])
  local result = t.run("echo hello | " .. t.lio() .. " " .. path)
  t.eq(result.out, "zero\t1\nstdin\t1\nhello\n\n", result.err)
end)

-- bee.lua: event_del of another ready descriptor ends the loop, so only one of four events is delivered.
t.test("event_del of another descriptor inside the loop keeps the other events", function()
  local s <close> = select_.create()
  local ends = {}
  for i = 1, 4 do
    local a, b = socket.pair()
    ends[i] = { a, b }
    s:event_add(b, READ, i)
    a:send "x"
  end
  local delivered, deleted = 0, nil
  for i in s:wait(5000) do
    delivered = delivered + 1
    t.ok(i ~= deleted)
    if not deleted then
      deleted = i % 4 + 1
      s:event_del(ends[deleted][2])
    end
  end
  t.eq(delivered, 3)
  for _, pair in ipairs(ends) do pair[1]:close() pair[2]:close() end
end)

-- bee.lua: a wait inside the loop ends the outer loop without an error.
t.test("a nested wait raises, and the outer loop continues", function()
  local s <close> = select_.create()
  local ends = {}
  for i = 1, 4 do
    local a, b = socket.pair()
    ends[i] = { a, b }
    s:event_add(b, READ, i)
    a:send "x"
  end
  local delivered = 0
  for _ in s:wait(5000) do
    delivered = delivered + 1
    t.raises("inside the loop", s.wait, s, 0)
  end
  t.eq(delivered, 4)
  for _, pair in ipairs(ends) do pair[1]:close() pair[2]:close() end
end)

-- bee.lua: every later wait raises EBADF.
t.test("a descriptor that is closed without event_del loses its registration", function()
  local s <close> = select_.create()
  local handle, a = loopback.foreign()
  local b, c = socket.pair()
  s:event_add(handle, READ, "gone")
  s:event_add(c, READ, "there")
  a:send "x"
  t.eq(events(s, 5000), { gone = READ })
  loopback.close(handle)
  b:send "x"
  for _ = 1, 3 do t.eq(events(s, 5000), { there = READ }) end
  t.is_nil(s:event_mod(handle, READ), "the registration was removed")
  a:close() b:close() c:close()
end)

-- bee.lua: the events of the new descriptor have the old udata.
t.test("a new descriptor with a reused number is not registered", function()
  local s <close> = select_.create()
  local handle, a = loopback.foreign()
  s:event_add(handle, READ, "old")
  a:send "x"
  t.eq(events(s, 5000), { old = READ })
  loopback.close(handle)
  local successor, b = loopback.foreign()
  t.ok(successor == handle, "the number is used again")
  b:send "y"
  t.eq(events(s, 30), {}, "the successor is not registered")
  t.ok(s:event_add(successor, READ, "new"))
  t.eq(events(s, 5000), { new = READ })
  s:event_del(successor)
  loopback.close(successor)
  a:close() b:close()
end)

-- bee.lua: event_mod returns true, and an event of the descriptor ends the iteration.
t.test("event_mod of an unknown descriptor fails and registers nothing", function()
  local s <close> = select_.create()
  local a, b = socket.pair()
  local c, d = socket.pair()
  t.eq({ s:event_mod(b, READ) }, { nil, "event_mod: descriptor is not registered", "not found" })
  s:event_add(d, READ, "d")
  a:send "x"
  c:send "x"
  t.eq(events(s, 5000), { d = READ })
  a:close() b:close() c:close() d:close()
end)

t.finish()
