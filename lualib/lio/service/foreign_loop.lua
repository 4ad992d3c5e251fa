-- `lio.loop` in a service of an ltask that is not ours: its calls on ltask's own coroutines and timers, so
-- that the same script, `lio.net` and `lio.webserver` run there. Called by `lio.service`.
--
-- Invariant: only what every ltask has is used. So there is no `kill`, signals belong to the program that
-- hosts us, and a `run` inside the service is an ordinary call.

local lio = require "lio"
local net = require "lio.net"

local GRACE <const> = 10 -- seconds

-- `foreign_loop(ltask)` → the module, which is `lio.loop` in this VM from now on.
return function(ltask)
  local M = { grace = GRACE }
  local selector = assert(lio.create())
  local hooks, running = {}, 0
  local timeouts, last = {}, 0

  M.fork = ltask.fork
  M.wait = ltask.wait
  M.wakeup = ltask.wakeup
  M.interrupt = ltask.interrupt
  M.running = ltask.running or coroutine.running
  M.now = lio.now

  local function centiseconds(seconds)
    return math.max(0, math.ceil(seconds * 100))
  end

  -- `loop.on_stop(f)` → a function that takes it back. `f(grace_seconds)` runs when the service quits.
  function M.on_stop(f)
    hooks[f] = true
    return function() hooks[f] = nil end
  end

  local api = net.new(selector, {
    wait = ltask.wait,
    wakeup = ltask.wakeup,
    fork = ltask.fork,
    running = M.running,
    on_stop = M.on_stop,
  })
  net.use(api)
  M.net = api

  -- `loop.sleep(seconds)`.
  function M.sleep(seconds)
    ltask.sleep(centiseconds(seconds))
  end

  -- `loop.timeout(seconds, f)` → an id for `cancel`.
  function M.timeout(seconds, f)
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

  -- `loop.cancel(id)` → whether it had not fired.
  function M.cancel(id)
    local known = timeouts[id] ~= nil
    timeouts[id] = nil
    return known
  end

  -- `loop.stop([grace_seconds])`: runs the stop hooks; `is_running` until they have returned.
  function M.stop(grace)
    for hook in pairs(hooks) do
      hooks[hook] = nil
      running = running + 1
      ltask.fork(function()
        pcall(hook, grace or M.grace)
        running = running - 1
      end)
    end
  end

  function M.is_running() return running > 0 end

  M.is_stopping = M.is_running

  function M.was_signalled() return false end

  function M.drives() return true end

  function M.describe(token) return api.describe(token) end

  -- `loop.run(f, …)` → what it returned: the service runs already.
  function M.run(f, ...) return f(...) end

  -- `loop.attach(descriptor, take)` → idle, poll: as that of `lio.loop`.
  function M.attach(descriptor, take)
    api.watch(descriptor, take)
    return function() api.step(nil) end, function() api.step(0) end
  end

  package.loaded["lio.loop"] = M
  return M
end
