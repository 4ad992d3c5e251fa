-- The service that owns a loop: it handles messages, and blocks in the loop's selector until there is I/O, a
-- message, or a timer is due. `lio.loop`, `lio.net` and `lio.webserver` of this VM are that loop's. Other
-- services use it by requests: see `lio.net.requests`.
--
-- Its file for `spawn` or `bootstrap` is this one, by the name `lio`. Arguments: a script to be run as the
-- main task, and the script's own; with its end the service ends. Without one it only answers requests.
--
-- It stands on ltask's documented calls alone, so it is a service of any ltask: an exclusive one (first
-- generation), or one with an event descriptor and an idle handler. In our own scheduler, which `ltask.core`
-- tells, tasks of `lio.loop` and coroutines of requests are the same.

local ltask = require "ltask"
local requests = require "lio.net.requests"

local core = package.loaded["ltask.core"]
local loop = core and require "lio.loop" or require "lio.service.foreign_loop"(ltask)
if core then loop.own() end
local S, others = requests(loop.net, ltask)

local exclusive = ltask.is_exclusive and ltask.is_exclusive()
local take, descriptor = (exclusive and require "ltask.exclusive" or ltask).eventinit()

-- What `lio.loop` has to know of this VM's tasks: those that are nobody's work do not keep it running.
local host = {}

function host.is_request(co)
  return others[co] or core.is_request(co)
end

function host.requests()
  return others.count + core.requests()
end

local idle, poll = loop.attach(descriptor, take, host)
if exclusive then ltask.on_idle = idle else ltask.idle_handler(idle) end
if core then core.poll_handler(poll) end
loop.net.join(ltask.call)

-- The service's `quit`: servers stop gracefully.
function S.quit()
  -- A second stop would end it at once.
  if not loop.is_stopping() then loop.stop() end
  while loop.is_running() do ltask.sleep(1) end
end

local function run_script(script, ...)
  local function load_script() return loadfile(script) end
  local ok = require("lio.service.script").run(script, load_script, ...)
  if not ok and core then ltask.call(1, "exit_code", 1) end
  -- A signal asked the whole program to end, not this service alone.
  if loop.was_signalled() then ltask.send(1, "quit_ltask") end
  ltask.quit()
end

if (...) then ltask.fork(run_script, ...) end

return S
