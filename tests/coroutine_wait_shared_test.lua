-- Coroutines that several tasks use: coroutines that are created in one task, resumed in another and wait in a third;
-- coroutines that are created outside tasks; and coroutines of the stock library, which is still available in a stock
-- interpreter.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local kit = require "tests.kit.coroutine_places"
local loop = require "lio.loop"
local task = require "lio.task"
local c = require "lio.coroutine"

local pack <const> = table.pack

netkit.test("two tasks pass one coroutine to each other, and it waits in both", function()
  local seen = {}
  local shared = c.create(function(who)
    for i = 1, 10 do
      seen[#seen + 1] = who .. i
      loop.sleep(0)
      if i % 3 == 0 then loop.wait "both" end
      who = c.yield(i)
    end
    return "end"
  end)
  local turn = "a"
  local function player(name, other)
    return function()
      while c.status(shared) ~= "dead" do
        if turn == name then
          local ok, value = c.resume(shared, name)
          t.ok(ok, value)
          turn = other
        end
        loop.sleep(0)
      end
      return name
    end
  end
  local a, b = netkit.promise(player("a", "b")), netkit.promise(player("b", "a"))
  while c.status(shared) ~= "dead" do
    loop.sleep(0)
    loop.wakeup "both"
  end
  t.eq({ a(), b() }, { "a", "b" })
  t.eq(seen, { "a1", "b2", "a3", "b4", "a5", "b6", "a7", "b8", "a9", "b10" })
end)

netkit.test("another task can resume a coroutine when it has yielded, but not while it waits", function()
  local shared = c.create(function()
    loop.wait "in the first"
    return "end " .. c.yield "yielded"
  end)
  local first = netkit.promise(c.resume, shared)
  local second = netkit.promise(function()
    local refused = pack(c.resume(shared, "too early"))
    while c.status(shared) == "waiting" do loop.sleep(0) end
    return refused, c.resume(shared, "later")
  end)
  netkit.settle()
  loop.wakeup "in the first"
  t.eq(pack(first()), { true, "yielded", n = 2 })
  t.eq(pack(second()), { { false, "cannot resume a coroutine that is waiting", n = 2 }, true, "end later", n = 3 })
end)

netkit.test("killing a task closes the coroutine that waits in it, but not one that has yielded", function()
  local closed = {}
  local function body(name)
    return function()
      local _ <close> = kit.guard(function() closed[#closed + 1] = name end)
      c.yield(name)
      loop.wait(name)
      return "end"
    end
  end
  local free, bound = c.create(body "free"), c.create(body "bound")
  local co = loop.fork(function()
    c.resume(free)
    c.resume(bound)
    c.resume(bound)
  end)
  netkit.settle()
  t.eq({ c.status(free), c.status(bound) }, { "suspended", "waiting" })
  t.eq(loop.kill(co), true)
  t.eq(closed, { "bound" })
  t.eq({ c.status(free), c.status(bound) }, { "suspended", "dead" })
  local got = netkit.promise(c.resume, free)
  netkit.settle()
  loop.wakeup "free"
  t.eq(pack(got()), { true, "end", n = 2 })
end)

t.test("a coroutine that was created or started outside tasks can wait in a task", function()
  local first = c.create(function(x)
    local y = c.yield(x + 1)
    loop.sleep(0)
    return y + 1, c.running()
  end)
  local second = c.wrap(function()
    loop.sleep(0)
    return "never started outside"
  end)
  t.eq(pack(c.resume(first, 1)), { true, 2, n = 2 })
  netkit.run(function()
    t.eq(pack(c.resume(first, 10)), { true, 11, first, false, n = 4 })
    t.eq(second(), "never started outside")
  end)
end)

t.test("a coroutine that has waited in a task can continue outside tasks", function()
  local co = c.create(function()
    loop.sleep(0)
    c.yield "in the task"
    local ok, problem = pcall(loop.wait, "outside")
    return ok, problem
  end)
  netkit.run(function() t.eq(pack(c.resume(co)), { true, "in the task", n = 2 }) end)
  local resumed, ok, problem = c.resume(co)
  t.eq({ resumed, ok }, { true, false })
  t.ok(problem:find("cannot wait here: outside a task", 1, true), problem)
  t.eq(task.is_waiting "outside", false)
end)

t.test("when a loop ends, waiting chains are closed, but not a coroutine that has yielded", function()
  local closed = {}
  local survivor = c.create(function()
    loop.sleep(0)
    c.yield()
    return "alive"
  end)
  local waiting
  netkit.run(function()
    c.resume(survivor)
    loop.fork(function()
      waiting = c.create(function()
        local _ <close> = kit.guard(function() closed[#closed + 1] = "inner" end)
        loop.sleep(1000)
      end)
      local _ <close> = kit.guard(function() closed[#closed + 1] = "outer" end)
      c.resume(waiting)
    end)
    netkit.settle()
    t.eq(c.status(waiting), "waiting")
    loop.stop(0)
  end)
  t.eq(closed, { "inner", "outer" })
  t.eq(c.status(waiting), "dead")
  t.eq(pack(c.resume(survivor)), { true, "alive", n = 2 })
end)

netkit.test("plain coroutines that do not wait may resume lio's coroutines, and lio's may resume them", function()
  local function count(wrap, n) return wrap(function() for i = 1, n do coroutine.yield(i) end end) end
  local sum = 0
  for i in count(coroutine.wrap, 3) do
    for j in count(c.wrap, i) do
      loop.sleep(0)
      for l in c.wrap(function()
        loop.sleep(0)
        for v in count(coroutine.wrap, j) do
          loop.sleep(0)
          c.yield(v)
        end
      end) do sum = sum + l end
    end
  end
  t.eq(sum, 1 + (1 + 3) + (1 + 3 + 6))
end)

netkit.test("running returns the innermost coroutine; the token from loop.running wakes its sleep", function()
  local co, inner, token
  local got = netkit.promise(function()
    co = c.create(function()
      loop.sleep(0)
      inner = c.running()
      token = loop.running()
      return loop.sleep(1000)
    end)
    return c.resume(co)
  end)
  while not token do loop.sleep(0) end
  t.ok(inner == co, "c.running")
  t.eq(loop.wakeup(token, "woken", nil), true)
  t.eq(pack(got()), { true, "woken", nil, n = 3 })
end)

if coroutine.resume == c.resume then return t.finish() end

-- ---------------------------------------------------------------------------------------------
-- Use of the stock library together with lio.coroutine.

netkit.test("a coroutine of lio.coroutine cannot wait while a plain resume runs it", function()
  local co = c.create(function()
    loop.sleep(0)
    c.yield "waited under ours"
    return pcall(loop.sleep, 0)
  end)
  t.eq(pack(c.resume(co)), { true, "waited under ours", n = 2 })
  local resumed, ok, problem = coroutine.resume(co)
  t.eq({ resumed, ok }, { true, false })
  t.ok(problem:find("cannot wait here: inside a coroutine that the plain coroutine library resumed", 1, true), problem)
end)

-- Calls the function `call` of the plain coroutine library with member `place` (1 to 3, from the outermost) of a
-- waiting chain. This is a mistake of the program, and the chain may break. Checks that the task can still be killed
-- and that no other task is affected.
local function apply(call, place)
  local members = {}
  local function level(n)
    if n == 3 then return "end", loop.wait "taken" end
    members[n + 1] = c.create(level)
    return c.resume(members[n + 1], n + 1)
  end
  local own = loop.fork(level, 0)
  local bystander = netkit.promise(loop.wait, "bystander")
  netkit.settle()
  call(members[place])
  collectgarbage()
  netkit.settle()
  loop.wakeup("taken", "late")
  netkit.settle()
  collectgarbage()
  loop.kill(own)
  netkit.settle()
  t.eq(task.is_alive(own), false)
  t.eq(task.is_waiting "taken", false)
  t.eq(loop.wakeup("bystander", "fine"), true)
  t.eq(bystander(), "fine")
end

for _, name in ipairs { "resume", "close" } do
  for place, which in ipairs { "the outermost coroutine", "the middle coroutine", "the innermost coroutine" } do
    netkit.test("a plain " .. name .. " of " .. which .. " in a waiting chain does not block other tasks", function()
      for _ = 1, 20 do apply(coroutine[name], place) end
    end)
  end
end

netkit.test("plain resumes and closes of random members of waiting chains do not crash the process", function()
  local seed = 4711
  local function random(n)
    seed = seed * 1103515245 + 12345 & 0x7fffffff
    return (seed >> 8) % n
  end
  local before = task.count()
  for round = 1, 1000 do
    local members, token = {}, "plain " .. round
    local depth = random(5)
    local function level(n)
      members[n] = c.running()
      if n == depth then return loop.wait(token) end
      return c.resume(c.create(level), n + 1)
    end
    local own = loop.fork(level, 0)
    loop.sleep(0)
    for _ = 0, random(3) do
      local call = ({ coroutine.resume, coroutine.close, c.resume, c.close, loop.wakeup })[random(5) + 1]
      pcall(call, call == loop.wakeup and token or members[random(depth + 1)])
      if random(3) == 0 then loop.sleep(0) end
      if random(20) == 0 then collectgarbage() end
    end
    loop.wakeup(token)
    loop.sleep(0)
    if random(2) == 0 then pcall(coroutine.resume, members[random(depth + 1)]) end
    loop.kill(own)
    t.eq(task.is_waiting(token), false)
  end
  netkit.settle()
  t.eq(task.count(), before)
end)

t.finish()
