-- A service in an endless loop: other services continue, and the watchdog logs the service, its traceback, and its
-- recovery.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- `spin(path, who)` sends "begun" to `who` (optional), and loops until the file `path` exists. The loop is on lines 5
-- to 11.
local spinner <const> = [[
  local S = {}
  function S.spin(path, who)
    local n = 0
    if who then ltask.send(who, "begun") end
    repeat
      local f
      for _ = 1, 100 do
        for i = 1, 20000 do n = n + i end
      end
      f = io.open(path)
    until f
    return "recovered by itself"
  end
  return S
]]

local echo <const> = "local S = {} function S.echo(...) return ... end return S"

kit.test("calls and timers of other services continue while a service loops", {
  services = { spinner = spinner, echo = echo },
  main = [[
    local dir = ...
    function S.begun() ltask.wakeup "begun" end
    local a, e = ltask.spawn "spinner", ltask.spawn "echo"
    ltask.fork(function() ltask.wakeup("ended", ltask.call(a, "spin", dir .. "/go", ltask.self())) end)
    ltask.wait "begun"
    for i = 1, 1000 do assert(ltask.call(e, "echo", i) == i) end
    ltask.sleep(1)
    local b = ltask.spawn "echo"
    say("goes on", ltask.call(b, "echo", "x"))
    io.open(dir .. "/go", "w"):close()
    say(ltask.wait "ended")
  ]],
  err = false,
  out = function(out)
    t.eq({ out:match "(goes on\tx)\n.-(recovered by itself)\n" }, { "goes on\tx", "recovered by itself" }, out)
  end,
})

kit.test("a service responds while more services loop than there are workers", {
  services = { spinner = spinner, echo = echo },
  main = [[
    local dir = ...
    local e, ended, begun = ltask.spawn "echo", 0, 0
    function S.begun()
      begun = begun + 1
      if begun == 4 then ltask.wakeup "begun" end
    end
    for _ = 1, 4 do
      local a = ltask.spawn "spinner"
      ltask.fork(function()
        ltask.call(a, "spin", dir .. "/go", ltask.self())
        ended = ended + 1
        if ended == 4 then ltask.wakeup "ended" end
      end)
    end
    ltask.wait "begun"
    for i = 1, 100 do assert(ltask.call(e, "echo", i) == i) end
    say "goes on"
    io.open(dir .. "/go", "w"):close()
    ltask.wait "ended"
    say "all ended"
  ]],
  err = false,
  out = function(out)
    t.ok(out:find "goes on\n" and out:find "all ended\n", out)
  end,
})

for name, config in pairs {
  ["the boot table's watchdog"] = { watchdog = 0.2 },
  ["the core table's watchdog"] = { core = { watchdog = 0.2 } },
} do
  t.test(name .. " logs the id, the label and the traceback of a service in a loop, and its recovery", function()
    for _, worker in ipairs(kit.workers) do
      local child <close>, dir = kit.spawn({
        services = { spinner = spinner },
        config = config,
        main = [[
          local dir = ...
          local a = ltask.spawn "spinner"
          say("id", a)
          ltask.fork(function() ltask.wakeup("ended", ltask.call(a, "spin", dir .. "/go")) end)
          ltask.wait "ended"
          while not io.open(dir .. "/over") do ltask.sleep(1) end
        ]],
      }, worker)
      local id = child:expect "^id\t(%d+)$"
      child:expect("^%[.*%(" .. id .. " spinner%).* has not paused")
      child:expect "spinner%.lua:[15-9][01]?:"
      kit.go(dir)
      child:expect("^%[.*%(" .. id .. " spinner%).* has paused again")
      t.write(dir .. "/over", "")
      child:all()
      t.eq(child:close(), 0)
    end
  end)
end

-- Regression: the report called the service "dead" if the service ended before the next check of the watchdog.
t.test("the watchdog's report of a recovery names a service that has ended after its loop", function()
  for _, worker in ipairs(kit.workers) do
    for _, own in ipairs { "", "ltask.eventinit()\n" } do
      local child <close>, dir = kit.spawn({
        services = { spinner = own .. [[
          local S = {}
          function S.spin(path)
            repeat for _ = 1, 1e6 do end until io.open(path)
            ltask.quit()
          end
          return S
        ]] },
        config = { watchdog = 0.2 },
        main = [[
          local dir = ...
          local a = ltask.spawn "spinner"
          say("id", a)
          ltask.send(a, "spin", dir .. "/go")
          while not io.open(dir .. "/over") do ltask.sleep(1) end
        ]],
      }, worker)
      local id = child:expect "^id\t(%d+)$"
      child:expect("%(" .. id .. " spinner%).* has not paused")
      kit.go(dir)
      child:expect("%(" .. id .. " spinner%) service " .. id .. " %(spinner%) has paused again")
      t.write(dir .. "/over", "")
      child:all()
      t.eq(child:close(), 0)
    end
  end
end)

t.test("the watchdog logs the traceback of the innermost coroutine", function()
  for _, worker in ipairs(kit.workers) do
    local child <close>, dir = kit.spawn({
      services = { outer = [[
        local S = {}
        local function spin(path)
          local n = 0
          repeat
            for i = 1, 2000000 do n = n + i end
          until io.open(path)
          return "recovered"
        end
        function S.spin(path)
          return coroutine.wrap(function() return coroutine.wrap(spin)(path) .. " inside" end)()
        end
        return S
      ]] },
      config = { watchdog = 0.2 },
      main = [[ say(ltask.call(ltask.spawn "outer", "spin", ... .. "/go")) ]],
    }, worker)
    child:expect "has not paused"
    child:expect "outer%.lua:[4-7]: in function"
    kit.go(dir)
    child:expect "^recovered inside$"
    child:all()
    t.eq(child:close(), 0)
  end
end)

kit.test("the end of the system ends a loop that resumes coroutines and catches their errors", {
  services = { hydra = [[
    local S = {}
    function S.spin(who)
      ltask.send(who, "begun")
      local function head()
        for _ = 1, 1000 do coroutine.yield() end
      end
      while true do
        local co = coroutine.create(head)
        repeat until not coroutine.resume(co)
      end
    end
    return S
  ]] },
  config = { grace = 0.5 },
  main = [[
    function S.begun() ltask.wakeup "begun" end
    local a = ltask.spawn "hydra"
    ltask.send(a, "spin", ltask.self())
    ltask.wait "begun"
    say "quits"
    ltask.send(1, "quit_ltask")
  ]],
  err = false,
  out = function(out, err)
    t.ok(out:find "quits\n", out)
    t.is_nil((out .. err):find "abandoned")
  end,
})

kit.test("a service that handles many short requests is not reported", {
  services = { echo = echo },
  config = { watchdog = 1 },
  main = [[
    local e = ltask.spawn "echo"
    local till = ltask.counter() + 2.5
    local n = 0
    while ltask.counter() < till do
      n = n + ltask.call(e, "echo", 1)
    end
    say(n > 100)
  ]],
  out = { "true" },
})

kit.test("watchdog = 0 turns the watchdog off", {
  services = { spinner = spinner },
  config = { watchdog = 0 },
  main = [[
    local dir = ...
    local a = ltask.spawn "spinner"
    ltask.fork(function() ltask.wakeup("ended", ltask.call(a, "spin", dir .. "/go")) end)
    ltask.sleep(40)
    io.open(dir .. "/go", "w"):close()
    say(ltask.wait "ended")
  ]],
  out = { "recovered by itself" },
})

t.finish()
