-- Clocks, ids, statistics, the memory limit and `skynet.profile` of the Skynet compatibility API.

local t = require "tests.kit"
local kit = require "tests.kit.skynet_system"

kit.test("now, starttime, time and hpc agree with each other and with the system's clock", {
  main = [[
    local before = os.time()
    local now, time, start, hpc = skynet.now(), skynet.time(), skynet.starttime(), skynet.hpc()
    say(math.type(now), math.type(time), math.type(start), math.type(hpc))
    -- time(2) may be one tick behind the clock that starttime uses.
    say(now >= 0 and now < 100000, start <= before + 1 and start > before - 1000)
    -- Checks that `clock`, read between two readings of `other`, agrees with `other`. Both return centiseconds.
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

kit.test("self, genid and the PTYPE constants have the right values", {
  main = [[
    say(skynet.self() == ltask.self(), skynet.self())
    local a, b = skynet.genid(), skynet.genid()
    say(math.type(a), a ~= b)
    say(skynet.PTYPE_LUA, skynet.PTYPE_TEXT, skynet.PTYPE_CLIENT, skynet.PTYPE_SOCKET, skynet.PTYPE_SYSTEM)
    say(require "skynet.manager" == skynet)
  ]],
  out = { "true\t3", "integer\ttrue", "10\t0\t3\t6\t4", "true" },
})

kit.test("stat returns the statistics of the service, and mqlen the number of unread messages", {
  services = { figures = [[
    skynet.start(function()
      skynet.dispatch("lua", function() end)
      local before = skynet.stat "message"
      for _ = 1, 5 do skynet.send(skynet.self(), "lua") end
      say(skynet.mqlen(), skynet.stat "mqlen", skynet.stat "message" - before)
      -- `yield` returns after a sixth message, the answer that ends its wait.
      skynet.yield()
      say(skynet.mqlen(), skynet.stat "message" - before)
      local cpu, counter = skynet.stat "cpu", ltask.counter()
      while ltask.counter() < counter + 0.02 do end
      say(skynet.stat "cpu" - cpu >= 0.02, skynet.stat "time" >= 0.02)
      say(skynet.stat "endless", skynet.endless(), skynet.stat "no such figure")
    end)
  ]] },
  main = [[ skynet.newservice "figures" ]],
  out = { "5\t5\t0", "0\t6", "true\ttrue", "0\tfalse\tnil" },
})

kit.test("endless is true once after a report of the watchdog", {
  config = { core = { watchdog = 0.05 } },
  services = { busy = [[
    skynet.start(function()
      skynet.dispatch("lua", function()
        repeat until skynet.stat "endless" == 1
        skynet.retpack(skynet.stat "endless", skynet.endless())
      end)
    end)
  ]] },
  main = [[ say(skynet.call(skynet.newservice "busy", "lua")) ]],
  err = "has not paused",
  out = function(out) t.eq(kit.lines(out)[1], "0\tfalse") end,
})

kit.test("memlimit limits the memory of a service", {
  services = { small = [[
    skynet.memlimit(2000000)
    skynet.start(function()
      skynet.dispatch("lua", function(_, _, size) skynet.retpack(#("x"):rep(size)) end)
    end)
  ]] },
  main = [[
    local small = skynet.newservice "small"
    say(skynet.call(small, "lua", 100000))
    say((select(2, pcall(skynet.call, small, "lua", 10000000)).message:match "not enough memory"))
    say(skynet.call(small, "lua", 100000))
  ]],
  err = "not enough memory",
  out = { "100000", "not enough memory", "100000" },
})

kit.test("skynet.profile measures a coroutine's time without its waits and without other coroutines", {
  main = [[
    local profile = require "skynet.profile"
    local function work(seconds)
      local counter = ltask.counter()
      while ltask.counter() < counter + seconds do end
    end
    -- The forked coroutine works while this one sleeps.
    skynet.fork(work, 2)
    profile.start()
    skynet.sleep(10)
    local slept = profile.stop()
    say(slept >= 0, slept < 1)
    profile.start()
    local counter = ltask.counter()
    for _ = 1, 2000000 do end
    local worked = profile.stop()
    say(worked > 0, worked <= ltask.counter() - counter + 0.01)
    say(pcall(profile.stop))
    profile.start()
    say(pcall(profile.start))
    profile.stop()
    -- The time during which a measured coroutine is suspended does not count.
    local spent
    local f = profile.wrap(function()
      profile.start()
      profile.yield "half"
      spent = profile.stop()
    end)
    say(f())
    work(2)
    f()
    say(spent < 1)
    say(profile.resume(coroutine.create(function(...) return ... end), 1))
  ]],
  out = {
    "true\ttrue", "true\ttrue",
    "false\tstop: this coroutine is not being measured; call start first",
    "false\tstart: this coroutine is already being measured; call stop first",
    "half", "true", "true\t1",
  },
})

t.finish()
