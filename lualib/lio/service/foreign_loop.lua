-- `lio.loop` in a service of another implementation of ltask: the same calls, on that ltask's coroutines and timers, so
-- that the same script, `lio.net` and `lio.webserver` run there. Called by lio/service.lua.
--
-- Invariant: this file uses only calls that every implementation of ltask has. So there is no `kill`, the program that
-- hosts the service handles signals, and `loop.run` only calls its function.

local debug <const> = debug or require "lio.debug"
local drivers = require "lio.net.driver"
local lio = require "lio"
local net = require "lio.net"

local GRACE <const> = 10 -- seconds

local function centiseconds(seconds)
  return math.max(0, math.ceil(seconds * 100))
end

local function add_timers(loop, ltask)
  local timeouts, last = {}, 0

  function loop.sleep(seconds)
    ltask.sleep(centiseconds(seconds))
  end

  -- `loop.timeout(seconds, f)` runs `f` as a task after `seconds`, and returns an id for `cancel`.
  function loop.timeout(seconds, f)
    last = last + 1
    local id = last
    timeouts[id] = f
    ltask.timeout(centiseconds(seconds), function()
      if not timeouts[id] then return end
      timeouts[id] = nil
      f()
    end)
    return id
  end

  -- `loop.cancel(id)` cancels a timeout. Returns whether the timeout was pending.
  function loop.cancel(id)
    local known = timeouts[id] ~= nil
    timeouts[id] = nil
    return known
  end
end

local function add_stop(loop, ltask)
  local hooks, running = {}, 0

  -- `loop.on_stop(f)` returns a function that removes the hook. `f(grace_seconds)` runs as a task when the loop stops.
  function loop.on_stop(f)
    hooks[f] = true
    return function() hooks[f] = nil end
  end

  -- `loop.stop([grace_seconds])`: starts the stop hooks. Until they have returned, `is_running()` returns true.
  function loop.stop(grace)
    for hook in pairs(hooks) do
      hooks[hook] = nil
      running = running + 1
      ltask.fork(function()
        local ok, message = xpcall(hook, debug.traceback, grace or loop.grace)
        running = running - 1
        if not ok then io.stderr:write("lio: ", tostring(message), "\n") end
      end)
    end
  end

  function loop.is_running() return running > 0 end

  loop.is_stopping = loop.is_running

  function loop.was_signalled() return false end
end

local function add_driver(loop, ltask)
  local driver = drivers.new(assert(lio.create()), {
    wait = ltask.wait,
    wakeup = ltask.wakeup,
    fork = ltask.fork,
    running = loop.running,
    on_stop = loop.on_stop,
  })
  loop.net = driver.net

  function loop.drives() return true end

  function loop.describe(token) return driver:describe(token) end

  -- `loop.run(f, …)` returns the results of `f`. `run` only calls `f`, because the service is already running.
  function loop.run(f, ...) return f(...) end

  -- `loop.attach(descriptor, take)` returns two functions, idle and poll, like `attach` of `lio.loop`.
  function loop.attach(descriptor, take)
    driver:watch(descriptor, take)
    local step <const> = driver.net.step
    return function() step(nil) end, function() step(0) end
  end
end

-- `foreign_loop(ltask)` returns the module, and makes it the `lio.loop` of this VM.
return function(ltask)
  local loop = {
    grace = GRACE,
    fork = ltask.fork,
    wait = ltask.wait,
    wakeup = ltask.wakeup,
    interrupt = ltask.interrupt,
    running = ltask.running or coroutine.running,
    now = lio.now,
  }
  add_timers(loop, ltask)
  add_stop(loop, ltask)
  add_driver(loop, ltask)
  net.use(loop.net)
  package.loaded["lio.loop"] = loop
  return loop
end
