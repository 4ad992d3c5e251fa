-- Selectors with many descriptors, over many cycles; and which references keep objects from being collected.

local t = require "tests.kit"
local lio = require "lio"
local socket = require "lio.socket"
local loopback = require "tests.kit.loopback"

local events, READ <const>, WRITE <const> = loopback.events, lio.SELECT_READ, lio.SELECT_WRITE

local function collect()
  collectgarbage()
  collectgarbage()
end

local resident = require "tests.kit.resident"

-- Returns the number of descriptors that this process may open, but not more than `most`.
local function allowed(most)
  local f <close> = assert(io.open "/proc/self/limits")
  local soft = f:read "a":match "Max open files%s+(%w+)"
  return math.min(most, tonumber(soft) or most)
end

local function cpu_of(f)
  local begin = os.clock()
  f()
  return os.clock() - begin
end

t.test("1e6 cycles of event_add and event_del do not increase memory or registrations", function()
  local handle, a = loopback.foreign()
  local b = socket.create "udp"
  local sel <close> = lio.create()
  local function cycles(count)
    for i = 1, count do
      local fd = i % 2 == 0 and handle or b
      sel:event_add(fd, READ, { i })
      sel:event_del(fd)
    end
    collect()
  end
  cycles(1000)
  local lua, rss = collectgarbage "count", resident()
  cycles(1000000)
  t.ok(collectgarbage "count" < lua + 20, "Lua's memory has grown")
  t.ok(resident() - rss < 4096, "the resident memory has grown")
  t.eq(sel:count(), 0)
  loopback.close(handle)
  a:close() b:close()
end, { resident = true })

t.test("opening, registering and closing many sockets leaves no memory or registration in use", function()
  local sel <close> = lio.create()
  local function cycles(count)
    for _ = 1, count do
      local a, b = socket.pair()
      sel:event_add(a, WRITE)
      sel:event_add(b, READ)
      a:close()
      b:close()
    end
    collect()
  end
  cycles(200)
  local _, open = t.descriptors()
  local lua, rss = collectgarbage "count", resident()
  cycles(20000)
  t.ok(collectgarbage "count" < lua + 20, "KiB of Lua")
  t.ok(resident() - rss < 4096)
  t.eq(select(2, t.descriptors()), open)
  t.eq(events(sel, 0), {})
end, { resident = true })

t.test("udata is referenced until event_del, which releases it", function()
  local a, b = socket.pair()
  local sel <close> = lio.create()
  local weak = setmetatable({}, { __mode = "v" })
  local function register(...)
    weak[1] = {}
    sel:event_add(b, READ, weak[1], ...)
  end
  register()
  collect()
  t.ok(weak[1], "held")
  sel:event_del(b)
  collect()
  t.is_nil(weak[1])
  register()
  sel:event_mod(b, READ, "other")
  collect()
  t.is_nil(weak[1], "replaced by event_mod")
  a:close() b:close()
end)

t.test("a registered socket is not collected; an unregistered one is closed by the collector", function()
  local sel <close> = lio.create()
  local weak = setmetatable({}, { __mode = "v" })
  local a = (function()
    local left, right = socket.pair()
    weak.right = right
    sel:event_add(right, READ, "right")
    return left
  end)()
  collect()
  t.ok(weak.right)
  a:send "x"
  t.eq(events(sel, 5), { right = READ })
  sel:event_del(weak.right)
  collect()
  t.is_nil(weak.right)
  t.eq(select(3, a:send "x"), "closed", "the collector closed it")
  a:close()
end)

t.test("a selector that is collected releases its udata, its sockets and its descriptor", function()
  local weak = setmetatable({}, { __mode = "v" })
  local _, before = t.descriptors()
  do
    local sel = lio.create()
    local a, b = socket.pair()
    weak.sel, weak.a, weak.b, weak.udata = sel, a, b, { sel, a }
    sel:event_add(a, READ, weak.udata)
    sel:event_add(b, WRITE, weak.udata)
    events(sel, 1)
    sel:waker():wake()
  end
  collect()
  collect()
  t.eq(next(weak), nil)
  t.eq(select(2, t.descriptors()), before)
end)

t.test("a socket works after its selector was closed, and can be closed", function()
  local a, b = socket.pair()
  do
    local sel <close> = lio.create()
    sel:event_add(a, READ)
    sel:event_add(b, READ)
  end
  collect()
  a:send "x"
  t.eq(b:recv(), "x")
  t.eq(b:recv(), false)
  local sel <close> = lio.create()
  sel:event_add(b, READ, "b")
  a:send "y"
  t.eq(events(sel, 5), { b = READ })
  a:close() b:close()
end)

t.test("a socket that was registered in 20,000 selectors uses no memory for them", function()
  local a, b = socket.pair()
  local function cycles(count)
    for _ = 1, count do
      local sel <close> = lio.create(1)
      sel:event_add(b, READ)
    end
    collect()
  end
  cycles(500)
  local rss = resident()
  cycles(20000)
  t.ok(resident() - rss < 1024, resident() - rss .. " KiB more")
  a:close() b:close()
end, { resident = true })

-- The two tests that open thousands of descriptors come last, because the kit's check for leaks is slower after them.

t.test("a wait costs about the same with 10 and with thousands of idle registrations", function()
  local a, b = socket.pair()
  local function rounds(sel)
    sel:event_add(b, READ, "b")
    local cost = math.huge
    for _ = 1, 10 do
      cost = math.min(cost, cpu_of(function()
        for _ = 1, 2000 do
          a:send "x"
          for _ in sel:wait(5) do b:recv() end
        end
      end))
    end
    sel:event_del(b)
    return cost
  end
  local few <close> = lio.create()
  local many <close> = lio.create()
  local idle = {}
  for i = 1, math.min(3000, allowed(20000) - 100) do
    idle[i] = socket.create "udp"
    idle[i]:bind("127.0.0.1", 0)
    many:event_add(idle[i], READ)
    if i <= 10 then few:event_add(idle[i], READ) end
  end
  local small, large = rounds(few), rounds(many)
  t.ok(large < 3 * small + 0.005, string.format("%.4f s against %.4f s", large, small))
  for _, s in ipairs(idle) do s:close() end
  a:close() b:close()
end)

t.test("with as many descriptors as the system allows, each is reported when it is ready", function()
  local count = (allowed(20000) - 50) // 2
  t.ok(count > 400, "the limit allows " .. count .. " pairs")
  local sel <close> = lio.create()
  local ends = {}
  for i = 1, count do
    local a, b, message = socket.pair()
    t.ok(a, message)
    ends[i] = { a, b }
    t.ok(sel:event_add(b, READ, i))
    t.ok(sel:event_add(a, 0, -i))
  end
  t.eq(sel:count(), 2 * count)
  t.eq(events(sel, 0.02), {})
  for _, i in ipairs { 1, 600, count // 2, count - 1, count } do
    if ends[i] then
      ends[i][1]:send "x"
      t.eq(events(sel, 5), { [i] = READ })
      ends[i][2]:recv()
    end
  end
  local idle = cpu_of(function() for _ = 1, 20 do events(sel, 0.01) end end)
  t.ok(idle < 0.1, "20 waits over idle registrations took " .. idle .. " s of CPU")
  for i = 1, count do ends[i][1]:send "x" end
  local seen = {}
  while #seen < count do
    for i in sel:wait(5) do
      seen[#seen + 1] = i
      ends[i][2]:recv()
    end
  end
  t.eq(events(sel, 0), {}, "a descriptor was reported twice")
  for _, pair in ipairs(ends) do pair[1]:close() pair[2]:close() end
  t.eq(sel:count(), 0)
end)

t.finish()
