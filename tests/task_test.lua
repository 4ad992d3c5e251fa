-- lio.task: the order in which tasks run, values of waits, interrupts, kills, errors, the pool of coroutines. The suite
-- calls `run_ready` itself, as a host does; tests/loop_test.lua tests the loop.

local t = require "tests.kit"
local task = require "lio.task"

local function run_all()
  while task.run_ready() do end
end

-- Runs `code` in its own process, so that the errors that the core writes can be read. Returns the result of t.run.
local function errors_of(code)
  local file = t.write(t.tmp() .. "/script.lua", code)
  return t.run(t.lio() .. " " .. t.quote(file))
end

t.test("tasks run in the order in which they were forked, and do not run inside fork", function()
  local seen = {}
  for i = 1, 3 do task.fork(function(x) seen[#seen + 1] = x end, i) end
  t.eq(seen, {})
  run_all()
  t.eq(seen, { 1, 2, 3 })
end)

t.test("a task forked by a task runs in the next round", function()
  local seen = {}
  task.fork(function()
    task.fork(function() seen[#seen + 1] = "inner" end)
    seen[#seen + 1] = "outer"
  end)
  t.ok(task.run_ready(), "there is more")
  t.eq(seen, { "outer" })
  run_all()
  t.eq(seen, { "outer", "inner" })
end)

t.test("a function gets its arguments unchanged, including nils", function()
  local got
  task.fork(function(...) got = table.pack(...) end, nil, 2, nil, 4, nil)
  run_all()
  t.eq(got, { nil, 2, nil, 4, nil, n = 5 })
  task.fork(function(...) got = table.pack(...) end, nil)
  run_all()
  t.eq(got, { n = 1 })
  task.fork(function(...) got = table.pack(...) end)
  run_all()
  t.eq(got, { n = 0 })
end)

t.test("wait returns the values of wakeup, including nils", function()
  for _, values in ipairs { { n = 0 }, { n = 1 }, { 1, n = 1 }, { false, n = 1 }, { nil, 2, n = 2 },
    { 1, nil, n = 2 }, { 1, 2, 3, n = 3 }, { nil, nil, nil, n = 3 } } do
    local got
    task.fork(function() got = table.pack(task.wait("token")) end)
    run_all()
    t.eq(task.wakeup("token", table.unpack(values, 1, values.n)), true)
    t.is_nil(got, "the waker runs on first")
    run_all()
    t.eq(got, values)
  end
end)

t.test("tasks run in the order of their wakeups", function()
  local seen = {}
  for i = 1, 4 do
    task.fork(function() task.wait(i) seen[#seen + 1] = i end)
  end
  run_all()
  for _, i in ipairs { 3, 1, 4, 2 } do task.wakeup(i) end
  run_all()
  t.eq(seen, { 3, 1, 4, 2 })
end)

t.test("a wakeup of a token without a waiting task returns nil, and does not affect later waits", function()
  t.is_nil(task.wakeup "nobody")
  local woken = false
  local co = task.fork(function() task.wait("nobody") woken = true end)
  run_all()
  t.eq(woken, false)
  t.ok(task.wakeup "nobody")
  t.is_nil(task.wakeup "nobody", "the second wakeup of one wait")
  run_all()
  t.eq(woken, true)
  t.eq(task.is_alive(co), false)
end)

t.test("without a token a task waits on its own coroutine", function()
  local got
  local co = task.fork(function() got = task.wait() end)
  run_all()
  t.ok(task.is_waiting(co))
  t.ok(task.wakeup(co, "hello"))
  run_all()
  t.eq(got, "hello")
end)

t.test("if two tasks wait on one token, the second wait raises and the first continues", function()
  local problem, got
  task.fork(function() got = task.wait "shared" end)
  task.fork(function() problem = select(2, pcall(task.wait, "shared")) end)
  run_all()
  t.ok(problem:find "a task is already waiting on this token", problem)
  task.wakeup("shared", 7)
  run_all()
  t.eq(got, 7)
end)

t.test("a plain yield inside a task lets other tasks run", function()
  local seen = {}
  task.fork(function()
    seen[#seen + 1] = 1
    coroutine.yield()
    seen[#seen + 1] = 3
  end)
  task.fork(function() seen[#seen + 1] = 2 end)
  run_all()
  t.eq(seen, { 1, 2, 3 })
end)

t.test("a wait outside a task raises, and does not register the token", function()
  t.raises("outside a task", task.wait, "x")
  t.eq(task.is_waiting "x", false)
end)

t.test("a wait inside a C function that cannot yield raises, and does not register the token", function()
  local problem
  task.fork(function()
    problem = select(2, pcall(string.gsub, "x", "x", function() task.wait "deep" end))
  end)
  run_all()
  t.ok(problem:find("inside 'string.gsub', which cannot yield, called at ", 1, true), problem)
  t.eq(task.is_waiting "deep", false)
end)

t.test("an interrupted wait raises the given value", function()
  local ok, problem
  task.fork(function() ok, problem = pcall(task.wait, "slow") end)
  run_all()
  local reason = { why = "enough" }
  t.eq(task.interrupt("slow", reason), true)
  t.is_nil(task.interrupt("slow", reason), "it no longer waits")
  run_all()
  t.eq(ok, false)
  t.ok(rawequal(problem, reason))
end)

t.test("killing a waiting task closes its <close> variables and releases the token", function()
  local closed, went_on = false, false
  local co = task.fork(function()
    local _ <close> = setmetatable({}, { __close = function() closed = true end })
    task.wait "never"
    went_on = true
  end)
  run_all()
  t.eq(task.kill(co), true)
  t.eq(closed, true)
  t.is_nil(task.kill(co), "it is already dead")
  t.is_nil(task.wakeup "never")
  run_all()
  t.eq(went_on, false)
  t.eq(task.count(), 0)
end)

t.test("a task that was forked or woken and is killed before it runs does not run", function()
  local ran = {}
  local fresh = task.fork(function() ran[#ran + 1] = "fresh" end)
  t.ok(task.kill(fresh))
  local woken = task.fork(function() task.wait "w" ran[#ran + 1] = "woken" end)
  run_all()
  task.wakeup "w"
  t.ok(task.kill(woken))
  task.fork(function() ran[#ran + 1] = "other" end)
  run_all()
  t.eq(ran, { "other" })
  t.eq(task.count(), 0)
end)

t.test("a task cannot kill itself", function()
  local problem
  task.fork(function() problem = select(2, pcall(task.kill, task.running())) end)
  run_all()
  t.ok(problem:find "cannot kill itself", problem)
end)

t.test("the function of on_abandon is called only for waits whose task was killed or interrupted", function()
  local heard = {}
  task.on_abandon(function(token) heard[#heard + 1] = token end)
  local a = task.fork(function() task.wait "killed" end)
  local b = task.fork(function() task.wait "woken, then killed" end)
  task.fork(function() pcall(task.wait, "interrupted") end)
  local d = task.fork(function() task.wait "served" coroutine.yield() end)
  run_all()
  task.kill(a)
  task.wakeup "woken, then killed"
  task.kill(b)
  task.interrupt "interrupted"
  task.wakeup "served"
  task.run_ready()
  task.kill(d)
  run_all()
  task.on_abandon(function() end)
  t.eq(heard, { "killed", "woken, then killed", "interrupted" })
end)

t.test("kill_all ends every task, and the tasks that are forked while tasks end", function()
  local ran = false
  for i = 1, 10 do
    task.fork(function()
      local _ <close> = setmetatable({}, { __close = function()
        task.fork(function() ran = true end)
      end })
      task.wait(i)
    end)
  end
  run_all()
  task.kill_all()
  run_all()
  t.eq(task.count(), 0)
  t.eq(ran, false)
end)

t.test("a million tasks, one after another, share a few coroutines", function()
  local made, create = 0, {}
  for _ = 1, 1000000 do
    local co = task.fork(function() end)
    if not create[co] then
      create[co] = true
      made = made + 1
    end
    task.run_ready()
  end
  t.ok(made <= 4, made .. " coroutines were made")
end)

t.test("the queue's memory does not grow while two tasks wake each other forever", function()
  local rounds = 0
  for name, other in pairs { ping = "pong", pong = "ping" } do
    task.fork(function()
      while rounds < 300000 do
        rounds = rounds + 1
        task.wakeup(other)
        if rounds < 300000 then task.wait(name) end
      end
      task.wakeup(other)
    end)
  end
  for _ = 1, 1000 do task.run_ready() end
  collectgarbage()
  local before = collectgarbage "count"
  run_all()
  collectgarbage()
  t.ok(rounds >= 300000)
  t.ok(collectgarbage "count" < before + 64, "grew to " .. collectgarbage "count" .. " KiB")
end)

t.test("an error is logged with its traceback, and the other tasks continue", function()
  local r = errors_of [[
    local task = require "lio.task"
    local function broken() error("it broke") end
    task.fork(function() broken() end)
    task.fork(function() error(setmetatable({}, { __tostring = function() return "an object" end })) end)
    task.fork(function() error({}) end)
    task.fork(function()
      local _ <close> = setmetatable({}, { __close = function() print "closed" end })
      error "with close"
    end)
    task.fork(function() print "the others go on" end)
    while task.run_ready() do end
    print(task.count())
  ]]
  t.eq(r.out, "closed\nthe others go on\n0\n")
  t.ok(r.err:find("script.lua:2: it broke", 1, true), r.err)
  t.ok(r.err:find("upvalue 'broken'", 1, true) or r.err:find("local 'broken'", 1, true), r.err)
  t.ok(r.err:find("an object", 1, true), r.err)
  t.ok(r.err:find("(error object is a table value)", 1, true), r.err)
end)

t.test("on_error may be replaced, and may raise", function()
  local r = errors_of [[
    local task = require "lio.task"
    task.on_error = function(message, co) print("mine", message, type(co)) error "twice" end
    task.fork(function() error("x", 0) end)
    task.fork(function() print "on" end)
    while task.run_ready() do end
  ]]
  t.eq(r.out, "mine\tx\tthread\non\n")
  t.ok(r.err:find "error in on_error: .*twice", r.err)
end)

t.test("fork takes values that can be called, and refuses other values", function()
  t.raises("bad argument #1 to 'fork'", task.fork, 5)
  t.raises("bad argument #1 to 'fork'", task.fork, "text")
  local got
  task.fork(setmetatable({}, { __call = function(_, x) got = x end }), 3)
  run_all()
  t.eq(got, 3)
end)

t.test("start runs a task until its first wait; inside a task it only forks", function()
  local seen = {}
  task.start(function(...)
    seen[1] = select("#", ...)
    seen[2] = task.wait "started"
  end, nil, nil)
  t.eq(seen, { 2 })
  t.eq(task.count(), 1)
  task.wakeup("started", "on")
  run_all()
  t.eq(seen, { 2, "on" })
  task.start(function() task.start(function() seen[4] = "inner" end) seen[3] = #seen end)
  run_all()
  t.eq(seen, { 2, "on", 2, "inner" })
  task.start(function() end)
  t.eq(task.count(), 0)
end)

t.test("run_ready raises inside a task", function()
  local problem
  task.fork(function() problem = select(2, pcall(task.run_ready)) end)
  run_all()
  t.ok(problem:find "inside a task", problem)
end)

t.test("a pooled coroutine keeps no values of its last task", function()
  collectgarbage "incremental"
  local weak = setmetatable({}, { __mode = "v" })
  task.fork(function(held)
    weak[1] = held
  end, { ("x"):rep(1000) })
  task.run_ready()
  collectgarbage()
  collectgarbage()
  t.is_nil(weak[1])
end)

t.test("tokens are compared by raw equality", function()
  local long = ("x"):rep(100)
  local apart = {
    1, 1.5, math.huge, -math.huge, 2 ^ 63, math.mininteger, "1", "", long, long .. "y", true, false,
    {}, {}, print, function() end, coroutine.create(print), io.stdout,
  }
  local got = {}
  for i, token in ipairs(apart) do
    task.fork(function() got[i] = task.wait(token) end)
  end
  run_all()
  t.eq(task.count(), #apart)
  for i, token in ipairs(apart) do
    t.ok(task.is_waiting(token))
    t.eq(task.wakeup(token, i), true)
    t.eq(task.is_waiting(token), false)
  end
  run_all()
  for i in ipairs(apart) do t.eq(got[i], i) end
end)

t.test("equal values are one token, regardless of how they were created", function()
  for _, pair in ipairs {
    { 1, 1.0 }, { 0, -0.0 }, { -2 ^ 63, math.mininteger }, { 0.5, 1 / 2 }, { "ab", "a" .. ("b"):rep(1) },
    { ("x"):rep(40), ("x"):rep(20) .. ("x"):rep(20) }, { ("x"):rep(41), ("x"):rep(21) .. ("x"):rep(20) },
    { ("long"):rep(10000), ("longlong"):rep(5000) },
  } do
    local ended = false
    task.fork(function() task.wait(pair[1]) ended = true end)
    run_all()
    t.eq(task.wakeup(pair[2]), true)
    run_all()
    t.eq(ended, true)
  end
end)

t.test("nil and NaN cannot be tokens", function()
  local problem
  task.fork(function() problem = select(2, pcall(task.wait, 0 / 0)) end)
  run_all()
  t.ok(problem:find "the token is NaN", problem)
  t.is_nil(task.wakeup(0 / 0))
  t.is_nil(task.wakeup(nil))
  t.is_nil(task.wakeup())
  t.is_nil(task.interrupt())
  t.eq(task.is_waiting(), false)
end)

t.test("a token is not collected while a task waits on it", function()
  local weak = setmetatable({}, { __mode = "v" })
  local got
  task.fork(function()
    local token = {}
    weak[1] = token
    got = task.wait(token)
  end)
  run_all()
  collectgarbage()
  task.wakeup(weak[1], "found")
  run_all()
  t.eq(got, "found")
end)

t.test("fork and wakeup can pass any number of values", function()
  for _, n in ipairs { 15, 16, 17, 40, 5000 } do
    local values = {}
    for i = 1, n do values[i] = i end
    local count, sum = 0, 0
    local function add(...)
      count = count + select("#", ...)
      for i = 1, n do sum = sum + (select(i, ...)) end
    end
    task.fork(function(...)
      add(...)
      add(task.wait "many")
    end, table.unpack(values))
    run_all()
    task.wakeup("many", table.unpack(values))
    run_all()
    t.eq(count, 2 * n)
    t.eq(sum, n * (n + 1))
  end
end)

t.test("a wakeup with more values than the waiting task's stack can hold raises, and the wait continues", function()
  local got
  local deepest = 0
  local function deep(n, least)
    deepest = math.max(deepest, n)
    if n == least then return task.wait "deep down" end
    local result = deep(n + 1, least)
    return result
  end
  pcall(deep, 0, -1)
  local depth = deepest * 9 // 10
  task.fork(function() got = deep(0, depth) end)
  run_all()
  local many = {}
  for i = 1, 150000 do many[i] = i end
  t.raises("too many values", task.wakeup, "deep down", table.unpack(many))
  t.eq(task.wakeup("deep down", "one"), true)
  run_all()
  t.eq(got, "one")
end)

t.test("20,000 tasks that are forked at once run in order, and the next 20,000 tasks reuse their coroutines", function()
  local made, known = 0, {}
  for _ = 1, 3 do
    local last = 0
    for i = 1, 20000 do
      local co = task.fork(function()
        if last ~= i - 1 then error("task " .. i .. " ran after " .. last) end
        last = i
      end)
      if not known[co] then
        known[co] = true
        made = made + 1
      end
    end
    t.eq(task.count(), 20000)
    t.eq(task.run_ready(), false)
    t.eq(last, 20000)
    t.eq(task.count(), 0)
  end
  t.ok(made <= 20000, made .. " coroutines were made")
end)

t.test("coroutines that are no longer needed are released", function()
  for _ = 1, 5000 do task.fork(function() end) end
  run_all()
  collectgarbage()
  local full = collectgarbage "count"
  for _ = 1, 10000 do
    task.fork(function() end)
    task.run_ready()
  end
  collectgarbage()
  collectgarbage()
  t.ok(collectgarbage "count" < full - 2500, full .. " KiB before, " .. collectgarbage "count" .. " after")
end)

t.test("an interrupt with nil raises nil", function()
  local results
  task.fork(function() results = table.pack(pcall(task.wait, "slow")) end)
  run_all()
  t.eq(task.interrupt "slow", true)
  run_all()
  -- Lua 5.5 replaces a nil error object with a string.
  t.eq(results, table.pack(pcall(error)))
end)

t.test("an interrupt does not affect the next wait of the same coroutine", function()
  local first, second
  task.fork(function()
    first = pcall(task.wait, "a")
    second = task.wait "a"
  end)
  run_all()
  task.interrupt("a", "enough")
  run_all()
  task.wakeup("a", "on")
  run_all()
  t.eq({ first, second }, { false, "on" })
end)

t.test("an error in the function of on_abandon is logged, and the task is still closed", function()
  local r = errors_of [[
    local task = require "lio.task"
    task.on_abandon(function() error "from on_abandon" end)
    local closed = 0
    local function waits()
      local _ <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
      task.wait {}
    end
    local a = task.fork(waits)
    for _ = 1, 3 do task.fork(waits) end
    task.run_ready()
    print(pcall(task.kill, a))
    print(pcall(task.kill_all))
    print(closed, task.count())
  ]]
  t.eq(r.out, "true\ttrue\ntrue\n4\t0\n")
  t.eq(select(2, r.err:gsub("error in on_abandon: [^\n]*from on_abandon\n", "")), 4, r.err)
end)

t.test("a task may wake, fork and kill while it is started", function()
  local seen = {}
  local victim = task.fork(function() task.wait "never" end)
  task.fork(function()
    local value = task.wait "go"
    seen[#seen + 1] = value
  end)
  run_all()
  task.start(function()
    task.wakeup("go", "woken")
    task.fork(function() seen[#seen + 1] = "forked" end)
    task.kill(victim)
    seen[#seen + 1] = task.count()
  end)
  t.eq(seen, { 3 })
  run_all()
  t.eq(seen, { 3, "woken", "forked" })
  t.eq(task.count(), 0)
end)

t.test("finalizers may fork while the core allocates", function()
  local made, ran = 0, 0
  local function litter()
    setmetatable({}, { __gc = function()
      made = made + 1
      task.fork(function() ran = ran + 1 end)
    end })
  end
  for i = 1, 3000 do
    litter()
    task.fork(litter)
    if i % 100 == 0 then t.ok(#task.list() >= i) end
  end
  t.ok(made > 0, "the collector ran meanwhile")
  run_all()
  collectgarbage()
  run_all()
  t.eq(ran, made)
  t.eq(task.count(), 0)
end)

t.test("starting a value that cannot be called is an error in the new task", function()
  local r = errors_of [[
    local task = require "lio.task"
    task.start(5)
    task.start()
    print(task.count())
  ]]
  t.eq(r.out, "0\n")
  t.ok(r.err:find("call a number value", 1, true), r.err)
  t.ok(r.err:find("call a nil value", 1, true), r.err)
end)

t.finish()
