-- The Skynet API for coroutines, time, the log and critical sections, with its errors. tests/skynet_message_test.lua
-- and tests/skynet_service_test.lua have the rest.

package.path = (arg[0]:match "^.*/" or "./") .. "../?.lua;" .. package.path
local t = require "tests.kit"
package.path = t.root .. "?.lua;" .. package.path
local kit = require "tests.skynet.kit"

kit.both("wrong arguments of fork, sleep, timeout, wakeup and init raise at the caller's line", {
  main = [[
    local nan = 0 / 0
    local function try(f, ...)
      local args = table.pack(...)
      say(select(2, pcall(function() f(table.unpack(args, 1, args.n)) return nil end)):match "[^/]*$")
    end
    try(skynet.fork)
    try(skynet.sleep)
    try(skynet.sleep, "x")
    try(skynet.sleep, nan)
    try(skynet.timeout, nil, print)
    try(skynet.timeout, 1, 2)
    try(skynet.wakeup)
  ]],
  out = {
    "main.lua:4: bad argument #1 to 'fork' (function expected, got nil)",
    "main.lua:4: bad argument #1 to 'sleep' (a time in centiseconds expected, got nil)",
    "main.lua:4: bad argument #1 to 'sleep' (a time in centiseconds expected, got x)",
    "main.lua:4: bad argument #1 to 'sleep' (a time in centiseconds expected, got " .. tostring(0 / 0) .. ")",
    "main.lua:4: bad argument #1 to 'timeout' (a time in centiseconds expected, got nil)",
    "main.lua:4: bad argument #2 to 'timeout' (function expected, got number)",
    "main.lua:4: bad argument #1 to 'wakeup' (a token expected, got nil)",
  },
})

kit.both("two coroutines cannot sleep or wait on one token", {
  main = [[
    skynet.fork(function() say("first", skynet.sleep(100000, "token")) end)
    skynet.yield()
    say(pcall(skynet.sleep, 1, "token"))
    say(pcall(skynet.wait, "token"))
    say(skynet.wakeup "token")
    skynet.yield()
    say((skynet.wakeup "token"))
  ]],
  out = {
    "false\tsleep: a coroutine sleeps or waits on this token already",
    "false\twait: a coroutine sleeps or waits on this token already",
    "true", "first\tBREAK", "nil",
  },
})

kit.both("a wakeup has no effect if the sleeping coroutine was killed or could not wait", {
  main = [[
    local task = require "lio.task"
    local co = skynet.fork(skynet.sleep, 100000, "killed")
    local other = skynet.fork(skynet.wait, "killed too")
    skynet.yield()
    say(task.kill(co), task.kill(other))
    say((skynet.wakeup "killed"), (skynet.wakeup "killed too"))
    -- Woken first, and killed before it runs.
    co = skynet.fork(skynet.wait, "both")
    skynet.yield()
    say(skynet.wakeup "both", task.kill(co))
    say((skynet.wakeup "both"))
    say((pcall(table.sort, { 2, 1 }, function() skynet.wait "sort" end)))
    say((skynet.wakeup "sort"))
    -- The tokens are free.
    for _, token in ipairs { "killed", "killed too", "both", "sort" } do
      skynet.fork(function() say(token, skynet.sleep(100000, token)) end)
      skynet.yield()
      say(skynet.wakeup(token))
      skynet.yield()
    end
  ]],
  out = {
    "true\ttrue", "nil\tnil", "true\ttrue", "nil", "false", "nil", "true", "killed\tBREAK", "true", "killed too\tBREAK",
    "true", "both\tBREAK", "true", "sort\tBREAK",
  },
})

kit.both("ltask.wakeup ends a sleep, and skynet.wakeup ends no wait of ltask", {
  main = [[
    skynet.fork(function() say("slept", skynet.sleep(100000, "token")) end)
    skynet.fork(function() say("waited", ltask.wait "theirs") end)
    skynet.yield()
    say(ltask.wakeup "token", skynet.wakeup "theirs")
    skynet.yield()
    say(ltask.wakeup("theirs", 1))
    skynet.yield()
  ]],
  out = { "true", "slept\tBREAK", "true", "waited\t1" },
})

kit.both("yield lets messages that have arrived be handled first", {
  services = { self = [[
    skynet.start(function()
      local list = {}
      skynet.dispatch("lua", function(_, _, n) list[#list + 1] = n end)
      for i = 1, 3 do skynet.send(skynet.self(), "lua", i) end
      skynet.fork(function() list[#list + 1] = "fork" end)
      skynet.yield()
      say(table.concat(list, " "))
    end)
  ]] },
  main = [[ skynet.newservice "self" ]],
  out = { "fork 1 2 3" },
})

-- Time, numbers, log --------------------------------------------------------------------------

kit.both("now, starttime, time and hpc agree with each other and with the system's clock", {
  main = [[
    local before = os.time()
    local now, time, start, hpc = skynet.now(), skynet.time(), skynet.starttime(), skynet.hpc()
    say(math.type(now), math.type(time), math.type(start), math.type(hpc))
    -- time(2) may be a tick behind the clock of starttime.
    say(now >= 0 and now < 100000, start <= before + 1 and start > before - 1000)
    -- One clock is read between two readings of the other; all in centiseconds.
    local function agrees(clock, other)
      local least = other()
      local read = clock()
      return read >= least - 1.5 and read <= other() + 1.5 or ("%s, not %s"):format(read, least)
    end
    local function counter() return ltask.counter() * 100 end
    local offset
    say(time >= before - 1 and time <= os.time() + 1)
    say(agrees(function() return skynet.time() * 100 end, ltask.walltime),
      agrees(function() return skynet.now() + skynet.starttime() * 100 end, ltask.walltime))
    skynet.sleep(30)
    offset = counter() - skynet.now()
    skynet.sleep(30)
    say(agrees(function() return skynet.now() + offset end, counter),
      agrees(function() return skynet.hpc() / 1e7 end, counter), skynet.starttime() == start)
    say(skynet.now() - now >= 60, skynet.hpc() > hpc)
  ]],
  out = { "integer\tfloat\tinteger\tinteger", "true\ttrue", "true", "true\ttrue", "true\ttrue\ttrue", "true\ttrue" },
})

kit.both("self, genid and PTYPE numbers", {
  main = [[
    say(skynet.self() == ltask.self(), skynet.self())
    local a, b = skynet.genid(), skynet.genid()
    say(math.type(a), a ~= b)
    say(skynet.PTYPE_LUA, skynet.PTYPE_TEXT, skynet.PTYPE_CLIENT, skynet.PTYPE_SOCKET, skynet.PTYPE_SYSTEM)
    say(require "skynet.manager" == skynet)
  ]],
  out = { "true\t3", "integer\ttrue", "10\t0\t3\t6\t4", "true" },
})

kit.both("error writes its values to the log, with spaces between them", {
  main = [[ skynet.error("text", 1, nil, true) ]],
  out = function(out) t.ok(out:find "^%[.*%]%[INFO%]%(3 main%) text 1 nil true\n$", out) end,
})

kit.both("a trace passes a service that does not use skynet", {
  services = { native = "return { lua = function(...) return ... end }" },
  main = [[
    local native = skynet.newservice "native"
    skynet.trace "x"
    say(skynet.call(native, "lua", 1, 2))
    say(skynet.unpack(skynet.rawcall(native, "lua", skynet.pack(3))))
    say(skynet.tracetag())
  ]],
  out = function(out)
    local said, traced = {}, {}
    for _, line in ipairs(kit.lines(out)) do
      local event = line:match "<TRACE :00000003%-1> %d+%.%d+ (%a+)"
      table.insert(event and traced or said, event or line)
    end
    t.eq(said, { "1\t2", "3", ":00000003-1" })
    t.eq(traced, { "trace", "call", "resume", "call", "resume" })
  end,
})

kit.both("a trace includes the coroutines of the traced task", {
  services = { far = [[
    skynet.start(function()
      skynet.dispatch("lua", function()
        skynet.retpack(coroutine.wrap(function() return skynet.tracetag() end)())
      end)
    end)
  ]] },
  main = [[
    local far = skynet.newservice "far"
    coroutine.wrap(function() skynet.trace() end)()
    say(skynet.tracetag())
    say(coroutine.wrap(function()
      local tag = skynet.tracetag()
      skynet.sleep(0)
      return tag, skynet.call(far, "lua")
    end)())
    skynet.fork(function() say("another", skynet.tracetag()) end)
    skynet.yield()
  ]],
  out = function(out)
    local said, traced = {}, { [3] = {}, [4] = {} }
    for _, line in ipairs(kit.lines(out)) do
      local id, event = line:match "%((%d+) .-<TRACE :00000003%-1> %d+%.%d+ (.*)"
      table.insert(event and traced[tonumber(id)] or said, event or line)
    end
    t.eq(said, { ":00000003-1", ":00000003-1\t:00000003-1", "another\tnil" })
    local call = table.remove(traced[3], 4)
    t.ok(call:find "^call @.*main%.lua:%d+$", call)
    t.eq(traced[3], { "trace", "sleep", "resume", "resume", "sleep", "resume" })
    t.eq(traced[4], { "request", "response", "end" })
  end,
})

kit.both("an error that passes several services is logged by each, and each traceback once", {
  services = { one = [[
    local depth = ...
    skynet.start(function()
      local next = depth > 0 and skynet.newservice("one", depth - 1)
      skynet.dispatch("lua", function(_, _, ...)
        if depth == 0 then error "no luck" end
        skynet.retpack(skynet.call(next, "lua", ...))
      end)
    end)
  ]] },
  main = [[
    local one = skynet.newservice("one", 2)
    skynet.send(one, "lua")
    -- Its answer arrives after the end of the first.
    local ok, err = pcall(skynet.call, one, "lua")
    say(ok, #err)
  ]],
  err = false,
  out = function(out, err)
    -- One of each service, and of the caller.
    t.eq(kit.lines(out), { "false\t4" })
    local heads, tracebacks = {}, {}
    for line in err:gmatch "[^\n]+" do
      local head = line:match "^%[.*%[ERROR%]%((.*)$"
      heads[#heads + 1] = head and head:gsub("/%S*/", ""):gsub("session %d+", "session N")
      local id = line:match "^in service (%d+) "
      if id then tracebacks[id] = (tracebacks[id] or 0) + 1 end
    end
    table.sort(heads)
    t.eq(heads, {
      "4 one) error in a request of :00000003, session N: one.lua:5: no luck",
      "4 one) one.lua:5: no luck (a message from service 3)",
      "5 one) error in a request of :00000004, session N: one.lua:5: no luck",
      "5 one) error in a request of :00000004, session N: one.lua:5: no luck",
      "6 one) error in a request of :00000005, session N: one.lua:5: no luck",
      "6 one) error in a request of :00000005, session N: one.lua:5: no luck",
    })
    t.eq(tracebacks, { ["4"] = 2, ["5"] = 2, ["6"] = 2 })
  end,
})

-- Critical sections ---------------------------------------------------------------------------

kit.both("the next coroutine enters a section when one that is inside or waits is killed", {
  main = [[
    local task = require "lio.task"
    local section = require "skynet.queue"()
    local co = {}
    for i = 1, 6 do
      co[i] = skynet.fork(section, function()
        say("in", i)
        skynet.sleep(i == 1 and 100000 or 0)
        say("out", i)
      end)
    end
    skynet.yield()
    task.kill(co[3]) -- waits
    task.kill(co[1]) -- is inside: 2 is next
    task.kill(co[2]) -- was woken, and has not run: 4 is next
    skynet.sleep(5)
    say(section(function(...) return select("#", ...), ... end, nil, 1))
    say(pcall(section))
    say(section(function() return "free" end))
  ]],
  out = function(out)
    local lines = kit.lines(out)
    t.ok(table.remove(lines, 9):find "^false\t.*attempt to call a nil value", "of what is no function")
    t.eq(lines, { "in\t1", "in\t4", "out\t4", "in\t5", "out\t5", "in\t6", "out\t6", "2\tnil\t1", "free" })
  end,
})

kit.both("a section belongs to the handler: its generators may enter again, and other tasks wait", {
  main = [[
    local section = require "skynet.queue"()
    local function numbers(n)
      return coroutine.wrap(function()
        for i = 1, n do
          section(function()
            skynet.sleep(0)
            coroutine.yield(i)
          end)
        end
      end)
    end
    skynet.fork(section, say, "after them")
    section(function()
      skynet.yield()
      for i in numbers(3) do
        -- The generator is inside, and the handler that reads its values may enter as well.
        section(say, "number", i)
        skynet.sleep(0)
      end
      say "leaves"
    end)
    skynet.yield()
    -- Entered by the generator alone, which is inside until it ends.
    local one = numbers(1)
    one()
    skynet.fork(section, say, "the next")
    skynet.yield()
    say "not yet"
    one()
    skynet.yield()
    section(say, "free")
  ]],
  out = { "number\t1", "number\t2", "number\t3", "leaves", "after them", "not yet", "the next", "free" },
})

kit.both("the next coroutine enters a section when one that is inside or waits is closed", {
  main = [[
    local section = require "skynet.queue"()
    local inside, waits
    skynet.fork(function()
      inside = coroutine.create(section)
      say("inside", coroutine.resume(inside, skynet.wait, "for ever"))
    end)
    skynet.fork(function()
      waits = coroutine.create(section)
      say("waits", coroutine.resume(waits, say, "must not run"))
    end)
    skynet.fork(section, say, "next")
    skynet.yield()
    say(coroutine.close(waits), coroutine.close(inside))
    skynet.yield()
    section(say, "free")
  ]],
  out = {
    "true\ttrue", "waits\tfalse\tcoroutine was closed", "inside\tfalse\tcoroutine was closed", "next", "free",
  },
})

kit.both("a section raises errors of all kinds unchanged", {
  main = [[
    local queue = require "skynet.queue"
    local section, problem = queue.new(), {}
    say(select(2, pcall(section, error, problem)) == problem)
    say(pcall(section, section, section, error, "deep", 0))
    say(section(section, section, function() return "reentered" end))
  ]],
  out = { "true", "false\tdeep", "reentered" },
})

t.finish()
