-- The end of a system: its causes, the quit handlers that run before the end, and whether threads, descriptors or VMs
-- are left. The suite also tests for a bug in the original ltask, which ignored SIGTERM.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

local worker <const> = [[
  local name = ...
  local S = {}
  function S.nap(cs) ltask.sleep(cs) return "rested" end
  function S.stop() ltask.quit() end
  function S.quit() say("quit", name) end
  return S
]]

kit.test("quit_ltask runs every quit handler, even in services that wait, and ends the system", {
  services = { worker = worker },
  main = [[
    for i = 1, 5 do
      local a = ltask.spawn("worker", i)
      ltask.fork(function() pcall(ltask.call, a, "nap", 100000) end)
    end
    ltask.uniqueservice("worker", "unique")
    ltask.sleep(0)
    say "leaving"
  ]],
  out = function(out)
    local lines = kit.said(out)
    t.eq(table.remove(lines, 1), "leaving")
    table.sort(lines)
    t.eq(lines, { "quit\t1", "quit\t2", "quit\t3", "quit\t4", "quit\t5", "quit\tunique" })
  end,
})

kit.test("the system ends by itself when the last service that is not unique has quit", {
  services = {
    worker = worker,
    late = [[
      local starter = ...
      ltask.fork(function()
        while ltask.call(1, "stat")[starter] do ltask.sleep(1) end
        say "late ends"
        ltask.quit()
      end)
      return {}
    ]],
    starter = [[
      ltask.spawn("late", ltask.self())
      ltask.uniqueservice("worker", "unique")
      ltask.timeout(2, function()
        say "starter ends"
        ltask.quit()
      end)
      return {}
    ]],
  },
  config = { bootstrap = { { name = "starter" } } },
  out = function(out) t.eq(kit.said(out), { "starter ends", "late ends", "quit\tunique" }) end,
})

kit.test("an error in a quit handler is logged, and other quit handlers still run", {
  services = { worker = worker, rude = "local S = {} function S.quit() error 'no good end' end return S" },
  main = [[
    ltask.spawn("worker", 1)
    ltask.spawn "rude"
    ltask.spawn("worker", 2)
  ]],
  err = false,
  out = function(out, err)
    local lines = kit.said(out)
    table.sort(lines)
    t.eq(lines, { "quit\t1", "quit\t2" })
    t.ok((out .. err):find("no good end", 1, true), out .. err)
  end,
})

kit.test("a quit handler may wait and call other services", {
  services = {
    worker = worker,
    polite = [[
      local other = ...
      local S = {}
      function S.quit()
        ltask.sleep(1)
        say("polite", (pcall(ltask.call, other, "nap", 1)))
      end
      return S
    ]],
  },
  main = [[ ltask.spawn("polite", ltask.spawn("worker", 1)) ]],
  out = function(out)
    local lines = kit.said(out)
    table.sort(lines)
    t.eq(#lines, 2, out)
    t.ok(lines[1]:find "^polite\t", out)
    t.eq(lines[2], "quit\t1")
  end,
})

kit.test("at the end every VM is closed, so __gc and the __close of waiting coroutines run", {
  services = { holder = [[
    local S, name = {}, ...
    KEPT = setmetatable({}, { __gc = function() say("collected", name) end })
    function S.wait()
      local _ <close> = setmetatable({}, { __close = function() say("closed", name) end })
      ltask.wait "for ever"
    end
    return S
  ]] },
  main = [[
    for i = 1, 3 do
      local id = ltask.spawn("holder", i)
      ltask.send(id, "wait")
      ltask.syscall(id, "tasks")
    end
  ]],
  out = function(out)
    local lines = kit.said(out)
    table.sort(lines)
    t.eq(lines, { "closed\t1", "closed\t2", "closed\t3", "collected\t1", "collected\t2", "collected\t3" })
  end,
})

kit.test("log entries from before the end and from quit handlers are written", {
  services = { logs = [[
    local S = {}
    function S.quit() ltask.log.info "from the quit handler" end
    return S
  ]] },
  main = [[
    ltask.spawn "logs"
    for i = 1, 1000 do ltask.log.info("line " .. i) end
  ]],
  out = function(out)
    local i = 0
    for n in out:gmatch "line (%d+)\n" do
      i = i + 1
      t.eq(tonumber(n), i)
    end
    t.eq(i, 1000)
    t.ok(out:find "from the quit handler\n", out:sub(-300))
  end,
})

kit.test("start returns when the system has ended, and the program continues", {
  services = { worker = worker },
  main = "say 'main'",
  out = { "main" },
})

t.test("twenty systems in one process leave no thread and no descriptor", function()
  local dir, program = kit.write {
    services = { worker = worker, event = [[
      local wait = ltask.eventinit()
      ltask.idle_handler(function() wait() end)
      return {}
    ]] },
    main = [[
      for i = 1, 3 do ltask.spawn("worker", i) end
      ltask.spawn "event"
      ltask.timeout(100000, function() end)
      ltask.fork(function() ltask.sleep(50000) end)
      ltask.sleep(1)
    ]],
  }
  program = program:gsub("local code = .*", "")
  local r = kit.program(program .. [[
    local start = require "ltask.start"
    local stat = io.open "/proc/self/stat"
    local self = stat:read "n"
    stat:close()
    -- Returns the smallest of several counts: `ls` may run before popen has closed a temporary descriptor.
    local function count(what)
      local least = math.huge
      for _ = 1, 5 do
        local p = io.popen("ls /proc/" .. math.tointeger(self) .. "/" .. what .. " | wc -l")
        least = math.min(least, p:read "n")
        p:close()
      end
      return least
    end
    local before
    for i = 1, 20 do
      config.core = { worker = 1 + i % 2 }
      start(config)
      collectgarbage()
      collectgarbage()
      if i == 2 then before = count "fd" end
      local threads = count "task"
      if threads ~= 1 then print("threads after boot " .. i, threads) end
    end
    print("descriptors", count "fd" - before)
  ]], dir)
  t.eq(r.err, "")
  local tail = kit.lines(r.out)
  t.eq(tail[#tail], "descriptors\t0", r.out)
  t.ok(not r.out:find "threads after", r.out)
  t.eq(select(2, r.out:gsub("quit\t1", "")), 20, "each boot ran its services' quit handlers")
end, { signals = true })

t.test("SIGTERM ends the process as it does without a system, and SIGINT ends it as in the host", function()
  for _, worker_count in ipairs(kit.workers) do
    for _, signal in ipairs { "TERM", "INT" } do
      local dir, program = kit.write({ main = "say 'ready' ltask.wait 'for ever'" }, worker_count)
      t.write(dir .. "/program.lua", program)
      local c <close> = t.spawn("timeout -k 1 60 " .. kit.host() .. " " .. t.quote(dir .. "/program.lua"))
      c:expect "^ready$"
      c:kill(signal)
      local code, ended_by = c:close()
      local how = signal .. ": code " .. tostring(code) .. ", signal " .. tostring(ended_by)
      -- `timeout` exits with 128 + the number of a signal that it has forwarded, and with 124 after its time limit.
      t.ok(code ~= 0 and code ~= 124 and code ~= 137, how)
      if signal == "TERM" then t.ok(ended_by == 15 or code == 143, how) end
    end
  end
end)

t.test("a crash is written to the crashlog with the id of the running service, and ends the process", function()
  for _, worker_count in ipairs(kit.workers) do
    local dir, program = kit.write({
      services = { spinner = [[
        local S = {}
        function S.spin()
          say("ready", ltask.self())
          while true do end
        end
        return S
      ]] },
      main = "ltask.call(ltask.spawn 'spinner', 'spin')",
      config = { core = { crashlog = "crash.log" } },
    }, worker_count)
    t.write(dir .. "/program.lua", program)
    local c <close> = t.spawn("env -C " .. t.quote(dir) .. " " .. kit.host() .. " program.lua")
    local id = c:expect "^ready\t(%d+)$"
    c:kill "SEGV"
    local code, ended_by = c:close()
    t.ok(ended_by == 11 or code == 139, "code " .. tostring(code) .. ", signal " .. tostring(ended_by))
    local f = t.ok(io.open(dir .. "/crash.log"))
    local text = f:read "a"
    f:close()
    t.ok(text:find("signal 11") and text:find("service " .. id .. "\n"), text)
  end
end)

kit.test("a system may end while services start", {
  services = { slow = "ltask.send(..., 'begun') ltask.sleep(100000) return {}", worker = worker },
  main = [[
    local begun = 0
    function S.begun()
      begun = begun + 1
      if begun == 3 then ltask.wakeup "begun" end
    end
    for _ = 1, 3 do ltask.fork(function() pcall(ltask.spawn, "slow", ltask.self()) end) end
    ltask.wait "begun"
    say "leaving"
  ]],
  err = false,
  out = function(out) t.ok(out:find "leaving", out) end,
})

-- Regression: the main loop of root ended at once, and the system ended with it.
kit.test("if root gets the request to quit, the quit handlers of all services run", {
  services = { worker = worker },
  main = [[
    for i = 1, 3 do ltask.spawn("worker", i) end
    pcall(ltask.syscall, 1, "quit")
    ltask.wait "for ever"
  ]],
  err = false,
  out = function(out)
    local said = kit.said(out)
    table.sort(said)
    t.eq(said, { "quit\t1", "quit\t2", "quit\t3" })
  end,
})

t.finish()
