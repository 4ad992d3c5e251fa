-- A service in an endless loop: the others go on, and the watchdog logs who it is, where it is,
-- and when it has recovered. Numbered semantic 9.

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
local kit = require "tests.ltaskkit"

-- Loops until that file is there: endless for whoever waits for it. The loop is on line 7.
local spinner <const> = [[
  local S = {}
  function S.spin(path)
    local n = 0
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

kit.both("others go on while a service loops, calls and timers alike", {
  services = { spinner = spinner, echo = echo },
  main = [[
    local dir = ...
    local a, e = ltask.spawn "spinner", ltask.spawn "echo"
    ltask.fork(function() ltask.wakeup("ended", ltask.call(a, "spin", dir .. "/go")) end)
    ltask.sleep(1)
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

kit.both("more services loop than there are workers, and another still answers", {
  services = { spinner = spinner, echo = echo },
  main = [[
    local dir = ...
    local e, ended = ltask.spawn "echo", 0
    for _ = 1, 4 do
      local a = ltask.spawn "spinner"
      ltask.fork(function()
        ltask.call(a, "spin", dir .. "/go")
        ended = ended + 1
        if ended == 4 then ltask.wakeup "ended" end
      end)
    end
    ltask.sleep(1)
    for i = 1, 100 do assert(ltask.call(e, "echo", i) == i) end
    say "goes on"
    io.open(dir .. "/go", "w"):close()
    ltask.wait "ended"
    say "all ended"
  ]],
  err = false,
  seconds = 30,
  out = function(out)
    t.ok(out:find "goes on\n" and out:find "all ended\n", out)
  end,
})

for name, config in pairs {
  ["the boot table's watchdog"] = { watchdog = 0.2 },
  ["the core table's watchdog"] = { core = { watchdog = 0.2 } },
} do
  kit.both(name .. " logs id, label and traceback of a loop, and its recovery", {
    services = { spinner = spinner },
    config = config,
    main = [[
      local dir = ...
      local a = ltask.spawn "spinner"
      ltask.fork(function() ltask.wakeup("ended", ltask.call(a, "spin", dir .. "/go")) end)
      say("id", a)
      ltask.sleep(60)
      io.open(dir .. "/go", "w"):close()
      ltask.wait "ended"
      ltask.sleep(5)
    ]],
    err = false,
    out = function(out, err)
      local log = out .. err
      local id = log:match "id\t(%d+)\n"
      t.ok(log:find "spinner%.lua:[4-9]", "no traceback of the loop:\n" .. log)
      local told = 0
      for line in log:gmatch "[^\n]+" do
        if line:find "^%[" and line:find "spinner" and line:find("%f[%d]" .. id .. "%f[%D]") then told = told + 1 end
      end
      t.ok(told >= 2, "want a line for the loop and one for its end:\n" .. log)
      t.ok(log:find "spinner[^\n]* again", "no word of its recovery:\n" .. log)
    end,
  })
end

kit.both("the traceback of a loop inside coroutines of its own is the innermost's", {
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
  main = [[
    local dir = ...
    local a = ltask.spawn "outer"
    ltask.fork(function() ltask.wakeup("ended", ltask.call(a, "spin", dir .. "/go")) end)
    ltask.sleep(60)
    io.open(dir .. "/go", "w"):close()
    say(ltask.wait "ended")
    ltask.sleep(5)
  ]],
  err = false,
  out = function(out, err)
    local log = out .. err
    t.ok(log:find "recovered inside\n", log)
    t.ok(log:find "outer%.lua:[4-7]: in function", "no traceback of the loop:\n" .. log)
  end,
})

kit.both("the end of the system ends a loop that resumes coroutines and catches what they raise", {
  services = { hydra = [[
    local S = {}
    function S.spin()
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
    local a = ltask.spawn "hydra"
    ltask.send(a, "spin")
    ltask.sleep(2)
    say "quits"
    ltask.send(1, "quit_ltask")
  ]],
  err = false,
  out = function(out, err)
    t.ok(out:find "quits\n", out)
    t.is_nil((out .. err):find "left behind")
  end,
})

kit.both("a service that is only busy, with many short requests, is not reported", {
  services = { echo = echo },
  config = { watchdog = 0.1 },
  main = [[
    local e = ltask.spawn "echo"
    local till = ltask.counter() + 0.5
    local n = 0
    while ltask.counter() < till do
      n = n + ltask.call(e, "echo", 1)
    end
    say(n > 100)
  ]],
  out = { "true" },
})

kit.both("watchdog = 0 turns it off", {
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
