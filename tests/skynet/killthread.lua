-- `killthread` and `task`: coroutines that are closed in a sleep, a call, a timer and a request.

-- luacheck: read_globals SERVICE_NAME

local skynet = require "skynet"
local mode = ...

local CMD = {}
local worker

function CMD.work()
  worker = coroutine.running()
  local _ <close> = setmetatable({}, { __close = function() print "the worker ends" end })
  skynet.sleep(100000)
end

function CMD.kill()
  return skynet.killthread(worker) == worker, skynet.killthread(worker)
end

function CMD.echo(...)
  skynet.sleep(1)
  return ...
end

local function slave()
  skynet.start(function()
    skynet.dispatch("lua", function(_, _, cmd, ...) skynet.retpack(CMD[cmd](...)) end)
  end)
end

local function master()
  skynet.start(function()
    local address = skynet.newservice(SERVICE_NAME, "slave")
    local sleeper = skynet.fork(function() print("not this", skynet.sleep(100000)) end)
    local caller = skynet.fork(function() print("nor this", skynet.call(address, "lua", "echo")) end)
    local timer = skynet.timeout(100000, function() print "nor that" end)
    local unborn = skynet.fork(print, "nor this one")
    print("begun", skynet.killthread(unborn) == unborn)
    skynet.yield()
    print("waiting", skynet.task())
    for _, co in ipairs { sleeper, caller, timer } do print(skynet.killthread(co) == co, coroutine.status(co)) end
    print("waiting", skynet.task(), skynet.killthread(sleeper))
    print("the service lives", skynet.call(address, "lua", "echo", "echo"))

    skynet.fork(function() print("asked", pcall(skynet.call, address, "lua", "work")) end)
    skynet.yield()
    print("worker", skynet.call(address, "debug", "STAT").task, skynet.call(address, "lua", "kill"))
    skynet.abort()
  end)
end

if mode == "slave" then slave() else master() end
