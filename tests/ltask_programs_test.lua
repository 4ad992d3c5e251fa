-- Programs like the service tests of the original ltask, one for each generation. The first service has no handlers: it
-- does everything in its file, and calls a user service. Then the system ends by itself. Regression: both programs hung
-- at the end, because services without handlers did not end.

local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"

-- Boots a system with a configuration table, whose fields are in the string `config`, and with the files of `services`
-- in a temporary folder. The program ignores the result of `start`.
local function run(worker, config, services)
  local dir = kit.write { services = services }
  return kit.program(string.format([[
    local dir, worker = %q, %d
    require "ltask.start" { service_path = dir .. "/?.lua", lua_path = dir .. "/?.lua;" .. package.path,
      lua_cpath = package.cpath, %s }
    io.write "the end\n"
  ]], dir, worker, config), dir)
end

-- The user service, which responds, waits, raises errors, returns its arguments, and ends itself.
local user <const> = [[
  local greeting, number = ...
  say("user begins", greeting, number)
  local S = setmetatable({}, { __gc = function() say "user is collected" end })

  function S.ping(...)
    ltask.timeout(1, function() say "user's timeout" end)
    ltask.sleep(2)
    return "pong", ...
  end

  function S.wait(centiseconds, value)
    ltask.sleep(centiseconds)
    return value
  end

  local function deep() error "as it must" end
  function S.fail() deep() end

  function S.fail_with(object) error(object) end

  local kept = {}
  function S.keep(key, value) kept[key] = value end
  function S.kept(key) return kept[key] end

  function S.held(value)
    ltask.wait(value)
    return value
  end
  function S.release(value) ltask.wakeup(value) end

  function S.hang() ltask.wait "never" end

  function S.exit()
    say "user exits"
    ltask.quit()
  end

  function S.quit() say "user quits" end

  return S
]]

local unique <const> = [[
  local name = ...
  local S = {}
  function S.name() return name end
  return S
]]

-- The part of the first service's source that is the same in both generations.
local common <const> = [[
  local args = table.pack(...)
  say("begin", args.n, ...)
  local user = ltask.spawn("user", "hello", 42)

  -- Calls and sends: in order, with every kind of value.
  say(ltask.call(user, "ping", 1, nil, "three"))
  ltask.send(user, "keep", "key", { 1, { 2 } })
  say(ltask.call(user, "kept", "key")[2][1])

  -- Forks run before the caller continues after a wait; two concurrent sleeps last as long as one.
  local order = {}
  for i = 1, 3 do ltask.fork(function(x) order[#order + 1] = x end, i) end
  ltask.sleep(0)
  say("forks", table.concat(order, " "))
  local began = ltask.counter()
  local left = 2
  for _ = 1, 2 do
    ltask.fork(function()
      ltask.sleep(5)
      left = left - 1
      if left == 0 then ltask.wakeup "both" end
    end)
  end
  ltask.wait "both"
  say("slept", ltask.counter() - began >= 0.05)

  -- Timeouts fire in order of time. They are set again if they were not set at almost the same time.
  local fired
  repeat
    local list, set = {}, ltask.counter()
    fired = list
    for _, time in ipairs { 30, 10, 20 } do
      ltask.timeout(time, function()
        list[#list + 1] = time
        if #fired == 3 then ltask.wakeup "fired" end
      end)
    end
  until ltask.counter() - set < 0.09
  ltask.wait "fired"
  say("timeouts", table.concat(fired, " "))

  -- Tokens: one waiting coroutine, several, an interrupt, an unknown token.
  local token = {}
  ltask.fork(function() ltask.wakeup(token, "a", "b") end)
  say(ltask.wait(token))
  local woken = {}
  for i = 1, 3 do
    ltask.fork(function()
      woken[i] = ltask.multi_wait "many"
      if woken[1] and woken[2] and woken[3] then ltask.wakeup "all" end
    end)
  end
  ltask.fork(function() say("multi_wakeup", ltask.multi_wakeup("many", "x")) end)
  ltask.wait "all"
  say(table.concat(woken, " "))
  ltask.fork(function() ltask.interrupt(token, "interrupted") end)
  say(pcall(ltask.wait, token))
  say(ltask.wakeup "nobody", ltask.multi_wakeup "nobody")

  -- Errors have the tracebacks of both services, and the service continues.
  local ok, err = pcall(ltask.call, user, "fail")
  local text = tostring(err)
  say(ok, text:find("user.lua:%d+: as it must") ~= nil, text:find("in upvalue 'deep'", 1, true) ~= nil,
    text:find(("in service %d (user)"):format(user), 1, true) ~= nil,
    text:find(("in service %d (bootstrap)"):format(ltask.self()), 1, true) ~= nil)
  say((tostring(select(2, pcall(ltask.call, user, "nothing"))):match "[^\n]*"):gsub("%d+", "N"))
  say(ltask.call(user, "wait", 0, "lives on"))

  -- Names.
  local found
  ltask.fork(function()
    found = ltask.queryservice "unique"
    ltask.wakeup "found"
  end)
  ltask.sleep(0)
  say("nothing found", found == nil)
  local first = ltask.uniqueservice("unique", "the first")
  if not found then ltask.wait "found" end
  say(first == found, first == ltask.uniqueservice("unique", "the second"), ltask.call(found, "name"))
]]

local common_out <const> = {
  "begin\t2\tone\t2", "user begins\thello\t42", "user's timeout", "pong\t1\tnil\tthree", "2", "forks\t1 2 3",
  "slept\ttrue", "timeouts\t10 20 30", "a\tb", "multi_wakeup\ttrue", "x x x", "false\tinterrupted", "nil\tnil",
  "false\ttrue\ttrue\ttrue\ttrue", "service N (user) has no handler for request 'nothing'\t1", "lives on",
  "nothing found\ttrue", "true\ttrue\tthe first",
}

-- Ends the user service while a call waits for its response.
local ending <const> = [[
  ltask.fork(function()
    local ok, e = pcall(ltask.call, user, "hang")
    say(ok, tostring(e):match "[^\n]*" == ("{service:%d} is dead"):format(user))
    ltask.wakeup "dead"
  end)
  ltask.sleep(0)
  ltask.send(user, "exit")
  ltask.wait "dead"
  local other = ltask.spawn("user", "bye", 43)
  say(ltask.kill(other), ltask.kill(4711))
  ltask.fork(function() say "the last task" end)
  say "end"
]]

local ending_out <const> = {
  "user exits", "user quits", "user is collected", "false\ttrue", "user begins\tbye\t43",
  -- The killed service ends while the first service runs.
  "true\tfalse", "end", "the last task",
}

local function with(...)
  local list = {}
  for _, one in ipairs { ... } do table.move(one, 1, #one, #list + 1, list) end
  return list
end

-- Removes the lines that the killed user service prints when it ends, which may be anywhere after its first line.
-- Returns the other lines and a list of the removed lines.
local function without_killed(lines)
  local kept, begun, killed = {}, false, {}
  for _, line in ipairs(lines) do
    begun = begun or line == "user begins\tbye\t43"
    if begun and (line == "user quits" or line == "user is collected") then
      killed[#killed + 1] = line
    else
      kept[#kept + 1] = line
    end
  end
  return kept, killed
end

local function judge(r, expected)
  t.eq(r.err, "")
  local lines, killed = without_killed(kit.lines(r.out))
  t.eq(lines, expected)
  t.eq(killed, { "user quits", "user is collected" })
  t.eq(r.code, 0)
end

-- First generation --------------------------------------------------------------------------------

local first_generation <const> = [[
  -- `request:select()` returns the responses, including errors, in the order in which they arrive.
  local answers = {}
  local request = ltask.request { user, "held", "slow", n = 4 }
  request:add { user, "held", "quick" }
  request { user, "fail_with", "refused" }
  local holds = { "quick", "slow" }
  for one, result in request:select() do
    answers[#answers + 1] = result and result[1] or one.error and "error"
    if holds[#answers] then ltask.send(user, "release", holds[#answers]) end
  end
  say(table.concat(answers, " "))
  local late = 0
  do
    local limited <close> = ltask.request { user, "held", "too late" }
    for _ in limited:select(2) do late = late + 1 end
  end
  say("in time", late)

  -- parallel: the loop gets the results themselves, and an error is raised when the loop ends.
  local got = {}
  local all_ok, raised = pcall(function()
    for task, a, b in ltask.parallel {
      { ltask.call, user, "wait", 4, "second", at = 2 },
      { ltask.call, user, "wait", 1, "first", at = 1 },
      { function(x) return x, x * 2 end, 21, at = 3 },
      { error, "in a task" },
    } do
      got[task.at] = tostring(a) .. (b and " " .. b or "")
    end
  end)
  say(got[1], got[2], got[3], all_ok, raised)
  say(ltask.send_direct(user, "keep", "direct", true), ltask.call(user, "kept", "direct"))
  say(ltask.call(2, "count") > 0, ltask.is_exclusive(2), ltask.is_exclusive())
]]

for _, worker in ipairs(kit.workers) do
  t.test("a program of the first generation runs and ends: " .. worker .. " workers", function()
    judge(run(worker, [[worker = worker, bootstrap = { "bootstrap", "one", 2 }, logger = { "logger" },
      exclusive = { { "ticker", 3 }, "timer", "brief" }, generation = 1]], {
      bootstrap = common .. first_generation .. ending,
      user = user,
      unique = unique,
      -- A service with idle work and handlers.
      ticker = [[
        local exclusive = require "ltask.exclusive"
        local step = ...
        local S, count = {}, 0
        function ltask.on_idle()
          count = count + step
          exclusive.sleep(1)
        end
        function S.count()
          ltask.sleep(1)
          return count
        end
        return S
      ]],
      -- A service that ends at once.
      brief = "say 'brief'",
    }), with({ "brief" }, common_out, {
      "error quick slow", "in time\t0", "first\tsecond\t21 42\tfalse\tin a task", "true\ttrue", "true\ttrue\tfalse",
    }, ending_out, { "the end" }))
  end)
end

-- Second generation -------------------------------------------------------------------------------

local second_generation <const> = [[
  -- async: the requests are concurrent, and `wait` waits for all of them.
  local async = ltask.async()
  async:request(user, "keep", "async 1", 1)
  async:request(user, "keep", "async 2", 2)
  async:wait()
  say(ltask.call(user, "kept", "async 1"), ltask.call(user, "kept", "async 2"))
  async:request(user, "fail_with", { code = 7 })
  local async_ok, async_error = pcall(async.wait, async)
  say(async_ok, async_error.err.code)

  -- parallel: the loop gets a list of results, or the error and a function that raises it.
  local got = {}
  for task, result in ltask.parallel {
    { ltask.call, user, "wait", 3, "second", at = 2 },
    { ltask.call, user, "wait", 1, "first", at = 1 },
    { function(x) return x, x * 2 end, 21, at = 3 },
    { error, "in a task", at = 4 },
  } do
    got[task.at] = result.error and { result.error, tostring(pcall(result.rethrow)) } or result
  end
  for i = 1, 4 do got[i] = table.concat(got[i], " ") end
  say(table.concat(got, ", "))

  -- A service from a table, a function on the main thread, and a service that owns an event descriptor.
  local made = ltask.spawn_service {
    name = "made", args = { "an argument" }, worker_id = worker,
    source = "local S, x = {}, ... function S.x() return x, require 'ltask'.worker_id() end return S",
  }
  say(ltask.call(made, "x"))
  ltask.syscall(made, "quit")
  say(ltask.mainthread_run(function(x)
    local before = ltask.self()
    return x, before == ltask.self()
  end, "on the main thread"))
  local owner = ltask.spawn "owner"
  say(ltask.call(owner, "echo", "by the owner"))
  ltask.send(owner, "stop")
]]

for _, worker in ipairs(kit.workers) do
  for form, bootstrap in pairs {
    ["a list"] = [[{ { name = "timer", unique = true }, { name = "logger2", unique = true },
      { name = "bootstrap", args = { "one", 2 } } }]],
    ["names"] = [[{ timer = { unique = true }, logger2 = { unique = true }, bootstrap = { args = { "one", 2 } } }]],
  } do
    local name = "a program of the second generation with bootstrap as %s runs and ends: %d workers"
    t.test(name:format(form, worker), function()
      judge(run(worker, "core = { worker = worker }, bootstrap = " .. bootstrap, {
        bootstrap = "local worker = " .. worker - 1 .. " " .. common .. second_generation .. ending,
        user = user,
        unique = unique,
        logger2 = "return {}",
        owner = [[
          local take = ltask.eventinit()
          ltask.idle_handler(take)
          local S = {}
          function S.echo(...) return ... end
          function S.stop() ltask.quit() end
          return S
        ]],
      }), with(common_out, {
        "1\t2", "false\t7", "first, second, 21 42, in a task false", "an argument\t" .. worker - 1,
        "on the main thread\ttrue", "by the owner",
      }, ending_out, { "the end" }))
    end)
  end
end

t.finish()
