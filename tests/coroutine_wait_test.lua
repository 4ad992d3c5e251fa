-- Waits inside coroutines of lio.coroutine: values, depth, order, errors and the collector. coroutine_wait_net_test
-- tests sockets in generators, coroutine_wait_close_test tests status, close and kill, and coroutine_wait_shared_test
-- tests coroutines that several tasks use.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local kit = require "tests.kit.coroutine_places"
local loop = require "lio.loop"
local c = require "lio.coroutine"

local pack <const> = table.pack
local here <const> = debug.getinfo(1, "S").short_src

-- Calls f(...) inside `depth` nested coroutines, each with a wrap function.
local function nested(depth, f, ...)
  if depth == 0 then return f(...) end
  return c.wrap(nested)(depth - 1, f, ...)
end

netkit.test("a wait in 50 nested coroutines returns the values of its wakeup, through all levels", function()
  for _, values in ipairs { { n = 0 }, { nil, n = 1 }, { 1, nil, "x", nil, n = 4 }, pack(kit.many(300)) } do
    local inside
    local result = netkit.promise(nested, 50, function()
      inside = pack(loop.wait "deep")
      return table.unpack(inside, 1, inside.n)
    end)
    netkit.settle()
    t.is_nil(inside)
    t.eq(loop.wakeup("deep", table.unpack(values, 1, values.n)), true)
    t.is_nil(inside, "wakeup only queues the task")
    t.eq(pack(result()), values)
    t.eq(inside, values)
  end
end)

netkit.test("other tasks run while a nested coroutine waits", function()
  local seen = {}
  local done = netkit.promise(nested, 10, function()
    seen[#seen + 1] = "before"
    loop.wait "go"
    seen[#seen + 1] = "after"
  end)
  loop.fork(function() seen[#seen + 1] = "other" end)
  netkit.settle()
  seen[#seen + 1] = "main"
  loop.wakeup "go"
  done()
  t.eq(seen, { "before", "other", "main", "after" })
end)

netkit.test("each of fifty nested coroutines may wait before and after it resumes the next coroutine", function()
  local seen, depth = {}, 50
  local function level(n)
    seen[#seen + 1] = loop.wait("down" .. n)
    if n == depth then return { n } end
    local list = c.wrap(level)(n + 1)
    seen[#seen + 1] = loop.wait("up" .. n)
    list[#list + 1] = n
    return list
  end
  local result = netkit.promise(level, 1)
  netkit.settle()
  local want = {}
  local function wake(token, value)
    t.eq(loop.wakeup(token, value), true, token)
    want[#want + 1] = value
    netkit.settle()
  end
  for n = 1, depth do wake("down" .. n, n) end
  for n = depth - 1, 1, -1 do wake("up" .. n, -n) end
  local list = result()
  t.eq(seen, want)
  for i = 1, depth do t.eq(list[i], depth + 1 - i) end
end)

netkit.test("the innermost of fifty nested coroutines may wait a thousand times", function()
  local count = 0
  nested(50, function()
    for _ = 1, 1000 do
      loop.sleep(0)
      count = count + 1
    end
  end)
  t.eq(count, 1000)
end)

netkit.test("nested coroutines may alternately wait, yield and resume each other", function()
  local log = {}
  local function note(...) log[#log + 1] = table.concat({ ... }, " ") end
  local main = netkit.promise(function()
    local middle = c.create(function(a)
      local inner = c.create(function(b)
        note("inner", b, loop.wait "i1")
        note("inner", (c.yield "from inner"), loop.wait "i2")
        return "inner ends"
      end)
      note("middle", a, select(2, c.resume(inner, "b1")))
      note("middle", loop.wait "m1")
      note("middle", (c.yield "from middle"))
      note("middle", select(2, c.resume(inner, "b2")))
      note("middle", c.status(inner), loop.wait "m2")
      return "middle ends"
    end)
    note("outer", select(2, c.resume(middle, "a1")))
    note("outer", loop.wait "o1")
    note("outer", select(2, c.resume(middle, "a2")))
    note("outer", c.status(middle), loop.wait "o2")
    return "outer ends"
  end)
  for _, token in ipairs { "i1", "m1", "o1", "i2", "m2", "o2" } do
    netkit.settle()
    t.eq(loop.wakeup(token, token:upper()), true, token)
  end
  t.eq(main(), "outer ends")
  t.eq(log, {
    "inner b1 I1", "middle a1 from inner", "middle M1", "outer from middle", "outer O1", "middle a2",
    "inner b2 I2", "middle inner ends", "middle dead M2", "outer middle ends", "outer dead O2",
  })
end)

netkit.test("a task may wait inside a pcall in a metamethod in the iterator of a for loop", function()
  local object = setmetatable({}, { __index = function(_, key)
    local ok, value = pcall(function()
      local got = loop.wait(key)
      if got == "fail" then error("refused " .. key, 0) end
      return got
    end)
    return { ok, value }
  end })
  local result = netkit.promise(nested, 3, function()
    local list = {}
    for i, pair in function(_, i)
      if i < 4 then return i + 1, object["key" .. i + 1] end
    end, nil, 0 do
      list[i] = pair
    end
    return list
  end)
  for i = 1, 4 do
    netkit.settle()
    loop.wakeup("key" .. i, i == 3 and "fail" or i * 10)
  end
  t.eq(result(), { { true, 10 }, { true, 20 }, { false, "refused key3" }, { true, 40 } })
end)

netkit.test("metamethods may wait, each in its own coroutine", function()
  local mt = {}
  for _, name in ipairs { "__add", "__concat", "__len", "__eq", "__lt", "__le", "__call", "__unm" } do
    mt[name] = c.wrap(function()
      for i = 1, math.huge do
        loop.sleep(0)
        c.yield(i)
      end
    end)
  end
  nested(2, function()
    local a, b = setmetatable({}, mt), setmetatable({}, mt)
    for i = 1, 3 do
      t.eq({ a + b, a .. b, #a, a(), -b }, { i, i, i, i, i })
      t.eq({ a == b, a < b, a <= b }, { true, true, true })
    end
  end)
end)

netkit.test("a __close that a block's end, a break, a return or an error calls may wait", function()
  local log = {}
  local function scope(name)
    return kit.guard(function(_, err)
      loop.sleep(0)
      log[#log + 1] = name .. (err and " " .. err or "")
    end)
  end
  local a, b, ok, err
  nested(5, function()
    do local _ <close> = scope "block" end
    for _ = 1, 2 do
      local _ <close> = scope "break"
      break
    end
    a, b = (function()
      local _ <close> = scope "outer"
      local _ <close> = scope "inner"
      return "kept", nil
    end)()
    ok, err = pcall(function()
      local _ <close> = scope "error"
      error("e", 0)
    end)
    local _ <close> = scope "end"
  end)
  t.eq(log, { "block", "break", "inner", "outer", "error e", "end" })
  t.eq(pack(a, b, ok, err), { "kept", nil, false, "e", n = 4 })
end)

netkit.test("resume returns an error that is raised after a wait unchanged", function()
  local object = {}
  for _, value in ipairs { object, 42, true, print, "text" } do
    local co = c.create(function()
      nested(2, loop.sleep, 0)
      error(value, 0)
    end)
    local ok, err = c.resume(co)
    t.eq(ok, false)
    t.ok(rawequal(err, value))
    t.eq(c.status(co), "dead")
    t.eq(pack(c.resume(co)), { false, "cannot resume dead coroutine", n = 2 })
  end
end)

netkit.test("after a wait, each wrap function adds its position to an error, and closes its coroutine", function()
  local lines, closed = {}, {}
  local function level(n)
    local _ <close> = kit.guard(function(_, err) closed[#closed + 1] = n .. " " .. (err:match "%a+$") end)
    if n == 0 then
      loop.sleep(0)
      error("deep", 0)
    end
    lines[n] = kit.line() local _ = c.wrap(level)(n - 1)
  end
  local ok, err = pcall(c.wrap(level), 3)
  t.eq(ok, false)
  t.eq(err, ("%s:%d: "):format(here, lines[1]):rep(3) .. "deep")
  t.eq(closed, { "0 deep", "1 deep", "2 deep", "3 deep" })
end)

netkit.test("an interrupt raises an error in the innermost coroutine, which can catch it", function()
  local got = netkit.promise(nested, 20, function() return pcall(loop.wait, "interrupted") end)
  netkit.settle()
  local reason = {}
  t.eq(loop.interrupt("interrupted", reason), true)
  local ok, err = got()
  t.eq(ok, false)
  t.ok(rawequal(err, reason))
end)

netkit.test("the error of an interrupt reaches the outer coroutines if it is not caught", function()
  local inner, outer
  local got = netkit.promise(function()
    outer = c.create(function()
      inner = c.create(function() loop.wait "interrupted" end)
      local ok, err = c.resume(inner)
      loop.sleep(0)
      error({ ok, err, c.status(inner) })
    end)
    return c.resume(outer)
  end)
  netkit.settle()
  loop.interrupt("interrupted", "enough")
  t.eq(pack(got()), { false, { false, "enough", "dead" }, n = 2 })
  t.eq(c.status(outer), "dead")
end)

netkit.test("tasks with their own generators run in the order of their wakeups", function()
  local seen, tasks = {}, 30
  local done = 0
  for i = 1, tasks do
    loop.fork(function()
      local generator = c.wrap(function()
        for round = 1, 3 do
          local value = nested(i % 5, loop.wait, "task" .. i)
          c.yield(value .. round)
        end
      end)
      for value in generator do seen[#seen + 1] = i .. value end
      done = done + 1
    end)
  end
  netkit.settle()
  local want, seed = {}, 7
  for round = 1, 3 do
    local order = {}
    for i = 1, tasks do order[i] = i end
    for i = tasks, 2, -1 do
      seed = seed * 1103515245 + 12345 & 0x7fffffff
      local j = seed % i + 1
      order[i], order[j] = order[j], order[i]
    end
    for _, i in ipairs(order) do
      t.eq(loop.wakeup("task" .. i, "w"), true)
      want[#want + 1] = i .. "w" .. round
    end
    netkit.settle()
  end
  t.eq(seen, want)
  t.eq(done, tasks)
end)

netkit.test("thousands of values can be yielded and passed to resume after a wait", function()
  local list = {}
  for i = 1, 5000 do list[i] = i end
  local co = c.create(function(...)
    loop.sleep(0)
    local got = pack(c.yield(...))
    loop.sleep(0)
    return table.unpack(got, 1, got.n)
  end)
  for _ = 1, 2 do
    local got = pack(c.resume(co, table.unpack(list)))
    t.eq({ got.n, got[1], got[2], got[5001] }, { 5001, true, 1, 5000 })
  end
  t.eq(c.status(co), "dead")
end)

netkit.test("after a wait, resume fails if the yielded values do not fit on the resumer's stack", function()
  local list, deepest = {}, 0
  for i = 1, 150000 do list[i] = i end
  local function deep(n, least, co)
    deepest = math.max(deepest, n)
    if n == least then return pack(c.resume(co)) end
    local result = deep(n + 1, least, co)
    return result
  end
  c.resume(c.create(function() deep(0, -1) end))
  local depth = deepest * 9 // 10
  local co = c.create(function()
    loop.sleep(0)
    c.yield(table.unpack(list))
  end)
  local got = c.wrap(deep)(0, depth, co)
  t.eq({ got.n, got[1], got[2] }, { 2, false, "too many results to resume" })
end)

netkit.test("the collector keeps all values that a waiting chain needs", function()
  local function level(n, held)
    local mine = { held, n }
    if n == 0 then
      local token = "collect " .. held[1]
      local got = loop.wait(token)
      return got[1] + held[1]
    end
    local sum = 0
    for v in c.wrap(function()
      collectgarbage()
      c.yield(level(n - 1, held))
      collectgarbage "step"
      c.yield(mine[2])
    end) do sum = sum + v end
    return sum
  end
  local results = {}
  for i = 1, 20 do results[i] = netkit.promise(function() return level(i % 6, { i }) end) end
  netkit.settle()
  for i = 1, 20 do
    collectgarbage()
    t.eq(loop.wakeup("collect " .. i, { i * 1000 }), true)
    collectgarbage()
    netkit.settle()
    collectgarbage()
  end
  for i = 1, 20 do
    local n = i % 6
    t.eq(results[i](), i * 1001 + n * (n + 1) // 2)
  end
end)

netkit.test("before and after a wait, a yield returns to the resumer, not to the scheduler", function()
  local co = c.create(function()
    c.yield(1)
    loop.sleep(0)
    c.yield(2)
    nested(1, loop.sleep, 0)
    c.yield(3)
  end)
  for i = 1, 3 do t.eq(pack(c.resume(co)), { true, i, n = 2 }) end
  t.eq(pack(c.resume(co)), { true, n = 1 })
end)

netkit.test("forks and wakeups have the same effect inside a coroutine as in a task", function()
  local seen = {}
  local main = loop.running()
  nested(10, function()
    loop.fork(function()
      seen[#seen + 1] = "forked"
      loop.wakeup("inside", "by the forked")
    end)
    local got = loop.wait "inside"
    seen[#seen + 1] = got
    loop.fork(function() loop.wakeup(main, "main") end)
  end)
  t.eq(loop.wait(), "main")
  t.eq(seen, { "forked", "by the forked" })
end)

t.finish()
