-- lio.thread's all, race and timeout: their results, failures, the threads that they end, and kills of their callers.

local t = require "tests.kit"
local netkit = require "tests.kit.net"
local counts = require "tests.model.counts"
local loop = require "lio.loop"
local task = require "lio.task"
local thread = require "lio.thread"

local pack <const> = table.pack

-- Returns a function that waits for `token`, and adds `token` to `ended` when it ends.
local function waiter(token, ended)
  return function()
    local _ <close> = setmetatable({}, { __close = function() ended[#ended + 1] = token end })
    return loop.wait(token)
  end
end

-- ---------------------------------------------------------------------------------------------
-- all

netkit.test("all returns the results of each function, in the order of the list", function()
  local ok, list = thread.all {
    function()
      loop.sleep(0.002)
      return "slow", nil
    end,
    function() return 1, nil, 3 end,
    function() end,
    function()
      loop.sleep(0)
      return nil
    end,
  }
  t.eq(ok, true)
  t.eq(list, { pack("slow", nil), pack(1, nil, 3), pack(), pack(nil) })
end)

netkit.test("all takes functions, lists with arguments, and handles", function()
  local ended = thread.spawn(function() return "ended" end)
  local living = thread.spawn(function() return loop.wait "living" end)
  loop.fork(loop.wakeup, "living", "woken")
  local ok, list = thread.all { pack, { pack, 1, "x" }, { math.max, 3, 9, 4 }, ended, living }
  t.eq(ok, true)
  t.eq(list, { pack(pack()), pack(pack(1, "x")), pack(9), pack "ended", pack "woken" })
  t.eq(thread.status(ended), "dead")
  t.eq(thread.status(living), "dead")
end)

netkit.test("the arguments in a list may contain nils if the list has the field n", function()
  local ok, list = thread.all { { select, "#", nil, 2, n = 4 }, { select, "#", 1 } }
  t.eq(ok, true)
  t.eq(list, { pack(2), pack(1) })
end)

netkit.test("all returns an empty list for an empty list", function()
  t.eq(pack(thread.all {}), pack(true, {}))
end)

netkit.test("all starts its functions at once, in order", function()
  local seen = {}
  local caller = thread.spawn(thread.all, {
    function() seen[#seen + 1] = 1 loop.sleep(0) end,
    function() seen[#seen + 1] = 2 loop.sleep(0) end,
    function() seen[#seen + 1] = 3 loop.sleep(0) end,
  })
  t.eq(seen, { 1, 2, 3 })
  t.eq(thread.wait(caller), true)
end)

netkit.test("all returns the first failure, and kills the others", function()
  local ended = {}
  local object = {}
  local handle = thread.spawn(waiter("handle", ended))
  loop.fork(loop.wakeup, "fail")
  local ok, e = thread.all {
    waiter("first", ended),
    function()
      loop.wait "fail"
      error(object)
    end,
    waiter("second", ended),
    handle,
  }
  t.eq(ok, false)
  t.ok(rawequal(e, object))
  table.sort(ended)
  t.eq(ended, { "first", "handle", "second" })
end)

netkit.test("if a function fails at once, all kills the threads that it has started", function()
  local ended = {}
  local before = counts.now()
  t.eq(pack(thread.all { waiter("early", ended), { error, "at once", 0 }, waiter("late", ended) }),
    pack(false, "at once"))
  t.eq(ended[1], "early")
  counts.expect(before)
end)

netkit.test("all returns the earliest failure, not the first failure in the list", function()
  loop.fork(function()
    loop.wakeup "fails first"
    loop.wakeup "fails second"
  end)
  local function fail(token)
    loop.wait(token)
    error(token, 0)
  end
  t.eq(pack(thread.all { { fail, "fails second" }, { fail, "fails first" } }), pack(false, "fails first"))
end)

netkit.test("all treats a killed thread as a failure", function()
  local h = thread.spawn(loop.wait, "all killed")
  local ended = {}
  loop.fork(thread.kill, h)
  t.eq(pack(thread.all { waiter("other", ended), h }), pack(false, "killed"))
  t.eq(ended, { "other" })
end)

netkit.test("all and race end at once, even if a member is running and cannot be killed yet", function()
  for call, want in pairs { all = pack(true, false, "at once"), race = pack(true, false, "at once") } do
    local outer, got
    outer = thread.spawn(function()
      loop.sleep(0)
      thread.spawn(function() got = pack(true, thread[call] { { error, "at once", 0 }, outer }) end)
      loop.wait "in the middle"
    end)
    netkit.settle()
    t.eq(got, want, call)
    t.eq(pack(thread.wait(outer)), pack(false, "killed"), call .. ": the member is killed when it waits")
  end
end)

netkit.test("all may be called in a function of all, inside a thread", function()
  local function leaf(x)
    loop.sleep(0)
    return x
  end
  local function pair(x)
    local ok, list = thread.all { { leaf, x }, { leaf, x + 1 } }
    assert(ok, list)
    return list[1][1] + list[2][1]
  end
  local ok, list = thread.all { { pair, 1 }, { pair, 10 }, { pair, 100 } }
  t.eq(ok, true)
  t.eq(list, { pack(3), pack(21), pack(201) })
end)

-- Regression: the error was passed to `all` after the caller of `all` had been killed, and was lost.
for _, inner in ipairs { "a thread", "a thread of a scope" } do
  netkit.test("a failure of a function of all after " .. inner .. " has killed the caller is reported", function()
    local reported, on_error = {}, task.on_error
    local caller
    caller = thread.spawn(function()
      thread.all {
        function()
          loop.sleep(0)
          local scope <close> = thread.scope()
          local function kill() t.eq(thread.kill(caller), true) end
          if inner == "a thread" then thread.spawn(kill) else scope:spawn(kill) end
          error("failed later", 0)
        end,
        function() loop.wait "for ever" end,
      }
    end)
    task.on_error = function(message) reported[#reported + 1] = message:match "^[^\n]*" end
    netkit.settle()
    task.on_error = on_error
    t.eq(reported, { "failed later" })
  end)
end

-- ---------------------------------------------------------------------------------------------
-- race

netkit.test("race returns the results of the thread that ends first, and kills the others", function()
  local ended = {}
  loop.fork(loop.wakeup, "b", "won", nil)
  t.eq(pack(thread.race { waiter("a", ended), waiter("b", ended), waiter("c", ended) }), pack(true, "won", nil))
  t.eq(ended[1], "b")
  table.sort(ended)
  t.eq(ended, { "a", "b", "c" })
end)

netkit.test("race returns a failure as wait does", function()
  local ended = {}
  loop.fork(loop.interrupt, "b", "lost")
  t.eq(pack(thread.race { waiter("a", ended), waiter("b", ended) }), pack(false, "lost"))
  t.eq(#ended, 2)
end)

netkit.test("race returns at once if a function does not wait", function()
  local ended = {}
  local before = counts.now()
  t.eq(pack(thread.race { waiter("a", ended), pack, waiter("c", ended) }), pack(true, pack()))
  t.eq(ended[1], "a")
  counts.expect(before)
end)

netkit.test("race takes functions, lists and handles; a handle that loses is killed", function()
  local ended = {}
  local h = thread.spawn(waiter("handle", ended))
  loop.fork(loop.wakeup, "list", 5)
  t.eq(pack(thread.race { h, { loop.wait, "list" }, waiter("function", ended) }), pack(true, 5))
  table.sort(ended)
  t.eq(ended, { "function", "handle" })
  t.ok(thread.status(h) ~= "waiting", thread.status(h))
end)

netkit.test("race with a thread that has ended returns its results", function()
  local h = thread.spawn(function() return "before" end)
  local ended = {}
  t.eq(pack(thread.race { waiter("other", ended), h }), pack(true, "before"))
  t.eq(thread.status(h), "dead")
end)

netkit.test("race of an empty list raises", function()
  t.raises("race", thread.race, {})
end)

-- ---------------------------------------------------------------------------------------------
-- timeout

netkit.test("timeout returns the function's results if it ends in time", function()
  local before = counts.now()
  t.eq(pack(thread.timeout(100, function(...) return ..., nil end, 1, nil)), pack(true, 1, nil))
  t.eq(pack(thread.timeout(100, function(x)
    loop.sleep(0)
    return x, nil
  end, "later")), pack(true, "later", nil))
  counts.expect(before)
end)

netkit.test("timeout returns the error if the function fails in time", function()
  local before = counts.now()
  t.eq(pack(thread.timeout(100, error, "at once")), pack(false, "at once"))
  t.eq(pack(thread.timeout(100, function()
    loop.sleep(0)
    error("later", 0)
  end)), pack(false, "later"))
  counts.expect(before)
end)

netkit.test("timeout kills a function that takes too long", function()
  local ended = {}
  local before = counts.now()
  for _, seconds in ipairs { 0, 0.001, 0.01 } do
    t.eq(pack(thread.timeout(seconds, waiter("slow", ended))), pack(nil, "timeout"))
  end
  t.eq(#ended, 3, "the thread has ended when timeout returns")
  counts.expect(before)
end)

netkit.test("timeout does not limit a function that does not wait", function()
  t.eq(pack(thread.timeout(0, function() return "quick" end)), pack(true, "quick"))
end)

netkit.test("of two nested timeouts, the shorter one expires", function()
  local inner, ended = nil, {}
  t.eq(pack(thread.timeout(100, function()
    inner = pack(thread.timeout(0.001, waiter("deep", ended)))
    return "outer"
  end)), pack(true, "outer"))
  t.eq(inner, pack(nil, "timeout"))
  local before = counts.now()
  inner = nil
  t.eq(pack(thread.timeout(0.001, function()
    inner = pack(thread.timeout(100, waiter("deeper", ended)))
  end)), pack(nil, "timeout"))
  t.is_nil(inner)
  t.eq(ended, { "deep", "deeper" }, "the calls of the killed thread have ended with it")
  counts.expect(before)
end)

netkit.test("a function that ends after its time, but before the caller of timeout runs, is in time", function()
  loop.timeout(0, function() loop.wakeup("just in time", "result") end)
  t.eq(pack(thread.timeout(0, loop.wait, "just in time")), pack(true, "result"))
end)

netkit.test("threads that the function of timeout has spawned continue", function()
  local child
  thread.timeout(0, function()
    child = thread.spawn(loop.wait, "child of a timeout")
    loop.wait "never"
  end)
  t.eq(thread.status(child), "waiting")
  t.eq(thread.kill(child), true)
end)

-- ---------------------------------------------------------------------------------------------
-- Misuse, and callers that are killed

netkit.test("the errors from all, race and timeout name the invalid argument", function()
  t.raises("bad argument #1 to 'thread.all'", thread.all)
  t.raises("bad argument #1 to 'thread.all'", thread.all, 5)
  t.raises("'thread.all'", thread.all, { pack, 5 })
  t.raises("'thread.all'", thread.all, { { 5 } })
  t.raises("bad argument #1 to 'thread.race'", thread.race)
  t.raises("bad argument #1 to 'thread.race'", thread.race, print)
  t.raises("'thread.race'", thread.race, { "x" })
  t.raises("bad argument #1 to 'thread.timeout'", thread.timeout, "x", print)
  t.raises("bad argument #2 to 'thread.timeout'", thread.timeout, 1)
  t.raises("bad argument #2 to 'thread.timeout'", thread.timeout, 1, 5)
end)

netkit.test("a call of all or race with an invalid argument starts no thread", function()
  local started = 0
  local function start() started = started + 1 end
  t.raises("'thread.all'", thread.all, { start, 5 })
  t.raises("'thread.race'", thread.race, { start, {} })
  t.eq(started, 0)
end)

netkit.test("if their caller is killed, all, race and timeout kill only the threads that they spawned", function()
  local callers <const> = {
    function(ended, h) thread.all { waiter("a", ended), { waiter("b", ended) }, h } end,
    function(ended, h) thread.race { waiter("a", ended), { waiter("b", ended) }, h } end,
    function(ended)
      thread.timeout(100, function()
        thread.timeout(100, waiter("a", ended))
      end)
      ended[#ended + 1] = "went on"
    end,
  }
  for i, f in ipairs(callers) do
    local before = counts.now()
    local ended = {}
    local h = thread.spawn(loop.wait, "spared")
    local caller = thread.spawn(f, ended, h)
    t.eq(thread.kill(caller), true)
    table.sort(ended)
    t.eq(ended, i < 3 and { "a", "b" } or { "a" })
    t.eq(thread.status(h), "waiting")
    t.eq(thread.kill(h), true)
    counts.expect(before)
  end
end)

t.finish()
