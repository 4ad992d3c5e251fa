-- Calls inside a loop over events: deleting and adding registrations, closing sockets, leaving the loop, waiting again.
-- luacheck: ignore 512 (some tests leave a loop at once)

local t = require "tests.kit"
local lio = require "lio"
local socket = require "lio.socket"
local loopback = require "tests.kit.loopback"

local events, READ <const> = loopback.events, lio.SELECT_READ

-- Returns `count` socket pairs { a = …, b = … }. Each `b` is readable, and is registered with its index as udata.
local function ready_pairs(sel, count)
  local ends = {}
  for i = 1, count do
    local a, b = socket.pair()
    a:send "x"
    assert(sel:event_add(b, READ, i))
    ends[i] = { a = a, b = b }
  end
  return setmetatable(ends, { __close = function()
    for _, pair in pairs(ends) do pair.a:close() pair.b:close() end
  end })
end

local function visited(sel, each)
  local list = {}
  for i in sel:wait(5) do
    list[#list + 1] = i
    each(i)
  end
  return list
end

t.test("deleting another ready registration suppresses its event, and the other events are delivered", function()
  local sel <close> = lio.create()
  local ends <close> = ready_pairs(sel, 4)
  local dropped
  local list = visited(sel, function(i)
    if dropped then return end
    dropped = i % 4 + 1
    t.ok(sel:event_del(ends[dropped].b))
  end)
  t.eq(#list, 3)
  for _, i in ipairs(list) do t.ok(i ~= dropped) end
  t.eq(sel:count(), 3)
end)

t.test("closing another ready socket suppresses its event and removes its registration", function()
  local sel <close> = lio.create()
  local ends <close> = ready_pairs(sel, 4)
  local first = true
  local list = visited(sel, function(i)
    if not first then return end
    first = false
    for j = 1, 4 do
      if j ~= i then ends[j].b:close() end
    end
  end)
  t.eq(#list, 1)
  t.eq(sel:count(), 1)
  t.eq({ sel:event_del(ends[list[1] % 4 + 1].b) },
    { nil, "event_del: descriptor is not registered", "not found" })
end)

t.test("after deleting, closing or detaching the reported socket in the loop, no event follows", function()
  local sel <close> = lio.create()
  local ends <close> = ready_pairs(sel, 3)
  visited(sel, function(i)
    if i == 1 then sel:event_del(ends[1].b) end
    if i == 2 then ends[2].b:close() end
    if i == 3 then loopback.close(ends[3].b:detach()) end
  end)
  t.eq(sel:count(), 0)
  t.eq(events(sel, 0.02), {})
end)

t.test("removing the interest in the loop suppresses an event that has not been delivered", function()
  local sel <close> = lio.create()
  local ends <close> = ready_pairs(sel, 4)
  local list = visited(sel, function(i)
    for j = 1, 4 do
      if j ~= i then sel:event_mod(ends[j].b, 0) end
    end
  end)
  t.eq(#list, 1)
end)

t.test("a udata that is set in the loop is delivered with the event", function()
  local sel <close> = lio.create()
  local ends <close> = ready_pairs(sel, 2)
  local list = visited(sel, function(i)
    if type(i) ~= "number" then return end
    sel:event_mod(ends[3 - i].b, READ, "renamed")
  end)
  t.eq(#list, 2)
  t.eq(list[2], "renamed")
end)

t.test("a registration added in the loop is reported by the next wait at the latest", function()
  local sel <close> = lio.create()
  local ends <close> = ready_pairs(sel, 1)
  local a, b = socket.pair()
  a:send "x"
  local list = visited(sel, function()
    if b then sel:event_add(b, READ, "late") end
    ends.late, b = { a = a, b = b }, nil
  end)
  if not list[2] then list[2] = events(sel, 5).late and "late" end
  t.eq(list, { 1, "late" })
end)

t.test("a socket that reuses a closed socket's number within a batch does not get its event", function()
  local sel <close> = lio.create()
  local ends <close> = ready_pairs(sel, 4)
  local first = true
  local list = visited(sel, function(i)
    if not first then return end
    first = false
    local victim = ends[i % 4 + 1]
    local number = loopback.number(victim.b:handle())
    victim.b:close()
    local a, b = socket.pair()
    t.ok(loopback.number(a:handle()) == number, "the number is not reused")
    sel:event_add(a, READ, "successor")
    ends.new = { a = a, b = b }
  end)
  t.eq(#list, 3)
  for _, i in ipairs(list) do t.ok(i ~= "successor") end
  ends.new.b:send "y"
  t.eq(events(sel, 5).successor, READ)
end)

t.test("a foreign number that is closed, reused and added again gets no event for the closed descriptor", function()
  local sel <close> = lio.create()
  local one, a = loopback.foreign()
  local two, b = loopback.foreign()
  a:send "x"
  b:send "x"
  sel:event_add(one, READ, one)
  sel:event_add(two, READ, two)
  local order = {}
  local fresh, c
  for udata in sel:wait(5) do
    order[#order + 1] = udata
    if #order == 1 then
      local other = udata == one and two or one
      loopback.close(other)
      fresh, c = loopback.foreign()
      t.ok(fresh == other, "the number is not reused")
      t.ok(sel:event_add(fresh, READ, "fresh"))
    end
  end
  t.eq(#order, 1)
  t.eq(sel:count(), 2)
  c:send "y"
  t.eq(events(sel, 5).fresh, READ)
  sel:close()
  loopback.close(one)
  loopback.close(two)
  a:close() b:close() c:close()
end)

t.test("events that are left after break, error, return or a dead coroutine are delivered later", function()
  local sel <close> = lio.create()
  local ends <close> = ready_pairs(sel, 6)
  for _ in sel:wait(5) do break end
  t.raises("stop", function()
    for _ in sel:wait(5) do error "stop" end
  end)
  local function first()
    for i in sel:wait(5) do return i end
  end
  t.ok(first())
  local co = coroutine.create(function()
    for _ in sel:wait(5) do error "dead" end
  end)
  t.eq(coroutine.resume(co), false)
  coroutine.wrap(function()
    for _ in sel:wait(5) do coroutine.yield() end
  end)()
  collectgarbage()
  local _, count = events(sel, 5)
  t.eq(count, 6)
  for _, pair in ipairs(ends) do pair.b:recv() end
  t.eq(events(sel, 0), {})
end)

t.test("after break, foreign descriptors are reported only if they are still ready", function()
  local sel <close> = lio.create()
  local one, a = loopback.foreign()
  local two, b = loopback.foreign()
  a:send "x"
  b:send "x"
  sel:event_add(one, READ, one)
  sel:event_add(two, READ, two)
  for _ in sel:wait(5) do break end
  t.eq(events(sel, 5), { [one] = READ, [two] = READ })
  local seen
  for udata in sel:wait(5) do seen = udata break end
  local other = seen == one and two or one
  loopback.borrow(other, function(s) return s:recv() end)
  t.eq(events(sel, 0.02), { [seen] = READ }, "the other descriptor was read meanwhile")
  sel:close()
  loopback.close(one)
  loopback.close(two)
  a:close() b:close()
end)

t.test("an iterator that is called without for, or never called, loses no event", function()
  local sel <close> = lio.create()
  local ends <close> = ready_pairs(sel, 3)
  sel:wait(5)
  local iterate = sel:wait(5)
  t.ok(iterate())
  t.eq(select(2, events(sel, 5)), 3)
  t.eq(#ends, 3)
end)

t.test("waiting inside the loop is an error, and the loop continues", function()
  local sel <close> = lio.create()
  local ends <close> = ready_pairs(sel, 3)
  local list = visited(sel, function()
    t.raises("wait: called inside the loop over an earlier wait of the same selector",
      sel.wait, sel, 0)
  end)
  t.eq(#list, 3)
  t.eq(select(2, events(sel, 5)), #ends)
end)

t.test("waiting inside the loop from another coroutine is an error too", function()
  local sel <close> = lio.create()
  local ends <close> = ready_pairs(sel, 2)
  local list = visited(sel, function()
    local co = coroutine.wrap(function()
      t.raises("wait: called inside the loop", sel.wait, sel, 0)
      return true
    end)
    t.ok(co())
  end)
  t.eq(#list, #ends)
end)

-- Waits in a loop, and then waits again. If `leave` is true, leaves each loop early and returns 0; otherwise waits
-- inside a loop and returns the results of pcall.
local CODE <const> = [[
  local sel, leave = ...
  local before = 0
  for _ = 1, 3 do
    do
      local kept = sel:wait(5)
      for _ in kept do
        if leave then break end
        before = before + 1
      end
    end
    for _ in sel:wait(5) do
      if leave then break end
      return pcall(sel.wait, sel, 0)
    end
  end
  return before
]]

t.test("after a loop was left, wait may be called, even in code without debug information", function()
  for _, stripped in ipairs { false, true } do
    local sel <close> = lio.create()
    local ends <close> = ready_pairs(sel, 3)
    local code = load(string.dump(load(CODE), stripped))
    t.eq(code(sel, true), 0)
    local waited, message = code(sel, false)
    t.eq(waited, false)
    t.ok(message:find("called inside the loop", 1, true), message)
    t.eq(select(2, events(sel, 5)), #ends)
  end
end)

t.test("after an error in nested calls has left a loop, wait may be called", function()
  local sel <close> = lio.create()
  local ends <close> = ready_pairs(sel, 2)
  local function deep(level)
    if level > 0 then return (deep(level - 1)) end
    for _ in sel:wait(5) do error "left" end
  end
  for _ = 1, 3 do
    t.eq(pcall(deep, 50), false)
    t.eq(select(2, events(sel, 5)), #ends)
  end
end)

t.test("a wait on another selector is possible inside the loop", function()
  local one <close> = lio.create()
  local two <close> = lio.create()
  local ends <close> = ready_pairs(one, 2)
  local others <close> = ready_pairs(two, 2)
  local list = visited(one, function()
    t.eq(select(2, events(two, 5)), #others)
  end)
  t.eq(#list, #ends)
end)

t.test("a handler may read and write from coroutines that yield across the loop", function()
  local sel <close> = lio.create()
  local ends <close> = ready_pairs(sel, 3)
  local read = {}
  local handlers = {}
  for i = 1, 3 do
    handlers[i] = coroutine.wrap(function()
      while true do
        read[i] = ends[i].b:recv()
        coroutine.yield()
      end
    end)
  end
  for i in sel:wait(5) do handlers[i]() end
  t.eq(read, { "x", "x", "x" })
  t.eq(events(sel, 0), {})
end)

t.test("closing the selector inside its loop ends the loop", function()
  local sel = lio.create()
  local ends <close> = ready_pairs(sel, 3)
  local list = visited(sel, function() sel:close() end)
  t.eq(#list, 1)
  t.raises("selector is already closed", sel.wait, sel, 0)
  t.eq(#ends, 3)
end)

t.finish()
