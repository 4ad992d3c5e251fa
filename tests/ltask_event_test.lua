-- Services that own an event descriptor and block in their idle handler, and services that are bound to a worker and
-- block there: other services still run. The original ltask hung in both cases.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local blocker <const> = [[
  local S, waits = {}, 0
  local wait, descriptor = ltask.eventinit()
  assert(type(descriptor) == "userdata")
  ltask.idle_handler(function()
    wait()
    waits = waits + 1
  end)
  function S.ping(...) return ... end
  function S.waits() return waits end
  function S.nap(cs) ltask.sleep(cs) return "awake" end
  function S.ask(other, ...) return ltask.call(other, "ping", ...) end
  function S.stop() ltask.quit() end
  function S.hold(path)
    waits = 0
    repeat local f = io.open(path) until f
  end
  return S
]]

local plain <const> = [[
  local S = {}
  function S.ping(...) return ... end
  return S
]]

for _, how in ipairs { 10, 40 } do
  kit.test(how .. " services that block in their event wait do not occupy the workers", {
    services = { blocker = blocker, plain = plain },
    main = "local n = " .. how .. [[

      local blockers = {}
      for i = 1, n do blockers[i] = ltask.spawn "blocker" end
      local a, b = ltask.spawn "plain", ltask.spawn "plain"
      for i = 1, 500 do
        assert(ltask.call(a, "ping", i) == i)
        assert(ltask.call(b, "ping", i) == i)
      end
      say "the others run"
      for round = 1, 3 do
        for i, id in ipairs(blockers) do assert(ltask.call(id, "ping", i * round) == i * round) end
      end
      say "they answer"
      for i, id in ipairs(blockers) do assert(ltask.call(id, "ask", blockers[1 + i % n], i) == i) end
      say "and call each other"
      local napped = 0
      for _, id in ipairs(blockers) do
        ltask.fork(function()
          assert(ltask.call(id, "nap", 2) == "awake")
          napped = napped + 1
          if napped == n then ltask.wakeup "done" end
        end)
      end
      ltask.wait "done"
      say "and sleep"
    ]],
    out = { "the others run", "they answer", "and call each other", "and sleep" },
  })
end

kit.test("a burst of messages wakes a blocked service much less often than once per message", {
  services = { blocker = blocker },
  main = [[
    local dir = ...
    local a = ltask.spawn "blocker"
    ltask.call(a, "ping")
    ltask.send(a, "hold", dir .. "/go")
    for i = 1, 500 do ltask.send(a, "ping", i) end
    io.open(dir .. "/go", "w"):close()
    say(ltask.call(a, "waits") < 50)
  ]],
  out = { "true" },
})

-- Regression: if a service found a message at the end of a slice instead of in its wait, the senders wrote to its
-- descriptor twice for this message.
kit.test("for each wait of a blocked service, its senders make at most one system call", {
  services = { blocker = blocker },
  main = [[
    local function writes()
      local file <close> = io.open "/proc/self/io"
      return file and tonumber(file:read "a":match "syscw: (%d+)") or 0
    end
    local a = ltask.spawn "blocker"
    local before, written = ltask.call(a, "waits"), 0
    for _ = 1, 100 do
      -- By then, the service is waiting again.
      ltask.sleep(1)
      written = written - writes()
      for i = 1, 1000 do ltask.send(a, "ping", i) end
      written = written + writes()
    end
    local waits = ltask.call(a, "waits") - before
    say(written <= waits or ("%d writes for %d waits"):format(written, waits))
  ]],
  out = { "true" },
})

-- Regression, also for the test after the loop: callers hung, because a service requested wakeups from its senders only
-- at the end of a slice.
for what, task in pairs {
  ["handles messages in its own loop"] = [[
    ltask.idle_handler(function()
      repeat wait() until ltask.schedule_message()
    end)
  ]],
  ["yields repeatedly and blocks in the middle of a slice"] = [[
    ltask.fork(function()
      while true do
        for _ = 1, 3000 do coroutine.yield() end
        wait()
      end
    end)
  ]],
} do
  kit.test("a service that " .. what .. " is woken by each message", {
    services = { own = "local wait = ltask.eventinit() " .. task .. " return { ping = function(i) return i end }" },
    main = [[
      local own = ltask.spawn "own"
      for i = 1, 5 do
        ltask.sleep(1)
        say(ltask.call(own, "ping", i))
      end
    ]],
    out = { "1", "2", "3", "4", "5" },
  })
end

kit.test("senders to a full mailbox continue if its service has an event descriptor and yields repeatedly", {
  services = { own = [[
    ltask.eventinit()
    ltask.fork(function() while true do coroutine.yield() end end)
    local count = 0
    return { ping = function() count = count + 1 end, count = function() return count end }
  ]] },
  config = { core = { queue = 1 } },
  main = [[
    local own = ltask.spawn "own"
    ltask.on_full "wait"
    for _ = 1, 20000 do ltask.send(own, "ping") end
    say(ltask.call(own, "count"))
  ]],
  out = { "20000" },
})

-- Regression: the service did not handle messages that it had read in a burst until the next message arrived.
kit.test("an exclusive service blocks only when it has handled every message of a burst", {
  services = { own = [[
    local S, count = {}, 0
    local wait = require "ltask.exclusive".eventinit()
    function ltask.on_idle() wait() end
    function S.hold(path)
      repeat local f = io.open(path) until f
    end
    function S.add() count = count + 1 end
    function S.count() return count end
    return S
  ]] },
  config = { exclusive = { "own" } },
  main = [[
    local own = ltask.queryservice "own"
    local path = ... .. "/go"
    ltask.send(own, "hold", path)
    for _ = 1, 3000 do ltask.send(own, "add") end
    io.open(path, "w"):close()
    say(ltask.call(own, "count"))
  ]],
  out = { "3000" },
})

kit.test("a service that blocks in its event wait can quit, be killed, and be ended with the system", {
  services = { blocker = blocker },
  main = [[
    local a, b = ltask.spawn "blocker", ltask.spawn "blocker"
    local c = ltask.spawn "blocker"
    -- After these calls, each service has waited once.
    for _, id in ipairs { a, b, c } do ltask.call(id, "ping") end
    pcall(ltask.call, a, "stop")
    while pcall(ltask.call, a, "ping") do ltask.sleep(0) end
    say "one has quit"
    say(ltask.kill(b))
    say((pcall(ltask.call, b, "ping")))
    for _ = 1, 50 do ltask.kill(ltask.spawn "blocker") end
    say "fifty more came and went"
  ]],
  out = { "one has quit", "true", "false", "fifty more came and went" },
})

kit.test("a service that is bound to a worker and blocks its thread does not block other services", {
  services = { plain = plain, bound = [[
    local S = {}
    function S.bind() ltask.worker_bind(0) return ltask.worker_id() end
    -- Blocks until the file `path` exists.
    function S.block(who, path)
      ltask.send(who, "begun")
      repeat
        ltask.timer_sleep(20)
        local f <close> = io.open(path)
      until f
      return "blocked"
    end
    return S
  ]] },
  main = [[
    local path = ... .. "/go"
    function S.begun() ltask.wakeup "begun" end
    local c = ltask.spawn "bound"
    ltask.call(c, "bind")
    local services = {}
    for i = 1, 4 do services[i] = ltask.spawn "plain" end
    local ended = false
    ltask.fork(function()
      say(ltask.call(c, "block", ltask.self(), path))
      ended = true
      ltask.wakeup "ended"
    end)
    ltask.wait "begun"
    for i = 1, 400 do assert(ltask.call(services[1 + i % 4], "ping", i) == i) end
    say("the others were not kept", ended)
    io.open(path, "w"):close()
    if not ended then ltask.wait "ended" end
  ]],
  out = { "the others were not kept\tfalse", "blocked" },
})

kit.test("bound services run only on their workers", {
  services = { bound = [[
    local n = ...
    ltask.worker_bind(n)
    local S = {}
    function S.where() return ltask.worker_id() end
    function S.free() ltask.worker_bind() end
    return S
  ]] },
  main = [[
    local _, workers = ...
    local all, right, left = {}, true, 600
    for i = 0, 5 do all[i] = ltask.spawn("bound", i % workers) end
    for _ = 1, 100 do
      for i = 0, 5 do
        ltask.fork(function()
          if ltask.call(all[i], "where") ~= i % workers then right = false end
          left = left - 1
          if left == 0 then ltask.wakeup "all" end
        end)
      end
      ltask.sleep(0)
    end
    if left > 0 then ltask.wait "all" end
    say(right)
    for i = 0, 5 do ltask.call(all[i], "free") end
    say(ltask.call(all[0], "where") ~= nil)
  ]],
  out = { "true", "true" },
})

kit.test("an idle handler runs only if the mailbox is empty, and may wake pending requests", {
  services = { batch = [[
    local S, pending = {}, {}
    local wait = ltask.eventinit()
    local function answer()
      for _, token in ipairs(pending) do ltask.wakeup(token) end
      pending = {}
    end
    ltask.idle_handler(function()
      if #pending > 0 then return answer() end
      wait()
    end)
    function S.wait(i)
      local token = {}
      pending[#pending + 1] = token
      ltask.wait(token)
      return i
    end
    return S
  ]] },
  main = [[
    local a, sum, n = ltask.spawn "batch", 0, 0
    for i = 1, 100 do
      ltask.fork(function()
        local back = ltask.call(a, "wait", i)
        sum = sum + back
        n = n + 1
        if n == 100 then ltask.wakeup "done" end
      end)
    end
    ltask.wait "done"
    say(sum)
  ]],
  out = { "5050" },
})

-- Regression: socket.fd refused descriptors that are not sockets, so every I/O service died when it started. An object
-- that owned the descriptor closed the scheduler's descriptor, or another one with the same number.
kit.test("bee.socket.fd takes the event descriptor and leaves it to the scheduler", {
  services = { io = [[
    require "lio"
    local select, socket = require "bee.select", require "bee.socket"
    local S, waits = {}, 0
    local selector = select.create()
    local waitfunc, fd = ltask.eventinit()
    for _ = 1, 3 do
      local object = assert(socket.fd(fd))
      assert(object:handle() == fd)
      assert(selector:event_add(object, select.SELECT_READ, "dropped"))
      object:close()
      socket.fd(fd)
      collectgarbage()
      collectgarbage()
    end
    assert(selector:event_add(socket.fd(fd), select.SELECT_READ, function(event)
      assert(event == select.SELECT_READ)
      waitfunc()
      waits = waits + 1
    end))
    ltask.idle_handler(function()
      for func, event in selector:wait() do func(event) end
    end)
    function S.ping(...) return ... end
    function S.waits() return waits end
    function S.reset()
      selector:event_del(fd)
      fd = ltask.eventreset()
      socket.fd(fd):close()
      assert(selector:event_add(socket.fd(fd), select.SELECT_READ, waitfunc))
    end
    return S
  ]] },
  main = [[
    local io = ltask.spawn "io"
    for i = 1, 200 do assert(ltask.call(io, "ping", i) == i) end
    say(ltask.call(io, "waits") > 0)
    ltask.call(io, "reset")
    for i = 1, 200 do assert(ltask.call(io, "ping", i) == i) end
    say(ltask.kill(io))
    for _ = 1, 30 do ltask.kill(ltask.spawn "io") end
    local last = ltask.spawn "io"
    say(ltask.call(last, "ping", "there"))
  ]],
  out = { "true", "true", "there" },
})

t.finish()
