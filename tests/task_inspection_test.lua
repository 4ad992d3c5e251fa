-- lio.tasks(): the status and age of tasks, what each task waits for, and where its coroutines are.
-- ltask_coroutine_wait_test.lua tests the same in services; task_lost_test.lua tests the report of orphaned tasks.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local kit = require "tests.kit.coroutine_places"
local lio = require "lio"
local loop = require "lio.loop"
local net = require "lio.net"
local thread = require "lio.thread"
local c = require "lio.coroutine"

local here <const> = debug.getinfo(1, "S").short_src

-- Returns the entry of lio.tasks() for the task `co`.
local function look(co)
  for _, one in ipairs(lio.tasks()) do
    if one.thread == co then return one end
  end
end

-- Calls `f` inside `depth` nested coroutines.
local function nested(depth, f)
  if depth == 0 then return f() end
  return c.wrap(nested)(depth - 1, f)
end

netkit.test("tasks lists every task with its coroutine, and no task that has ended", function()
  local before = #lio.tasks()
  local a = loop.fork(function() loop.wait "a" end)
  local b = loop.fork(function() nested(3, function() loop.wait "b" end) end)
  t.eq(#lio.tasks(), before + 2)
  netkit.settle()
  t.eq(#lio.tasks(), before + 2, "the coroutines inside are not tasks")
  t.ok(look(a) and look(b) and look((loop.running())))
  loop.wakeup "a"
  loop.kill(b)
  netkit.settle()
  t.eq(#lio.tasks(), before)
  t.is_nil(look(b))
end)

netkit.test("the status of a task is running, ready or waiting", function()
  local co = loop.fork(function() nested(2, function() loop.wait "status" end) end)
  local function status() return look(co).status end
  t.eq(status(), "ready")
  t.is_nil(look(co).waits_for)
  netkit.settle()
  t.eq(status(), "waiting")
  loop.wakeup "status"
  t.eq(status(), "ready")
  t.eq(look(loop.running()).status, "running")
  t.is_nil(look(loop.running()).waits_for)
  local me = loop.running()
  nested(2, function() t.eq(look(me).status, "running") end)
end)

netkit.test("the running task's traceback begins with the calling coroutine, before and after a wait", function()
  local me = loop.running()
  for _ = 1, 2 do
    nested(2, function()
      local line = kit.line() local text = look(me).traceback
      t.ok(text:find(("%s:%d:"):format(here, line), 1, true), text)
      t.eq(select(2, text:gsub("resumed by", "")), 2, text)
      loop.sleep(0)
      line = kit.line() text = look(me).traceback
      t.ok(text:find(("%s:%d:"):format(here, line), 1, true), text)
      t.eq(select(2, text:gsub("resumed by", "")), 2, text)
    end)
  end
end)

netkit.test("the age of a task is measured from its fork; the list begins with the oldest task", function()
  local first = loop.fork(function() loop.wait "age" end)
  loop.sleep(0.002)
  local second = loop.fork(function() nested(1, function() loop.wait "age 2" end) end)
  local a = look(first).age
  t.ok(a >= 0.001, a)
  loop.sleep(0.002)
  t.ok(look(first).age >= a + 0.001, look(first).age - a)
  t.ok(look(second).age < look(first).age)
  local list = lio.tasks()
  for i = 2, #list do t.ok(list[i - 1].age >= list[i].age) end
  loop.wakeup "age"
  loop.wakeup "age 2"
end)

netkit.test("waits_for describes what a task waits for, even in a nested coroutine", function()
  for depth = 0, 2, 2 do
    local listener <close> = t.ok(net.listen("127.0.0.1", 0))
    local a, b = netkit.pair()
    local _ <close> = netkit.closing(a, b)
    local other = thread.spawn(function() loop.wait "thread" end)
    local object = setmetatable({}, { __tostring = function() return "my object" end })
    local cases = {
      { "sleep", function() loop.sleep(1000) end },
      { "reading", function() a:recv(1) end },
      { "writing", function() a:send(("x"):rep(1 << 24)) end },
      { "reading of .*listening", function() listener:accept() end },
      { "in words", function() loop.wait "in words" end },
      { "token 42", function() loop.wait(42) end },
      { "token my object", function() loop.wait(object) end },
      { "thread", function() thread.wait(other) end },
      { "wakeup", function() loop.wait() end },
    }
    local tasks = {}
    for i, case in ipairs(cases) do tasks[i] = loop.fork(nested, depth, case[2]) end
    netkit.settle()
    for i, case in ipairs(cases) do
      local one = look(tasks[i])
      t.eq(one.status, "waiting")
      t.ok(one.waits_for:find(case[1]), one.waits_for .. " for " .. case[1])
      t.eq(loop.kill(tasks[i]), true)
    end
    thread.kill(other)
  end
end)

netkit.test("waits_for of a connect is 'a connect'", function()
  -- When the backlog is full, the system does not answer further connects.
  local listener <close> = t.ok(net.listen("127.0.0.1", 0, { backlog = 0 }))
  local _, port = listener:address()
  local tasks, waiting = {}, 0
  for i = 1, 8 do
    tasks[i] = loop.fork(nested, i % 3, function()
      local connection <close> = net.connect("127.0.0.1", port)
      return connection and nil
    end)
  end
  netkit.settle()
  for i = 1, 8 do
    local one = look(tasks[i])
    if one then
      waiting = waiting + 1
      t.ok(one.waits_for:find "connect", one.waits_for)
    end
    loop.kill(tasks[i])
  end
  t.ok(waiting > 0)
end)

netkit.test("the traceback shows the whole chain of nested coroutines, with functions and lines", function()
  local lines = {}
  local function innermost()
    lines[1] = kit.line() loop.wait "traced"
    return 1
  end
  local function middle()
    lines[2] = kit.line() c.wrap(innermost)()
    return 1
  end
  local function outermost()
    lines[3] = kit.line() local ok, err = c.resume(c.create(middle))
    return ok, err
  end
  local co = loop.fork(outermost)
  netkit.settle()
  local text, from = look(co).traceback, 1
  for i = 1, 3 do
    local at = text:find(("%s:%d:"):format(here, lines[i]), from, true)
    t.ok(at, ("line %d, of level %d, is not in order in\n%s"):format(lines[i], i, text))
    from = at
  end
  loop.wakeup "traced"
end)

netkit.test("lio.tasks may be called at any time, and does not affect the tasks", function()
  local seen = {}
  local generator = c.wrap(function()
    for i = 1, 20 do
      lio.tasks()
      loop.sleep(0)
      lio.tasks()
      c.yield(i)
    end
  end)
  local watcher = loop.fork(function()
    while true do
      lio.tasks()
      loop.sleep(0)
    end
  end)
  for i in generator do seen[#seen + 1] = i end
  t.eq(#seen, 20)
  loop.kill(watcher)
  t.eq(type(lio.tasks()), "table")
end)

t.test("outside a loop the list is empty", function()
  t.eq(lio.tasks(), {})
end)

t.finish()
