-- Services whose files have not returned: requests to them wait, files that wait for each other are reported.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- The service waits in its file for the request `go`, which `ltask.dispatch` handles at once.
local slow <const> = [[
  local who = ...
  ltask.dispatch { go = function() ltask.wakeup "go" end }
  ltask.send(who, "loading", ltask.self())
  ltask.wait "go"
  local seen = {}
  local S = {}
  function S.add(x) seen[#seen + 1] = x return #seen end
  function S.seen() return table.concat(seen, " ") end
  return S
]]

-- Spawns `slow`, and waits until its file runs. `addr` is its address.
local spawn_slow <const> = [[
  local addr
  function S.loading(id) addr = id ltask.wakeup "loading" end
  ltask.fork(function() ltask.spawn("slow", ltask.self()) ltask.wakeup "spawned" end)
  ltask.wait "loading"
]]

kit.test("requests to a service wait until its file has returned, in order", {
  services = { slow = slow },
  main = spawn_slow .. [[
    local answers = {}
    for i = 1, 3 do
      ltask.fork(function() answers[i] = ltask.call(addr, "add", "call" .. i) end)
      ltask.sleep(0)
      ltask.send(addr, "add", "send" .. i)
    end
    local problem
    ltask.fork(function() problem = select(2, pcall(ltask.call, addr, "ad", 1)) end)
    ltask.sleep(0)
    say(#answers, problem)
    ltask.call(addr, "go")
    ltask.wait "spawned"
    say(ltask.call(addr, "seen"))
    say(table.concat(answers, " "))
    say(problem)
  ]],
  out = {
    "0\tnil", "call1 send1 call2 send2 call3 send3", "1 3 5",
    "service 4 (slow) has no handler for request 'ad' (did you mean 'add'?)",
  },
})

kit.test("requests that wait for a service's file count towards the limit of its mailbox", {
  services = { slow = slow },
  config = { core = { queue = 8 } },
  main = spawn_slow .. [[
    local sent = 0
    local ok, problem
    repeat
      ok, problem = pcall(function()
        -- The answer shows that the service has read the requests before it.
        ltask.syscall(addr, "tasks")
        return ltask.send(addr, "add", sent + 1)
      end)
      if ok then sent = sent + 1 end
    until not ok
    say(sent, problem)
    ltask.on_full "wait"
    local sent_result
    ltask.fork(function()
      sent_result = table.pack(ltask.send(addr, "add", 9))
      ltask.wakeup "sent"
    end)
    ltask.sleep(0)
    ltask.kill(addr)
    -- The send may end before the kill.
    if not sent_result then ltask.wait "sent" end
    say(table.unpack(sent_result))
  ]],
  err = false,
  out = { "8\t{service:4} is busy", "false\t{service:4} is dead" },
})

kit.test("a service that ends while its file runs answers the requests that wait", {
  services = { slow = slow },
  main = spawn_slow .. [[
    local result
    ltask.fork(function()
      result = table.pack(pcall(ltask.call, addr, "add", 1))
      ltask.wakeup "failed"
    end)
    ltask.syscall(addr, "tasks")
    ltask.kill(addr)
    -- The call may end before the kill.
    if not result then ltask.wait "failed" end
    say(table.unpack(result))
  ]],
  err = false,
  out = { "false\t{service:4} is dead" },
})

kit.test("handlers that are set while the file runs answer the requests that wait for them", {
  services = { early = [[
    local who = ...
    ltask.dispatch { go = function() ltask.wakeup "go" end }
    ltask.send(who, "loading", ltask.self())
    ltask.wait "go"
    ltask.dispatch { add = function() return "answered early" end }
    ltask.wait "go"
  ]] },
  main = spawn_slow:gsub('"slow"', '"early"') .. [[
    ltask.fork(function() ltask.wakeup("answered", ltask.call(addr, "add")) end)
    ltask.call(addr, "go")
    say(ltask.wait "answered")
    ltask.call(addr, "go")
    ltask.wait "spawned"
  ]],
  out = { "answered early" },
})

kit.test("a request of a service to itself fails while its file runs", {
  services = { own = [[
    say(pcall(ltask.call, ltask.self(), "later"))
    return { later = function() return "later" end }
  ]] },
  main = [[ say(ltask.call(ltask.spawn "own", "later")) ]],
  out = { "false\tservice 4 (own) is still loading its file, and has no handler for request 'later' yet", "later" },
})

-- Files that wait for each other --------------------------------------------------------------

kit.test("unique services whose files wait for each other get an error that names them", {
  services = {
    a = 'return { b = ltask.uniqueservice "b" }', b = 'return { c = ltask.spawn "c" }',
    c = 'return { a = ltask.uniqueservice "a" }',
  },
  main = [[
    local ok, e = pcall(ltask.uniqueservice, "a")
    say(ok, e.message)
  ]],
  out = { "false\tthe file of the service 'a' cannot return: the files wait for each other (c → a → b → c)" },
})

kit.test("unique services may ask for each other outside of their files", {
  services = {
    a = 'ltask.fork(function() ltask.uniqueservice "b" end) return {}', b = 'ltask.uniqueservice "a" return {}',
  },
  main = [[ say(ltask.uniqueservice "a", ltask.uniqueservice "b") ]],
  out = { "4\t5" },
})

-- Boots a system whose watchdog reports after 0.1 s, and waits until its log has contained each of these texts.
local function expect_reports(services, bootstrap, ...)
  local program <close> = kit.spawn { services = services, config = {
    bootstrap = bootstrap, core = { watchdog = 0.1 },
    logger = { name = "to_output", source = [[
      local ltask, core = require "ltask", require "ltask.core"
      local function flush()
        while true do
          local _, _, _, p, n = core.poplog()
          if not p then return end
          io.stdout:write(select(2, ltask.unpack_remove(p, n)), "\n")
          io.stdout:flush()
        end
      end
      core.system_calls().log_ready = flush
      core.set_log_reader()
      flush()
      return {}
    ]] },
  } }
  local missing = { ... }
  while #missing > 0 do
    local line = t.ok(program:line(), "the system has ended")
    for i = #missing, 1, -1 do
      if line == missing[i] then table.remove(missing, i) end
    end
  end
end

t.test("a file that waits for a name which no service has is reported", function()
  expect_reports({ waits = 'ltask.queryservice "other"', other = "return {}" },
    { { name = "waits" }, { name = "other", unique = true } },
    "service 3 (waits) has been loading for 0.1 s; it waits for the service 'other'")
end)

t.test("files that wait for each other's answers are reported, each once", function()
  expect_reports({
    a = 'ltask.spawn("b", ltask.self()) return { hello = function() end }',
    b = 'ltask.call((...), "hello") return {}',
  }, { { name = "a" } }, "service 3 (a) has been loading for 0.1 s; it waits for the file of the service 'b'",
    "service 4 (b) has been loading for 0.1 s; it waits for an answer from service 3 (a), "
      .. "whose file has not returned either")
end)

t.finish()
