-- mainthread_run: a function of a service runs on the process's main thread, for libraries that require it (windows,
-- signals).

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
local kit = require "tests.ltaskkit"

-- Whether the calling code runs on the process's main thread.
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
  kit.both("mainthread_run runs its function on the main thread, and the service returns to a worker" .. with, {
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

kit.both("an error in the function raises in its caller, and the service returns to a worker", {
  main = on_main .. [[
    local ok, e = pcall(ltask.mainthread_run, function() error "on the main thread" end)
    say(ok, tostring(e):find("on the main thread", 1, true) ~= nil)
    ltask.sleep(1)
    say(on_main())
  ]],
  out = { "false\ttrue", "false" },
})

kit.both("several services use the main thread in turn, and their requests are answered", {
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

kit.both("the function may call other services", {
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

t.finish()
