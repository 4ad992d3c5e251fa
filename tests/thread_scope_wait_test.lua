-- lio.thread's scopes: scope:wait, and the log of failures in a scope. thread_scope_test.lua tests how scopes end.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local loop = require "lio.loop"
local thread = require "lio.thread"

local pack <const> = table.pack

netkit.test("scope:wait returns true when all threads have ended, at once if there are none", function()
  local scope <close> = thread.scope()
  t.eq(pack(scope:wait()), pack(true))
  local ended = 0
  for i = 1, 5 do
    scope:spawn(function()
      for _ = 1, i do loop.sleep(0) end
      ended = ended + 1
    end)
  end
  scope:spawn(function() end)
  t.eq(pack(scope:wait()), pack(true))
  t.eq(ended, 5)
  t.eq(pack(scope:wait()), pack(true), "again")
end)

netkit.test("scope:wait also waits for threads that are spawned while it waits", function()
  local scope <close> = thread.scope()
  local last = false
  scope:spawn(function()
    loop.sleep(0)
    scope:spawn(function()
      loop.sleep(0)
      scope:spawn(function()
        loop.sleep(0)
        last = true
      end)
    end)
  end)
  t.eq(pack(scope:wait()), pack(true))
  t.eq(last, true)
end)

netkit.test("scope:wait also waits for threads that are spawned between its wakeup and its run", function()
  local scope <close> = thread.scope()
  scope:spawn(loop.wait, "last of all")
  local late = false
  thread.spawn(function()
    loop.wait "spawns late"
    scope:spawn(function()
      loop.sleep(0)
      late = true
    end)
  end)
  loop.fork(function()
    loop.wakeup "last of all"
    loop.wakeup "spawns late"
  end)
  t.eq(pack(scope:wait()), pack(true))
  t.eq(late, true)
end)

netkit.test("scope:wait returns the error from the first thread that failed", function()
  local object = {}
  local scope <close> = thread.scope()
  scope:spawn(function()
    loop.wait "second failure"
    error "second"
  end)
  scope:spawn(function()
    loop.wait "first failure"
    error(object)
  end)
  loop.wakeup "first failure"
  loop.wakeup "second failure"
  local ok, e = scope:wait()
  t.eq(ok, false)
  t.ok(rawequal(e, object), t.show(e))
end)

netkit.test("scope:wait returns an earlier failure", function()
  local scope <close> = thread.scope()
  scope:spawn(error, "early", 0)
  t.eq(pack(scope:wait()), pack(false, "early"))
end)

netkit.test("two threads may wait for one scope", function()
  local scope <close> = thread.scope()
  scope:spawn(loop.sleep, 0)
  local results, waiters = {}, {}
  for i = 1, 2 do
    waiters[i] = thread.spawn(function() results[i] = pack(scope:wait()) end)
  end
  t.eq(pack(scope:wait()), pack(true))
  for i = 1, 2 do
    t.eq(thread.wait(waiters[i]), true)
    t.eq(results[i], pack(true))
  end
end)

t.test("a failure in a scope is logged once, unless wait has returned it", function()
  local file = t.write(t.tmp() .. "/script.lua", [[
    local loop, thread = require "lio.loop", require "lio.thread"
    loop.run(function()
      do
        local scope <close> = thread.scope()
        scope:spawn(function() loop.sleep(0) error "nobody asked" end)
        for _ = 1, 5 do loop.sleep(0) end
      end
      do
        local scope <close> = thread.scope()
        scope:spawn(function() loop.sleep(0) error("answered", 0) end)
        print(scope:wait())
        scope:spawn(loop.sleep, 1000)
      end
    end)
  ]])
  local r = t.run("timeout -k 1 60 " .. t.lio() .. " " .. t.quote(file))
  t.eq(r.out, "false\tanswered\n")
  local _, n = r.err:gsub("nobody asked", "")
  t.eq(n, 1, r.err)
  t.ok(r.err:find("stack traceback:", 1, true), r.err)
  t.ok(not r.err:find("answered", 1, true), r.err)
end)

t.finish()
