-- `skynet.queue`: one function runs at a time, in the order of the calls, even if the functions wait; a section can be
-- entered again from inside; an error, or the end of a coroutine that is inside or waits, frees the section.

-- luacheck: read_globals SERVICE_NAME

local skynet = require "skynet"
local queue = require "skynet.queue"
local mode = ...

local function slave()
  skynet.start(function()
    skynet.dispatch("lua", function(_, _, ...) skynet.retpack(...) end)
  end)
end

local function master()
  skynet.start(function()
    local address = skynet.newservice(SERVICE_NAME, "slave")
    local section = queue()
    local inside = 0

    local function work(name, n)
      assert(inside == 0)
      inside = inside + 1
      print(name, "in")
      skynet.call(address, "lua", name)
      skynet.sleep(n)
      print(name, "out")
      inside = inside - 1
      return name, n
    end

    for i, n in ipairs { 3, 1, 2, 0 } do
      skynet.fork(function() print(section(work, "task " .. i, n)) end)
    end
    skynet.sleep(1)
    print("results", section(function(...) return ... end, 1, nil, 3, nil))

    print(section(function()
      return "outer", section(function() return "inner", section(function() return "innermost" end) end)
    end))

    skynet.fork(function() print(pcall(section, function() error("fails inside", 0) end)) end)
    skynet.fork(section, print, "after the error")
    skynet.sleep(1)

    -- A second queue is a separate section.
    local other = queue()
    section(function()
      skynet.fork(other, print, "the other queue is free")
      skynet.fork(section, print, "this one is not")
      skynet.sleep(2)
      print "leaves"
    end)
    skynet.sleep(1)

    -- A request that fails inside the section frees it.
    skynet.dispatch("lua", function(_, _, name)
      section(function()
        skynet.sleep(1)
        if name == "bad" then error "bad request" end
        skynet.retpack(name)
      end)
    end)
    local left = 3
    for _, name in ipairs { "good", "bad", "better" } do
      skynet.fork(function()
        print(name, (pcall(skynet.call, skynet.self(), "lua", name)))
        left = left - 1
        skynet.wakeup "all"
      end)
    end
    while left > 0 do skynet.wait "all" end
    print(section(function() return "free at the end" end))
    skynet.abort()
  end)
end

if mode == "slave" then slave() else master() end
