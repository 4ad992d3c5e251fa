-- `lio.net`: sockets for coroutines. A call that has to wait suspends its coroutine, not the thread.
--
-- `net.new(selector, scheduler)` creates an instance: a table with the calls, for the tasks of one scheduler. The
-- module itself has the calls of the VM's instance: the instance of `lio.loop`, unless `net.use` sets another instance.
-- The files in net/ define the calls, one topic per file; net/driver.lua is the event loop that they use.
--
-- A call returns a value on success. `nil` alone means the end of a stream. On failure, `recv` and `send` return `nil,
-- message, partial, code`, and other calls `nil, message, code`; but `listen`, `accept`, `connect`, `udp` and `wrap`
-- return `false, message, code`.

local misuse = require "lio.misuse"

local M = {}

local SELECTORS <const> = { ["lio.selector"] = true, ["bee.select"] = true, ["bee.epoll"] = true }
local TIMERS <const> = { ["lio.timers"] = true }
-- The fields of a scheduler that are functions, and whether they are required.
local OF_SCHEDULER <const> = {
  wait = true, wakeup = true, fork = true, start = false, on_abandon = false, on_stop = false, check = false,
}

local function check_new(selector, scheduler)
  if not misuse.is_named(selector, SELECTORS) then misuse.argument("new", 1, "selector", selector) end
  misuse.check("new", 2, scheduler, "table")
  if scheduler.timers ~= nil and not misuse.is_named(scheduler.timers, TIMERS) then
    misuse.bad("new", 2, "field 'timers' must be a result of timer.new, got " .. misuse.shown(scheduler.timers))
  end
  for name, is_required in pairs(OF_SCHEDULER) do
    local value = scheduler[name]
    if (value or is_required) and not misuse.is_callable(value) then
      misuse.bad("new", 2, ("field '%s' must be a function, got %s"):format(name, misuse.shown(value)))
    end
  end
end

-- `net.new(selector, scheduler)` returns the calls of this module for one VM, whose main loop calls `step` of the
-- result. The scheduler has `wait(token)`, `wakeup(token, …)`, which returns true if a task was waiting, and
-- `fork(f, …)`. It may also have
--   `timers`                a `lio.timer` queue to share
--   `start(f, …)`           as in `lio.task`
--   `on_abandon(f)`         as in `lio.task`; needed if tasks can be killed
--   `on_stop(f, waits_for)` as in `lio.loop`
--   `check(call, …)`        raises if nothing runs the loop; `call:format(…)` is the name of the call
function M.new(selector, scheduler)
  check_new(selector, scheduler)
  return require("lio.net.driver").new(selector, scheduler).net
end

-- `net.use(net)`: copies the functions of an instance into this module. The module's field `instance` becomes the
-- instance itself.
function M.use(net)
  misuse.check("use", 1, net, "table")
  for name, f in pairs(net) do
    if type(f) == "function" then M[name] = f end
  end
  M.instance = net.instance or net
  return M
end

-- `net.remote([io])` returns these calls for a service without a loop; the service `io` executes them. See
-- `lio.net.remote`.
function M.remote(io)
  return require "lio.net.remote"(io)
end

return setmetatable(M, {
  __index = function(_, name)
    M.use(require("lio.loop").net)
    return rawget(M, name)
  end,
})
