-- The loop in a service of lio's scheduler that is not lio/service.lua. Part of `lio.loop`.
--
-- The first call that needs the loop attaches the service to an I/O thread: the thread wakes the service when its
-- selector has events, and the service runs rounds of the loop between its messages, on any worker
-- (src/ltask/service_io.rs). `loop.run` and web servers need the loop often, so they make the service the owner of a
-- loop, with a separate thread.

local misuse = require "lio.misuse"
local owner = require "lio.loop.owner"
local timers = require "lio.loop.timers"

local M = {}

-- Makes the connections that other services transfer reach their receivers.
local function receive_transfers(driver, core, is_receiving)
  local transfer = require "lio.net.transfer"
  core.system_calls().adopt = is_receiving and function(number, state, ...)
    if not transfer.has_receiver(driver, (...)) then
      return nil, "transfer: the other service takes no connections; it must call net.on_transfer", "refused"
    end
    local c, message, code = transfer.adopt(driver, number)
    if not c then return nil, message, code end
    driver.net.timeout(c, state.read_limit, state.write_limit)
    return transfer.deliver(driver, c, ...)
  end or nil
end

-- `rounds(driver, core)` returns the function that runs a round. If a round raises, a later round does the rest, and
-- the timers are planned nevertheless.
local function rounds(driver, core)
  local round_end <const> = setmetatable({}, {
    __close = function(_, problem)
      if problem ~= nil then core.request_round() end
      timers.queue:plan_next()
    end,
  })
  return function()
    local _ <close> = round_end
    driver.net.step(0)
  end
end

-- `install(loop, driver)`: sets the functions of loop/owner.lua, if this VM is a service of lio's scheduler.
function M.install(loop, driver)
  local core <const> = package.loaded["ltask.core"]
  local ltask <const> = core and require "ltask"
  -- `ltask.start` also loads the core, in a VM that is not a service.
  if not (ltask and ltask.call) then return end
  local is_attached = false

  local run_round <const> = rounds(driver, core)

  local function prepare()
    timers.on_pending = core.add_timeouts
    driver.call_service = ltask.syscall
    driver.set_receiving = function(is_receiving) receive_transfers(driver, core, is_receiving) end
    loop.own()
  end

  -- Attaches the service to an I/O thread. Called when nothing runs the loop. If the operating system supports no I/O
  -- threads, the service becomes the owner of a loop. `call` is the name of the call for messages.
  function owner.attach(call)
    local ok, attached = pcall(core.attach_io, driver.selector, timers.queue, run_round)
    if not ok then misuse.raise(call .. ": " .. attached) end
    is_attached = attached
    prepare()
    if is_attached then driver.request_round = core.request_round else owner.take_loop "lio.loop" end
  end

  local function detach()
    core.detach_io(timers.queue)
    is_attached = false
    driver.request_round = nil
  end

  -- Makes the service the owner of a loop, with a separate thread, which it moves to when the running slice ends.
  -- `call` is the name of the call for messages.
  function owner.take_loop(call)
    if owner.has_taken_loop or owner.is_service and not is_attached and not driver.set_receiving then return end
    local is_exclusive = ltask.is_exclusive()
    local events = is_exclusive and require "ltask.exclusive" or ltask
    local ok, take, descriptor = pcall(events.eventinit)
    if not ok and not take:find("already has a descriptor", 1, true) then misuse.raise(call .. ": " .. take) end
    if not ok then
      misuse.raise(call .. ": this service has an event descriptor of its own (ltask.eventinit), so it cannot own the "
        .. "loop of lio.loop; use net.new with the service's selector")
    end
    owner.has_taken_loop = true
    if is_attached then detach() else prepare() end
    local idle, poll = loop.attach(descriptor, take, { is_request = core.is_request, requests = core.requests })
    if is_exclusive then ltask.on_idle = idle else ltask.idle_handler(idle) end
    core.poll_handler(poll)
    core.end_with_tasks()
  end

  -- Ends the system if a signal has ended `loop.run` of a service that has taken the loop: a signal is meant for the
  -- whole program.
  function owner.after_run()
    if owner.has_taken_loop and loop.was_signalled() then ltask.send(1, "quit_ltask") end
  end
end

return M
