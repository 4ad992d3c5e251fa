-- lio.thread's scopes: regardless of how a block ends, no thread of its scope remains.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local counts = require "tests.model.counts"
local loop = require "lio.loop"
local thread = require "lio.thread"

local pack <const> = table.pack

-- Returns a function that waits until it is killed, and then adds `name` to `ended`.
local function forever(name, ended)
  return function()
    local _ <close> = setmetatable({}, { __close = function() ended[#ended + 1] = name end })
    loop.wait("never " .. name)
    ended[#ended + 1] = name .. " went on"
  end
end

-- Spawns four threads in `scope`: two wait until they are killed, one sleeps for 1,000 s, one has ended.
local function populate(scope, ended)
  scope:spawn(forever("a", ended))
  scope:spawn(forever("b", ended))
  scope:spawn(loop.sleep, 1000)
  scope:spawn(function() end)
end

local function sorted(list)
  table.sort(list)
  return list
end

-- ---------------------------------------------------------------------------------------------
-- Leaving a scope

netkit.test("scope:spawn runs at once, passes arguments, and returns a handle as spawn does", function()
  local scope <close> = thread.scope()
  local got
  local h = scope:spawn(function(...)
    got = pack(...)
    loop.sleep(0)
    return nil, "result"
  end, nil, 2, nil)
  t.eq(got, pack(nil, 2, nil))
  t.eq(thread.status(h), "waiting")
  t.eq(pack(thread.wait(h)), pack(true, nil, "result"))
  t.raises("bad argument #1 to 'spawn'", scope.spawn, scope, 5)
end)

netkit.test("reaching the end of a scope kills all its threads", function()
  local ended, before = {}, counts.now()
  do
    local scope <close> = thread.scope()
    populate(scope, ended)
    t.eq(ended, {})
  end
  t.eq(sorted(ended), { "a", "b" })
  counts.expect(before)
end)

netkit.test("leaving a scope by break and by goto kills all its threads", function()
  local ended, before = {}, counts.now()
  for _ = 1, 2 do
    local scope <close> = thread.scope()
    populate(scope, ended)
    break
  end
  t.eq(sorted(ended), { "a", "b" })
  do
    local scope <close> = thread.scope()
    populate(scope, ended)
    goto out
  end
  ::out::
  t.eq(sorted(ended), { "a", "a", "b", "b" })
  counts.expect(before)
end)

netkit.test("leaving a scope by return kills all its threads before the caller continues", function()
  local ended, before = {}, counts.now()
  local function f()
    local scope <close> = thread.scope()
    populate(scope, ended)
    return "value", nil
  end
  t.eq(pack(f()), pack("value", nil))
  t.eq(sorted(ended), { "a", "b" })
  counts.expect(before)
end)

netkit.test("leaving a scope by an error kills all its threads, and the error is passed on", function()
  local ended, before = {}, counts.now()
  local object = {}
  local ok, e = pcall(function()
    local scope <close> = thread.scope()
    populate(scope, ended)
    error(object)
  end)
  t.eq(ok, false)
  t.ok(rawequal(e, object))
  t.eq(sorted(ended), { "a", "b" })
  counts.expect(before)
end)

netkit.test("killing a scope's owner in any kind of wait ends the scope", function()
  local waits <const> = {
    function() loop.wait "owner" end,
    function() loop.sleep(1000) end,
    function(scope) scope:wait() end,
    function(_, h) thread.wait(h) end,
    function() pcall(loop.wait, "owner") end,
  }
  for _, wait in ipairs(waits) do
    local ended, before = {}, counts.now()
    local owner = thread.spawn(function()
      local scope <close> = thread.scope()
      populate(scope, ended)
      wait(scope, scope:spawn(forever("c", ended)))
      ended[#ended + 1] = "owner went on"
    end)
    t.eq(thread.kill(owner), true)
    t.eq(sorted(ended), { "a", "b", "c" })
    counts.expect(before)
    t.eq(pack(thread.wait(owner)), pack(false, "killed"))
  end
end)

netkit.test("killing a task that owns a scope ends the scope too", function()
  local ended, before = {}, counts.now()
  local owner = loop.fork(function()
    local scope <close> = thread.scope()
    populate(scope, ended)
    loop.wait "owner"
  end)
  netkit.settle()
  t.eq(loop.kill(owner), true)
  t.eq(sorted(ended), { "a", "b" })
  counts.expect(before)
end)

t.test("a scope of loop.run's function is left when the loop fails or stops", function()
  for _, leave in ipairs { function() error "fails" end, function() loop.stop(0) loop.sleep(1000) end } do
    local ended = {}
    pcall(loop.run, function()
      local scope <close> = thread.scope()
      populate(scope, ended)
      leave()
    end)
    t.eq(sorted(ended), { "a", "b" })
  end
end)

netkit.test("a killed child that was queued does not run", function()
  local seen = {}
  do
    local scope <close> = thread.scope()
    scope:spawn(function()
      loop.wait "queued child"
      seen[1] = "ran"
    end)
    loop.wakeup "queued child"
  end
  netkit.settle()
  t.eq(seen, {})
end)

netkit.test("the handles of a closed scope distinguish killed threads from threads that had already ended", function()
  local living, ended, failed
  do
    local scope <close> = thread.scope()
    living = scope:spawn(loop.wait, "never")
    ended = scope:spawn(function() return 1 end)
    failed = scope:spawn(function() error("x", 0) end)
    t.eq(pack(thread.wait(failed)), pack(false, "x"))
    t.eq(pack(thread.wait(ended)), pack(true, 1))
  end
  t.eq(pack(thread.wait(failed)), pack(nil, "already waited"))
  t.eq(pack(thread.wait(ended)), pack(nil, "already waited"))
  t.ok(thread.status(living) ~= "waiting", thread.status(living))
  t.eq(pack(thread.kill(living)), pack(nil, "already ended"))
end)

netkit.test("after an error in a <close> variable of a killed child the others still end", function()
  local ended, before = {}, counts.now()
  local ok = pcall(function()
    local scope <close> = thread.scope()
    scope:spawn(forever("a", ended))
    local bad = scope:spawn(function()
      local _ <close> = setmetatable({}, { __close = function() error "while closed" end })
      loop.wait "never bad"
    end)
    scope:spawn(forever("b", ended))
    t.eq(thread.status(bad), "waiting")
  end)
  t.eq(ok, true, "the error is the child's, not the owner's")
  t.eq(sorted(ended), { "a", "b" })
  counts.expect(before)
end)

netkit.test("if a <close> variable of a killed child kills the next child, the remaining children still end", function()
  local ended, before = {}, counts.now()
  do
    local scope <close> = thread.scope()
    local victim
    scope:spawn(function()
      local _ <close> = setmetatable({}, { __close = function() thread.kill(victim) end })
      loop.wait "never killer"
    end)
    victim = scope:spawn(forever("victim", ended))
    scope:spawn(forever("rest", ended))
  end
  t.eq(ended, { "victim", "rest" })
  counts.expect(before)
end)

netkit.test("a thread of another parent does not belong to the scope", function()
  local ended = {}
  local outside = thread.spawn(forever("outside", ended))
  local nephew
  do
    local scope <close> = thread.scope()
    scope:spawn(function()
      nephew = thread.spawn(forever("nephew", ended))
      loop.wait "never"
    end)
  end
  t.eq(ended, {})
  t.eq(thread.status(outside), "waiting")
  t.eq(thread.status(nephew), "waiting", "a child's child was spawned outside of the scope")
  t.eq(thread.kill(outside), true)
  t.eq(thread.kill(nephew), true)
end)

-- ---------------------------------------------------------------------------------------------
-- Nesting

netkit.test("a nested scope ends only its own threads", function()
  local ended = {}
  local outer <close> = thread.scope()
  outer:spawn(forever("outer", ended))
  do
    local inner <close> = thread.scope()
    inner:spawn(forever("inner", ended))
    outer:spawn(forever("outer 2", ended))
  end
  t.eq(ended, { "inner" })
end)

netkit.test("an error in nested scopes ends the threads of the inner scope first", function()
  local ended, before = {}, counts.now()
  pcall(function()
    local outer <close> = thread.scope()
    outer:spawn(forever("outer", ended))
    local inner <close> = thread.scope()
    inner:spawn(forever("inner", ended))
    error "x"
  end)
  t.eq(ended, { "inner", "outer" })
  counts.expect(before)
end)

netkit.test("after a kill of the root, nothing is left of scopes and threads that are nested 4 deep", function()
  local ended, before = {}, counts.now()
  local function grow(depth)
    local _ <close> = setmetatable({}, { __close = function() ended[#ended + 1] = depth end })
    local scope <close> = thread.scope()
    for _ = 1, 3 do
      if depth < 4 then scope:spawn(grow, depth + 1) else scope:spawn(loop.sleep, 1000) end
    end
    scope:wait()
  end
  local root = thread.spawn(grow, 1)
  t.ok(counts.now().tasks > before.tasks + 80)
  t.eq(thread.kill(root), true)
  local by_depth = {}
  for _, depth in ipairs(ended) do by_depth[depth] = (by_depth[depth] or 0) + 1 end
  t.eq(by_depth, { 1, 3, 9, 27 })
  t.eq(ended[#ended], 1, "the owner ends after its threads")
  counts.expect(before)
end)

netkit.test("a child may spawn into its parent's scope", function()
  local ended, before = {}, counts.now()
  do
    local scope <close> = thread.scope()
    scope:spawn(function()
      scope:spawn(forever("sibling", ended))
      loop.sleep(0)
      scope:spawn(forever("late sibling", ended))
    end)
    netkit.settle()
    t.eq(ended, {}, "the threads continue when the child that spawned them has ended")
  end
  t.eq(sorted(ended), { "late sibling", "sibling" })
  counts.expect(before)
end)

netkit.test("a scope that was passed to another thread ends with its owner, and so do all its threads", function()
  local ended, before = {}, counts.now()
  local stranger
  do
    local scope <close> = thread.scope()
    stranger = thread.spawn(function()
      scope:spawn(forever("of a stranger", ended))
      loop.wait "stranger"
      return pcall(scope.spawn, scope, print)
    end)
  end
  t.eq(ended, { "of a stranger" })
  t.eq(thread.status(stranger), "waiting")
  loop.wakeup "stranger"
  local ok, spawned, e = thread.wait(stranger)
  t.eq(ok, true)
  t.eq(spawned, false)
  t.ok(e:find "closed", e)
  counts.expect(before)
end)

netkit.test("a child that kills its scope's owner ends with it", function()
  local ended, before = {}, counts.now()
  local owner, child
  owner = thread.spawn(function()
    local scope <close> = thread.scope()
    child = scope:spawn(function()
      local _ <close> = setmetatable({}, { __close = function() ended[#ended + 1] = "child" end })
      loop.wait "kill the owner"
      thread.kill(owner)
      loop.wait "never"
      ended[#ended + 1] = "child went on"
    end)
    scope:spawn(forever("sibling", ended))
    loop.wait "owner"
  end)
  loop.wakeup "kill the owner"
  netkit.settle()
  t.eq(sorted(ended), { "child", "sibling" })
  t.eq(pack(thread.kill(child)), pack(nil, "already ended"))
  t.eq(thread.wait(owner), false)
  counts.expect(before)
end)

-- ---------------------------------------------------------------------------------------------
-- A closed scope

netkit.test("spawn on a closed scope raises, and runs nothing", function()
  local kept
  do
    local scope <close> = thread.scope()
    kept = scope
  end
  local ran = false
  t.raises("closed", kept.spawn, kept, function() ran = true end)
  t.eq(ran, false)
end)

netkit.test("spawn raises if the scope is being closed", function()
  local problem, before = nil, counts.now()
  do
    local scope <close> = thread.scope()
    scope:spawn(function()
      local _ <close> = setmetatable({}, { __close = function()
        problem = select(2, pcall(scope.spawn, scope, loop.wait, "never"))
      end })
      loop.wait "never"
    end)
  end
  t.ok(problem:find "closed", problem)
  counts.expect(before)
end)

-- Regression: the thread stayed in the scope, so `scope:wait` did not return, and `close` forked a task that tried to
-- kill the thread again and again, without end.
netkit.test("a thread that cannot begin, because its arguments do not fit on the stack, is not in its scope", function()
  local many = {}
  for i = 1, 340000 do many[i] = i end
  local scope = thread.scope()
  local ok, message = pcall(scope.spawn, scope, error, table.unpack(many))
  t.eq(ok, false)
  t.ok(message:find "stack overflow", message)
  t.eq({ scope:wait() }, { true })
  scope:close()
end)

t.finish()
