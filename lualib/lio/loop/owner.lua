-- Records what runs the loop of this VM: `loop.run`, or the main loop of a service. If nothing runs the loop, a task
-- that waits for I/O or a timer is never woken. So in a service of lio's scheduler, the first call that would wait
-- attaches the service to an I/O thread (loop/service.lua); in a service of another scheduler, it raises an error. Part
-- of `lio.loop`.

local misuse = require "lio.misuse"

local M = {
  is_running = false, -- `loop.run` is active
  is_service = false, -- a service runs the loop
}

-- Further fields, which loop/service.lua sets in a service of lio's scheduler: `attach(call)`,
-- `take_loop(call)`, `after_run()`.

-- Maps a call to the alternative that its error message suggests, besides running the code in another service.
local INSTEAD <const> = {
  ["loop.sleep"] = "use ltask.sleep(centiseconds), or ",
  ["loop.timeout"] = "use ltask.timeout(centiseconds, f), or ",
}
for name in ("listen accept connect udp resolve serve"):gmatch "%a+" do
  INSTEAD["net." .. name] = "use net.remote(io), which sends requests to a service that owns a loop, or "
end

-- `check(call, …)`: if nothing runs the loop and this VM is a service, attaches the service to an I/O thread, or raises
-- if it is a service of another scheduler. `call:format(…)` is the name of the call for the message.
function M.check(call, ...)
  if M.is_running or M.is_service then return end
  if M.attach then return M.attach(call:format(...)) end
  local ltask = package.loaded.ltask
  if not (ltask and ltask.call) then return end
  call = call:format(...)
  misuse.raise(("%s: this service owns no loop, so neither I/O nor a timer of lio.loop can wake its tasks; %srun this "
    .. "in a service that owns a loop: `lio --service script.lua`, or the service 'lio' with the script as its "
    .. "argument")
    :format(call, INSTEAD[call] or ""))
end

-- `take(call)`: in a service of lio's scheduler, makes the service the owner of a loop.
function M.take(call)
  if M.take_loop then M.take_loop(call) end
end

-- `guard(net)`: in a service, adds `check` to the calls of `net` that wait or let other code wait. Returns a function
-- that removes these checks, for a service that owns the loop. Called after loop/service.lua has set its fields: a
-- service of lio's scheduler need not have loaded `ltask`.
function M.guard(net)
  local unchecked = {}
  local ltask = package.loaded.ltask
  if M.attach or ltask and ltask.call then
    for name in ("listen accept connect udp resolve serve wrap on_transfer"):gmatch "[%a_]+" do
      local f = net[name]
      unchecked[name] = f
      net[name] = function(...)
        M.check("net." .. name)
        return f(...)
      end
    end
  end
  return function()
    for name, f in pairs(unchecked) do net[name] = f end
    unchecked = {}
  end
end

return M
