-- The service that owns a loop: it handles messages, and blocks in the loop's selector until there is I/O, a message,
-- or a timer is due. `lio.loop`, `lio.net` and `lio.webserver` of this VM use that loop. Other services use it by
-- requests; see net/requests.lua.
--
-- `spawn` and `bootstrap` find this file by the name `lio`. Arguments: a script to be run as the main task, and the
-- script's own; the service ends with it. Without a script it only answers requests.
--
-- It uses ltask's documented calls only, so it is a service of any ltask: an exclusive one (first generation), or one
-- with an event descriptor and an idle handler. In our own scheduler, which has `ltask.core`, tasks of `lio.loop` and
-- coroutines of requests are the same.

local drivers = require "lio.net.driver"
local ltask = require "ltask"
local requests = require "lio.net.requests"
local transfer = require "lio.net.transfer"

local core = package.loaded["ltask.core"]
local loop = core and require "lio.loop" or require "lio.service.foreign_loop"(ltask)
if core then loop.own() end
local driver = drivers.of(loop.net)
local S, internal_tasks = requests(driver, ltask)

local exclusive = ltask.is_exclusive and ltask.is_exclusive()
local take, descriptor = (exclusive and require "ltask.exclusive" or ltask).eventinit()

-- For `lio.loop`: the tasks of this VM that do not keep it running.
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
transfer.enable(driver, ltask.call)

-- The request `quit`: servers stop gracefully.
function S.quit()
  -- A second stop would end it at once.
  if not loop.is_stopping() then loop.stop() end
  while loop.is_running() do ltask.sleep(1) end
end

local function run_script(script, ...)
  local function load_script() return loadfile(script) end
  local ok = require("lio.service.script").run(script, load_script, ...)
  if not ok and core then ltask.call(1, "exit_code", 1) end
  -- A signal requests the end of the whole program, not of this service only.
  if loop.was_signalled() then ltask.send(1, "quit_ltask") end
  ltask.quit()
end

if (...) then ltask.fork(run_script, ...) end

return S
