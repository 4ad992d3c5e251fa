-- `response()`: later answers, from anywhere in the service and in any order, once each.

-- luacheck: read_globals SERVICE_NAME

local skynet = require "skynet"
local mode = ...

local waiting = {}
local CMD = {}

function CMD.wait(name)
  waiting[name] = skynet.response()
  print(name, "still wanted:", waiting[name] "TEST")
end

function CMD.keep(name)
  waiting[name] = skynet.response()
end

function CMD.answer(name, ...)
  local answer = waiting[name]
  print(name, "taken:", answer(...))
  print(name, "still wanted:", answer "TEST")
  print(name, "again:", pcall(answer, true))
  skynet.ret()
end

function CMD.double(name)
  waiting[name] = skynet.response(function(...) return skynet.packstring(name, ...) end)
  print("after response:", pcall(skynet.ret))
end

function CMD.dead(name)
  print(name, "still wanted:", waiting[name] "TEST")
  print(name, "taken:", waiting[name](true))
  skynet.ret()
end

local function slave()
  skynet.start(function()
    skynet.dispatch("lua", function(_, _, cmd, ...) CMD[cmd](...) end)
  end)
end

-- Calls, and ends without an answer.
local function asker(address)
  skynet.start(function()
    skynet.fork(skynet.call, address, "lua", "keep", "Eve")
    skynet.fork(skynet.exit)
  end)
end

local function master()
  skynet.start(function()
    local address = skynet.newservice(SERVICE_NAME, "slave")
    local function ask(cmd, name)
      skynet.fork(function()
        local ok, result, more = pcall(skynet.call, address, "lua", cmd, name)
        print(name, "got", ok, ok and result or "an error", more)
      end)
      skynet.yield()
    end
    ask("wait", "Ann")
    ask("wait", "Bob")
    ask("double", "Cid")
    skynet.call(address, "lua", "answer", "Bob", true, "for Bob", 2)
    skynet.call(address, "lua", "answer", "Ann", false)
    skynet.call(address, "lua", "answer", "Cid", true, "for Cid")
    local gone = skynet.newservice(SERVICE_NAME, "asker", address)
    while pcall(skynet.call, gone, "lua") or skynet.kill(gone) do skynet.sleep(1) end
    skynet.call(address, "lua", "dead", "Eve")
    skynet.abort()
  end)
end

if mode == "slave" then
  slave()
elseif mode == "asker" then
  asker(select(2, ...))
else
  master()
end
