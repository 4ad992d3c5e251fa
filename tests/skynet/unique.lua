-- Unique services and names: a unique service starts once while further callers wait, `queryservice` waits until there
-- is one, and a name is free when its service has ended.

local skynet = require "skynet"
local mode = ...

local function slave(...)
  print("begins", ...)
  skynet.start(function()
    skynet.sleep(2)
    skynet.dispatch("lua", function(_, _, cmd)
      if cmd == "exit" then skynet.exit() end
      skynet.retpack(skynet.self())
    end)
    print "has begun"
  end)
end

local function try(...)
  local ok, e = pcall(...)
  return ok, (tostring(type(e) == "table" and e.message or e):gsub("^.-%.lua:%d+: ", ""))
end

local function master()
  skynet.start(function()
    local found = {}
    skynet.fork(function()
      found.query = skynet.queryservice "unique"
      print "the query is answered"
    end)
    skynet.sleep(1)
    for i = 1, 3 do
      skynet.fork(function()
        found[i] = skynet.uniqueservice("unique", "slave", i)
        skynet.wakeup "found"
      end)
    end
    while not (found[1] and found[2] and found[3]) do skynet.wait "found" end
    print(found[1] == found[2], found[2] == found[3], found[1] == found.query)
    print(skynet.uniqueservice(true, "unique") == found[1], skynet.queryservice(true, "unique") == found[1])
    print(skynet.call(found[1], "lua") == found[1])

    print("not yet:", skynet.localname ".one")
    skynet.name(".one", found[1])
    print(skynet.localname ".one" == found[1], skynet.call(".one", "lua") == found[1])
    print(skynet.send(".one", "lua"), skynet.send(".other", "lua"))
    skynet.register ".me"
    print(skynet.localname ".me" == skynet.self(), skynet.call(skynet.address(found[1]), "lua") == found[1])
    local ok, problem = try(skynet.name, ".one", skynet.self())
    print(ok, problem:match "is taken")

    print((try(skynet.call, ".one", "lua", "exit")))
    while skynet.localname ".one" do skynet.sleep(1) end
    print("gone:", skynet.localname ".one")
    print("another:", skynet.uniqueservice("unique", "slave") ~= found[1])
    skynet.fork(function() print(try(skynet.uniqueservice, "broken", "first")) end)
    print(try(skynet.uniqueservice, "broken", "second"))
    skynet.abort()
  end)
end

if mode == "slave" then slave(...) else master() end
