-- The service that owns a loop: it handles messages, and blocks in the loop's selector until I/O is ready, a message
-- arrives, or a timer is due. `lio.loop`, `lio.net` and `lio.webserver` of this VM use that loop. Other services send
-- requests to this service; see net/requests.lua.
--
-- `spawn` and `bootstrap` find this file by the name `lio`. The service's arguments are a script, which runs as the
-- main task, and the arguments of the script; the service ends when the script ends. Without a script, the service only
-- answers requests.
--
-- This file uses only documented calls of ltask, so every implementation of ltask can run it: as an exclusive service
-- (first generation), or as a service with an event descriptor and an idle handler (second). In our own scheduler,
-- which has `ltask.core`, the coroutines of requests are tasks of `lio.loop`.

local drivers = require "lio.net.driver"
local ltask = require "ltask"
local requests = require "lio.net.requests"

local core = package.loaded["ltask.core"]
local loop = core and require "lio.loop" or require "lio.service.foreign_loop"(ltask)
if core then loop.own() end
local driver = drivers.of(loop.net)
local S, internal_tasks = requests(driver, ltask)

local exclusive = ltask.is_exclusive and ltask.is_exclusive()
local take, descriptor = (exclusive and require "ltask.exclusive" or ltask).eventinit()

-- The argument `tasks` of `loop.attach`. Internal tasks count as requests, so that they do not keep `loop.run` from
-- returning.
local tasks = {}

function tasks.is_request(co)
  return internal_tasks[co] or core.is_request(co)
end

function tasks.requests()
  return internal_tasks.count + core.requests()
end

local idle, poll = loop.attach(descriptor, take, tasks)
if exclusive then ltask.on_idle = idle else ltask.idle_handler(idle) end
if core then core.poll_handler(poll) end
if core then
  core.system_calls().adopt = S.adopt
  driver.call_service = ltask.syscall
else
  driver.call_service = ltask.call
end

-- The request `quit`: stops the servers gracefully, and waits until they have ended.
function S.quit()
  -- A second call of `loop.stop` would end the loop at once.
  if not loop.is_stopping() then loop.stop() end
  while loop.is_running() do ltask.sleep(1) end
end

local function run_script(script, ...)
  local function load_script() return loadfile(script) end
  local ok = require("lio.service.script").run(script, load_script, ...)
  if not ok and core then ltask.call(1, "exit_code", 1) end
  -- A signal ends the whole program, not only this service.
  if loop.was_signalled() then ltask.send(1, "quit_ltask") end
  ltask.quit()
end

if (...) then ltask.fork(run_script, ...) end

return S
