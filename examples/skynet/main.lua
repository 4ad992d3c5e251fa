-- The first service of run.lua: creates the store and calls it, directly and from a generator. While the generator
-- waits for a call, other coroutines run.

local skynet = require "skynet"
local queue = require "skynet.queue"

-- Iterates over names and values. Each iteration fetches one value.
local function each(store)
  return coroutine.wrap(function()
    for _, name in ipairs(skynet.call(store, "lua", "names")) do
      coroutine.yield(name, skynet.call(store, "lua", "get", name))
    end
  end)
end

skynet.start(function()
  local store = skynet.newservice("store", "colour", "red", "count", 0)

  -- Two calls in a critical section: no other coroutine can make a call between them.
  local section = queue()
  local function increment()
    local count = skynet.call(store, "lua", "get", "count")
    skynet.call(store, "lua", "set", "count", count + 1)
  end
  local left = 10
  for _ = 1, left do
    skynet.fork(function()
      section(increment)
      left = left - 1
      if left == 0 then skynet.wakeup "counted" end
    end)
  end
  skynet.wait "counted"

  skynet.timeout(10, function() skynet.call(store, "lua", "set", "size", "large") end)
  print("waited for:", skynet.call(store, "lua", "wait", "size"))
  for name, value in each(store) do print(name, value) end

  skynet.send(store, "lua", "stop")
  skynet.exit()
end)
