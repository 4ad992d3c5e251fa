-- Services that end because of quit, a kill or an error: all their callers get an answer, and a late message fails
-- instead of reaching a new service.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local victim <const> = [[
  local S = {}
  function S.ping(...) return ... end
  local n = 0
  function S.wait() n = n + 1 ltask.wait(n) end
  function S.nap(cs) ltask.sleep(cs) return "awake" end
  -- `later` returns when the service gets the request `answer`, which returns the number of `later` requests.
  local laters = 0
  function S.later()
    laters = laters + 1
    ltask.multi_wait "later"
  end
  function S.answer()
    ltask.multi_wakeup "later"
    return laters
  end
  function S.stop() ltask.quit() end
  -- Blocks this service's thread until the file `go` in `dir` exists, and then quits. Requests are queued until then.
  function S.hold(who, dir)
    ltask.send(who, "held")
    repeat local f = io.open(dir .. "/go") until f
    ltask.quit()
  end
  return S
]]

-- `count(n, ...)` forks n calls and counts their outcomes; `all()` waits until all calls have ended.
local counting <const> = [[
  local dir = ...
  local started, ended, dead, lived, other = 0, 0, 0, 0
  local function count(n, ...)
    local args = table.pack(...)
    for _ = 1, n do
      started = started + 1
      ltask.fork(function()
        local ok, e = pcall(ltask.call, table.unpack(args, 1, args.n))
        ended = ended + 1
        local text = tostring(e)
        if ok then lived = lived + 1
        elseif text:find "quit" or text:find "dead" or text:find "killed" then dead = dead + 1
        else other = other or text end
        if ended == started then ltask.wakeup "all" end
      end)
    end
  end
  local function all()
    if ended < started then ltask.wait "all" end
  end
  function S.held() ltask.wakeup "held" end
  -- Waits until root has removed the service `id`.
  local function gone(id)
    while ltask.call(1, "stat")[id] do ltask.sleep(1) end
  end
]]

kit.test("kill returns true for a running service, and false for a dead or unknown one", {
  services = { victim = victim },
  main = [[
    local a = ltask.spawn "victim"
    say(ltask.kill(a), ltask.kill(a), ltask.kill(4711))
    say((pcall(ltask.call, a, "ping")))
  ]],
  out = { "true\tfalse\tfalse", "false" },
})

kit.test("kill ends a service whose mailbox is full, and every one of several kills returns", {
  services = { victim = victim },
  config = { core = { queue = 4 } },
  main = counting .. [[
    local a = ltask.spawn "victim"
    ltask.send(a, "hold", ltask.self(), dir)
    ltask.wait "held"
    for _ = 1, 10 do pcall(ltask.send, a, "ping") end
    local killed, answered = 0, 0
    for _ = 1, 3 do
      ltask.fork(function()
        if ltask.kill(a) then killed = killed + 1 end
        answered = answered + 1
        if answered == 3 then ltask.wakeup "killed" end
      end)
    end
    ltask.sleep(0)
    -- After this call, root has received the three requests to kill.
    ltask.call(1, "stat")
    io.open(dir .. "/go", "w"):close()
    if answered < 3 then ltask.wait "killed" end
    say(answered, killed >= 1, (pcall(ltask.call, a, "ping")))
  ]],
  out = { "3\ttrue\tfalse" },
})

for how, stop in pairs { quit = "ltask.send(a, 'stop')", kill = "ltask.kill(a)" } do
  kit.test("if a service ends because of a " .. how .. ", the requests that it handles are answered with an error", {
    services = { victim = victim },
    main = counting .. [[
      local a = ltask.spawn "victim"
      count(100, a, "wait")
      count(100, a, "nap", 100000)
      ltask.sleep(0)
      say(ltask.call(a, "ping", "pong"))
    ]] .. stop .. [[

      all()
      say(started, ended, dead, other)
    ]],
    out = { "pong", "200\t200\t200\tnil" },
  })
end

kit.test("the requests in the mailbox of a service that quits are answered", {
  services = { victim = victim },
  main = counting .. [[
    local a = ltask.spawn "victim"
    ltask.send(a, "hold", ltask.self(), dir)
    ltask.wait "held"
    count(100, a, "wait")
    count(100, a, "ping", 1)
    ltask.sleep(0)
    say(ended)
    io.open(dir .. "/go", "w"):close()
    all()
    say(started, ended, other, lived <= 100)
  ]],
  out = { "0", "200\t200\tnil\ttrue" },
})

kit.test("if a service with a full mailbox ends, the callers that wait for space get an answer", {
  services = { victim = victim },
  config = { full = "wait", core = { queue = 4 } },
  main = counting .. [[
    local a = ltask.spawn "victim"
    ltask.send(a, "hold", ltask.self(), dir)
    ltask.wait "held"
    count(100, a, "wait")
    for _ = 1, 20 do
      ltask.fork(function()
        pcall(ltask.send, a, "wait")
        ltask.wakeup "sent"
      end)
    end
    ltask.sleep(0)
    say(ended)
    io.open(dir .. "/go", "w"):close()
    all()
    say(started, ended, dead, other)
  ]],
  out = { "0", "100\t100\t100\tnil" },
})

kit.test("requests to a service that fails while it starts are answered, and spawn raises", {
  services = { stillborn = [[
    local who = ...
    -- This call returns when the mailbox has requests.
    ltask.call(who, "born", ltask.self())
    error "it cannot start"
  ]] },
  main = counting .. [[
    local id
    function S.born(a)
      id = a
      ltask.wakeup "born"
      ltask.wait "asked"
    end
    ltask.fork(function()
      local ok, e = pcall(ltask.spawn, "stillborn", ltask.self())
      say(ok, tostring(e):find("stillborn.lua:4: it cannot start", 1, true) ~= nil)
      ltask.wakeup "raised"
    end)
    ltask.wait "born"
    count(20, id, "ping")
    ltask.sleep(0)
    ltask.wakeup "asked"
    ltask.wait "raised"
    all()
    say(started, ended, lived)
  ]],
  err = false,
  out = { "false\ttrue", "20\t20\t0" },
})

kit.test("answers to a service that has ended are dropped", {
  services = { victim = victim, asker = [[
    local S = {}
    local other = ...
    function S.ask() return ltask.call(other, "later") end
    function S.stop() ltask.quit() end
    return S
  ]] },
  main = counting .. [[
    local a = ltask.spawn "victim"
    local b = ltask.spawn("asker", a)
    count(10, b, "ask")
    ltask.sleep(0)
    ltask.send(b, "stop")
    all()
    say(dead, lived)
    gone(b)
    -- Answers the ten requests.
    say(ltask.call(a, "answer"), ltask.call(a, "ping", "still there"))
  ]],
  out = { "10\t0", "10\tstill there" },
})

kit.test("the id of a dead service is not reused for a long time: a late message fails and reaches no other service", {
  services = { victim = victim },
  main = [[
    local seen, list = {}, {}
    for i = 1, 200 do
      local a = ltask.spawn "victim"
      assert(not seen[a], "an id was reused")
      seen[a], list[i] = true, a
      assert(ltask.kill(a))
    end
    local dead = 0
    for _, a in ipairs(list) do
      local ok, e = pcall(ltask.call, a, "ping")
      if not ok and tostring(e):find("{service:" .. a .. "} is dead", 1, true) then dead = dead + 1 end
    end
    say(dead)
  ]],
  out = { "200" },
})

kit.test("the quit handler runs at quit and at kill, before the service ends; its errors are logged", {
  services = { polite = [[
    local S = {}
    function S.stop() ltask.quit() end
    function S.quit() say "quit handler" end
    return S
  ]], rude = [[
    local S = {}
    function S.quit() error "quit failed" end
    return S
  ]] },
  main = counting .. [[
    local a, b, c = ltask.spawn "polite", ltask.spawn "polite", ltask.spawn "rude"
    pcall(ltask.call, a, "stop")
    gone(a)
    say "first"
    ltask.kill(b)
    gone(b)
    say "second"
    ltask.kill(c)
    gone(c)
    say((pcall(ltask.call, c, "ping")))
  ]],
  err = false,
  out = function(out, err)
    t.eq(kit.said(out), { "quit handler", "first", "quit handler", "second", "false" })
    t.ok((out .. err):find("quit failed", 1, true), out .. err)
  end,
})

kit.test("if a service is killed, its __gc and the __close of its coroutines run", {
  services = { holder = [[
    local S, dir = {}, ...
    local function note(what)
      say(what)
      io.open(dir .. "/" .. what, "w"):close()
    end
    KEPT = setmetatable({}, { __gc = function() note "collected" end })
    function S.wait()
      local _ <close> = setmetatable({}, { __close = function() note "closed" end })
      ltask.wait "for ever"
    end
    return S
  ]] },
  main = [[
    local dir = ...
    local a = ltask.spawn("holder", dir)
    ltask.fork(function() pcall(ltask.call, a, "wait") end)
    ltask.sleep(0)
    ltask.syscall(a, "tasks")
    say(ltask.kill(a))
    for _, what in ipairs { "collected", "closed" } do
      repeat
        ltask.sleep(1)
        local f <close> = io.open(dir .. "/" .. what)
      until f
    end
    say "later"
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.eq(lines[4], "later", out)
    table.sort(lines)
    t.eq(lines, { "closed", "collected", "later", "true" })
  end,
})

kit.test("every call is answered during many spawns, calls and kills", {
  services = { victim = victim },
  main = counting .. [[
    local state = 7
    local function random(n)
      state = (state * 1103515245 + 12345) & 0x7fffffff
      return 1 + (state >> 8) % n
    end
    local pool = {}
    for i = 1, 8 do pool[i] = ltask.spawn "victim" end
    for _ = 1, 300 do
      local k = random(8)
      count(3, pool[k], "wait")
      count(3, pool[k], "ping", 1)
      count(2, pool[k], "nap", random(3))
      if random(3) == 1 then ltask.kill(pool[k]) else ltask.send(pool[k], "stop") end
      pool[k] = ltask.spawn "victim"
    end
    for i = 1, 8 do ltask.kill(pool[i]) end
    all()
    say(started, ended, other)
  ]],
  out = { "2400\t2400\tnil" },
})

t.finish()
