-- Concurrent requests: async, request():select and parallel, with the results that both generations return.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local worker <const> = [[
  local S, count = {}, 0
  function S.echo(...) return ... end
  function S.delay(cs, ...) ltask.sleep(cs) return ... end
  function S.fail(what) error(what, 0) end
  -- `later` returns when the service gets `go`, and before `go` returns.
  function S.later(...) ltask.multi_wait "go" return ... end
  function S.go() ltask.multi_wakeup "go" ltask.sleep(0) end
  function S.add(n) ltask.sleep(1) count = count + n return count end
  function S.count() return count end
  return S
]]

kit.test("async:wait returns when every request has been answered", {
  services = { worker = worker },
  main = [[
    local a, b = ltask.spawn "worker", ltask.spawn "worker"
    local async = ltask.async()
    for i = 1, 50 do
      async:request(a, "add", i)
      async:request(b, "add", 1)
    end
    say "requested"
    async:wait()
    say(ltask.call(a, "count"), ltask.call(b, "count"))
    -- The object can be used again, and a wait without requests returns at once.
    async:wait()
    async:request(a, "add", 1)
    async:wait()
    say(ltask.call(a, "count"))
  ]],
  out = { "requested", "1275\t50", "1276" },
})

kit.test("select returns each request with its results, in the order of the responses", {
  services = { worker = worker },
  main = [[
    local a, b = ltask.spawn "worker", ltask.spawn "worker"
    local req = ltask.request()
    req:add { a, "delay", 6, "slow", id = 1 }
    req:add { b, "echo", "quick", nil, "x", id = 2 }
    req { a, "delay", 3, "middle", id = 3 } { b, "fail", "broken", id = 4 }
    local seen = {}
    for r, resp in req:select() do
      if resp then
        seen[#seen + 1] = r.id
        say(r.id, resp[1], resp[3])
      else
        say(r.id, tostring(r.error):find("broken", 1, true) ~= nil)
      end
    end
    say(table.concat(seen, " "))
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.eq(lines[5], "2 3 1", out)
    table.sort(lines)
    t.eq(lines, { "1\tslow\tnil", "2\tquick\tx", "2 3 1", "3\tmiddle\tnil", "4\ttrue" })
  end,
})

kit.test("requests can be added with the call syntax alone", {
  services = { worker = worker },
  main = [[
    local a = ltask.spawn "worker"
    local sum = 0
    for _, resp in ltask.request { a, "echo", 1 } { a, "echo", 2 } { a, "echo", 3 } :select() do
      sum = sum + resp[1]
    end
    say(sum)
    for _ in ltask.request():select() do say "never" end
    say "empty"
  ]],
  out = { "6", "empty" },
})

kit.test("select with a timeout ends without the late requests, whose responses have no effect", {
  services = { worker = worker },
  main = [[
    local a = ltask.spawn "worker"
    local seen = {}
    local started = ltask.counter()
    for r, resp in ltask.request { a, "later", id = "late" } { a, "delay", 1, id = "soon" } :select(100) do
      if resp then seen[#seen + 1] = r.id end
    end
    say(ltask.counter() - started >= 1, table.concat(seen, " "))
    ltask.call(a, "go")
    say(ltask.call(a, "echo", "still in step"))
  ]],
  out = { "true\tsoon", "still in step" },
})

kit.test("a request to a dead service fails, and other requests are answered", {
  services = { worker = worker },
  main = [[
    local a = ltask.spawn "worker"
    local good, bad = 0, 0
    for r, resp in ltask.request { a, "echo" } { 4711, "echo" } { a, "echo" } :select() do
      if resp then good = good + 1
      elseif tostring(r.error):find("{service:4711} is dead", 1, true) then bad = bad + 1 end
    end
    say(good, bad)
  ]],
  out = { "2\t1" },
})

kit.test("leaving the loop, close and <close> drop the remaining responses", {
  services = { worker = worker },
  main = [[
    local a = ltask.spawn "worker"
    for _ in ltask.request { a, "echo" } { a, "later" } :select() do break end
    do
      local req <close> = ltask.request { a, "later" } { a, "later" }
      for _ in req:select(1) do end
    end
    local req = ltask.request { a, "later" }
    local _ = req:select()
    req:close()
    ltask.call(a, "go")
    say(ltask.call(a, "echo", "in step"))
  ]],
  out = { "in step" },
})

kit.test("parallel returns each task with a table of its results or its error", {
  services = { worker = worker },
  main = [[
    local a = ltask.spawn "worker"
    local tasks = {
      { function(x, y) ltask.wait "others" return x + y end, 1, 2, id = "sum" },
      { ltask.call, a, "echo", "e", nil, "f", id = "call" },
      { function() error("broken", 0) end, id = "error" },
      { function() end, id = "none" },
    }
    local last
    local left = 3
    for task, resp in ltask.parallel(tasks) do
      last, left = task.id, left - 1
      if left == 0 then ltask.wakeup "others" end
      if resp.error then
        local ok, e = pcall(resp.rethrow, resp)
        local function names(problem) return tostring(problem):find("broken", 1, true) ~= nil end
        say(task.id, names(resp.error), ok, names(e))
      else
        say(task.id, resp[1], resp[2], resp[3])
      end
    end
    say("last", last)
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.eq(lines[5], "last\tsum", out)
    table.sort(lines)
    t.eq(lines, {
      "call\te\tnil\tf", "error\ttrue\tfalse\ttrue", "last\tsum", "none\tnil\tnil\tnil", "sum\t3\tnil\tnil",
    })
  end,
})

kit.test("in the first generation, parallel returns the results themselves, and raises errors at the end", {
  services = { worker = worker },
  config = { generation = 1 },
  main = [[
    local a = ltask.spawn "worker"
    local seen = {}
    local ok, e = pcall(function()
      for task, first, second in ltask.parallel {
        { function(x, y) ltask.sleep(3) return x, y end, 1, 2, id = "pair" },
        { ltask.call, a, "echo", "e", "f", id = "call" },
        { function() error("broken", 0) end, id = "error" },
      } do
        if first ~= nil then seen[task.id] = first .. " " .. second end
      end
    end)
    say(seen.pair, seen.call)
    say(ok, tostring(e):find("broken", 1, true) ~= nil)
    for _, r in ltask.parallel { { function() return "no error" end } } do say(r) end
  ]],
  out = { "1 2\te f", "false\ttrue", "no error" },
})

kit.test("parallel runs a thousand tasks, and returns each result once", {
  services = { worker = worker },
  main = [[
    local a, tasks = ltask.spawn "worker", {}
    for i = 1, 1000 do tasks[i] = { ltask.call, a, "delay", i % 3, i } end
    local seen, count = {}, 0
    for task, resp in ltask.parallel(tasks) do
      local i = resp[1]
      assert(not seen[i] and task == tasks[i])
      seen[i], count = true, count + 1
    end
    say(count)
    for _ in ltask.parallel {} do say "never" end
  ]],
  out = { "1000" },
})

t.finish()
