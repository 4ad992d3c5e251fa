-- lio.thread: status, zombies, what happens to children when their parent ends, and the log of failures that no task
-- has waited for: each failure is logged once, with its traceback.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local loop = require "lio.loop"
local thread = require "lio.thread"

local pack <const> = table.pack

-- Runs a program in its own process, so that its log can be read. Returns the result of t.run.
local function program(code)
  local file = t.write(t.tmp() .. "/script.lua", [[
    local loop, task, thread = require "lio.loop", require "lio.task", require "lio.thread"
  ]] .. code)
  return t.run("timeout 60 " .. t.lio() .. " " .. t.quote(file))
end

local function count(text, word)
  local n, from = 0, 1
  while true do
    local _, last = text:find(word, from, true)
    if not last then return n end
    n, from = n + 1, last + 1
  end
end

-- ---------------------------------------------------------------------------------------------
-- status, zombies, parents

netkit.test("status is running, waiting, zombie or dead", function()
  local me, seen
  me = thread.spawn(function()
    loop.wait "status"
    seen = thread.status(me)
  end)
  t.eq(thread.status(me), "waiting")
  loop.wakeup "status"
  t.eq(thread.status(me), "waiting", "queued, not run")
  netkit.settle()
  t.eq(seen, "running")
  t.eq(thread.status(me), "zombie")
  thread.wait(me)
  t.eq(thread.status(me), "dead")
end)

netkit.test("a thread that spawns another thread has the status running", function()
  local outer, seen
  outer = thread.spawn(function()
    loop.sleep(0)
    thread.spawn(function() seen = thread.status(outer) end)
  end)
  thread.wait(outer)
  t.eq(seen, "running")
end)

netkit.test("a failed thread is a zombie too", function()
  local h = thread.spawn(error, "x")
  t.eq(thread.status(h), "zombie")
  t.eq(pack(thread.wait(h)), pack(false, "x"))
  t.eq(thread.status(h), "dead")
end)

-- Each function runs a parent, which calls `body` to spawn threads, and then ends with or without a wait.
local parents <const> = {
  ["a forked task"] = function(body)
    loop.fork(body)
    netkit.settle()
  end,
  ["another thread"] = function(body)
    t.eq(thread.wait(thread.spawn(body)), true)
  end,
  ["a thread that fails"] = function(body)
    t.eq(thread.wait(thread.spawn(function()
      body()
      error "parent"
    end)), false)
  end,
  ["a killed thread"] = function(body)
    local parent = thread.spawn(function()
      body()
      loop.wait "for ever"
    end)
    t.eq(thread.kill(parent), true)
  end,
  ["a killed task"] = function(body)
    local parent = loop.fork(function()
      body()
      loop.wait "for ever"
    end)
    loop.sleep(0)
    t.eq(loop.kill(parent), true)
  end,
}

for name, parent in pairs(parents) do
  netkit.test("when " .. name .. " ends, its zombies are reaped", function()
    local h
    parent(function()
      h = thread.spawn(function() return "unseen" end)
      t.eq(thread.status(h), "zombie")
    end)
    t.eq(thread.status(h), "dead")
    t.eq(pack(thread.wait(h)), pack(nil, "already waited"))
  end)

  netkit.test("when " .. name .. " ends, its children continue", function()
    local h
    parent(function()
      h = thread.spawn(function() return loop.wait "orphan" end)
    end)
    t.eq(thread.status(h), "waiting")
    local waiter = thread.spawn(thread.wait, h)
    loop.wakeup("orphan", "lives")
    t.eq(pack(thread.wait(waiter)), pack(true, true, "lives"))
  end)
end

netkit.test("a thread that ends after its parent is dead at once if no task waits for it", function()
  local h
  thread.wait(thread.spawn(function() h = thread.spawn(loop.wait, "late orphan") end))
  loop.wakeup "late orphan"
  netkit.settle()
  t.eq(thread.status(h), "dead")
  t.eq(pack(thread.wait(h)), pack(nil, "already waited"))
end)

t.test("when the function of loop.run ends, its zombies are reaped and its children continue", function()
  local zombie, child, status
  netkit.run(function()
    zombie = thread.spawn(function() end)
    child = thread.spawn(function()
      loop.sleep(0.01)
      status = thread.status(zombie)
    end)
  end)
  t.eq(status, "dead")
  t.eq(thread.status(child), "dead")
end)

-- ---------------------------------------------------------------------------------------------
-- Failures that no task has waited for

t.test("a failure that no task has waited for is logged once, with its traceback, when the parent ends", function()
  local r = program [[
    local function broken() error("unseen failure") end
    loop.run(function()
      loop.fork(function()
        local h = thread.spawn(function() broken() end)
        loop.sleep(0)
        print(thread.status(h))
        io.stderr:write "parent ends\n"
      end)
      for _ = 1, 5 do loop.sleep(0) end
      collectgarbage()
      collectgarbage()
      print "the others go on"
    end)
  ]]
  t.eq(r.out, "zombie\nthe others go on\n")
  t.eq(count(r.err, "unseen failure"), 1, r.err)
  t.ok(r.err:find("parent ends.*unseen failure"), r.err)
  t.ok(r.err:find("stack traceback:", 1, true), r.err)
  t.ok(r.err:find("'broken'", 1, true), r.err)
  t.eq(r.code, 0)
end)

t.test("a failure after the parent has ended is logged once", function()
  local r = program [[
    loop.run(function()
      loop.fork(function()
        thread.spawn(function() loop.sleep(0.01) error "orphan failure" end)
      end)
    end)
    collectgarbage()
    collectgarbage()
  ]]
  t.eq(count(r.err, "orphan failure"), 1, r.err)
  t.ok(r.err:find("stack traceback:", 1, true), r.err)
  t.eq(r.code, 0)
end)

t.test("a failure of a thread whose handle has no references is logged once", function()
  local r = program [[
    loop.run(function()
      thread.spawn(error, "lost handle")
      for _ = 1, 3 do collectgarbage() loop.sleep(0) end
    end)
    for _ = 1, 3 do collectgarbage() end
  ]]
  t.eq(count(r.err, "lost handle"), 1, r.err)
end)

t.test("a failure that was logged after a garbage collection is not logged again when the parent ends", function()
  local r = program [[
    loop.run(function()
      collectgarbage "stop"
      for i = 1, 3 do thread.spawn(error, "told early " .. i, 0) end
      thread.spawn(error, setmetatable({}, { __tostring = function() return "told early 4" end }))
      collectgarbage()
    end)
  ]]
  for i = 1, 4 do t.eq(count(r.err, "told early " .. i), 1, r.err) end
end)

t.test("an error object that no task has received is logged as tostring returns it", function()
  local r = program [[
    loop.run(function()
      thread.spawn(error, setmetatable({}, { __tostring = function() return "as text" end }))
      thread.spawn(error, {})
    end)
  ]]
  t.eq(count(r.err, "as text"), 1, r.err)
  t.ok(r.err:find("(error object is a table value)", 1, true), r.err)
end)

t.test("a failure that a task has received, a kill and a result are not logged", function()
  local r = program [[
    loop.run(function()
      local failed = thread.spawn(error, "seen failure")
      print(thread.wait(failed))
      local late = thread.spawn(function() loop.sleep(0) error("seen later", 0) end)
      print(thread.wait(late))
      thread.kill(thread.spawn(loop.wait, "killed"))
      thread.spawn(function() return "unseen result" end)
    end)
    collectgarbage()
    collectgarbage()
  ]]
  t.eq(r.out, "false\tseen failure\nfalse\tseen later\n")
  t.eq(r.err, "")
end)

t.test("a failure is not logged if the second waiting task gets only 'already waited'", function()
  local r = program [[
    loop.run(function()
      local h = thread.spawn(function() loop.wait "go" error("for the first", 0) end)
      local a = thread.spawn(function() print("a", thread.wait(h)) end)
      local b = thread.spawn(function() print("b", thread.wait(h)) end)
      loop.wakeup "go"
      thread.wait(a)
      thread.wait(b)
    end)
  ]]
  t.eq(r.out, "a\tfalse\tfor the first\nb\tnil\talready waited\n")
  t.eq(r.err, "")
end)

t.finish()
