-- Tasks of the Skynet compatibility API: fork, sleep, wait, wakeup, yield, and functions that list or end tasks.

local t = require "tests.kit"
local kit = require "tests.kit.skynet_system"

kit.test("invalid arguments of fork, sleep, timeout, wakeup and init raise at the caller's line", {
  main = [[
    local nan = 0 / 0
    local function try(f, ...)
      local args = table.pack(...)
      say(select(2, pcall(function() f(table.unpack(args, 1, args.n)) return nil end)):match "[^/]*$")
    end
    try(skynet.fork)
    try(skynet.sleep)
    try(skynet.sleep, "x")
    try(skynet.sleep, nan)
    try(skynet.timeout, nil, print)
    try(skynet.timeout, 1, 2)
    try(skynet.wakeup)
  ]],
  out = {
    "main.lua:4: bad argument #1 to 'fork' (function expected, got nil)",
    "main.lua:4: bad argument #1 to 'sleep' (a time in centiseconds expected, got nil)",
    "main.lua:4: bad argument #1 to 'sleep' (a time in centiseconds expected, got x)",
    "main.lua:4: bad argument #1 to 'sleep' (a time in centiseconds expected, got " .. tostring(0 / 0) .. ")",
    "main.lua:4: bad argument #1 to 'timeout' (a time in centiseconds expected, got nil)",
    "main.lua:4: bad argument #2 to 'timeout' (function expected, got number)",
    "main.lua:4: bad argument #1 to 'wakeup' (a token expected, got nil)",
  },
})

kit.test("two coroutines cannot sleep or wait on the same token", {
  main = [[
    skynet.fork(function() say("first", skynet.sleep(100000, "token")) end)
    skynet.yield()
    say(pcall(skynet.sleep, 1, "token"))
    say(pcall(skynet.wait, "token"))
    say(skynet.wakeup "token")
    skynet.yield()
    say((skynet.wakeup "token"))
  ]],
  out = {
    "false\tsleep: a coroutine is already sleeping or waiting on this token",
    "false\twait: a coroutine is already sleeping or waiting on this token",
    "true", "first\tBREAK", "nil",
  },
})

kit.test("a wakeup has no effect if the sleeping coroutine was killed or could not wait", {
  main = [[
    local task = require "lio.task"
    local co = skynet.fork(skynet.sleep, 100000, "killed")
    local other = skynet.fork(skynet.wait, "killed too")
    skynet.yield()
    say(task.kill(co), task.kill(other))
    say((skynet.wakeup "killed"), (skynet.wakeup "killed too"))
    -- This coroutine is woken, and killed before it runs.
    co = skynet.fork(skynet.wait, "both")
    skynet.yield()
    say(skynet.wakeup "both", task.kill(co))
    say((skynet.wakeup "both"))
    say((pcall(table.sort, { 2, 1 }, function() skynet.wait "sort" end)))
    say((skynet.wakeup "sort"))
    -- The tokens can be used again.
    for _, token in ipairs { "killed", "killed too", "both", "sort" } do
      skynet.fork(function() say(token, skynet.sleep(100000, token)) end)
      skynet.yield()
      say(skynet.wakeup(token))
      skynet.yield()
    end
  ]],
  out = {
    "true\ttrue", "nil\tnil", "true\ttrue", "nil", "false", "nil", "true", "killed\tBREAK", "true", "killed too\tBREAK",
    "true", "both\tBREAK", "true", "sort\tBREAK",
  },
})

kit.test("ltask.wakeup ends a sleep, and skynet.wakeup ends no wait of ltask", {
  main = [[
    skynet.fork(function() say("slept", skynet.sleep(100000, "token")) end)
    skynet.fork(function() say("waited", ltask.wait "theirs") end)
    skynet.yield()
    say(ltask.wakeup "token", skynet.wakeup "theirs")
    skynet.yield()
    say(ltask.wakeup("theirs", 1))
    skynet.yield()
  ]],
  out = { "true", "slept\tBREAK", "true", "waited\t1" },
})

kit.test("messages that have arrived are handled before yield returns", {
  services = { self = [[
    skynet.start(function()
      local list = {}
      skynet.dispatch("lua", function(_, _, n) list[#list + 1] = n end)
      for i = 1, 3 do skynet.send(skynet.self(), "lua", i) end
      skynet.fork(function() list[#list + 1] = "fork" end)
      skynet.yield()
      say(table.concat(list, " "))
    end)
  ]] },
  main = [[ skynet.newservice "self" ]],
  out = { "fork 1 2 3" },
})

kit.test("skynet.task counts and shows the waiting coroutines", {
  services = {
    look = [[
      skynet.start(function()
        local list = {}
        local co = skynet.fork(function() skynet.sleep(100000) end)
        skynet.fork(function() skynet.wait "token" end)
        skynet.timeout(100000, print)
        skynet.yield()
        say(skynet.task())
        skynet.task(list)
        local count = 0
        for key, text in pairs(list) do
          count = count + 1
          assert(key:find "^thread: 0x%x+ session: %d+$", key)
          assert(text:find "stack traceback:\n", text)
        end
        local session = skynet.task(co)
        say(count, math.type(session), list[tostring(co) .. " session: " .. session] == skynet.task(session))
        say(skynet.task(session):find "look.lua:3: in function" ~= nil)
        say(skynet.task(123456), skynet.task(coroutine.create(print)))
        say(skynet.task "init":find "look.lua:%d+: in function" ~= nil)
        skynet.fork(function() say(skynet.task "init") end)
      end)
    ]],
  },
  main = [[
    -- The forks of `look` run before it answers.
    skynet.call(skynet.newservice "look", "debug", "PING")
    say(pcall(skynet.task, true))
  ]],
  out = {
    "3", "3\tinteger\ttrue", "true", "No session\tnil", "true", "nil",
    "false\tbad argument #1 to 'task' (nothing, \"init\", a table, a session or a coroutine expected, got boolean)",
  },
})

kit.test("uniqtask shows each traceback once, with its sessions", {
  services = { look = [[
    skynet.start(function()
      for _ = 1, 12 do skynet.fork(function() skynet.sleep(100000) end) end
      skynet.fork(function() skynet.wait "token" end)
      skynet.yield()
      local heads = {}
      for head, text in pairs(skynet.uniqtask()) do
        heads[#heads + 1] = head:gsub("[%d]+,", "N,"):gsub("%d+([%].])", "N%1") .. (text:match "look.lua:%d+")
      end
      table.sort(heads)
      for _, head in ipairs(heads) do say((head:gsub("\n", " "))) end
    end)
  ]] },
  main = [[ skynet.newservice "look" ]],
  out = { "1\tsessions:[N] look.lua:3", "12\tsessions:[N,N,N,N,N,N,N,N,N,N...] look.lua:2" },
})

kit.test("trace_timeout records where a timeout was set, until the timeout runs", {
  main = [[
    local function only()
      local list = {}
      skynet.task(list)
      local _, text = next(list)
      return text
    end
    skynet.trace_timeout(true)
    local co = skynet.timeout(100000, print)
    say(only():find "^TIMER %d+%+100000 : timeout\nstack traceback:\n[^\n]*main.lua:8: " ~= nil)
    skynet.killthread(co)
    skynet.timeout(0, function() skynet.wait "here" end)
    skynet.yield()
    say(only():find "main.lua:11: in function" ~= nil, only():find "TIMER")
    skynet.wakeup "here"
    skynet.yield()
    skynet.trace_timeout(false)
    skynet.timeout(100000, print)
    say(only():find "TIMER")
  ]],
  out = { "true", "true\tnil", "nil" },
})

kit.test("killthread closes a coroutine, given as object, session or name; the caller gets an error", {
  services = { victims = [[
    local victim
    function CMD.kill() return skynet.killthread(victim) == victim end
    function CMD.busy()
      local _ <close> = setmetatable({}, { __close = function() say "closed" end })
      victim = coroutine.running()
      skynet.sleep(100000)
    end
    serve()
  ]] },
  err = "closed before it was answered",
  main = [[
    local count = skynet.task()
    local function victim(what)
      return skynet.fork(function()
        local _ <close> = setmetatable({}, { __close = function() say(what) end })
        skynet.sleep(100000)
        say "not this"
      end)
    end
    local co = victim "by itself"
    skynet.yield()
    say(skynet.killthread(co) == co, skynet.killthread(co))
    co = victim "by session"
    skynet.yield()
    say(skynet.killthread(skynet.task(co)) == co)
    co = victim "by name"
    skynet.yield()
    say(skynet.killthread(tostring(co):match "0x(%x+)") == co)
    -- A coroutine that has not started, a timer, and the running coroutine.
    co = skynet.fork(say, "not this")
    say(skynet.killthread(co) == co)
    co = skynet.timeout(100000, print)
    say(skynet.killthread(co) == co)
    say(skynet.killthread(coroutine.running()), skynet.killthread "no such name", skynet.killthread(123456))
    say(skynet.task() - count, (select(2, pcall(skynet.killthread, {})):gsub("^.*/", "")))
    local victims = skynet.newservice "victims"
    skynet.fork(function()
      local ok, err = pcall(skynet.call, victims, "lua", "busy")
      skynet.wait "its turn"
      say(ok, err)
    end)
    skynet.yield()
    say(skynet.call(victims, "lua", "kill"))
    -- The answer to `busy` arrived before the answer to `kill`.
    skynet.wakeup "its turn"
    skynet.yield()
  ]],
  out = {
    "by itself", "true\tnil", "by session", "true", "by name", "true", "true", "true", "nil\tnil\tnil",
    "0\tbad argument #1 to 'killthread' (a coroutine, its session or a part of its name expected, got table)",
    "closed", "true", "false\tthe request's coroutine was closed before it answered",
  },
})

kit.test("term ends the calls that wait for a service, and drops the responses for this service", {
  services = { slave = [[
    local answer
    function CMD.hang() skynet.sleep(1000000) end
    function CMD.keep() answer = skynet.response() end
    function CMD.ask(addr)
      skynet.fork(function() say("asked", pcall(skynet.call, addr, "lua", "hang")) end)
      -- A call to another service still waits after `term`.
      skynet.fork(function() say("another", pcall(skynet.call, CMD.other, "lua", "hang")) end)
      skynet.fork(function()
        for _, result in skynet.request { addr, "lua", "hang" }:select() do say("request", result) end
      end)
      skynet.yield()
    end
    function CMD.term(addr, keeps)
      say("term", answer "TEST")
      skynet.term(addr)
      skynet.yield()
      say("after it", answer "TEST")
      if not keeps then say(answer(true, "late"), pcall(answer, true)) end
    end
    function CMD.other_is(addr) CMD.other = addr end
    skynet.start(function()
      skynet.dispatch("lua", function(_, _, cmd, ...)
        local f = CMD[cmd]
        if cmd == "keep" then return f(...) end
        skynet.retpack(f(...))
      end)
    end)
  ]] },
  main = [[
    local a, b, c = skynet.newservice "slave", skynet.newservice "slave", skynet.newservice "slave"
    skynet.call(a, "lua", "other_is", c)
    skynet.call(a, "lua", "ask", b)
    skynet.fork(skynet.call, a, "lua", "keep")
    skynet.yield()
    -- The calls of `a` wait for `b`; the response that `a` keeps is for this service.
    skynet.call(a, "lua", "term", b, true)
    skynet.call(a, "lua", "term", skynet.self())
  ]],
  err = false,
  out = function(out)
    out = out:gsub("service:%d+", "service:N")
    t.eq(kit.lines(out), {
      "term\ttrue", "asked\tfalse\t{service:N} is dead", "request\tfalse", "after it\ttrue",
      "term\ttrue", "after it\tfalse", "false\tfalse\tresponse: this request has already been answered",
    })
  end,
})

kit.test("skynet.pcall first runs the functions of init, then its function, and catches errors", {
  services = { careful = [[
    skynet.init(function() say "init" end)
    say(skynet.pcall(function(...) return "f", ... end, 1, nil))
    local ok, err = skynet.pcall(error, "wrong", 0)
    say(ok, (err:gsub("\n.*", "")), err:find "stack traceback:" ~= nil)
    skynet.start(function() say "start" end)
  ]] },
  main = [[ skynet.newservice "careful" ]],
  out = { "init", "true\tf\t1\tnil", "false\twrong\ttrue", "start" },
})

kit.test("skynet.coroutine has skynet's functions, and reports the status of waiting coroutines", {
  main = [[
    local coroutine = require "skynet.coroutine"
    local own = coroutine.running()
    say(coroutine.thread() == own, select(2, coroutine.thread()), coroutine.isyieldable())
    say((coroutine.resume(own)))
    local co = coroutine.create(function(...)
      say("begin", ...)
      local owner, is_owner = coroutine.thread()
      say(owner == own, is_owner)
      skynet.sleep(2)
      local x = coroutine.yield "yielded"
      return x
    end)
    say(coroutine.status(co))
    skynet.fork(function()
      say(coroutine.status(co), coroutine.resume(co))
    end)
    say(coroutine.resume(co, 1, 2))
    say(coroutine.status(co))
    say(select(2, coroutine.resume(co, "x")))
    say(coroutine.status(co), coroutine.resume(co))
    local f = coroutine.wrap(function() coroutine.yield(1) error("wrong", 0) end)
    say(f())
    say(pcall(f))
    co = coroutine.create(coroutine.yield)
    coroutine.resume(co)
    say(coroutine.close(co), coroutine.status(co))
  ]],
  out = {
    "true\ttrue\ttrue", "false", "suspended", "begin\t1\t2", "true\tfalse",
    "blocked\tfalse\tcannot resume a coroutine that is waiting", "true\tyielded", "suspended", "x",
    "dead\tfalse\tcannot resume dead coroutine", "1", "false\twrong", "true\tdead",
  },
})

t.finish()
