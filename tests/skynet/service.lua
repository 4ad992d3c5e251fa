-- `skynet.service`: a store that the first caller creates from a function; later calls find it by name.

-- luacheck: read_globals SERVICE_NAME

local skynet = require "skynet"
local service = require "skynet.service"
local mode = ...

-- Runs in its own VM.
local function store(name, first)
  local skynet = require "skynet" -- luacheck: ignore 431
  local values, CMD = { first = first }, {}

  function CMD.get(key) return values[key] end

  function CMD.set(key, value)
    local before = values[key]
    values[key] = value
    return before
  end

  skynet.start(function()
    print("the store begins", name)
    skynet.dispatch("lua", function(_, _, cmd, ...) skynet.retpack(CMD[cmd](...)) end)
  end)
end

local function reader()
  skynet.start(function()
    skynet.dispatch("lua", function(_, _, key)
      skynet.retpack(skynet.call(service.query "store", "lua", "get", key))
    end)
  end)
end

local function master()
  skynet.start(function()
    local address = skynet.newservice(SERVICE_NAME, "reader")
    local answer
    skynet.fork(function()
      answer = skynet.call(address, "lua", "first")
      skynet.wakeup "answer"
    end)
    skynet.sleep(1)
    print("before it is there", answer)
    local one = service.new("store", store, "store", 1)
    skynet.wait "answer"
    print("then", answer)
    print("once", service.new("store", store, "store", 2) == one, service.query "store" == one)
    print(skynet.call(one, "lua", "set", "key", "value"), skynet.call(address, "lua", "key"))
    print("close", service.close "store", service.close "store")
    print(pcall(service.new, "other", function() return service end))
    local two = service.new("store", store, "store", "again")
    print("another", two ~= one, skynet.call(address, "lua", "first"), skynet.call(address, "lua", "key"))
    skynet.abort()
  end)
end

if mode == "reader" then reader() else master() end
