-- Requests of the Skynet compatibility API: `skynet.request` and its `select`, and messages without a handler.

local t = require "tests.kit"
local kit = require "tests.kit.skynet_system"

-- A service whose commands answer in different ways: `ping` answers after a delay, `fail` with an error, `hang` never,
-- `later` when `go` is called.
local slave <const> = [[
  function CMD.later() skynet.wait "go" return "late" end
  function CMD.go() skynet.wakeup "go" end
  function CMD.ping(time, ...) skynet.sleep(time) return ... end
  function CMD.fail() error "no luck" end
  function CMD.hang() skynet.sleep(1000000) end
  serve()
]]

kit.test("skynet.request sends several calls and returns their answers as they arrive", {
  services = { slave = slave },
  main = [[
    local slave = skynet.newservice "slave"
    for one, answer in skynet.request { slave, "lua", "ping", 6, "last" } { slave, "lua", "ping", 0, nil, "b", n = 6 }
      { slave, "lua", "ping", 3, "x", token = "T" }:select() do
      say(one[4], one.token, answer.n, table.unpack(answer, 1, answer.n))
    end
  ]],
  out = { "0\tnil\t2\tnil\tb", "3\tT\t1\tx", "6\tnil\t1\tlast" },
})

kit.test("the answer of a failed request is false, even if its service does not exist", {
  services = { slave = slave },
  err = "no luck",
  main = [[
    local slave = skynet.newservice "slave"
    local r = skynet.request()
    r:add { ".nobody", "lua", name = "no name" }:add { 4000, "lua", name = "no service" }
    r { slave, "lua", "fail", name = "fails" }
    r { slave, "lua", "ping", 5, "fine", name = "works" }
    local list = {}
    for one, answer in r:select() do list[#list + 1] = one.name .. " " .. tostring(answer and answer[1]) end
    table.sort(list)
    say(table.concat(list, ", "), r.timeout)
  ]],
  out = { "fails false, no name false, no service false, works fine\tnil" },
})

kit.test("when select times out the loop ends, and late answers are dropped", {
  services = { slave = slave },
  main = [[
    local slave = skynet.newservice "slave"
    local waiting = skynet.task()
    local r = skynet.request { slave, "lua", "ping", 0, "in time" } { slave, "lua", "later" }
    r { slave, "lua", "hang" }
    for _, answer in r:select(50) do say(answer[1]) end
    say(r.timeout, skynet.task() - waiting)
    skynet.call(slave, "lua", "go")
    say(skynet.call(slave, "lua", "ping", 0, "behind the late one"))
    -- When all answers have arrived, the timer of `select` is cancelled.
    r = skynet.request { slave, "lua", "ping", 0, 1 }
    for _, answer in r:select(100000) do say(answer[1]) end
    say(r.timeout, skynet.task() - waiting)
  ]],
  out = { "in time", "true\t0", "behind the late one", "1", "nil\t0" },
})

kit.test("leaving the loop early, or calling close, drops the unanswered calls", {
  services = { slave = slave },
  main = [[
    local slave = skynet.newservice "slave"
    local waiting = skynet.task()
    for _, answer in skynet.request { slave, "lua", "ping", 1, 1 } { slave, "lua", "hang" }:select(10000) do
      say(answer[1])
      break
    end
    say(skynet.task() - waiting)
    local r = skynet.request { slave, "lua", "hang" }
    skynet.timeout(1, function() r:close() end)
    for _ in r:select() do say "no" end
    do
      local closed <close> = skynet.request { slave, "lua", "hang" }
      closed:select()
      say(skynet.task() - waiting)
    end
    say(skynet.task() - waiting)
  ]],
  out = { "1", "0", "1", "0" },
})

kit.test("calls and other requests work inside the loop, and select takes a list", {
  services = { slave = slave },
  main = [[
    local slave = skynet.newservice "slave"
    for _, answer in skynet.select({ { slave, "lua", "ping", 2, "a" }, { slave, "lua", "ping", 0, "b" } }, 100) do
      say(answer[1], skynet.call(slave, "lua", "ping", 0, "inside"))
      for _, inner in skynet.request { slave, "lua", "ping", 0, "inner" }:select() do say(inner[1]) end
    end
    say(require "skynet.select" == skynet.select)
    for _ in skynet.select {} do say "no" end
  ]],
  out = { "b\tinside", "inner", "a\tinside", "inner", "true" },
})

kit.test("a value that is not a request raises an error with the caller's line", {
  main = [[
    local function try(f, ...) say((select(2, pcall(f, ...)):gsub("^.*/", ""))) end
    try(function() skynet.request {} end)
    try(function() skynet.request():add(1) end)
    try(function() skynet.select(1) end)
    try(function() skynet.request():select "x" end)
    local r = skynet.request()
    r:select()
    try(function() r:select() end)
    try(function() r { 1, "lua" } end)
  ]],
  out = {
    "main.lua:2: bad argument #1 to 'request' ({ address, protocol, … } expected)",
    "main.lua:3: bad argument #1 to 'add' ({ address, protocol, … } expected)",
    "main.lua:4: bad argument #1 to 'select' (a list of { address, protocol, … } expected, got number)",
    "main.lua:5: bad argument #1 to 'select' (a time in centiseconds expected, got x)",
    "main.lua:8: select: called a second time", "main.lua:9: add: select has already sent the requests",
  },
})

kit.test("dispatch_unknown_request gets messages without a handler; calls without a handler are refused", {
  services = { odd = kit.text_protocol .. [[
    skynet.start(function()
      local before
      before = skynet.dispatch_unknown_request(function(session, from, msg, sz, name)
        if name == "text" then return say(name, skynet.tostring(msg, sz), sz) end
        say(session, skynet.address(from), name, skynet.unpack(msg, sz))
        if name == "stop" then before(session, from, msg, sz, name) end
      end)
    end)
  ]] },
  main = kit.text_protocol .. [[
    local odd = skynet.newservice "odd"
    skynet.send(odd, "lua", "a", { 1 }, nil)
    skynet.send(odd, "text", "some text")
    ltask.send(odd, "stop", 1)
    say(pcall(skynet.call, odd, "lua", 1))
    say(select(2, pcall(skynet.dispatch_unknown_request)))
  ]],
  err = "no handler for 'stop': a message from :00000003, session 0",
  out = function(out)
    out = out:gsub("table: 0x%x+", "table")
    t.eq(kit.lines(out), {
      "0\t:00000003\tlua\ta\ttable\tnil", "text\tsome text\t9", "0\t:00000003\tstop\t1",
      "false\tservice 4 (odd) has no handler for request 'lua'",
      "bad argument #1 to 'dispatch_unknown_request' (function expected, got nil)",
    })
  end,
})

kit.test("dispatch_unknown_response gets answers to unknown sessions", {
  services = { odd = [[
    local post = require "ltask.core".post
    skynet.start(function()
      local before
      before = skynet.dispatch_unknown_response(function(session, from, msg, sz)
        say(session, from == skynet.self(), skynet.unpack(msg, sz))
        skynet.dispatch_unknown_response(function(...)
          before(...)
          skynet.wakeup "seen"
        end)
        say(post(skynet.self(), 1234567, 2))
      end)
      -- A late answer to a call of a killed coroutine is not an unknown response.
      local co = skynet.fork(function() skynet.call(1, "servicepath") end)
      skynet.yield()
      skynet.killthread(co)
      post(skynet.self(), 7654321, 2, "x", 1)
      skynet.wait "seen"
    end)
  ]] },
  main = [[ skynet.newservice "odd" ]],
  err = "an answer from :00000004 to session 1234567, which this service has not used",
  out = { "7654321\ttrue\tx\t1", "true" },
})

t.finish()
