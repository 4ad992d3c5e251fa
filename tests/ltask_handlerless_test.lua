-- A service without handlers ends when its last task has ended. So a service that runs code once ends by itself, and
-- the system ends with its last service.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- Boots a system with a configuration table, whose fields are in the string `config`, and with the files of `services`
-- in a temporary folder. The program ends with the exit code that `start` returns.
local function boot(config, services)
  local dir = kit.write { services = services }
  return kit.program(string.format(
    "local dir = %q\nos.exit(require 'ltask.start' { service_path = dir .. '/?.lua', %s }, true)\n", dir, config), dir)
end

-- Functions for a service that waits until others have ended: `alive(label)` returns the number of services with a
-- label, and `gone(label)` waits until it is 0, or raises an error after 40 seconds.
local watching <const> = [[
  local function alive(label)
    local count = 0
    for _, one in pairs(ltask.call(1, "stat")) do
      if one.label == label then count = count + 1 end
    end
    return count
  end
  local function gone(label)
    local limit = ltask.counter() + 40
    while alive(label) > 0 do
      assert(ltask.counter() < limit, label .. " does not end")
      ltask.sleep(1)
    end
  end
]]

for _, config in ipairs {
  "bootstrap = { 'one' }", "worker = 2, bootstrap = { 'one' }, exclusive = { 'timer' }, logger = { 'logger' }",
  "bootstrap = { { name = 'one' } }", "core = { worker = 2 }, bootstrap = { { name = 'one' }, { name = 'one' } }",
} do
  t.test("a system of one-line services without handlers ends with exit code 0: " .. config, function()
    local r = boot(config, { one = "say 'done'" })
    t.eq(r.err, "")
    t.eq(r.out, config:find "}, {" and "done\ndone\n" or "done\n")
    t.eq(r.code, 0)
  end)
end

kit.test("with max_service = 64, 2,000 services without handlers can run one after another", {
  config = { core = { max_service = 64 } },
  services = { brief = "assert(... == 7)" },
  main = watching .. [[
    local before = 0
    for _ in pairs(ltask.call(1, "stat")) do before = before + 1 end
    local ids, distinct = {}, 0
    for _ = 1, 2000 do
      local id = ltask.spawn("brief", 7)
      if not ids[id] then ids[id], distinct = true, distinct + 1 end
    end
    gone "brief"
    local after = 0
    for _ in pairs(ltask.call(1, "stat")) do after = after + 1 end
    say(distinct, after - before)
  ]],
  out = { "2000\t0" },
})

kit.test("a service runs while a task sleeps, waits for a response, or waits for another task", {
  services = {
    sleeper = [[
      ltask.fork(function()
        ltask.sleep(2)
        say "slept"
      end)
    ]],
    caller = [[
      local main = ...
      ltask.fork(function() say(ltask.call(main, "slowly")) end)
    ]],
    woken = [[
      local main = ...
      ltask.fork(function() say(ltask.wait "go") end)
      ltask.fork(function()
        ltask.call(main, "slowly")
        ltask.wakeup("go", "woken")
      end)
    ]],
    late = "ltask.timeout(2, function() say 'time is over' end)",
  },
  main = watching .. [[
    function S.slowly()
      ltask.sleep(2)
      return "answered"
    end
    for _, name in ipairs { "sleeper", "caller", "woken", "late" } do
      ltask.spawn(name, ltask.self())
      gone(name)
    end
  ]],
  out = { "slept", "answered", "woken", "time is over" },
})

kit.test("a service with handlers does not end, even if a task sets them later or the table is empty", {
  services = {
    returned = "return {}",
    at_once = "ltask.dispatch { ping = function(x) return x end }",
    added = "ltask.dispatch().ping = function(x) return x end",
    later = [[
      local main = ...
      ltask.fork(function()
        ltask.sleep(2)
        ltask.dispatch { ping = function(x) return x end }
        ltask.call(main, "ready")
      end)
    ]],
  },
  main = watching .. [[
    function S.ready() ltask.wakeup "ready" end
    local ids = {
      ltask.spawn "returned", ltask.spawn "at_once", ltask.spawn "added", ltask.spawn("later", ltask.self()),
    }
    ltask.wait "ready"
    -- After these requests, the services have nothing to do.
    for _ = 1, 3 do
      for _, id in ipairs(ids) do ltask.syscall(id, "inspect", "memory") end
      ltask.sleep(1)
    end
    say(pcall(ltask.call, ids[2], "ping", 1))
    say(pcall(ltask.call, ids[3], "ping", 2))
    say(pcall(ltask.call, ids[4], "ping", 3))
    say(alive "returned", alive "at_once", alive "added", alive "later")
  ]],
  out = { "true\t1", "true\t2", "true\t3", "1\t1\t1\t1" },
})

kit.test("requests to a service without handlers fail, while it runs and when it has ended", {
  services = { brief = "", busy = "ltask.fork(function() ltask.sleep(2) end)" },
  main = watching .. [[
    local id = ltask.spawn "brief"
    gone "brief"
    local ok, e = pcall(ltask.call, id, "x")
    say(ok, tostring(e) == ("{service:%d} is dead"):format(id))
    local busy = ltask.spawn "busy"
    say(select(2, pcall(ltask.call, busy, "x")) == ("service %d (busy) has no handler for request 'x'"):format(busy))
    say(pcall(ltask.syscall, busy, "watch") == false, alive "busy")
  ]],
  out = { "false\ttrue", "true", "true\t0" },
})

kit.test("messages that a service sends before it ends arrive", {
  services = {
    teller = [[
      local main = ...
      for i = 1, 100 do ltask.send(main, "tell", i) end
    ]],
  },
  main = watching .. [[
    local sum = 0
    function S.tell(i) sum = sum + i end
    ltask.spawn("teller", ltask.self())
    gone "teller"
    say(sum)
  ]],
  out = { "5050" },
})

kit.test("with full = wait, a service runs until its messages to a full mailbox are delivered", {
  config = { full = "wait", core = { queue = 4 } },
  services = {
    teller = [[
      local main = ...
      ltask.fork(function() for i = 1, 100 do ltask.send(main, "tell", i) end end)
    ]],
  },
  main = watching .. [[
    local sum = 0
    function S.tell(i) sum = sum + i end
    ltask.spawn("teller", ltask.self())
    gone "teller"
    say(sum)
  ]],
  out = { "5050" },
})

kit.test("a service with an idle handler or on_idle does not end", {
  config = { exclusive = { "idler" } },
  services = {
    idler = [[
      local exclusive = require "ltask.exclusive"
      local take = exclusive.eventinit()
      function ltask.on_idle() take() end
    ]],
    looper = [[
      local lio = require "lio"
      local selector = assert(lio.create())
      local take, descriptor = ltask.eventinit()
      selector:event_add(descriptor, lio.SELECT_READ, take)
      ltask.idle_handler(function()
        for ready in selector:wait() do ready() end
      end)
    ]],
    descriptor = "ltask.eventinit()",
  },
  main = watching .. [[
    local id = ltask.spawn "looper"
    ltask.spawn "descriptor"
    gone "descriptor"
    for _ = 1, 3 do
      ltask.syscall(2, "inspect", "memory")
      ltask.syscall(id, "inspect", "memory")
      ltask.sleep(1)
    end
    say(alive "idler", alive "looper")
  ]],
  out = { "1\t1" },
})

t.test("an exclusive service without handlers ends, and the system ends with its last ordinary service", function()
  for _, worker in ipairs(kit.workers) do
    local r = boot("worker = " .. worker .. ", exclusive = { 'brief' }, bootstrap = { 'main' }", {
      brief = "say('exclusive', ltask.self())",
      main = watching .. "gone 'brief' say 'main'",
    })
    t.eq(r.err, "")
    t.eq(r.out, "exclusive\t2\nmain\n")
    t.eq(r.code, 0)
  end
end)

t.test("an error in a service's last task is logged, and the service ends", function()
  local r = boot("bootstrap = { 'main' }", { main = "ltask.fork(function() error 'as it must' end)" })
  t.ok(r.err:find("main.lua:1: as it must", 1, true), r.err)
  t.eq(r.out, "")
  t.eq(r.code, 0)
end)

t.finish()
