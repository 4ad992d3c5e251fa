-- The service library: the main function of every service. It is loaded into each VM, so what most
-- services never use is in `ltask.more`, which loads at the first use of one of its names.
--
-- Messages, coroutines and answers are handled by `ltask.core`; here are the rare cases and the names.

local ltask = require "ltask"
local core = require "ltask.core"
local task = require "lio.task"
local yield <const> = coroutine.yield

local requests, system, hooks = {}, {}, {}

ltask.call, ltask.send, ltask.send_direct = core.call, core.send, core.send
ltask.syscall, ltask.sleep, ltask.timeout = core.syscall, core.sleep, core.timeout
ltask.on_full, ltask.no_response = core.on_full, core.no_response
ltask.fork, ltask.wait, ltask.wakeup = task.fork, task.wait, task.wakeup
ltask.interrupt, ltask.running = task.interrupt, task.running
ltask.schedule_message = core.schedule

-- The tables that `ltask.more` and the exclusive main loop share with this file.
ltask.private = { requests = requests, system = system, hooks = hooks, require = require }

-- `ltask.dispatch([handlers])` → the table of request handlers, with those added.
function ltask.dispatch(handlers)
  for name, f in pairs(handlers or {}) do requests[name] = f end
  return requests
end

local function log(level)
  return function(...)
    local list = table.pack(...)
    for i = 1, list.n do list[i] = tostring(list[i]) end
    core.log(level, table.concat(list, "\t", 1, list.n))
  end
end

ltask.log = { info = log "info", error = log "error" }
print = ltask.log.info

-- `ltask.quit()`: runs the `quit` handler, then ends the service. Requests that it has not answered get an
-- error.
function ltask.quit()
  local f = requests.quit
  requests.quit = nil
  if not f then return core.finish() end
  task.fork(function()
    local ok, err = pcall(f)
    if not ok then ltask.log.error("error in quit: " .. tostring(err)) end
    core.finish()
  end)
end

local require_now <const> = require
local more
setmetatable(ltask, {
  __index = function(_, name)
    more = more or require_now "ltask.more"
    return more[name]
  end,
})

-- What a coroutine failed with, for who asked and for the log: see `ltask.more`.
function hooks.failed(co, err, from, session)
  return ltask.describe_error(co, err, from, session)
end

function hooks.refused(from, err)
  return ltask.remote_error(from, err)
end

function hooks.raised(err)
  return ltask.add_caller(err)
end

function hooks.unknown(name, from, session)
  local text = ("service %d (%s) has no request '%s'"):format(ltask.self(), ltask.label(), tostring(name))
  if session ~= 0 then return core.post(from, session, 3, text) end
  ltask.log.error(text .. ", sent by service " .. from)
end

function hooks.signal(from)
  local f = ltask.signal_handler
  if f then f(from) end
end

-- A library of somebody else's may set either; a plain field is not looked up in `ltask.more`.
ltask.signal_handler, ltask.on_idle = false, false

-- `ltask.idle_handler(f)`: `f` runs when there is nothing to do; usually it blocks (see `eventinit`).
function ltask.idle_handler(f)
  hooks.idle = f
end

function system.init(t)
  local start = core.chunk "ltask.init"
  if ltask.self() ~= 1 then return start(t) end
  local ok, problem = xpcall(start, debug.traceback, t)
  if ok then return end
  -- Without root there is nobody to end the system.
  ltask.log.error(problem)
  require "ltask.root".set_exit_code(1)
  core.finish()
end

function system.quit()
  return ltask.quit()
end

-- Root's, and for debugging.
function system.inspect(what, ...)
  return ltask.inspect_service(what, ...)
end

function require(name)
  local found = package.loaded[name]
  if found ~= nil then return found end
  if type(name) ~= "string" or not coroutine.isyieldable() then return require_now(name) end
  return ltask.load_module(name)
end

core.setup(requests, system, hooks)

local function serve(step)
  local ok, ended = pcall(step)
  if ok then return ended end
  local from, session = core.recover()
  if session then
    core.post(from, session, 3, "service " .. ltask.self() .. ": " .. tostring(ended))
  else
    ltask.log.error(tostring(ended))
  end
end

if not ltask.is_exclusive() then
  while not serve(core.loop) do end
else
  while not serve(core.schedule) do
    if ltask.on_idle then ltask.on_idle() else core.idle_wait() end
    yield()
  end
end

