-- The program's own coroutines, and waits inside them: generators, nested to any depth, that call other services.
-- Several run at a time, while the service continues with other work.

-- luacheck: read_globals SERVICE_NAME

local skynet = require "skynet"
local mode = ...

local function slave()
  skynet.start(function()
    skynet.dispatch("lua", function(_, _, from, to)
      -- A generator that waits between its values, inside a handler.
      local numbers = coroutine.wrap(function()
        for i = from, to do
          skynet.sleep(0)
          coroutine.yield(i)
        end
      end)
      local list = {}
      for i in numbers do list[#list + 1] = i end
      skynet.retpack(list)
    end)
  end)
end

local function pages(address, size, last)
  return coroutine.wrap(function()
    for first = 1, last, size do
      coroutine.yield(skynet.call(address, "lua", first, math.min(first + size - 1, last)))
    end
  end)
end

local function each(generator)
  return coroutine.wrap(function()
    for page in generator do
      for _, one in ipairs(page) do coroutine.yield(one) end
    end
  end)
end

local function master()
  skynet.start(function()
    local address = skynet.newservice(SERVICE_NAME, "slave")
    local list = {}
    for one in each(pages(address, 3, 7)) do list[#list + 1] = one end
    print(table.concat(list, " "))

    -- Several generators at a time, while the service does other work.
    local sums, other = {}, 0
    for i = 1, 5 do
      skynet.fork(function()
        local sum = 0
        for one in each(pages(address, 2, i * 3)) do sum = sum + one end
        sums[#sums + 1] = sum
        skynet.wakeup "sums"
      end)
    end
    skynet.fork(function()
      while #sums < 5 do
        other = other + 1
        skynet.yield()
      end
    end)
    while #sums < 5 do skynet.wait "sums" end
    table.sort(sums)
    print(table.concat(sums, " "), other > 5)

    -- Sleeps in a nested coroutine: one is woken with the coroutine itself as the token, the other with another token.
    local inner
    skynet.fork(function()
      local co = coroutine.create(function()
        coroutine.wrap(function()
          inner = coroutine.running()
          print("inner", skynet.sleep(100000))
          print("inner, by token", skynet.sleep(100000, "token"))
        end)()
        return "outer"
      end)
      print(coroutine.resume(co))
      print(coroutine.status(co))
    end)
    skynet.yield()
    print("waits", coroutine.status(inner), coroutine.resume(inner))
    print(skynet.wakeup(inner))
    skynet.yield()
    print(skynet.wakeup "token")
    skynet.yield()

    -- If a call in a coroutine raises an error, resume returns the error.
    local ok, e = coroutine.resume(coroutine.create(function() skynet.call(address, "lua", {}, 1) end))
    print(ok, type(e))
    local sorted, problem = pcall(table.sort, { 3, 2, 1 }, function(a, b)
      skynet.sleep(0)
      return a < b
    end)
    print(sorted, problem:match "cannot wait here")
    print(#skynet.call(address, "lua", 1, 4))
    skynet.abort()
  end)
end

if mode == "slave" then slave() else master() end
