-- `lio.net`: sockets for coroutines. Code reads top to bottom; the coroutine waits, the thread does not.
--
-- `net.new(selector, scheduler)` makes an instance: a table with the calls, for the tasks of one scheduler. The module
-- itself has the calls of the VM's instance: the instance of `lio.loop`, unless `net.use` sets another one. The files
-- in net/ make the calls, one topic each; net/driver.lua is the loop under them.
--
-- Results have one rule: a value on success; `nil` alone is the end of a stream; `nil, message, partial, code` (recv,
-- send) or `nil, message, code` is a failure; `listen`, `accept`, `connect`, `udp` and `wrap` fail with
-- `false, message, code`, as they did in the package this API comes from.

local M = {}

-- `net.new(selector, scheduler)`: the calls of this module for one VM, whose main loop calls `step` of the result. The
-- scheduler has `wait(token)`, `wakeup(token, …)`, which returns true when a task waited, `fork(f, …)` and `running()`.
-- It may also have
--   `timers`                a `lio.timer` queue to share
--   `start(f, …)`           as in `lio.task`
--   `on_abandon(f)`         as in `lio.task`; needed when tasks can be killed
--   `on_stop(f, waits_for)` as in `lio.loop`
--   `check(call, …)`        raises if nothing runs the loop; the name of the call as for `string.format`
function M.new(selector, scheduler)
  return require("lio.net.driver").new(selector, scheduler).net
end

-- `net.use(net)`: this module has the calls of that instance from now on. The functions are copied; `net.instance` is
-- the table itself.
function M.use(net)
  for name, f in pairs(net) do
    if type(f) == "function" then M[name] = f end
  end
  M.instance = net
  return M
end

-- `net.remote([io])`: these calls for a service without a loop, done by the service `io`; see `lio.net.remote`.
function M.remote(io)
  return require "lio.net.remote"(io)
end

return setmetatable(M, {
  __index = function(_, name)
    M.use(require("lio.loop").net)
    return rawget(M, name)
  end,
})
