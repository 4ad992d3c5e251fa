-- Each call of bee.select returns what it returns in bee.lua: calls that replace a registration, calls that always
-- return true, and calls on a closed selector.

local t = require "tests.kit"
local lio = require "lio"
local select_ = require "bee.select"
local socket = require "bee.socket"
local loopback = require "tests.kit.loopback"

local READ <const>, WRITE <const> = select_.SELECT_READ, select_.SELECT_WRITE
local events = loopback.events

local function pair()
  local a, b = socket.pair()
  return a, b
end

t.test("a selector is a userdata", function()
  local s = select_.create()
  t.eq(type(s), "userdata")
  t.eq({ s:close() }, { true })
end)

t.test("event_add of a registered descriptor replaces mask and udata", function()
  local s <close> = select_.create()
  local a, b = pair()
  t.eq({ s:event_add(b, READ, "first") }, { true })
  t.eq({ s:event_add(b, WRITE, "second") }, { true })
  a:send "x"
  t.eq(events(s, 5000), { second = WRITE })
  t.eq({ s:event_add(b, READ | WRITE, "third") }, { true })
  t.eq(events(s, 5000), { third = READ | WRITE })
  t.eq({ s:event_add(b, READ) }, { true })
  t.eq(events(s, 5000), { [b] = READ }, "the udata is the socket again")
  t.eq({ s:event_add(b, 0, "silent") }, { true })
  t.eq(events(s, 10), {})
  t.eq({ s:event_del(b) }, { true })
  a:close() b:close()
end)

t.test("a wait without a timeout raises an error if no registration has events", function()
  local s <close> = select_.create()
  local a, b = pair()
  t.eq({ s:event_add(b, 0) }, { true })
  for _, timeout in ipairs { -1, -0.5 } do
    t.raises("bee_select_test.lua:%d+: no open sockets to check and no timeout set", function() s:wait(timeout) end)
  end
  t.raises("no open sockets to check and no timeout set", function() s:wait() end)
  t.eq(events(s, 10), {})
  t.eq({ s:event_mod(b, WRITE, "b") }, { true })
  t.eq(events(s), { b = WRITE })
  a:close() b:close()
end)

t.test("event_add with a handle replaces the registration, even for descriptors of other libraries", function()
  local s <close> = select_.create()
  local a, b = pair()
  t.eq({ s:event_add(b, READ, "socket") }, { true })
  t.eq({ s:event_add(b:handle(), READ, "handle") }, { true })
  a:send "x"
  t.eq(events(s, 5000), { handle = READ })
  a:close() b:close()
  local handle, peer = loopback.foreign()
  t.eq({ s:event_add(handle, READ, 1) }, { true })
  t.eq({ s:event_add(handle, READ, 2) }, { true })
  peer:send "x"
  t.eq(events(s, 5000), { [2] = READ })
  t.eq({ s:event_add(handle, WRITE, 3) }, { true })
  t.eq(events(s, 5000), { [3] = WRITE })
  -- The number now belongs to another file, so this call registers the file and replaces nothing.
  loopback.close(handle)
  local successor, other = loopback.foreign()
  t.ok(successor == handle, "the number is used again")
  t.eq({ s:event_add(successor, READ, 4) }, { true })
  t.eq(events(s, 10), {})
  other:send "y"
  t.eq(events(s, 5000), { [4] = READ })
  s:event_del(successor)
  loopback.close(successor)
  peer:close() other:close()
end)

t.test("event_add inside the loop changes the udata from the next wait on", function()
  local s <close> = select_.create()
  local a, b = pair()
  a:send "x"
  local order = {}
  s:event_add(b, READ, function()
    order[#order + 1] = "old"
    s:event_add(b, READ, function() order[#order + 1] = "new" end)
  end)
  for _ = 1, 3 do
    for f in s:wait(5000) do f() end
  end
  t.eq(order, { "old", "new", "new" })
  a:close() b:close()
end)

t.test("event_del of a descriptor that is not registered returns true", function()
  local s <close> = select_.create()
  local a, b = pair()
  t.eq({ s:event_del(b) }, { true })
  s:event_add(b, READ)
  t.eq({ s:event_del(b) }, { true })
  t.eq({ s:event_del(b) }, { true })
  b:close()
  t.eq({ s:event_del(b) }, { true }, "the descriptor is closed")
  a:close()
end)

t.test("a udata may be a full userdata", function()
  local s <close> = select_.create()
  local a, b = pair()
  a:send "x"
  for _, udata in ipairs { io.stdout, a, s } do
    s:event_add(b, READ, udata)
    t.eq(events(s, 5000), { [udata] = READ })
  end
  a:close() b:close()
end)

t.test("a closed selector can be used again, any number of times", function()
  local s = select_.create()
  local a, b = pair()
  a:send "x"
  for i = 1, 3 do
    t.eq({ s:event_add(b, READ, i) }, { true })
    t.eq(events(s, 5000), { [i] = READ })
    t.eq({ s:close() }, { true })
    t.eq({ s:close() }, { true })
  end
  t.eq({ s:event_del(b) }, { true })
  t.is_nil(s:event_mod(b, READ))
  t.eq(events(s, 0), {}, "its registrations are removed")
  t.raises("no open sockets to check and no timeout set", function() s:wait() end)
  s:close()
  a:close() b:close()
end)

t.test("a closed selector keeps no descriptor", function()
  local _, before = t.descriptors()
  local list = {}
  for i = 1, 20 do
    local s = select_.create()
    s:close()
    s:event_del(1)
    s:close()
    list[i] = s
  end
  t.eq(select(2, t.descriptors()), before)
  t.eq(#list, 20)
end)

t.test("close inside the loop ends the loop", function()
  local s = select_.create()
  local count = 0
  local ends = {}
  for i = 1, 4 do
    local a, b = pair()
    a:send "x"
    s:event_add(b, READ, i)
    ends[i] = { a, b }
  end
  for _ in s:wait(5000) do
    count = count + 1
    s:close()
  end
  t.eq(count, 1)
  t.eq({ s:event_add(ends[1][2], READ, "again") }, { true })
  t.eq(events(s, 5000), { again = READ })
  s:close()
  for _, e in ipairs(ends) do e[1]:close() e[2]:close() end
end)

-- The iterator of a loop must not continue with the registrations of the reopened selector.
t.test("a loop over a selector ends when the selector is closed and used again inside it", function()
  local s = select_.create()
  local ends, outer, inner = {}, 0, {}
  for i = 1, 4 do
    local a, b = pair()
    a:send "x"
    s:event_add(b, READ, i)
    ends[i] = { a, b }
  end
  for _ in s:wait(5000) do
    outer = outer + 1
    s:close()
    for i = 1, 4 do t.eq({ s:event_add(ends[i][2], READ, -i) }, { true }) end
    for udata in s:wait(5000) do
      inner[#inner + 1] = udata
      break
    end
  end
  t.eq(outer, 1)
  t.eq(#inner, 1)
  t.ok(inner[1] < 0)
  local found, count = events(s, 5000)
  t.eq(count, 4)
  t.eq(found, { [-1] = READ, [-2] = READ, [-3] = READ, [-4] = READ })
  s:close()
  for _, e in ipairs(ends) do e[1]:close() e[2]:close() end
end)

-- The collector can run finalizers while event_add opens a closed selector again. These finalizers use the selector.
t.test("a finalizer may use the selector that is being opened again", function()
  local s = select_.create()
  local a, b = pair()
  a:send "x"
  for _ = 1, 200 do
    s:close()
    for _ = 1, 20 do
      setmetatable({}, { __gc = function() s:event_add(b, READ, "finalizer") end })
    end
    collectgarbage "step"
    t.eq({ s:event_add(b, READ, "program") }, { true })
    collectgarbage()
    local found, count = events(s, 5000)
    t.eq(count, 1)
    t.ok(found.program or found.finalizer)
  end
  s:close()
  collectgarbage()
  s:close()
  a:close() b:close()
end)

t.test("a selector without references is collected, with its inner selector", function()
  local _, before = t.descriptors()
  for _ = 1, 10 do
    local a, b = pair()
    local s = select_.create()
    s:close()
    s:event_add(b, READ, s)
    a:close() b:close()
  end
  collectgarbage()
  collectgarbage()
  t.eq(select(2, t.descriptors()), before)
end)

t.test("timeouts are in milliseconds; a wait without a timeout or with a negative one has no limit", function()
  local s <close> = select_.create()
  local began = lio.now()
  t.eq(events(s, 60), {})
  t.ok(lio.now() - began >= 0.06)
  t.eq(events(s, 0.05), {}, "a fraction of a millisecond")
  local a, b = pair()
  s:event_add(b, READ, "b")
  a:send "x"
  t.eq(events(s), { b = READ })
  t.eq(events(s, -1), { b = READ })
  a:close() b:close()
end)

t.finish()
