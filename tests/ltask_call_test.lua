-- Requests between services: send and call, errors and their tracebacks, late and missing responses.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local echo <const> = [[
  local S = {}
  function S.echo(...) return ... end
  function S.delay(cs, ...) ltask.sleep(cs) return ... end
  function S.count(...) return select("#", ...) end
  function S.quit() end
  return S
]]

kit.test("call returns all results of the handler", {
  services = { echo = echo },
  main = [[
    local a = ltask.spawn "echo"
    say(ltask.call(a, "echo"))
    say(ltask.call(a, "echo", nil, false, nil))
    say(ltask.call(a, "count", nil, nil, nil))
    local list, s, f = ltask.call(a, "echo", { 1, { x = "y" } }, ("z"):rep(100000), 1.5)
    say(list[1], list[2].x, #s, f, 1 << 62 == ltask.call(a, "echo", 1 << 62))
    local shared = {}
    local back = ltask.call(a, "echo", { shared, shared })
    say(back[1] == back[2], rawequal(back[1], shared))
    local cyclic = {}
    cyclic.me = cyclic
    back = ltask.call(a, "echo", cyclic)
    say(back.me == back)
    local many = {}
    for i = 1, 200 do many[i] = i end
    say(select("#", ltask.call(a, "echo", table.unpack(many))))
  ]],
  out = { "nil\tfalse\tnil", "3", "1\ty\t100000\t1.5\ttrue", "true\tfalse", "true", "200" },
})

kit.test("a service may call itself", {
  main = [[
    function S.twice(x) return x * 2 end
    say(ltask.call(ltask.self(), "twice", 21))
    say(ltask.self() > 1, ltask.label():find "main" ~= nil)
  ]],
  out = { "42", "true\ttrue" },
})

kit.test("the error for an unknown request names a similar handler", {
  services = { echo = echo },
  main = [[
    local a = ltask.spawn "echo"
    for _, name in ipairs { "ehco", "delays", "something" } do say(select(2, pcall(ltask.call, a, name))) end
    say(select(2, pcall(ltask.call, a)))
  ]],
  out = {
    "service 4 (echo) has no handler for request 'ehco' (did you mean 'echo'?)",
    "service 4 (echo) has no handler for request 'delays' (did you mean 'delay'?)",
    "service 4 (echo) has no handler for request 'something'",
    "service 4 (echo): the name of the request is missing (nil)",
  },
})

kit.test("send does not suspend its caller", {
  services = { echo = echo },
  main = [[
    local a = ltask.spawn "echo"
    ltask.fork(function() say "forked" end)
    for _ = 1, 10 do ltask.send(a, "echo", 1) end
    say "after send"
    ltask.sleep(0)
  ]],
  out = { "after send", "forked" },
})

kit.test("the messages of a service arrive in the order in which it called `send` and `call`", {
  services = { list = [[
    local S, list = {}, {}
    function S.add(i) list[#list + 1] = i end
    function S.get() return list end
    return S
  ]] },
  main = [[
    local a = ltask.spawn "list"
    for i = 1, 3000, 3 do
      ltask.send(a, "add", i)
      ltask.send_direct(a, "add", i + 1)
      ltask.call(a, "add", i + 2)
    end
    local list, order = ltask.call(a, "get"), true
    for i = 1, 3000 do order = order and list[i] == i end
    say(#list, order)
  ]],
  out = { "3000\ttrue" },
})

kit.test("call suspends only the calling coroutine, and the service handles other requests", {
  services = { echo = echo, middle = [[
    local S = {}
    local other = ...
    function S.slow() return ltask.call(other, "delay", 20, "slow") end
    function S.quick() return "quick" end
    return S
  ]] },
  main = [[
    local middle = ltask.spawn("middle", (ltask.spawn "echo"))
    local done = {}
    ltask.fork(function()
      say(ltask.call(middle, "slow"))
      ltask.wakeup(done)
    end)
    ltask.fork(function() say(ltask.call(middle, "quick")) end)
    say "neither is back yet"
    ltask.wait(done)
  ]],
  out = { "neither is back yet", "quick", "slow" },
})

kit.test("an error reaches the caller with the id and the traceback of every service in the chain", {
  services = {
    front = [[
      local S = {}
      local back = ...
      function S.pass(...)
        local r = ltask.call(back, ...)
        return r
      end
      return S
    ]],
    back = [[
      local S = {}
      local function deep()
        error "it broke"
      end
      function S.fail()
        deep()
        return 1
      end
      return S
    ]],
  },
  main = [[
    local back = ltask.spawn "back"
    local front = ltask.spawn("front", back)
    local ok, e = pcall(ltask.call, front, "pass", "fail")
    local text = tostring(e)
    say(ok, type(e))
    say("message", text:find("back.lua:3: it broke", 1, true) ~= nil)
    say("tracebacks", #e, select(2, text:gsub("stack traceback", "")))
    say("lines", text:find("back.lua:6", 1, true) ~= nil, text:find("front.lua:4", 1, true) ~= nil)
    local function names(id) return text:find("%f[%d]" .. id .. "%f[%D]") ~= nil end
    say("ids", names(back), names(front))
    say("once", select(2, text:gsub("it broke", "")))
    -- A caller that does not catch the error adds its own traceback.
    local own
    ltask.fork(function()
      local _, problem = xpcall(function() return ltask.call(front, "pass", "fail") end, function(m) return m end)
      own = tostring(problem)
    end)
    while not own do ltask.sleep(0) end
    say("caller", own:find("main.lua", 1, true) ~= nil)
  ]],
  out = {
    "false\ttable", "message\ttrue", "tracebacks\t3\t3", "lines\ttrue\ttrue", "ids\ttrue\ttrue", "once\t1",
    "caller\ttrue",
  },
})

kit.test("every kind of error is raised in the caller, and the service continues", {
  services = { bad = [[
    local S = {}
    -- AddressSanitizer ends a process that requests this amount from malloc(3).
    if os.getenv "LIO_TEST_SANITIZER" then ltask.mem_limit(1 << 36) end
    function S.text() error("plain", 0) end
    function S.object() error { code = 7 } end
    function S.none() error() end
    function S.late() ltask.sleep(1) error "late" end
    function S.runtime() return nil + 1 end
    function S.answer() return function() end end
    function S.large() return ("x"):rep(1 << 40) end
    local function deep(n) return 1 + deep(n + 1) end
    function S.overflow() return deep(0) end
    function S.alive() return "alive" end
    return S
  ]] },
  main = [[
    local a = ltask.spawn "bad"
    for _, name in ipairs { "text", "object", "none", "late", "runtime", "answer", "large", "overflow", "nosuch" } do
      local ok, e = pcall(ltask.call, a, name)
      local text = tostring(e)
      local expect = { text = "plain", late = "late", runtime = "arithmetic", answer = "Unsupport type function",
        nosuch = "nosuch", overflow = "stack overflow",
        large = _VERSION == "Lua 5.4" and "too large" or "not enough memory" }
      say(name, ok, text:find(expect[name] or "", 1, true) ~= nil)
    end
    local ok, e = pcall(ltask.call, a, "alive", function() end)
    say(ok, tostring(e):find "Unsupport type function to serialize" ~= nil)
    say(ltask.call(a, "alive"))
  ]],
  out = {
    "text\tfalse\ttrue", "object\tfalse\ttrue", "none\tfalse\ttrue", "late\tfalse\ttrue", "runtime\tfalse\ttrue",
    "answer\tfalse\ttrue", "large\tfalse\ttrue", "overflow\tfalse\ttrue", "nosuch\tfalse\ttrue", "false\ttrue", "alive",
  },
})

kit.test("if no caller waits for a response, errors are logged with a traceback", {
  services = { bad = [[
    local S = {}
    function S.fail() error "nobody asked" end
    function S.alive() return "alive" end
    return S
  ]] },
  main = [[
    local a = ltask.spawn "bad"
    ltask.send(a, "fail")
    ltask.send(a, "nosuch")
    say(ltask.call(a, "alive"))
    ltask.fork(function() error "in a fork" end)
    ltask.timeout(0, function()
      ltask.fork(ltask.wakeup, "both have failed")
      error "in a timeout"
    end)
    ltask.wait "both have failed"
  ]],
  err = false,
  out = function(out, err)
    t.ok(out:find("alive\n", 1, true), out)
    local log = out .. err
    for _, what in ipairs { "bad.lua:2: nobody asked", "nosuch", "in a fork", "in a timeout" } do
      t.ok(log:find(what, 1, true), what .. " is not in the log:\n" .. log)
    end
    t.eq(select(2, log:gsub("nobody asked", "")), 1, "logged once")
    t.ok(log:find "stack traceback", log)
  end,
})

kit.test("a call to a dead service or an unused id raises an error", {
  services = { brief = "local S = {} function S.stop() ltask.quit() end return S" },
  main = [[
    local a = ltask.spawn "brief"
    local e
    repeat e = select(2, pcall(ltask.call, a, "stop")) until tostring(e):find "is dead"
    for _, id in ipairs { a, 4711, 0xffffffff } do
      local ok, problem = pcall(ltask.call, id, "anything")
      say(ok, tostring(problem):find("{service:" .. id .. "} is dead", 1, true) ~= nil)
    end
    -- Only root may send to id 0.
    say((pcall(ltask.call, 0, "anything")))
    say((pcall(ltask.call, a + (1 << 32), "anything")))
  ]],
  out = { "false\ttrue", "false\ttrue", "false\ttrue", "false", "false" },
})

kit.test("after no_response, a request can be answered later, even with an error", {
  services = { later = [[
    local S, waiting = {}, {}
    function S.ping() end
    function S.ask(what)
      waiting[what] = ltask.current_session()
      ltask.no_response()
      return "this is not the answer"
    end
    function S.release()
      local s = waiting.answer
      local p, n = ltask.pack("the answer")
      ltask.send_message_direct(s.from, s.session, 2, p, n)
      s = waiting.message
      ltask.raise_error(s.from, s.session, "no answer today")
      s = waiting.object
      ltask.error(s.from, s.session, "an error instead")
      return "released"
    end
    return S
  ]] },
  main = [[
    local a = ltask.spawn "later"
    local results = {}
    for _, what in ipairs { "answer", "message", "object" } do
      ltask.fork(function() results[what] = table.pack(pcall(ltask.call, a, "ask", what)) end)
    end
    ltask.sleep(0)
    ltask.call(a, "ping")
    say("still waiting", next(results))
    say(ltask.call(a, "release"))
    while not (results.answer and results.message and results.object) do ltask.sleep(1) end
    say(table.unpack(results.answer))
    say(results.message[1], tostring(results.message[2]):find "no answer today" ~= nil)
    say(results.object[1], tostring(results.object[2]):find "an error instead" ~= nil)
  ]],
  out = { "still waiting\tnil", "released", "true\tthe answer", "false\ttrue", "false\ttrue" },
})

kit.test("current_session returns the sender and the session of the running request", {
  services = { who = [[
    local S = {}
    function S.who()
      local s = ltask.current_session()
      ltask.sleep(0)
      local again = ltask.current_session()
      return s.from, math.type(s.session), s.session == again.session
    end
    return S
  ]] },
  main = [[
    local from, kind, same = ltask.call(ltask.spawn "who", "who")
    say(from == ltask.self(), kind, same)
  ]],
  out = { "true\tinteger\ttrue" },
})

kit.test("if the coroutine of a request is closed, an error with the handler's line is logged once", {
  services = { forgetful = [[
    local S, kept = {}
    function S.forget()
      kept = ltask.running()
      ltask.wait "for ever"
    end
    function S.drop()
      coroutine.close(kept)
      kept = nil
      for _ = 1, 4 do collectgarbage() end
    end
    return S
  ]] },
  main = [[
    local a = ltask.spawn "forgetful"
    local told = false
    ltask.fork(function()
      pcall(ltask.call, a, "forget")
      told = true
    end)
    ltask.sleep(0)
    ltask.call(a, "drop")
    while not told do ltask.sleep(1) end
  ]],
  err = false,
  out = function(out, err)
    t.eq(select(2, (out .. err):gsub("forgetful%.lua:[2-5]", "")), 1, out .. err)
  end,
})

kit.test("syscall sends a request that the service library handles", {
  services = { echo = echo },
  main = [[
    local a = ltask.spawn "echo"
    say((pcall(ltask.syscall, a, "no such request")))
    say((pcall(ltask.syscall, a, "quit")))
  ]],
  err = false,
  out = { "false", "true" },
})

kit.test("dispatch adds handlers to a service, and returns all its handlers", {
  services = { changing = [[
    local S = {}
    function S.one() return 1 end
    function S.change()
      ltask.dispatch { two = function() return 2 end }
      return ltask.dispatch().two()
    end
    return S
  ]] },
  main = [[
    local a = ltask.spawn "changing"
    say(ltask.call(a, "one"), (pcall(ltask.call, a, "two")))
    say(ltask.call(a, "change"), ltask.call(a, "two"))
  ]],
  out = { "1\tfalse", "2\t2" },
})

t.finish()
