-- mainthread_run, which runs a function of a service on the main thread of the process, for libraries that require this
-- thread (windows, signals).

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- `on_main()` returns true if the calling code runs on the main thread of the process.
local on_main <const> = [[
  local function on_main()
    local thread = io.open "/proc/thread-self/stat"
    local process = io.open "/proc/self/stat"
    local same = thread:read "n" == process:read "n"
    thread:close()
    process:close()
    return same
  end
]]

for _, mainthread in ipairs { 0, false } do
  local with = mainthread and " with mainthread = 0 in the boot table" or ""
  kit.test("mainthread_run runs its function on the main thread, and the service returns to a worker" .. with, {
    config = { mainthread = mainthread or nil },
    main = on_main .. [[
      say("before", on_main())
      say("inside", ltask.mainthread_run(function(...) return on_main(), ... end, "a", nil, 3))
      ltask.sleep(1)
      say("after", on_main())
    ]],
    out = { "before\tfalse", "inside\ttrue\ta\tnil\t3", "after\tfalse" },
  })
end

kit.test("mainthread_run raises the error from its function, and the service returns to a worker", {
  main = on_main .. [[
    local ok, e = pcall(ltask.mainthread_run, function() error "on the main thread" end)
    say(ok, tostring(e):find("on the main thread", 1, true) ~= nil)
    ltask.sleep(1)
    say(on_main())
  ]],
  out = { "false\ttrue", "false" },
})

kit.test("several services may use the main thread in turn, and their callers get responses", {
  services = { worker = on_main .. [[
    local S = {}
    function S.run(i)
      return ltask.mainthread_run(function() return on_main() and i end)
    end
    function S.ping() return "pong" end
    return S
  ]] },
  main = [[
    local list, n, right = {}, 0, true
    for i = 1, 5 do list[i] = ltask.spawn "worker" end
    for k = 1, 50 do
      ltask.fork(function()
        if ltask.call(list[1 + k % 5], "run", k) ~= k then right = false end
        n = n + 1
        if n == 50 then ltask.wakeup "done" end
      end)
    end
    ltask.wait "done"
    say(n, right)
    for i = 1, 5 do say(ltask.call(list[i], "ping")) end
  ]],
  out = { "50\ttrue", "pong", "pong", "pong", "pong", "pong" },
})

kit.test("the function of mainthread_run may call other services", {
  services = { echo = "local S = {} function S.echo(...) return ... end return S" },
  main = on_main .. [[
    local a = ltask.spawn "echo"
    say(ltask.mainthread_run(function()
      local r = ltask.call(a, "echo", "x")
      return r
    end))
  ]],
  out = { "x" },
})

-- Regression: start raised "deinit: the system runs" instead of the error, and the services kept running.
t.test("start raises the error from the boot table's mainthread function after the system has ended", function()
  for _, worker in ipairs(kit.workers) do
    local dir, program = kit.write({ main = [[
      CLOSED = setmetatable({}, { __gc = function() say "closed" end })
      say "runs"
      io.open(... .. "/runs", "w"):close()
      ltask.wait "for ever"
    ]] }, worker)
    program = program:gsub("local code = .*", "local dir = " .. kit.literal(dir):gsub("%%", "%%%%") .. "\n")
    local r = kit.program(program .. [[
      function config.mainthread()
        repeat local f = io.open(dir .. "/runs") until f
        error "raised on the main thread"
      end
      local start = require "ltask.start"
      local ok, e = pcall(start, config)
      print(ok, tostring(e):match "raised on the main thread" or e)
      local stat <close> = io.open "/proc/self/stat"
      local threads <close> = io.popen(("ls /proc/%d/task | wc -l"):format(stat:read "n"))
      print("threads", threads:read "n")
      config.mainthread = nil
      config.bootstrap = { { name = "second" } }
      local file <close> = io.open(dir .. "/second.lua", "w")
      file:write "local ltask = require 'ltask' io.stdout:write 'second' ltask.quit() return {}"
      file:flush()
      print("", start(config))
    ]], dir)
    t.eq({ r.err, r.code }, { "", 0 }, r.out)
    t.eq(kit.lines(r.out), {
      "runs", "closed", "false\traised on the main thread", "threads\t1", "second\t0",
    })
  end
end, { signals = true })

t.finish()
