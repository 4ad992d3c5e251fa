-- Waits inside coroutines of services: calls, sleeps and waits in generators, handlers and their responses, errors and
-- their tracebacks, and the errors that callers get if a service ends, or a request is closed, during such a wait. The
-- global `coroutine` of a service is lio.coroutine, in both hosts.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local echo <const> = [[
  local S = {}
  function S.echo(...) return ... end
  function S.delay(cs, ...) ltask.sleep(cs) return ... end
  function S.never() ltask.wait "never" end
  function S.fail(what) error(what, 0) end
  return S
]]

-- `nested(depth, f, …)` calls `f(…)` in `depth` nested coroutines.
local nested <const> = [[
  local function nested(depth, f, ...)
    if depth == 0 then return f(...) end
    return coroutine.wrap(nested)(depth - 1, f, ...)
  end
]]

kit.test("the global coroutine table of a service is lio.coroutine", {
  main = [[
    say(coroutine == require "lio.coroutine", package.loaded.coroutine == coroutine)
    say(coroutine.status(coroutine.running()), select(2, coroutine.running()), coroutine.isyieldable())
  ]],
  out = { "true\ttrue", "running\tfalse\ttrue" },
})

kit.test("a generator may call, sleep and wait in a for loop", {
  services = { echo = echo },
  main = [[
    local a = ltask.spawn "echo"
    local main = ltask.running()
    local squares = coroutine.wrap(function()
      for i = 1, 5 do
        local n = ltask.call(a, "echo", i)
        ltask.sleep(i % 2)
        coroutine.yield(n, ltask.call(a, "delay", 0, n * n))
      end
    end)
    for n, square in squares do say(n, square) end
    for name in coroutine.wrap(function()
      ltask.fork(function() ltask.wakeup("token", "woken", nil, 3) end)
      coroutine.yield((select("#", ltask.wait "token")))
      ltask.fork(function() ltask.multi_wakeup("all", "by all") end)
      coroutine.yield(ltask.multi_wait "all")
      ltask.timeout(1, function() ltask.interrupt("stop", "interrupted") end)
      coroutine.yield(select(2, pcall(ltask.wait, "stop")))
    end) do say(name) end
    say(main == ltask.running())
  ]],
  out = { "1\t1", "2\t4", "3\t9", "4\t16", "5\t25", "3", "by all", "interrupted", "true" },
})

kit.test("the innermost of fifty nested coroutines may call repeatedly, with many values", {
  services = { echo = echo },
  main = nested .. [[
    local a = ltask.spawn "echo"
    local list = {}
    for i = 1, 200 do list[i] = i end
    local right = 0
    for i = 1, 100 do
      local got = table.pack(nested(50, function()
        ltask.call(a, "echo", i)
        return ltask.call(a, "echo", table.unpack(list))
      end))
      if got.n == 200 and got[1] == 1 and got[200] == 200 then right = right + 1 end
    end
    say(right)
  ]],
  out = { "100" },
})

kit.test("handlers with generators serve concurrent requests, and each gets its own response", {
  services = { echo = echo, middle = nested .. [[
    local S = {}
    local back = ...
    function S.sum(n)
      local sum = 0
      for i in coroutine.wrap(function()
        for i = 1, n do coroutine.yield(nested(i % 4, ltask.call, back, "delay", i % 2, i)) end
      end) do sum = sum + i end
      return n, sum
    end
    return S
  ]] },
  main = [[
    local middle = ltask.spawn("middle", (ltask.spawn "echo"))
    local done, right = 0, 0
    for n = 1, 50 do
      ltask.fork(function()
        local m, sum = ltask.call(middle, "sum", n % 20)
        if m == n % 20 and sum == m * (m + 1) // 2 then right = right + 1 end
        done = done + 1
        if done == 50 then ltask.wakeup "all" end
      end)
    end
    ltask.wait "all"
    say(right)
  ]],
  out = { "50" },
})

kit.test("a service handles other requests while a nested coroutine waits", {
  services = { slow = nested .. [[
    local S = {}
    function S.slow() return nested(5, ltask.wait, "go") end
    function S.go(...) return ltask.wakeup("go", ...) end
    return S
  ]] },
  main = [[
    local a = ltask.spawn "slow"
    local result
    ltask.fork(function()
      result = table.pack(ltask.call(a, "slow"))
      ltask.wakeup "done"
    end)
    ltask.sleep(0)
    while not ltask.call(a, "go", 1, nil, "x") do ltask.sleep(0) end
    if not result then ltask.wait "done" end
    say(result.n, result[1], result[2], result[3])
  ]],
  out = { "3\t1\tnil\tx" },
})

kit.test("current_session and no_response inside nested coroutines concern the handler's request", {
  services = { later = nested .. [[
    local S = {}
    function S.ask(...)
      local outer = ltask.current_session()
      local args = table.pack(...)
      nested(3, function()
        ltask.sleep(0)
        local inner = ltask.current_session()
        say(inner.from == outer.from, inner.session == outer.session)
        ltask.no_response()
        ltask.fork(function()
          ltask.sleep(1)
          ltask.send_message_direct(inner.from, inner.session, 2, ltask.pack(table.unpack(args, 1, args.n)))
        end)
      end)
      return "this is not the answer"
    end
    return S
  ]] },
  main = [[ say(ltask.call(ltask.spawn "later", "ask", "the", "answer")) ]],
  out = { "true\ttrue", "the\tanswer" },
})

kit.test("an error in nested coroutines reaches the caller with the lines of every service", {
  services = {
    back = [[
      local S = {}
      local function deep() ltask.sleep(0) error "it broke" end
      function S.fail()
        local ok = coroutine.wrap(deep)()
        return ok
      end
      return S
    ]],
    front = [[
      local S = {}
      local back = ...
      local function pass(...)
        local r = ltask.call(back, ...)
        return r
      end
      function S.pass(...)
        local co = coroutine.wrap(pass)
        local r = co(...)
        return r
      end
      return S
    ]],
  },
  main = [[
    local back = ltask.spawn "back"
    local front = ltask.spawn("front", back)
    for _, wrap in ipairs { function(f) return f end, coroutine.wrap } do
      local ok, e = pcall(wrap(function(...) return ltask.call(...) end), front, "pass", "fail")
      local text = tostring(e)
      say(ok, type(e), text:find("back.lua:2: it broke", 1, true) ~= nil)
      local function names(id, label) return text:find("service " .. id .. " (" .. label .. ")", 1, true) ~= nil end
      say(names(back, "back"), names(front, "front"))
      say(text:find("back.lua:4", 1, true) ~= nil, text:find("front.lua:9", 1, true) ~= nil)
    end
    say(select(2, pcall(coroutine.wrap(ltask.call), 4711, "x")))
  ]],
  out = {
    "false\ttable\ttrue", "true\ttrue", "true\ttrue", "false\ttable\ttrue", "true\ttrue", "true\ttrue",
    "{service:4711} is dead",
  },
})

kit.test("a coroutine can catch the error object of a call in a coroutine that it resumes", {
  services = { echo = "local S = {} function S.fail(...) error { code = ... } end return S" },
  main = nested .. [[
    local a = ltask.spawn "echo"
    nested(4, function()
      local co = coroutine.create(function(code)
        ltask.call(a, "fail", code)
      end)
      local ok, e = coroutine.resume(co, 42)
      say(ok, type(e), e.err.code, coroutine.status(co))
    end)
  ]],
  out = { "false\ttable\t42\tdead" },
})

kit.test("an error in a nested fork is logged once, with the lines of all its coroutines", {
  main = [[
    local function inner() ltask.sleep(0) error "nobody caught it" end
    local co = ltask.fork(function()
      coroutine.wrap(inner)()
    end)
    while coroutine.status(co) ~= "dead" do ltask.sleep(1) end
  ]],
  err = false,
  out = function(out, err)
    local log = out .. err
    t.eq(select(2, log:gsub("nobody caught it", "")), 1, log)
    t.ok(log:find("main.lua:1: nobody", 1, true) and log:find("main.lua:3:", 1, true), log)
  end,
})

kit.test("if the coroutine of a request is closed, inner coroutines are closed first, and the caller gets an error", {
  services = { held = [[
    local S, order, held = {}, {}, nil
    local function guard(name)
      return setmetatable({}, { __close = function() order[#order + 1] = name end })
    end
    function S.hold(how)
      held = coroutine.running()
      local _ <close> = guard "handler"
      coroutine.wrap(function()
        local _ <close> = guard "middle"
        coroutine.wrap(function()
          local _ <close> = guard "inner"
          if how == "sleep" then ltask.sleep(100000) else ltask.call(ltask.self(), "never") end
        end)()
      end)()
    end
    function S.never() ltask.wait "never" end
    function S.cancel()
      local status = coroutine.status(held)
      local ok = coroutine.close(held)
      return status, ok, table.concat(order, " "), coroutine.status(held)
    end
    return S
  ]] },
  main = [[
    for _, how in ipairs { "sleep", "call" } do
      local a = ltask.spawn "held"
      local caught
      ltask.fork(function()
        local ok, e = pcall(coroutine.wrap(ltask.call), a, "hold", how)
        caught = (ok and "answered" or "told") .. " " .. type(e)
        ltask.wakeup "told"
      end)
      ltask.sleep(0)
      say(ltask.call(a, "cancel"))
      if not caught then ltask.wait "told" end
      say((caught:gsub(" .*", "")))
    end
  ]],
  err = false,
  out = function(out)
    local lines = {}
    for _, line in ipairs(kit.lines(out)) do
      if line:find "^waiting" or line:find "^told" then lines[#lines + 1] = line end
    end
    local closed = "waiting\ttrue\tinner middle handler\tdead"
    t.eq(lines, { closed, "told", closed, "told" }, out)
  end,
})

kit.test("a handler continues and responds after its inner coroutine was closed", {
  services = { held = [[
    local S, inner = {}, nil
    function S.hold()
      inner = coroutine.create(function() ltask.sleep(100000) end)
      local ok, e = coroutine.resume(inner)
      ltask.sleep(0)
      return "answer", ok, e
    end
    function S.cancel() return coroutine.status(inner), coroutine.resume(inner) end
    function S.close() return coroutine.close(inner) end
    return S
  ]] },
  main = [[
    local a = ltask.spawn "held"
    ltask.fork(function()
      say(ltask.call(a, "hold"))
      ltask.wakeup "answered"
    end)
    ltask.sleep(0)
    say(ltask.call(a, "cancel"))
    ltask.fork(function() say(ltask.call(a, "close")) end)
    ltask.wait "answered"
  ]],
  out = function(out)
    local lines = kit.lines(out)
    table.sort(lines)
    t.eq(lines, {
      "answer\tfalse\tcoroutine was closed", "true", "waiting\tfalse\tcannot resume a coroutine that is waiting",
    })
  end,
})

kit.test("if a service is killed while nested coroutines wait, all callers get errors and all variables are closed", {
  services = { busy = nested .. [[
    local S = {}
    local function guard(name) return setmetatable({}, { __close = function() say(name) end }) end
    function S.hold(i)
      local _ <close> = guard("closed")
      nested(i, function()
        local _ <close> = guard("closed")
        if i % 3 == 0 then ltask.sleep(100000) end
        if i % 3 == 1 then ltask.wait "never" end
        ltask.call(ltask.self(), "never")
      end)
    end
    function S.never() ltask.wait {} end
    function S.ping() end
    return S
  ]] },
  main = nested .. [[
    local a = ltask.spawn "busy"
    local told = 0
    for i = 0, 8 do
      ltask.fork(function()
        local ok, e = pcall(nested, i, ltask.call, a, "hold", i)
        if not ok and e then told = told + 1 end
        if told == 9 then ltask.wakeup "all" end
      end)
    end
    ltask.sleep(0)
    ltask.call(a, "ping")
    say(ltask.kill(a))
    if told < 9 then ltask.wait "all" end
    say("told", told)
    say(ltask.send(a, "hold", 1))
  ]],
  err = false,
  out = function(out)
    t.ok(out:find("told\t9\n", 1, true), out)
    t.eq(select(2, out:gsub("closed\n", "")), 18, "closed variables")
    t.ok(out:find("false\t{service:%d+} is dead\n"), out)
  end,
})

kit.test("the system ends without an error while nested coroutines wait", {
  services = { busy = nested .. [[
    for i = 1, 20 do ltask.fork(nested, i, ltask.sleep, 100000) end
    for i = 1, 20 do ltask.fork(nested, i, ltask.wait, "token" .. i) end
    for i = 1, 20 do ltask.fork(nested, i, ltask.call, ltask.self(), "never") end
    return { never = function() nested(3, ltask.sleep, 100000) end }
  ]] },
  main = [[
    for _ = 1, 5 do ltask.syscall(ltask.spawn "busy", "tasks") end
    say "end"
  ]],
  out = { "end" },
})

t.finish()
